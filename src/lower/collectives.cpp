// SPDX-License-Identifier: Apache-2.0
#include "lower/collectives.h"

#include <algorithm>

namespace weft {
namespace {

std::vector<std::vector<std::string>> names(const Block& block) {
  std::vector<std::vector<std::string>> out;
  for (const size_t at : collectives(block)) {
    std::vector<std::string>& results = out.emplace_back();
    for (const ValueId result :
         std::get<Start>(block.instructions[at]).results) {
      results.push_back(block.function[result].name);
    }
  }
  return out;
}

}  // namespace

std::vector<size_t> collectives(const Block& block) {
  std::vector<size_t> out;
  for (size_t at = 0; at < block.instructions.size(); ++at) {
    const auto* start = std::get_if<Start>(&block.instructions[at]);
    if (start != nullptr && is_collective(start->kind)) {
      out.push_back(at);
    }
  }
  return out;
}

bool start_the_same(const std::vector<Block>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [&](const Block& block) {
    return names(block) == names(blocks.front());
  });
}

}  // namespace weft
