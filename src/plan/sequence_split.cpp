// SPDX-License-Identifier: Apache-2.0
#include "plan/sequence_split.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>
#include <set>

namespace weft {
namespace {

bool is_text(const TensorType& type) {
  return type.sizes.size() == 2 || type.sizes.size() == 3;
}

// A sequence of its own length, as a decoder has: numbers of words.
bool is_another_text(const TensorType& type) {
  return type.sizes.size() == 2 && type.dtype == DType::I64;
}

// Views of a value, nearest first, as far as each is the only one.
ValueId view_with_own_dim(
    const StepRules& rules, const Spots& spots, ValueId value) {
  const Function& step = rules.step();
  while (true) {
    const std::optional<Spot>& spot = spots[index(value)];
    if (!spot) {
      return ValueId::None;
    }
    if (is_alone(*spot, step[value].type)) {
      return value;
    }
    const std::vector<NodeId>& users = rules.users(value);
    const auto view =
        std::find_if(users.begin(), users.end(), [&](NodeId user) {
          const Node& node = step.nodes[index(user)];
          return node.phase == Phase::Forward && operands(node).size() == 1 &&
                 node.results.size() == 1;
        });
    if (view == users.end()) {
      return ValueId::None;
    }
    value = step.nodes[index(*view)].results.front();
  }
}

std::optional<FactorSpot> sequence_factor(
    const StepRules& rules,
    const TokenDims& tokens,
    size_t node,
    size_t operand) {
  const ValueId value = operands(rules.step().nodes[node])[operand];
  const auto& spot = tokens.sequence[index(value)];
  return spot ? factor_at(
                    rules.rule(node), {false, static_cast<int>(operand)}, *spot)
              : std::nullopt;
}

// The sequence stands at a factor that must be whole, or at two of them.
bool needs_all_tokens(
    const StepRules& rules, const TokenDims& tokens, size_t node) {
  const size_t count = operands(rules.step().nodes[node]).size();
  std::set<int> factors;
  bool is_whole = false;
  for (size_t o = 0; o < count; ++o) {
    if (const auto at = sequence_factor(rules, tokens, node, o)) {
      factors.insert(at->factor);
      is_whole =
          is_whole ||
          rules.rule(node).factors[static_cast<size_t>(at->factor)].kind ==
              FactorKind::Whole;
    }
  }
  return is_whole || factors.size() > 1;
}

class HeadsForSequence {
 public:
  HeadsForSequence(
      const StepRules& rules, const TokenDims& tokens, int64_t ways)
      : rules_(rules),
        step_(rules.step()),
        tokens_(tokens),
        ways_(ways),
        is_inside_(step_.values.size()) {}

