// SPDX-License-Identifier: Apache-2.0
#include "execute/fill_piece.h"

#include "aten/types.h"
#include "execute/evaluate.h"
#include "execute/replay.h"
#include "ops/split.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft {
namespace {

// Few enough to stay in a cache, many enough for several threads.
constexpr int64_t kPieceElements = 262144;

// One piece a dim of a value.
using ValueBox = std::vector<Piece>;

bool is_all(const ValueBox& box) {
  return std::all_of(box.begin(), box.end(), [](const Piece& piece) {
    return piece.size == piece.whole;
  });
}

bool is_same_box(const ValueBox& a, const ValueBox& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](auto& one, auto& other) {
        return one.start == other.start && one.size == other.size;
      });
}

int64_t element_count_of(const ValueBox& box) {
  int64_t elements = 1;
  for (const Piece& piece : box) {
    elements *= piece.size;
  }
  return elements;
}

Dims sizes_of(const ValueBox& box) {
  Dims sizes;
  for (const Piece& piece : box) {
    sizes.push_back(piece.size);
  }
  return sizes;
}

class PieceMaker {
 public:
  PieceMaker(
      const Graph& graph, const Function& function, const StepContext& context)
      : graph_(graph), function_(function), context_(context) {
    for (const Input& input : function.inputs) {
      constants_[input.value] = input.keys.front();
    }
  }

  // Finds what to call for a box of a value. False when that makes more
  // elements of some value than the box has.
  bool plan(ValueId value, const ValueBox& box) {
    need(value, box);
    // Readers come after what they read.
    while (!open_.empty()) {
      const size_t node = *open_.rbegin();
      open_.erase(node);
      visit(node);
    }
    return std::all_of(boxes_.begin(), boxes_.end(), [&](const auto& each) {
      return element_count_of(each.second) <= element_count_of(box);
    });
  }

