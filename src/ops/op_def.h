// SPDX-License-Identifier: Apache-2.0
// All that Weft knows about one operator. A stage that needs a fact about an
// op asks here; no other folder keeps a table keyed by op name.
#pragma once

#include "graph/graph.h"
#include "ops/rule.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class NodeBuilder;

// One contiguous piece of a factor: what a rank holds of it.
struct Piece {
  int64_t start = 0;
  int64_t size = 0;
  // Of the whole factor.
  int64_t whole = 0;
};

using RuleFunction = std::function<Rule(const Function&, const Node&)>;
using CountFunction = std::function<int64_t(const Function&, const Node&)>;
// The result types from the arguments alone (the node has no results yet).
using TypesFunction =
    std::function<std::vector<TensorType>(const Function&, const Node&)>;
// Rewrites sizes, offsets and counts in the node's arguments for one rank's
// pieces (one a factor of the rule, in order).
using LocalizeFunction = std::function<void(
    const Function&, Node&, const std::vector<Piece>& pieces)>;

// See OpDef::expand.
using ExpandFunction =
    std::function<std::vector<ValueId>(NodeBuilder&, const Node&)>;

// See OpDef::framed.
using FrameFunction = std::function<std::vector<ValueId>(
    NodeBuilder&, Node local, const Rule&, const std::vector<Piece>& pieces)>;

// Elements of a factor at even distances: start, start + step, ...
struct Stripe {
  int64_t start = 0;
  int64_t step = 1;
  int64_t size = 0;

  bool operator==(const Stripe&) const = default;
};

// What the elements of one factor see of those of another.
enum class Sight : uint8_t { None, Some, All };

// How a node is computed for some elements of one factor, one block of another
// factor after the other, where both must else be whole: attention, for some
// queries, by blocks of keys. In what follows the node's operands are those
// elements and that block, and lie in the builder's function.
struct Blocks {
  // The factors, by name. No result has both.
  std::string_view stays = "";
  std::string_view passes = "";

  // What the elements see of the block; none where `block` cannot make it.
  std::function<std::optional<Sight>(
      const Node&, const Stripe& stays, const Stripe& passes)>
      sight = nullptr;
  // Appends the calls for a block of which something is seen, and gives what
  // each result gets of it, in the type for sums. Results with the factor
  // `passes` are the block's, and added up over all elements of `stays`.
  std::function<std::vector<ValueId>(
      NodeBuilder&, const Node&, const Stripe& stays, const Stripe& passes)>
      block = nullptr;
  // For the other results: joins what they got of two sets of blocks. Null:
  // they are added up.
  std::function<std::vector<ValueId>(
      NodeBuilder&,
      const Node&,
      const std::vector<ValueId>& a,
      const std::vector<ValueId>& b)>
      join = nullptr;
  // The results, once they have got all, in their own element types. Null: as
  // they are.
  std::function<std::vector<ValueId>(
      NodeBuilder&, const Node&, const std::vector<ValueId>& joined)>
      finish = nullptr;
};

enum class OpKind : uint8_t {
  Compute,  // makes new storage for its results
  View,     // results lie in the storage of operand 0; costs nothing
  Random,   // compute that draws random numbers (takes the `rng` option)
  Empty,    // makes storage and leaves its elements unset
  // Results have shapes that depend on data: cannot be captured.
  DataDependent,
};

// Functions of one number that are many operations to a device.
enum class Special : uint8_t {
  None,
  Exponential,  // exp, log, erf, sigmoid
  Tangent,      // tanh, sines, powers
};

// In which operands an op is linear: given a partial sum there, it gives a
// partial sum, and the reduction can wait.
enum class Linear : uint8_t {
  No,
  First,  // in operand 0, the others whole: most backward ops
  Each,   // in any one operand, the others whole: mul, mm
  All,    // in all operands together: add, cat, most views
};

