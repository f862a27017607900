// SPDX-License-Identifier: Apache-2.0
// What was chosen for a node is chosen for every other one in the same
// situation: of equal layers, one is looked at.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "lower/assignment.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft {

// All that the choice for a node depends on, beside the mesh and the plan's
// axes of time.
struct Situation {
  struct Operand {
    Layout rests;
    // Where it is besides, when the node runs.
    std::vector<Layout> moved;
    bool of_parameter = false;

    bool operator==(const Operand&) const = default;
  };
  struct Result {
    std::optional<Layout> wanted;
    bool is_for_update = false;

    bool operator==(const Result&) const = default;
  };

  // One that is in it.
  NodeId node = NodeId::None;
  std::vector<Operand> operands;
  std::vector<Result> results;
  bool may_expand = false;
};

struct NodeChoice {
  Assignment assignment;
  // It should become several nodes first.
  bool is_expanded = false;
};

class NodeChoices {
 public:
  // Keeps a reference.
  explicit NodeChoices(const Function& function) : function_(function) {}

  // nullptr when there is none. Stays where it is while others are added.
  const NodeChoice* find(const Situation& situation) const;
  const NodeChoice& add(Situation situation, NodeChoice choice);

 private:
  struct Known {
    Situation situation;
    NodeChoice choice;
  };

  bool are_alike(const Arg& a, const Arg& b) const;
  bool are_alike(const Node& a, const Node& b) const;
  bool are_alike(const Situation& a, const Situation& b) const;
  uint64_t digest(const Situation& situation) const;

  const Function& function_;
  std::deque<Known> known_;
  std::unordered_multimap<uint64_t, const Known*> by_digest_;
};

}  // namespace weft
