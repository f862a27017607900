// SPDX-License-Identifier: Apache-2.0
#include "profile/structure.h"

namespace weft {
namespace {

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

}  // namespace

ForwardSequence forward_sequence(
    const Function& function, const std::vector<int32_t>& signatures) {
  ForwardSequence sequence;
  // By value: what an operand that reads it says, but for `read_ago`; and where
  // it was read last.
  std::vector<ForwardOperand> origin(function.values.size());
  std::vector<int32_t> read_at(function.values.size(), -1);
  for (const Input& input : function.inputs) {
    origin[index(input.value)].source = source_of(input.kind);
  }
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    if (node.phase != Phase::Forward) {
      continue;
    }
    const int32_t here = sequence.size();
    sequence.nodes.push_back(static_cast<NodeId>(i));
    sequence.symbols.push_back(signatures[i]);
    sequence.first_operand.push_back(
        static_cast<int32_t>(sequence.operands.size()));
    for_each_operand(node, [&](ValueId value) {
      ForwardOperand operand = origin[index(value)];
      operand.value = value;
      int32_t& last = read_at[index(value)];
      if (operand.source == ForwardOperand::Source::Parameter && last >= 0) {
        operand.read_ago = here - last;
      }
      last = here;
      sequence.operands.push_back(operand);
    });
    for (size_t r = 0; r < node.results.size(); ++r) {
      ForwardOperand& operand = origin[index(node.results[r])];
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
