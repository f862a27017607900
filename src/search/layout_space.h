// SPDX-License-Identifier: Apache-2.0
// Which layouts there are to choose between: a step lies on a mesh already, and
// one more axis may split every node along any factor of its rule, or stay a
// partial sum, or do nothing.
//
// Nodes of equal layers are one class, and so are their values: what is chosen
// is chosen for all of them.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "lower/assignment.h"
#include "lower/laid_out.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// One way to compute a node.
struct NodeOption {
  Assignment assignment;
  // By operand, where it must lie; by result, where it comes to lie.
  std::vector<Layout> needs;
  std::vector<Layout> makes;
  // The node must become several for it, since it needs this factor whole
  // (OpDef::expand).
  std::optional<int> expanded_factor = std::nullopt;
};

struct LayoutSpace {
  struct NodeClass {
    // One of them.
    NodeId node = NodeId::None;
    // How many there are in the step that this one stands for.
    double count = 0;
    std::vector<NodeOption> options;
    // By result, its class.
    std::vector<size_t> results;
  };
  struct ValueClass {
    ValueId value = ValueId::None;
    // Where it may lie once it is made.
    std::vector<Layout> options;
  };
  // Operand number `operand` of the nodes of a class.
  struct Reader {
    size_t node = 0;
    size_t operand = 0;

    auto operator<=>(const Reader&) const = default;
  };
  // All who read such a value, in forward or after it.
  struct Reading {
    size_t value = 0;
    bool is_later = false;
    std::vector<Reader> readers;
    double count = 0;
  };
  // An output and the input whose place it takes, or whose gradient it is: it
  // has to come to lie there.
  struct Replacing {
    size_t value = 0;
    size_t input = 0;
    double count = 0;
  };

  Mesh mesh;
  std::string axis;
  Graph graph;
  // By value of the step, what lies there but for the axis.
  std::vector<Layout> base;
  std::vector<NodeClass> nodes;
  std::vector<ValueClass> values;
  // By value of the step.
  std::vector<size_t> class_of_value;
  // Likewise, how many it stands for.
  std::vector<double> value_counts;
  std::vector<Reading> readings;
  std::vector<Replacing> replacing;

  const Function& step() const { return step_of(graph); }
};

// How many nodes of the whole step a node stands for, by the name of its first
// result.
using CountOfNode = std::function<double(const std::string&)>;

// `axis` goes behind the axes of `mesh`, on which the step lies as `base` says.
LayoutSpace layout_space(
    LaidOutStep base,
    const Mesh& mesh,
    const Axis& axis,
    const CountOfNode& count_of = [](const std::string&) { return 1.0; });

}  // namespace weft
