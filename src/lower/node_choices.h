// SPDX-License-Identifier: Apache-2.0
// What was chosen for a node is chosen for every other one in the same
// situation: of equal layers, one is looked at.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "lower/assignment.h"
#include "ops/rule.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace weft {

// All that the choice for a node depends on, beside the mesh and the plan's
// axes of time. It points to where that stands.
struct Situation {
  struct Operand {
    const Layout* rests = nullptr;
    // Where it is besides, when the node runs.
    const std::vector<Layout>* moved = nullptr;
    bool of_parameter = false;
  };
  struct Result {
    // nullptr: nobody has said.
    const Layout* wanted = nullptr;
    bool is_for_update = false;
  };

  // Of a RuleMemo, which has one for all nodes that are alike.
  const Rule* rule = nullptr;
  std::vector<Operand> operands;
  std::vector<Result> results;
  bool may_expand = false;
};

struct NodeChoice {
  Assignment assignment;
  // It should become several nodes first.
  bool is_expanded = false;
  // What follows: where operands have to lie, and where results come to.
  std::vector<Layout> needed = {};
  std::vector<Layout> made = {};
};

// May be used by several threads at once.
class NodeChoices {
 public:
  // nullptr when there is none. Stays where it is while others are added.
  const NodeChoice* find(const Situation& situation) const;
  // Keeps what the situation points to.
  const NodeChoice& add(const Situation& situation, NodeChoice choice);

 private:
  struct Known {
    Situation situation;
    NodeChoice choice;
    // What the situation points to.
    std::vector<Layout> rests = {};
    std::vector<std::vector<Layout>> moved = {};
    std::vector<std::optional<Layout>> wanted = {};
  };

  mutable std::shared_mutex mutex_;
  std::deque<Known> known_;
  std::unordered_multimap<uint64_t, const Known*> by_digest_;
};

}  // namespace weft