  std::vector<SplitValue> run() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase == Phase::Forward) {
        visit(i);
      }
    }
    return std::move(decided_);
  }

 private:
  void visit(size_t node) {
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    const bool is_inside =
        std::any_of(read.begin(), read.end(), [this](ValueId value) {
          return is_inside_[index(value)];
        });
    if (const auto product = product_of(rules_, node)) {
      const ValueId other = read[static_cast<size_t>(product->other)];
      if (is_inside_[index(other)]) {
        leave(other);
      }
      return;
    }
    const bool enters = needs_all(node) && enter(node);
    for (const ValueId result : step_.nodes[node].results) {
      is_inside_[index(result)] = enters || is_inside;
    }
  }

  bool needs_all(size_t node) const {
    return needs_all_tokens(rules_, tokens_, node);
  }

  std::optional<FactorSpot> sequence_at(size_t node, size_t operand) const {
    return sequence_factor(rules_, tokens_, node, operand);
  }

  // Splits the operands along a factor that they and the result share. False
  // when there is none.
  bool enter(size_t node) {
    const std::optional<FactorSpot> heads = shared_factor(node);
    if (!heads) {
      return false;
    }
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t o = 0; o < read.size(); ++o) {
      const auto spot =
          spot_at(rules_.rule(node), {false, static_cast<int>(o)}, *heads);
      if (spot && sequence_at(node, o) && !is_inside_[index(read[o])]) {
        decide_near(read[o], *spot);
      }
    }
    return true;
  }

  std::optional<FactorSpot> shared_factor(size_t node) const {
    const Rule& rule = rules_.rule(node);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const auto candidate = beside_batch(node, static_cast<int>(f));
      if (candidate && candidate->size % ways_ == 0 &&
          rule.factors[f].kind == FactorKind::Free &&
          is_shared(node, static_cast<int>(f))) {
        return candidate;
      }
    }
    return std::nullopt;
  }

  // In every operand with the sequence and in the result, and not the sequence.
  bool is_shared(size_t node, int factor) const {
    const Rule& rule = rules_.rule(node);
    const size_t count = operands(step_.nodes[node]).size();
    for (size_t o = 0; o < count; ++o) {
      const auto sequence = sequence_at(node, o);
      if (sequence &&
          (sequence->factor == factor ||
           !has_factor(rule, {false, static_cast<int>(o)}, factor))) {
        return false;
      }
    }
    return has_factor(rule, {true, 0}, factor);
  }

  // What is left of a factor without the batch, where they were made one dim.
  std::optional<FactorSpot> beside_batch(size_t node, int factor) const {
    const Rule& rule = rules_.rule(node);
    const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
    FactorSpot spot = {factor, 1, size};
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t o = 0; o < read.size(); ++o) {
      const auto& batch = tokens_.batch[index(read[o])];
      const auto at =
          batch ? factor_at(rule, {false, static_cast<int>(o)}, *batch)
                : std::nullopt;
      if (at && at->factor == factor) {
        const int64_t sections = at->sections * at->size;
        if (sections == size) {
          return std::nullopt;
        }
        spot = {factor, sections, size / sections};
      }
    }
    return spot;
  }

  // At the value itself, or before it where the dim was still by itself.
  void decide_near(ValueId value, Spot spot) {
    ValueId at = value;
    while (!is_alone(spot, step_[at].type)) {
      const NodeId made = step_[at].node;
      if (made == NodeId::None ||
          operands(step_.nodes[index(made)]).size() != 1) {
        break;
      }
      const Rule& rule = rules_.rule(index(made));
      const auto factor = factor_at(rule, {true, step_[at].result}, spot);
      const auto before =
          factor ? spot_at(rule, {false, 0}, *factor) : std::nullopt;
      if (!before) {
        break;
      }
      at = operands(step_.nodes[index(made)]).front();
      spot = *before;
    }
    decide(at, spot);
  }

  void leave(ValueId value) {
    // It may have been summed over, or be another one than that of the batch.
    if (const auto& spot = tokens_.sequence[index(value)]) {
      decide_near(value, *spot);
    }
  }

  void decide(ValueId value, const Spot& spot) {
    const bool is_new = std::none_of(
        decided_.begin(), decided_.end(), [value](const SplitValue& other) {
          return other.value == value;
        });
    if (is_new) {
      decided_.push_back({value, spot});
    }
  }

  const StepRules& rules_;
  const Function& step_;
  const TokenDims& tokens_;
  const int64_t ways_;
  // Follows from a node that needed all of the sequence, and has no product
  // with a parameter in between.
  std::vector<bool> is_inside_;
  std::vector<SplitValue> decided_;
};

// How many elements the factor has, when the sequence is all of it in one of
// the node's operands; else 0.
int64_t sequence_along(
    const StepRules& rules,
    const TokenDims& tokens,
    size_t node,
    std::string_view name) {
  const Rule& rule = rules.rule(node);
  const int factor = find_factor(rule, name);
  const std::vector<ValueId> read = operands(rules.step().nodes[node]);
  for (size_t o = 0; o < read.size() && factor >= 0; ++o) {
    const auto& spot = tokens.sequence[index(read[o])];
    const auto at = spot ? factor_at(rule, {false, static_cast<int>(o)}, *spot)
                         : std::nullopt;
    const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
    if (at && at->factor == factor && at->size == size) {
      return size;
    }
  }
  return 0;
}

// Whether the result is a partial sum when the parameters are split so.
bool is_partial(const StepRules& rules, size_t node, const Spots& parameters) {
  const std::vector<ValueId> read = operands(rules.step().nodes[node]);
  for (size_t o = 0; o < read.size(); ++o) {
    const ValueId parameter = rules.parameter(read[o]);
    if (parameter == ValueId::None || !parameters[index(parameter)]) {
      continue;
    }
    const auto spot = rules.in_view(read[o], *parameters[index(parameter)]);
    const auto factor =
        spot ? factor_at(rules.rule(node), {false, static_cast<int>(o)}, *spot)
             : std::nullopt;
    if (factor && !has_factor(rules.rule(node), {true, 0}, factor->factor)) {
      return true;
    }
  }
  return false;
}

