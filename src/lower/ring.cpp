// SPDX-License-Identifier: Apache-2.0
#include "lower/ring.h"

#include "base/error.h"
#include "lower/move.h"
#include "ops/arithmetic.h"
#include "ops/kernel.h"
#include "ops/op_def.h"
#include "plan/plan.h"
#include "program/piece.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

const Ring& ring_of(const Assignment& assignment) {
  WEFT_CHECK(assignment.ring.has_value(), "a node that does not go round");
  return *assignment.ring;
}

const Blocks& blocks_of(const Node& node) {
  const OpDef* def = find_op(node.op);
  WEFT_CHECK(def != nullptr && def->blocks.has_value(), node.op, " in blocks");
  return *def->blocks;
}

// What a rank holds of a factor, where that lies at even distances.
std::optional<Stripe> stripe_of(
    const Mesh& mesh, const Levels& levels, int64_t whole, int64_t rank) {
  const std::vector<Piece> pieces = pieces_of(mesh, levels, whole, rank);
  Stripe out = {.start = 0, .step = 1, .size = 1};
  // Of the levels inside the one in question.
  int64_t inside = 1;
  for (size_t i = pieces.size(); i-- > 0;) {
    const Piece& piece = pieces[i];
    const bool is_all_inside = out == Stripe{0, 1, inside};
    out.start += piece.start * inside;
    if (piece.size > 1) {
      if (out.size == 1) {
        out.step = inside;
      } else if (!is_all_inside) {
        return std::nullopt;
      }
      out.size *= piece.size;
    }
    inside *= piece.whole;
  }
  return out;
}

// The members of one ring in the order of what they hold, and what each of them
// holds of both factors.
struct Members {
  std::vector<int64_t> ranks;
  std::vector<Stripe> stays;
  std::vector<Stripe> passes;
};

std::optional<Members> find_members(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int64_t rank) {
  const auto stays = static_cast<size_t>(ring_of(assignment).stays);
  const auto passes = static_cast<size_t>(ring_of(assignment).passes);
  Members out;
  out.ranks = group_of(mesh, axes_of(assignment.factors[stays]), rank);
  // Axes may split in another order than the mesh has them.
  std::stable_sort(
      out.ranks.begin(), out.ranks.end(), [&](int64_t a, int64_t b) {
        const auto first = [&](int64_t member) {
          std::vector<int64_t> starts;
          for (const Piece& piece : pieces_of(
                   mesh,
                   assignment.factors[passes],
                   rule.factors[passes].size,
                   member)) {
            starts.push_back(piece.start);
          }
          return starts;
        };
        return first(a) < first(b);
      });
  for (const int64_t member : out.ranks) {
    const auto first = stripe_of(
        mesh, assignment.factors[stays], rule.factors[stays].size, member);
    const auto second = stripe_of(
        mesh, assignment.factors[passes], rule.factors[passes].size, member);
    if (!first || !second) {
      return std::nullopt;
    }
    out.stays.push_back(*first);
    out.passes.push_back(*second);
  }
  return out;
}

Members members_of(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int64_t rank) {
  std::optional<Members> found = find_members(mesh, rule, assignment, rank);
  WEFT_CHECK(found.has_value(), "pieces that lie at no even distances");
  return std::move(*found);
}

