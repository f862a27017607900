// SPDX-License-Identifier: Apache-2.0
#include "search/recompute_policy.h"

#include "base/error.h"
#include "ops/op_def.h"
#include "plan/name_patterns.h"

#include <algorithm>

namespace weft {
namespace {

// Operations for a byte kept up to which a value is made again by Selective. A
// product of matrices takes as many as it sums over: the width of a head for
// scores, the width of the model for everything else.
constexpr int64_t kFewOperationsAByte = 256;

class ValuesAgain {
 public:
  ValuesAgain(const Function& step, const StepUnits& units)
      : step_(step),
        units_(units),
        root_(storage_roots(step)),
        is_read_later_(step.values.size(), false),
        last_unit_(step.values.size(), -1),
        chosen_(step.values.size(), false) {
    for (size_t i = 0; i < step.nodes.size(); ++i) {
      const Node& node = step.nodes[i];
      const bool is_later = node.phase != Phase::Forward && !is_view(node);
      for_each_operand(node, [&](ValueId read) {
        const size_t root = index(root_[index(read)]);
        if (node.phase == Phase::Forward) {
          last_unit_[root] = std::max(last_unit_[root], units.of_node[i]);
        } else if (is_later) {
          is_read_later_[root] = true;
        }
      });
    }
    for (const Output& output : step.outputs) {
      last_unit_[index(root_[index(output.value)])] = units.size();
    }
  }

  std::vector<bool> choose(
      const std::vector<RecomputePolicy>& policies,
      const std::vector<bool>& keeps_output) {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward || is_view(node)) {
        continue;
      }
      const RecomputePolicy policy =
          policies[static_cast<size_t>(units_.of_node[i])];
      const bool is_chosen =
          policy == RecomputePolicy::Full ||
          (policy == RecomputePolicy::Selective && is_light(node));
      // What a later unit reads is what that is made from.
      const auto unit = static_cast<size_t>(units_.of_node[i]);
      const int32_t last = units_.of_node[i] +
                           (keeps_output.empty() || keeps_output[unit] ? 0 : 1);
      for (const ValueId result : node.results) {
        if (is_chosen && last_unit_[index(result)] <= last &&
            element_count(step_[result].type) > 1) {
          chosen_[index(result)] = true;
        }
      }
    }
    return chosen_;
  }

 private:
  bool is_light(const Node& node) const {
    int64_t bytes = 0;
    for (const ValueId result : node.results) {
      bytes += storage_bytes(step_[result].type);
    }
    const std::vector<ValueId> read = operands(node);
    return flops_of(step_, node) <= kFewOperationsAByte * bytes &&
           std::all_of(read.begin(), read.end(), [&](ValueId operand) {
             const size_t root = index(root_[index(operand)]);
             return step_.values[root].node == NodeId::None ||
                    is_read_later_[root] || chosen_[root];
           });
  }

  const Function& step_;
  const StepUnits& units_;
  std::vector<ValueId> root_;
  std::vector<bool> is_read_later_;
  // By storage, the last unit that reads it in forward; beyond the last where
  // it is returned.
  std::vector<int32_t> last_unit_;
  std::vector<bool> chosen_;
};

}  // namespace

std::string_view name(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::None:
      return "none";
    case RecomputePolicy::Cheap:
      return "cheap";
    case RecomputePolicy::Selective:
      return "selective";
    case RecomputePolicy::Full:
      return "full";
  }
  WEFT_CHECK(false, "unknown policy");
}

std::optional<RecomputePolicy> recompute_policy(std::string_view name) {
  for (const RecomputePolicy policy : kRecomputePolicies) {
    if (weft::name(policy) == name) {
      return policy;
    }
  }
  return std::nullopt;
}

std::vector<ValueId> storage_roots(const Function& step) {
  std::vector<ValueId> out(step.values.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const NodeId maker = step.values[i].node;
    out[i] = static_cast<ValueId>(i);
    if (maker != NodeId::None) {
      const Node& node = step.nodes[index(maker)];
      const std::vector<ValueId> read =
          is_view(node) ? operands(node) : std::vector<ValueId>();
      if (!read.empty()) {
        out[i] = out[index(read.front())];
      }
    }
  }
  return out;
}

void set_recompute(
    Plan& plan, const Function& step, const std::vector<std::string>& names) {
  plan.recompute.clear();
  plan.recompute_cheap = false;
  std::vector<Decision> decisions;
  for (const std::string& name : names) {
    decisions.push_back({.pattern = name, .layout = {}});
  }
  for (const Decision& line : with_patterns(decisions, step)) {
    plan.recompute.push_back({line.pattern});
  }
}

void set_recompute(
    Plan& plan,
    const Function& step,
    const StepUnits& units,
    const std::vector<RecomputePolicy>& policies,
    const std::vector<bool>& keeps_output) {
  WEFT_CHECK(policies.size() == units.units.size(), "one policy a unit");
  const bool names_values =
      std::any_of(policies.begin(), policies.end(), [](RecomputePolicy policy) {
        return policy == RecomputePolicy::Selective ||
               policy == RecomputePolicy::Full;
      });
  std::vector<std::string> names;
  if (names_values) {
    const std::vector<bool> chosen =
        ValuesAgain(step, units).choose(policies, keeps_output);
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i]) {
        names.push_back(step.values[i].name);
      }
    }
  }
  set_recompute(plan, step, names);
  plan.recompute_cheap =
      std::any_of(policies.begin(), policies.end(), [](RecomputePolicy policy) {
        return policy != RecomputePolicy::None;
      });
}

void set_recompute(
    Plan& plan,
    const Function& step,
    const StepUnits& units,
    RecomputePolicy policy) {
  set_recompute(
      plan,
      step,
      units,
      std::vector<RecomputePolicy>(units.units.size(), policy));
}

}  // namespace weft
