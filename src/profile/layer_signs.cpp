// SPDX-License-Identifier: Apache-2.0
#include "profile/layer_names.h"
#include "profile/layer_selection.h"

#include <string_view>

namespace weft {
namespace {

constexpr int32_t kNever = -1;

}  // namespace

LayerSigns read_signs(
    const Function& function,
    const Lifetimes& lifetimes,
    const std::vector<int64_t>& flops,
    const ForwardSequence& sequence) {
  const size_t count = sequence.nodes.size();
  LayerSigns signs;
  signs.shared_levels.resize(count + 1);
  signs.reads_parameter.resize(count);
  // By storage, where it is made and where it is read last.
  std::vector<int32_t> made(lifetimes.storages.size(), kNever);
  std::vector<int32_t> read(lifetimes.storages.size(), kNever);
  std::string_view path_before;
  for (size_t i = 0; i < count; ++i) {
    const Node& node = function.nodes[index(sequence.nodes[i])];
    const std::string_view path = module_path(function, node);
    signs.shared_levels[i] = shared_depth(path_before, path);
    path_before = path;
    signs.flops.push_back(flops[index(sequence.nodes[i])]);
    for (const ForwardOperand& operand :
         sequence.operands_of(static_cast<int32_t>(i))) {
      signs.reads_parameter[i] =
          signs.reads_parameter[i] ||
          operand.source == ForwardOperand::Source::Parameter;
      const int32_t storage = lifetimes.storage_of[index(operand.value)];
      read[static_cast<size_t>(storage)] = static_cast<int32_t>(i);
    }
    for (const ValueId result : node.results) {
      const int32_t storage = lifetimes.storage_of[index(result)];
      int32_t& first = made[static_cast<size_t>(storage)];
      first = first == kNever ? static_cast<int32_t>(i) : first;
    }
  }
  std::vector<int64_t> change(count + 2);
  for (size_t i = 0; i < made.size(); ++i) {
    const Storage& storage = lifetimes.storages[i];
    if (storage.first != NodeId::None && made[i] != kNever &&
        read[i] > made[i]) {
      change[static_cast<size_t>(made[i]) + 1] += storage.bytes;
      change[static_cast<size_t>(read[i]) + 1] -= storage.bytes;
    }
  }
  int64_t crossing = 0;
  for (size_t i = 0; i <= count; ++i) {
    crossing += change[i];
    signs.crossing_bytes.push_back(crossing);
  }
  return signs;
}

}  // namespace weft