class RingCall {
 public:
  RingCall(
      Emitter& emitter,
      const Function& step,
      const Node& node,
      const Rule& rule,
      const Assignment& assignment,
      const std::vector<ValueId>& mine)
      : emitter_(emitter),
        step_(step),
        node_(node),
        rule_(rule),
        assignment_(assignment),
        ring_(ring_of(assignment)),
        is_in_time_(contains(
            axes_of(assignment.factors[static_cast<size_t>(ring_.stays)]),
            std::string(kSliceAxis))),
        blocks_(blocks_of(node)),
        members_(members_of(emitter.mesh, rule, assignment, emitter.rank)),
        count_(members_.ranks.size()),
        me_(static_cast<size_t>(
            std::find(
                members_.ranks.begin(), members_.ranks.end(), emitter.rank) -
            members_.ranks.begin())),
        mine_(mine),
        base_(step[node.results.front()].name),
        joined_(node.results.size(), ValueId::None) {
    for (size_t i = 0; i < mine_.size(); ++i) {
      const bool stays = has_factor(rule.operands[i], ring_.stays);
      if (has_factor(rule.operands[i], ring_.passes)) {
        (stays ? cut_ : passing_).push_back(i);
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (has_factor(rule.results[i], ring_.passes)) {
        sums_.push_back(i);
      }
    }
  }

  std::vector<ValueId> run() {
    std::vector<ValueId> block;
    for (const size_t i : passing_) {
      block.push_back(emitter_.row_major(mine_[i], base_));
    }
    for (size_t round = 0; round < count_; ++round) {
      const size_t now = (me_ + count_ - round) % count_;
      const size_t next = (now + count_ - 1) % count_;
      std::vector<ValueId> sums;
      if (sees(me_, now)) {
        sums = take_sums(now);
        send(block, now);
      }
      std::vector<ValueId> taken;
      if (next != me_ && sees(me_, next)) {
        taken = take_block(next);
      }
      if (round == home_round()) {
        start_home();
      }
      if (sees(me_, now)) {
        pass_sums(compute(block, now), sums, now);
      }
      finish(sent_);
      for (const ValueId value : taken) {
        emitter_.wait(value);
      }
      block = std::move(taken);
    }
    take_home();
    return results();
  }

 private:
  bool sees(size_t one, size_t block) const {
    return blocks_.sight(node_, members_.stays[one], members_.passes[block]) !=
           Sight::None;
  }

  // The members that see a block, in the order in which it visits them; its
  // own first.
  std::vector<size_t> route(size_t block) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < count_; ++i) {
      const size_t member = (block + i) % count_;
      if (sees(member, block)) {
        out.push_back(member);
      }
    }
    return out;
  }

  size_t place_on(const std::vector<size_t>& route) const {
    return static_cast<size_t>(
        std::find(route.begin(), route.end(), me_) - route.begin());
  }

  // --- Blocks.

  void send(const std::vector<ValueId>& block, size_t number) {
    const std::vector<size_t> all = route(number);
    const size_t after = place_on(all) + 1;
    if (after < all.size()) {
      for (const ValueId value : block) {
        sent_.push_back(send(value, members_.ranks[all[after]]));
      }
    }
  }

  std::vector<ValueId> take_block(size_t number) {
    const std::vector<size_t> all = route(number);
    const int64_t from = members_.ranks[all[place_on(all) - 1]];
    std::vector<ValueId> out;
    for (const size_t i : passing_) {
      const TensorType& whole = step_[operands(node_)[i]].type;
      out.push_back(receive(
          {whole.dtype, sizes_of(rule_.operands[i], whole, number)},
          from,
          step_[operands(node_)[i]].name));
    }
    return out;
  }

  // Of a tensor with the factor that passes, those of member `number`.
  Dims sizes_of(
      const std::vector<DimFactors>& dims,
      const TensorType& whole,
      size_t number) const {
    Dims sizes = whole.sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      for (const int factor : dims[dim]) {
        const auto i = static_cast<size_t>(factor);
        for (const Piece& piece : pieces_of(
                 emitter_.mesh,
                 assignment_.factors[i],
                 rule_.factors[i].size,
                 members_.ranks[number])) {
          sizes[dim] = sizes[dim] / piece.whole * piece.size;
        }
      }
    }
    return sizes;
  }

  struct Form {
    DType dtype;
    Dims sizes;
  };

  ValueId send(ValueId value, int64_t to) {
    return emitter_.start_send(
        value, to, std::string(emitter_.block.function[value].name));
  }

  ValueId receive(const Form& form, int64_t from, const std::string& base) {
    return emitter_.start_receive(
        make_type(form.dtype, form.sizes),
        replicated(static_cast<int>(form.sizes.size())),
        from,
        cat(base, ".received"));
  }

  void finish(std::vector<ValueId>& sent) {
    for (const ValueId value : sent) {
      emitter_.wait(value);
    }
    sent.clear();
  }

  // --- The block's part of the node.

  // The node on these operands.
  Node local(const std::vector<ValueId>& operands) const {
    Node out = node_;
    out.releases.clear();
    out.overwrites = ValueId::None;
    set_operands(out, operands);
    return out;
  }

  // The block's part of an operand with both factors.
  ValueId cut(size_t operand, const Stripe& block) {
    const TensorType type = emitter_.block.function[mine_[operand]].type;
    size_t dim = 0;
    while (!has_factor({rule_.operands[operand][dim]}, ring_.passes)) {
      ++dim;
    }
    Dims sizes = type.sizes;
    Dims strides = strides_of(type);
    sizes[dim] = block.size;
    strides[dim] *= block.step;
    return emitter_.call(
        "aten.slice.Tensor",
        {{mine_[operand]},
         {static_cast<int64_t>(dim)},
         {block.start},
         {block.start + (block.size - 1) * block.step + 1},
         {block.step}},
        make_type(type.dtype, sizes, strides),
        replicated(static_cast<int>(sizes.size())),
        base_);
  }

  // What each result gets of the block; those that stay are joined with what
  // they have.
  std::vector<ValueId> compute(
      const std::vector<ValueId>& block, size_t number) {
    std::vector<ValueId> operands = mine_;
    for (size_t i = 0; i < passing_.size(); ++i) {
      operands[passing_[i]] = block[i];
    }
    for (const size_t i : cut_) {
      operands[i] = cut(i, members_.passes[number]);
    }
    const Node here = local(operands);
    return emitter_.build(base_, [&](NodeBuilder& builder) {
      std::vector<ValueId> got = blocks_.block(
          builder, here, members_.stays[me_], members_.passes[number]);
      std::vector<ValueId> all = got;
      if (number != me_ && blocks_.join) {
        all = blocks_.join(builder, here, joined_, got);
      }
      for (size_t i = 0; i < got.size(); ++i) {
        if (has_factor(rule_.results[i], ring_.passes)) {
          continue;
        }
        joined_[i] = number == me_ || blocks_.join
                         ? all[i]
                         : add(builder, joined_[i], got[i]);
      }
      return got;
    });
  }

  // --- What is summed for a block.

  // The sum of those before this rank, from the one before; none at home and
  // next to it. In time, of those after it.
  std::vector<ValueId> take_sums(size_t number) {
    const std::vector<size_t> all = route(number);
    const size_t place = place_on(all);
    const size_t from = is_in_time_ ? place + 1 : place - 1;
    const bool is_first = is_in_time_ ? from == all.size() : place < 2;
    return place == 0 || is_first
               ? std::vector<ValueId>()
               : receive_sums(number, members_.ranks[all[from]]);
  }

  std::vector<ValueId> receive_sums(size_t number, int64_t from) {
    std::vector<ValueId> out;
    for (const size_t i : sums_) {
      const Value& whole = step_[node_.results[i]];
      out.push_back(receive(
          {accumulate_type(whole.type.dtype),
           sizes_of(rule_.results[i], whole.type, number)},
          from,
          whole.name));
    }
    return out;
  }

  void add_to_sums(
      std::vector<ValueId>& got, const std::vector<ValueId>& sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      emitter_.wait(sums[i]);
      ValueId& one = got[sums_[i]];
      one = emitter_
                .build(
                    base_,
                    [&](NodeBuilder& builder) -> std::vector<ValueId> {
                      return {add(builder, one, sums[i])};
                    })
                .front();
    }
  }

  void pass_sums(
      std::vector<ValueId> got,
      const std::vector<ValueId>& sums,
      size_t number) {
    if (number == me_) {
      for (const size_t i : sums_) {
        joined_[i] = got[i];
      }
      return;
    }
    add_to_sums(got, sums);
    const std::vector<size_t> all = route(number);
    const size_t place = place_on(all);
    const size_t to = is_in_time_              ? all[place - 1]
                      : place + 1 < all.size() ? all[place + 1]
                                               : number;
    finish(late_);
    for (const size_t i : sums_) {
      late_.push_back(
          send(emitter_.row_major(got[i], base_), members_.ranks[to]));
    }
  }

  // The own block's sums come from the last one on its route. They are expected
  // as soon as nothing else will be from there: until then that rank waits.
  size_t home_round() const {
    if (is_in_time_) {
      return 0;
    }
    const size_t last = route(me_).back();
    size_t found = 0;
    for (size_t round = 0; round < count_; ++round) {
      const size_t now = (me_ + count_ - round) % count_;
      const size_t next = (now + count_ - 1) % count_;
      if (before_me(now, 2) == last ||
          (next != me_ && before_me(next, 1) == last)) {
        found = round;
      }
    }
    return found;
  }

  // From which member this one takes something of a block, if it is at that
  // place on the block's route or behind it; else none.
  std::optional<size_t> before_me(size_t block, size_t place) const {
    const std::vector<size_t> all = route(block);
    const size_t mine = place_on(all);
    return mine < place || mine == all.size() ? std::nullopt
                                              : std::optional(all[mine - 1]);
  }

  void start_home() {
    const std::vector<size_t> all = route(me_);
    if (all.size() > 1) {
      home_ =
          receive_sums(me_, members_.ranks[is_in_time_ ? all[1] : all.back()]);
    }
  }

  void take_home() {
    add_to_sums(joined_, home_);
    finish(late_);
  }

  std::vector<ValueId> results() {
    std::vector<Layout> layouts;
    std::vector<TensorType> types;
    for (size_t i = 0; i < joined_.size(); ++i) {
      const TensorType& whole = step_[node_.results[i]].type;
      layouts.push_back(result_layout(
          emitter_.mesh, rule_, assignment_, static_cast<int>(i), whole));
      types.push_back(
          local_type(whole, layouts.back(), emitter_.mesh, emitter_.rank));
    }
    const Node here = local(mine_);
    joined_ = emitter_.build(base_, [&](NodeBuilder& builder) {
      std::vector<ValueId> out =
          blocks_.finish ? blocks_.finish(builder, here, joined_) : joined_;
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = in_type(builder, out[i], types[i]);
      }
      return out;
    });
    for (size_t i = 0; i < joined_.size(); ++i) {
      emitter_.block.layouts[index(joined_[i])] = layouts[i];
      emitter_.block.function[joined_[i]].name = step_[node_.results[i]].name;
    }
    return joined_;
  }

  Emitter& emitter_;
  const Function& step_;
  const Node& node_;
  const Rule& rule_;
  const Assignment& assignment_;
  const Ring ring_;
  // The members are slices of one rank's sequence. Forward takes them in order
  // and backward the other way round, and so go sums: from the last one home.
  const bool is_in_time_;
  const Blocks& blocks_;
  const Members members_;
  const size_t count_;
  // Among the members.
  const size_t me_;
  const std::vector<ValueId>& mine_;
  const std::string base_;
  // Operands that go round, and those of which each block needs a part.
  std::vector<size_t> passing_;
  std::vector<size_t> cut_;
  // Results that are sums for a block.
  std::vector<size_t> sums_;
  // What each result has got so far; of those that are sums, the own block's.
  std::vector<ValueId> joined_;
  // On their way: blocks, and sums, which have until the next sums.
  std::vector<ValueId> sent_;
  std::vector<ValueId> late_;
  // What others have summed for the own block.
  std::vector<ValueId> home_;
};

}  // namespace