bool is_lookup(const StepRules& rules, size_t node) {
  const std::vector<Factor>& factors = rules.rule(node).factors;
  const std::vector<ValueId> read = operands(rules.step().nodes[node]);
  return std::any_of(
             factors.begin(),
             factors.end(),
             [](const Factor& factor) {
               return factor.kind == FactorKind::Lookup;
             }) &&
         std::any_of(read.begin(), read.end(), [&](ValueId value) {
           return rules.parameter(value) != ValueId::None;
         });
}

}  // namespace

TokenDims token_dims(const StepRules& rules) {
  const Function& step = rules.step();
  Spots batch(step.values.size());
  Spots sequence(step.values.size());
  int64_t length = 0;
  for (const Input& input : step.inputs) {
    const TensorType& type = step[input.value].type;
    if (input.kind != InputKind::Batch || type.sizes.empty()) {
      continue;
    }
    batch[index(input.value)] = whole_dim(type, 0);
    if (is_text(type)) {
      length = length == 0 ? type.sizes[1] : length;
      if (type.sizes[1] == length || is_another_text(type)) {
        sequence[index(input.value)] = whole_dim(type, 1);
      }
    }
  }
  return {rules.trace(std::move(batch)), rules.trace(std::move(sequence))};
}

bool has_sequence(const StepRules& rules, const TokenDims& tokens) {
  const Function& step = rules.step();
  return std::any_of(
      step.inputs.begin(), step.inputs.end(), [&](const Input& input) {
        return tokens.sequence[index(input.value)].has_value();
      });
}

bool wants_stripes(
    const StepRules& rules, const TokenDims& tokens, int64_t ways) {
  const Function& step = rules.step();
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    const Node& node = step.nodes[i];
    const OpDef* def = find_op(node.op);
    if (def == nullptr || !def->blocks) {
      continue;
    }
    const int64_t size = sequence_along(rules, tokens, i, def->blocks->stays);
    if (size == 0 || size % ways != 0 ||
        size != sequence_along(rules, tokens, i, def->blocks->passes)) {
      continue;
    }
    const int64_t piece = size / ways;
    const auto sight = [&](const Stripe& last) {
      Stripe first = last;
      first.start = 0;
      return def->blocks->sight(node, first, last);
    };
    if (sight({size - piece, 1, piece}) == Sight::None &&
        sight({ways - 1, ways, piece}) == Sight::Some) {
      return true;
    }
  }
  return false;
}

namespace {

// Whether the first token sees nothing of the others where the node is computed
// by blocks.
bool is_causal(
    const StepRules& rules,
    const TokenDims& tokens,
    size_t node,
    const Blocks& blocks) {
  const int64_t size = sequence_along(rules, tokens, node, blocks.stays);
  return size > 1 &&
         size == sequence_along(rules, tokens, node, blocks.passes) &&
         blocks.sight(rules.step().nodes[node], {0, 1, 1}, {1, 1, size - 1}) ==
             Sight::None;
}

}  // namespace

ValueId sees_later_tokens(const StepRules& rules, const TokenDims& tokens) {
  const Function& step = rules.step();
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    const Node& node = step.nodes[i];
    // What has no tokens any more is of all of them: a loss.
    const bool has_tokens = std::any_of(
        node.results.begin(), node.results.end(), [&](ValueId result) {
          return tokens.sequence[index(result)].has_value();
        });
    if (node.phase != Phase::Forward || !has_tokens ||
        !needs_all_tokens(rules, tokens, i)) {
      continue;
    }
    const OpDef* def = find_op(node.op);
    if (def == nullptr || !def->blocks ||
        !is_causal(rules, tokens, i, *def->blocks)) {
      return node.results.front();
    }
  }
  return ValueId::None;
}

std::vector<SplitValue> scattered_sums(
    const StepRules& rules, const TokenDims& tokens, const Spots& parameters) {
  const Function& step = rules.step();
  std::vector<SplitValue> sums;
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].phase != Phase::Forward ||
        !(is_partial(rules, i, parameters) || is_lookup(rules, i))) {
      continue;
    }
    const ValueId value = view_with_own_dim(
        rules, tokens.sequence, step.nodes[i].results.front());
    if (value != ValueId::None) {
      sums.push_back({value, *tokens.sequence[index(value)]});
    }
  }
  return sums;
}

std::vector<SplitValue> heads_for_sequence(
    const StepRules& rules, const TokenDims& tokens, int64_t ways) {
  return HeadsForSequence(rules, tokens, ways).run();
}

}  // namespace weft