// A loss that divides by a count it returns: with the argument at
// `reduction_arg` equal to 1 (mean), result 0 is what it would be with 2 (sum),
// divided by result `weight_result`. Pieces may count differently (padding), so
// a split sums both before it divides (lower/split_means.cpp). Without class
// weights at `weights_arg`, the count is that of the labels at `labels_arg`
// that are not the integer at `ignored_arg`.
struct WeightedMean {
  int reduction_arg = 0;
  int weight_result = 0;
  int labels_arg = 0;
  int weights_arg = 0;
  int ignored_arg = 0;
};

// A batch norm: where its switch for training stands, and which way it goes.
// One that trains takes sums over the whole batch
// (lower/split_batch_norms.cpp).
struct BatchNormKind {
  int training_arg = 0;
  bool is_backward = false;
};

// Indices into the plane that the `~` dims of an operand or result span
// together, row-major (max pooling). What a rank works on is a plane of its
// own, in which they are others (see plane_index.h).
struct PlaneIndex {
  bool in_result = false;
  // Which operand or result has the indices.
  int tensor = 0;
};

// The gradient of an input, result 0, for which nothing is read of that input
// but its type.
struct InputGradient {
  // Position of the input among the operands.
  int operand = 1;
  // The argument with one flag a result that tells which are wanted, or -1 for
  // an op with one result.
  int mask_arg = -1;
};

// Two calls that an op does as one, and with less memory: the second alone
// reads what the first makes, and of that there is only a part at a time or
// nothing.
struct Fusion {
  // Their operators.
  std::string_view first = "";
  std::string_view second = "";
  // Whether the results have the bits of the two; else they are equal up to
  // rounding.
  bool same_bits = true;
  // The one call's arguments; none where those of the two do not allow it.
  std::function<std::optional<std::vector<Arg>>(
      const Function&, const Node& first, const Node& second)>
      join = nullptr;
};

// Products of equal sizes: `count` times rows x depth by depth x columns.
struct Products {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

struct OpDef {
  // "aten.mm", "aten.sum.dim_IntList", "weft.adamw".
  std::string_view name = "";

  // How dims line up (see rule.h), as a text; or `rule_of` where it depends on
  // the arguments. Neither: whole on every rank.
  std::string_view rule = "";
  RuleFunction rule_of = nullptr;

  OpKind kind = OpKind::Compute;

  Linear linear = Linear::No;

  // Floating point operations as torch.utils.flop_counter counts them (a
  // multiply-add is two) for the ops that it counts; for the others, operations
  // an element of the largest operand or result. Null: one an element for
  // Compute, zero for View.
  CountFunction flops = nullptr;
  // Those of them that kernels leave out, for they know beforehand that a mask
  // hides them. Null: none.
  CountFunction hidden_flops = nullptr;

  // The products that its flops are, where not every combination of the rule's
  // factors is one multiply-add: groups of unequal sizes count as equal ones.
  std::function<Products(const Function&, const Node&)> products = nullptr;

  // What it evaluates for an element of its largest operand or result; or
  // `special_of` where it depends on the arguments.
  Special special = Special::None;
  std::function<Special(const Node&)> special_of = nullptr;

  // Bytes that PyTorch's CPU kernel allocates besides its results and gives
  // back before it returns. Null: none.
  CountFunction scratch_bytes = nullptr;

  // Bytes that a kernel of ours (`weft.*`) works in besides its results: it
  // allocates nothing, and lowering gives them a place. Null: none.
  CountFunction work_bytes = nullptr;

  // The result types, or none where only PyTorch knows. Null where PyTorch has
  // a meta kernel in C++ and the op is rare. Capture asks here first: it is
  // faster than PyTorch's meta kernels, most of which are Python's.
  TypesFunction types = nullptr;

  // Index of the argument that states the sizes of result 0 (view, expand,
  // full, rand...), or -1: a split rewrites it with the local sizes.
  int sizes_arg = -1;
  // For what else a split changes (arange, tril, narrow...). Runs after
  // sizes_arg; may also drop an optional operand or change the overload.
  LocalizeFunction localize = nullptr;