  // What was planned last.
  at::Tensor run(ValueId value, const ValueBox& box) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    for (auto& [number, call] : calls_) {
      perform(number, call);
    }
    return part(value, box);
  }

 private:
  // What is to be made of a node.
  struct PieceCall {
    Node node;
    std::vector<ValueBox> read;
  };

  ValueBox all(ValueId value) const {
    return whole_pieces(function_[value].type.sizes);
  }

  void need(ValueId value, const ValueBox& box) {
    const auto [it, is_new] = boxes_.try_emplace(value, box);
    if (!is_new && !is_same_box(it->second, box)) {
      it->second = all(value);
    }
    ++readers_[value];
    if (function_[value].node != NodeId::None) {
      open_.insert(index(function_[value].node));
    }
  }

  void visit(size_t number) {
    const Node& node = function_.nodes[number];
    const std::vector<ValueId> read = operands(node);
    PieceCall call = {node, {}};
    if (const std::optional<Pieces> pieces = split(number)) {
      const Rule rule = rule_of(function_, node);
      call.node = localize(*find_op(node.op), function_, node, rule, *pieces);
      for (size_t i = 0; i < read.size(); ++i) {
        call.read.push_back(operand_box(rule, i, read[i], *pieces));
      }
    } else {
      for (const ValueId made : node.results) {
        boxes_.insert_or_assign(made, all(made));
      }
      for (const ValueId each : read) {
        call.read.push_back(all(each));
      }
    }
    for (size_t i = 0; i < read.size(); ++i) {
      need(read[i], call.read[i]);
    }
    calls_.emplace(number, std::move(call));
  }

  // How the node makes what is needed of its only result, if it can make less
  // than all.
  std::optional<Pieces> split(size_t number) const {
    const Node& node = function_.nodes[number];
    const ValueBox& box = boxes_.at(node.results.front());
    if (node.results.size() > 1 || find_op(node.op) == nullptr || is_all(box)) {
      return std::nullopt;
    }
    const Rule rule = rule_of(function_, node);
    Pieces pieces = whole_pieces(rule);
    for (size_t dim = 0; dim < box.size(); ++dim) {
      if (box[dim].size == box[dim].whole) {
        continue;
      }
      const DimFactors& factors = rule.results.front()[dim];
      if (factors.size() != 1) {
        return std::nullopt;
      }
      const auto factor = static_cast<size_t>(factors.front());
      if (rule.factors[factor].kind != FactorKind::Free) {
        return std::nullopt;
      }
      pieces[factor] = box[dim];
    }
    for (size_t i = 0; i < rule.operands.size(); ++i) {
      for (const DimFactors& factors : rule.operands[i]) {
        const bool has_split =
            std::any_of(factors.begin(), factors.end(), [&](int factor) {
              const Piece& piece = pieces[static_cast<size_t>(factor)];
              return piece.size != piece.whole;
            });
        if (has_split && factors.size() > 1) {
          return std::nullopt;
        }
      }
    }
    // A call that drops an operand is not worth the trouble.
    const Node local =
        localize(*find_op(node.op), function_, node, rule, pieces);
    return operands(local).size() == operands(node).size()
               ? std::optional(std::move(pieces))
               : std::nullopt;
  }

  ValueBox operand_box(
      const Rule& rule,
      size_t operand,
      ValueId value,
      const Pieces& pieces) const {
    ValueBox box = all(value);
    for (size_t dim = 0; dim < box.size(); ++dim) {
      const DimFactors& factors = rule.operands[operand][dim];
      if (factors.size() == 1) {
        const Piece& piece = pieces[static_cast<size_t>(factors.front())];
        // Not where it is broadcast.
        box[dim] = piece.whole == box[dim].whole ? piece : box[dim];
      }
    }
    return box;
  }

  // Nobody may read what a storage was left with: one element stands for all of
  // them.
  at::Tensor unset(ValueId value) const {
    return at::empty({1}, scalar_type_of(function_[value].type.dtype))
        .as_strided(
            sizes_of(boxes_.at(value)),
            Dims(function_[value].type.sizes.size(), 0));
  }

  void perform(size_t number, const PieceCall& call) {
    const Node& whole = function_.nodes[number];
    const ValueId result = whole.results.front();
    if (const OpDef* def = find_op(whole.op);
        def != nullptr && def->kind == OpKind::Empty) {
      made_[result] = unset(result);
      return;
    }
    const std::vector<ValueId> read = operands(whole);
    std::vector<at::Tensor> values;
    for (size_t i = 0; i < read.size(); ++i) {
      values.push_back(part(read[i], call.read[i]));
    }
    std::vector<TensorType> types;
    for (const ValueId made : whole.results) {
      const TensorType& type = function_[made].type;
      const ValueBox& box = boxes_.at(made);
      types.push_back(is_all(box) ? type : with_sizes(type, sizes_of(box)));
    }
    std::vector<at::Tensor> results = evaluate_node(
        function_, call.node, values, types, boxes_.at(result), context_);
    for (size_t i = 0; i < results.size(); ++i) {
      made_[whole.results[i]] = std::move(results[i]);
    }
  }

  // Gives up the value with its last reader.
  at::Tensor part(ValueId value, const ValueBox& box) {
    at::Tensor tensor = constants_.contains(value)
                            ? constant_tensor(graph_, constants_.at(value))
                            : made_.at(value);
    const bool is_cut =
        !constants_.contains(value) && is_same_box(boxes_.at(value), box);
    for (size_t dim = 0; dim < box.size() && !is_cut; ++dim) {
      tensor = tensor.narrow(
          static_cast<int64_t>(dim), box[dim].start, box[dim].size);
    }
    if (--readers_.at(value) == 0) {
      made_.erase(value);
    }
    return tensor;
  }

  const Graph& graph_;
  const Function& function_;
  const StepContext context_;
  std::map<ValueId, std::string> constants_;
  // What is needed of a value; all of it where readers differ.
  std::map<ValueId, ValueBox> boxes_;
  std::map<ValueId, int> readers_;
  // Nodes to look at, and what was found.
  std::set<size_t> open_;
  std::map<size_t, PieceCall> calls_;
  std::map<ValueId, at::Tensor> made_;
};

}  // namespace

void fill_piece(
    const Graph& graph,
    const Function& function,
    ValueId value,
    const std::vector<Piece>& box,
    const at::Tensor& into,
    const StepContext& context) {
  PieceMaker maker(graph, function, context);
  const bool is_exact = maker.plan(value, box);
  if (!is_exact || element_count_of(box) <= kPieceElements) {
    into.copy_(maker.run(value, box));
    return;
  }
  const auto longest = std::max_element(
      box.begin(), box.end(), [](const Piece& one, const Piece& other) {
        return one.size < other.size;
      });
  const auto dim = longest - box.begin();
  const int64_t half = longest->size / 2;
  for (const auto& [start, size] :
       {std::pair(int64_t{0}, half), std::pair(half, longest->size - half)}) {
    ValueBox part = box;
    part[static_cast<size_t>(dim)].start += start;
    part[static_cast<size_t>(dim)].size = size;
    fill_piece(
        graph, function, value, part, into.narrow(dim, start, size), context);
  }
}

}  // namespace weft
