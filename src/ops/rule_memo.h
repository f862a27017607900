// SPDX-License-Identifier: Apache-2.0
// Rules that were found already. Equal layers have equal nodes, and one step is
// looked at by pass after pass and for plan after plan.
#pragma once

#include "graph/graph.h"
#include "ops/rule.h"

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft {

// May be used by several threads at once.
class RuleMemo {
 public:
  // rule_of(function, node), which depends on nothing but the operator, its
  // arguments and the types of what it reads and makes. Stays where it is as
  // long as the memo is there.
  const Rule& rule(const Function& function, const Node& node);
  // The same for all nodes of a function.
  std::vector<const Rule*> rules(const Function& function);

  // How many different ones there are.
  int64_t size() const;

 private:
  mutable std::shared_mutex mutex_;
  // By all that the rule depends on.
  std::unordered_map<std::string, std::unique_ptr<const Rule>> known_;
};

}  // namespace weft
