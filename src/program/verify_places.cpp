// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "program/live_bytes.h"
#include "program/verify_parts.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

class PlaceVerifier {
 public:
  PlaceVerifier(const Program& program, const Block& block)
      : program_(program),
        block_(block),
        storage_(storages(block)),
        tiers_(tiers(block)) {}

  void run() {
    for (const Input& input : block_.function.inputs) {
      resident_.push_back(is_resident(input) ? input.value : ValueId::None);
      begin(input.value);
    }
    for (; at_ < block_.instructions.size(); ++at_) {
      const Instruction& instruction = block_.instructions[at_];
      for (const ValueId made : makes(block_, instruction)) {
        begin(made);
      }
      if (const auto* start = std::get_if<Start>(&instruction)) {
        check_bucket(*start);
      } else if (const auto* call = std::get_if<Call>(&instruction)) {
        const Scratch& scratch = block_.scratch[index(call->node)];
        if (scratch.bytes > 0) {
          check_free(scratch.offset, scratch.bytes, "the scratch memory");
        }
      } else if (const auto* free = std::get_if<Free>(&instruction)) {
        for (const ValueId value : free->values) {
          live_.erase(block_.offsets[index(storage_[index(value)])]);
        }
      }
    }
  }

 private:
  void begin(ValueId value) {
    const int64_t offset = block_.offsets[index(value)];
    const int64_t bytes = storage_bytes(block_, value);
    const std::string what = cat("%", block_.function[value].name);
    const bool has_place =
        storage_[index(value)] == value && bytes > 0 &&
        tiers_[index(value)] == Tier::Device &&
        std::find(resident_.begin(), resident_.end(), value) == resident_.end();
    check(
        has_place == (offset >= 0) || bytes == 0,
        cat(what,
            has_place ? " has no place in the arena"
                      : " has a place in the arena and needs none"));
    if (has_place) {
      check_free(offset, bytes, what);
      live_[offset] = {offset + bytes, value};
    }
  }

  // The sums of several storages travel as one stretch of memory.
  void check_bucket(const Start& start) const {
    if (start.kind != TransferKind::AllReduce || start.operands.size() < 2) {
      return;
    }
    int64_t next = -1;
    for (const ValueId operand : start.operands) {
      const ValueId storage = storage_[index(operand)];
      const int64_t offset = block_.offsets[index(storage)];
      const TensorType& type = block_.function[operand].type;
      check(
          offset >= 0 && (next < 0 || offset == next) &&
              type.dtype ==
                  block_.function[start.operands.front()].type.dtype &&
              storage_bytes(type) == storage_bytes(block_, storage),
          cat("%",
              block_.function[operand].name,
              " does not lie behind the operand before it, or is another type "
              "or not all of its storage"));
      next = offset + aligned(storage_bytes(block_, storage));
    }
  }

  void check_free(
      int64_t offset, int64_t bytes, const std::string& what) const {
    auto after = live_.lower_bound(offset + bytes);
    if (after == live_.begin()) {
      return;
    }
    const auto& [start, extent] = *std::prev(after);
    check(
        extent.end <= offset,
        cat(what,
            " at ",
            offset,
            " lies over %",
            block_.function[extent.value].name,
            ", which is still in use"));
  }

  void check(bool condition, const std::string& what) const {
    if (!condition) {
      throw UserError(cat(place_in(program_, block_, at_), what));
    }
  }

  struct Extent {
    int64_t end = 0;
    ValueId value = ValueId::None;
  };

  const Program& program_;
  const Block& block_;
  const std::vector<ValueId> storage_;
  const std::vector<Tier> tiers_;
  std::vector<ValueId> resident_;
  std::map<int64_t, Extent> live_;
  size_t at_ = 0;
};

}  // namespace

void verify_places(const Program& program, const Block& block) {
  const bool is_placed = std::any_of(
      block.offsets.begin(), block.offsets.end(), [](int64_t offset) {
        return offset >= 0;
      });
  if (is_placed) {
    PlaceVerifier(program, block).run();
  }
}

}  // namespace weft
