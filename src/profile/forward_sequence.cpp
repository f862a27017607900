// SPDX-License-Identifier: Apache-2.0
#include "ops/op_def.h"
#include "profile/structure.h"

namespace weft {
namespace {

uint64_t mixed(uint64_t hash, uint64_t part) {
  hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

ForwardOperand::Source source_of(InputKind kind) {
  switch (kind) {
    case InputKind::Parameter:
      return ForwardOperand::Source::Parameter;
    case InputKind::Buffer:
    case InputKind::Constant:
      return ForwardOperand::Source::Own;
    case InputKind::Batch:
    case InputKind::State:
    case InputKind::Scalar:
      return ForwardOperand::Source::Shared;
  }
  return ForwardOperand::Source::Shared;
}

// The results of a view lie where its operand 0 lies. One that leaves the type
// as it is (an alias, a slice of all) shows the same elements.
void add_view(
    const Function& function,
    const Node& node,
    int32_t signature,
    std::vector<ForwardOperand>& origin) {
  ValueId from = ValueId::None;
  for_each_operand(node, [&](ValueId value) {
    from = from == ValueId::None ? value : from;
  });
  for (size_t r = 0; r < node.results.size(); ++r) {
    ForwardOperand operand =
        from == ValueId::None ? ForwardOperand{} : origin[index(from)];
    operand.value = node.results[r];
    operand.base = operand.base == ValueId::None ? operand.value : operand.base;
    if (from == ValueId::None ||
        function[from].type != function[operand.value].type) {
      operand.view = mixed(
          mixed(operand.view, static_cast<uint64_t>(signature) + 1),
          static_cast<uint64_t>(r) + 1);
    }
    origin[index(node.results[r])] = operand;
  }
}

}  // namespace

ForwardSequence forward_sequence(
    const Function& function, const std::vector<int32_t>& signatures) {
  ForwardSequence sequence;
  // By value: what an operand that reads it says, but for `read_ago`; and where
  // it was read last.
  std::vector<ForwardOperand> origin(function.values.size());
  std::vector<int32_t> read_at(function.values.size(), -1);
  for (const Input& input : function.inputs) {
    ForwardOperand& operand = origin[index(input.value)];
    operand.value = input.value;
    operand.base = input.value;
    operand.source = source_of(input.kind);
  }
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    if (node.phase != Phase::Forward) {
      // No forward node of a captured step reads it; one of a text may.
      for (const ValueId result : node.results) {
        origin[index(result)].value = result;
        origin[index(result)].base = result;
      }
      continue;
    }
    if (is_view(node)) {
      add_view(function, node, signatures[i], origin);
      continue;
    }
    const int32_t here = sequence.size();
    sequence.nodes.push_back(static_cast<NodeId>(i));
    sequence.symbols.push_back(signatures[i]);
    sequence.first_operand.push_back(
        static_cast<int32_t>(sequence.operands.size()));
    for_each_operand(node, [&](ValueId value) {
      ForwardOperand operand = origin[index(value)];
      int32_t& last = read_at[index(operand.base)];
      if (operand.source == ForwardOperand::Source::Parameter && last >= 0) {
        operand.read_ago = here - last;
      }
      last = here;
      sequence.operands.push_back(operand);
    });
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId result = node.results[r];
      ForwardOperand& operand = origin[index(result)];
      operand.value = result;
      operand.base = result;
      operand.source = ForwardOperand::Source::Node;
      operand.maker = here;
      operand.result = static_cast<int32_t>(r);
    }
  }
  sequence.first_operand.push_back(
      static_cast<int32_t>(sequence.operands.size()));
  return sequence;
}

}  // namespace weft