std::optional<Ring> find_ring(const Node& node, const Rule& rule) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr || !def->blocks) {
    return std::nullopt;
  }
  const Ring ring = {
      find_factor(rule, def->blocks->stays),
      find_factor(rule, def->blocks->passes)};
  return ring.stays < 0 || ring.passes < 0 ? std::nullopt : std::optional(ring);
}

bool can_pass_round(
    const Mesh& mesh,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment) {
  const auto stays = static_cast<size_t>(ring_of(assignment).stays);
  const auto passes = static_cast<size_t>(ring_of(assignment).passes);
  const Axes axes = axes_of(assignment.factors[stays]);
  const Axes theirs = axes_of(assignment.factors[passes]);
  const int64_t count = ways(mesh, axes);
  if (!std::is_permutation(
          axes.begin(), axes.end(), theirs.begin(), theirs.end()) ||
      rule.factors[stays].size < count || rule.factors[passes].size < count) {
    return false;
  }
  const std::optional<Members> members =
      find_members(mesh, rule, assignment, 0);
  if (!members) {
    return false;
  }
  const Blocks& blocks = blocks_of(node);
  for (size_t i = 0; i < members->ranks.size(); ++i) {
    for (size_t k = 0; k < members->ranks.size(); ++k) {
      const std::optional<Sight> sight =
          blocks.sight(node, members->stays[i], members->passes[k]);
      if (!sight || (i == k && *sight == Sight::None)) {
        return false;
      }
    }
  }
  return true;
}

