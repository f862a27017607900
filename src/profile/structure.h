// SPDX-License-Identifier: Apache-2.0
// The forward nodes of a step as a sequence in which equal layers look equal:
// names, the layers' own parameters and random streams are left out; operators,
// attributes, types, and where each operand comes from, are kept. Views are no
// nodes of it but a part of the operands that are read through them: the first
// layer may have made a view that all read.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// One operand of a forward node.
struct ForwardOperand {
  enum class Source : uint8_t {
    Node,  // made by a forward node
    Parameter,
    Own,     // a buffer or constant: a layer may have its own
    Shared,  // any other input: equal only to itself
  };

  ValueId value = ValueId::None;
  // What `value` is a view of, or `value` itself; and the same number for the
  // same view of it, 0 for none.
  ValueId base = ValueId::None;
  uint64_t view = 0;
  // Where the base comes from.
  Source source = Source::Shared;
  // Source::Node: the position of the maker in the sequence; -1 otherwise.
  int32_t maker = -1;
  // Which of the maker's results.
  int32_t result = 0;
  // Source::Parameter: how many positions ago it was read before; 0: never.
  int32_t read_ago = 0;
};

struct ForwardSequence {
  // Without the views.
  std::vector<NodeId> nodes;
  // Their signatures.
  std::vector<int32_t> symbols;
  // The operands of node i: [first_operand[i], first_operand[i + 1]).
  std::vector<ForwardOperand> operands;
  std::vector<int32_t> first_operand;

  int32_t size() const { return static_cast<int32_t>(nodes.size()); }
  std::span<const ForwardOperand> operands_of(int32_t position) const {
    const auto at = static_cast<size_t>(position);
    const auto first = static_cast<size_t>(first_operand[at]);
    const auto end = static_cast<size_t>(first_operand[at + 1]);
    return {operands.data() + first, end - first};
  }
};

// `signatures` are those of all nodes of the function.
ForwardSequence forward_sequence(
    const Function& function, const std::vector<int32_t>& signatures);

// A stretch of copies: node i and node i + period do the same, for
// begin <= i < end - period. Their operands are made at the same distance, or
// are the same value, or parameters of the same type; or node i, in the first
// copy, takes from outside what the next takes from the first copy.
struct Stretch {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t period = 0;

  int32_t count() const { return (end - begin) / period; }
  bool operator==(const Stretch&) const = default;
};

// All stretches of two copies or more, nested and overlapping ones included,
// sorted by begin.
std::vector<Stretch> find_stretches(const ForwardSequence& sequence);

}  // namespace weft