  // For a piece of windows that no call makes alone: appends the call, and
  // others around it, and gives the results as the rule cuts them. `local` is
  // the node as localize makes it, with its operands in the builder's function.
  // Null: the call does it.
  FrameFunction framed = nullptr;

  // The CPU kernel reads each element, or each row, before it writes there, and
  // allocates nothing but its results: a result may lie in the memory of an
  // operand of its type. (What a kernel of ours works in lies elsewhere.)
  bool in_place = false;
  // With in_place: the position among the operands of the only one that may be
  // written over, or -1 for any.
  int overwritten_operand = -1;

  // Position among the operands of the index that looks up the `?` factor.
  int lookup_operand = -1;
  // Argument with a value of that index that counts for nothing (ignore_index,
  // padding_idx), or -1: what lies outside a piece then gets this value (see
  // lookup.h).
  int ignore_arg = -1;

  // The same mathematics as several nodes, of operators that may be split where
  // this one must be whole (`!`). Appends them by the builder, whose function
  // has the node's operands, and gives for each result the value that stands
  // for it: of the same type, equal up to rounding; None for an undefined one.
  // Results that only the backward op reads (mean, rstd, logsumexp) serve that
  // op and its expansion alike. Counts are those of the whole, so a node is
  // expanded before it is split. Gives nothing and appends nothing where the
  // arguments do not allow it. The node must not lie in the builder's function.
  ExpandFunction expand = nullptr;

  // Ranks can pass blocks round instead of holding a factor whole
  // (lower/ring.h).
  std::optional<Blocks> blocks = std::nullopt;

  std::optional<WeightedMean> weighted_mean = std::nullopt;
  std::optional<BatchNormKind> batch_norm = std::nullopt;
  std::optional<PlaneIndex> plane_index = std::nullopt;
  std::optional<InputGradient> input_gradient = std::nullopt;

  // What lowering puts it in the place of (lower/fuse.cpp), once every rank has
  // its own calls: such an op needs no rule.
  std::vector<Fusion> fusions = {};

  // The op that makes the same of the arguments after operand 0 and a dtype:
  // all that is read of operand 0 is its dtype. Capture writes that one down,
  // so that no rank keeps or gathers a tensor for its dtype's sake. Empty:
  // none does.
  std::string_view factory = "";

  // The backward op(s) that autograd calls for it, for docs/ops.md; empty when
  // its gradient is made of other ops.
  std::string_view backward = "";

  // Calls in graph syntax with types in place of values, used by the rule
  // proof and the docs: "(f32[8, 4], f32[4, 12])". Sizes divisible by 4 make
  // every split testable. `i64[8]<10` draws integers below 10 (below 4 when it
  // does not say; those of the lookup operand below the size of its factor),
  // `f32[8]>0` positive numbers, `i32[4]^8` integers that ascend to 8.
  std::vector<std::string_view> examples = {};
};

// Every entry, in the order of registration: family by family.
const std::vector<OpDef>& all_ops();

// nullptr for an op without an entry.
const OpDef* find_op(std::string_view name);

// The following work for ops with and without an entry.
Rule rule_of(const Function& function, const Node& node);
// Of the results, by what the node reads now and not by what they were; none
// where the table has none.
std::vector<TensorType> types_of(const Function& function, Node node);
int64_t flops_of(const Function& function, const Node& node);
int64_t hidden_flops_of(const Function& function, const Node& node);
Special special_of(const Node& node);
int64_t scratch_bytes_of(const Function& function, const Node& node);
int64_t work_bytes_of(const Function& function, const Node& node);
bool is_view(const Node& node);
bool is_random(const Node& node);
Linear linear_of(const Node& node);

// The call that does both, with the second's results; none for most pairs, nor
// where it rounds otherwise and the bits must stay. That nobody else reads what
// the first makes is for the caller to know.
enum class Bits : uint8_t { Same, Rounded };
std::optional<Node> fused(
    const Function& function,
    const Node& first,
    const Node& second,
    Bits bits = Bits::Same);

}  // namespace weft