double ring_bytes(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment) {
  const Ring ring = ring_of(assignment);
  double block = 0;
  const auto add_bytes = [&](const std::vector<DimFactors>& dims,
                             ValueId value) {
    if (!has_factor(dims, ring.passes) || has_factor(dims, ring.stays)) {
      return;
    }
    const TensorType& type = function[value].type;
    auto bytes = static_cast<double>(element_count(type)) *
                 static_cast<double>(element_bytes(type.dtype));
    for (const DimFactors& dim : dims) {
      for (const int factor : dim) {
        const auto i = static_cast<size_t>(factor);
        bytes /=
            static_cast<double>(ways(mesh, axes_of(assignment.factors[i])));
      }
    }
    block += bytes;
  };
  const std::vector<ValueId> read = operands(node);
  for (size_t i = 0; i < read.size(); ++i) {
    add_bytes(rule.operands[i], read[i]);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    add_bytes(rule.results[i], node.results[i]);
  }
  const int64_t count =
      ways(mesh, axes_of(assignment.factors[static_cast<size_t>(ring.passes)]));
  return block * static_cast<double>(count - 1);
}

std::vector<ValueId> emit_ring(
    Emitter& emitter,
    const Function& step,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment,
    const std::vector<ValueId>& mine) {
  return RingCall(emitter, step, node, rule, assignment, mine).run();
}

}  // namespace weft
