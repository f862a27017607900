// SPDX-License-Identifier: Apache-2.0
// Moves calls down whose results lie about unread while memory is scarce: the
// gradient of a large weight that waits for its other half, say, is better made
// when the activations of the layers before are gone. Only what lowers the peak
// moves, and only calls that read nothing resident and whose results do not
// travel, so that neither updates nor transfers wait for them.
#include "lower/in_place.h"
#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

constexpr int kMoves = 64;

class Delays {
 public:
  explicit Delays(Block& block)
      : block_(block),
        storage_(storages(block)),
        tiers_(tiers(block)),
        travels_(storage_.size(), false),
        stays_(storage_.size(), false),
        returned_(storage_.size(), false) {
    for (const Input& input : block.function.inputs) {
      stays_[index(input.value)] = is_resident(input);
    }
    for (const Output& output : block.function.outputs) {
      returned_[index(storage_[index(output.value)])] = true;
    }
    for (const Start* start : transfers(block)) {
      transfer_.push_back(
          start == nullptr ? std::vector<ValueId>() : start->operands);
      for (const ValueId operand : transfer_.back()) {
        travels_[index(storage_[index(operand)])] = true;
      }
    }
  }

  void run() {
    int64_t peak = measure();
    for (int moves = 0; moves < kMoves; ++moves) {
      const std::optional<Move> best = best_move(peak);
      if (!best) {
        return;
      }
      apply(*best);
      peak = measure();
    }
  }

 private:
  struct Move {
    int64_t from = 0;
    int64_t to = 0;
  };

  int64_t last() const {
    return static_cast<int64_t>(block_.instructions.size());
  }

  const Instruction& at(int64_t i) const {
    return block_.instructions[static_cast<size_t>(i)];
  }

  // With the views of what it makes.
  void apply(const Move& move) {
    const std::vector<ValueId> made = makes(block_, at(move.from));
    const auto begin = block_.instructions.begin();
    const auto goes = [&](const Instruction& instruction) {
      const std::vector<ValueId> views = makes(block_, instruction);
      return views == made ||
             (sees(instruction) &&
              std::find(
                  made.begin(), made.end(), storage_[index(views.front())]) !=
                  made.end());
    };
    std::stable_partition(
        begin + move.from, begin + move.to + 1, [&](const auto& instruction) {
          return !goes(instruction);
        });
  }

  bool sees(const Instruction& instruction) const {
    const auto* call = std::get_if<Call>(&instruction);
    return call != nullptr && is_view(block_.function.nodes[index(call->node)]);
  }

  template <typename Visit>
  void for_each_touched(const Instruction& instruction, Visit&& visit) const {
    for (const ValueId value : makes(block_, instruction)) {
      visit(storage_[index(value)]);
    }
    for (const ValueId value : reads(block_, instruction)) {
      visit(storage_[index(value)]);
    }
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      visit(storage_[index(wait->value)]);
      for (const ValueId value : transfer_[index(wait->value)]) {
        visit(storage_[index(value)]);
      }
    }
  }

  int64_t bytes_of(ValueId storage) const {
    return stays_[index(storage)] || tiers_[index(storage)] != Tier::Device
               ? 0
               : storage_bytes(block_, storage);
  }

  // The bytes alive at each instruction, and the most of them.
  int64_t measure() {
    first_.assign(storage_.size(), -1);
    second_.assign(storage_.size(), last());
    last_.assign(storage_.size(), -1);
    for (int64_t i = 0; i < last(); ++i) {
      for_each_touched(at(i), [&](ValueId storage) {
        int64_t& first = first_[index(storage)];
        int64_t& second = second_[index(storage)];
        if (first >= 0 && first < i && !sees(at(i))) {
          second = std::min(second, i);
        }
        first = first < 0 ? i : first;
        last_[index(storage)] = i;
      });
    }
    for (const Input& input : block_.function.inputs) {
      first_[index(input.value)] = 0;
    }
    std::vector<int64_t> change(static_cast<size_t>(last()) + 1, 0);
    for (size_t i = 0; i < storage_.size(); ++i) {
      const auto storage = static_cast<ValueId>(i);
      if (storage_[i] == storage && first_[i] >= 0) {
        last_[i] = returned_[i] ? last() - 1 : last_[i];
        const int64_t bytes = bytes_of(storage);
        change[static_cast<size_t>(first_[i])] += bytes;
        change[static_cast<size_t>(last_[i] + 1)] -= bytes;
      }
    }
    live_.clear();
    int64_t live = 0;
    for (int64_t i = 0; i < last(); ++i) {
      live += change[static_cast<size_t>(i)];
      live_.push_back(live + scratch_at(i));
    }
    return *std::max_element(live_.begin(), live_.end());
  }

  int64_t scratch_at(int64_t i) const {
    const auto* call = std::get_if<Call>(&at(i));
    return call == nullptr
               ? 0
               : call_scratch_bytes(
                     block_.function, block_.function.nodes[index(call->node)]);
  }

  // The move that lowers the peak most.
  std::optional<Move> best_move(int64_t peak) const {
    const int64_t where =
        std::max_element(live_.begin(), live_.end()) - live_.begin();
    std::optional<Move> best;
    for (int64_t from = 0; from <= where; ++from) {
      if (is_unread(from, where)) {
        try_moves(from, where, peak, best);
      }
    }
    return best;
  }

  // Whether nobody has touched the call's results when the instruction runs.
  bool is_unread(int64_t from, int64_t where) const {
    int64_t bytes = 0;
    for (const ValueId made : makes(block_, at(from))) {
      if (storage_[index(made)] != made || second_[index(made)] <= where) {
        return false;
      }
      bytes += bytes_of(made);
    }
    return bytes > 0;
  }

  // Every place from `where` on; keeps the best.
  void try_moves(
      int64_t from,
      int64_t where,
      int64_t& peak,
      std::optional<Move>& best) const {
    const int64_t to = latest(from);
    const int64_t scratch = scratch_at(from);
    int64_t made = 0;
    for (const ValueId value : makes(block_, at(from))) {
      made += bytes_of(value);
    }
    const auto most = [this](int64_t begin, int64_t end) {
      int64_t found = 0;
      for (int64_t i = begin; i < end; ++i) {
        found = std::max(found, live_[static_cast<size_t>(i)]);
      }
      return found;
    };
    int64_t before = most(0, from);
    for (int64_t i = from + 1; i <= to && before < peak; ++i) {
      const int64_t live = live_[static_cast<size_t>(i)];
      const int64_t without = live - made + kept(from, i);
      before = std::max(before, without);
      const int64_t itself = without - scratch_at(i) + made + scratch;
      if (i >= where && std::max(before, itself) < peak) {
        const int64_t after = std::max({before, itself, most(i + 1, last())});
        if (after < peak) {
          peak = after;
          best = Move{from, i};
        }
      }
    }
  }

  // The last instruction behind which the call can come; itself when it cannot
  // move.
  int64_t latest(int64_t from) const {
    const auto* call = std::get_if<Call>(&at(from));
    if (call == nullptr) {
      return from;
    }
    for (const ValueId read : reads(block_, at(from))) {
      if (stays_[index(storage_[index(read)])]) {
        return from;
      }
    }
    for (const ValueId made : makes(block_, at(from))) {
      if (storage_[index(made)] != made || travels_[index(made)] ||
          stays_[index(made)]) {
        return from;
      }
    }
    int64_t to = from;
    // Behind a wait it would no longer hide what is waited for.
    while (to + 1 < last() && !std::holds_alternative<Wait>(at(to + 1)) &&
           (sees(at(to + 1)) || !meets(from, to + 1))) {
      ++to;
    }
    return to;
  }

  // Whether the second touches what the first makes, or makes what it reads.
  bool meets(int64_t first, int64_t second) const {
    bool found = false;
    for (const ValueId made : makes(block_, at(first))) {
      for_each_touched(at(second), [&](ValueId touched) {
        found = found || touched == made;
      });
    }
    for (const ValueId made : makes(block_, at(second))) {
      for (const ValueId read : reads(block_, at(first))) {
        found = found || storage_[index(read)] == storage_[index(made)];
      }
    }
    return found;
  }

  // What the call reads and nothing else keeps at instruction i.
  int64_t kept(int64_t from, int64_t i) const {
    int64_t bytes = 0;
    std::vector<ValueId> seen;
    for (const ValueId read : reads(block_, at(from))) {
      const ValueId storage = storage_[index(read)];
      if (last_[index(storage)] < i &&
          std::find(seen.begin(), seen.end(), storage) == seen.end()) {
        seen.push_back(storage);
        bytes += bytes_of(storage);
      }
    }
    return bytes;
  }

  Block& block_;
  const std::vector<ValueId> storage_;
  const std::vector<Tier> tiers_;
  // By result of a transfer: what it reads.
  std::vector<std::vector<ValueId>> transfer_;
  // By storage.
  std::vector<bool> travels_;
  std::vector<bool> stays_;
  std::vector<bool> returned_;
  // Instructions that touch it: the first, the next that is no view, the last.
  std::vector<int64_t> first_;
  std::vector<int64_t> second_;
  std::vector<int64_t> last_;
  // By instruction.
  std::vector<int64_t> live_;
};

}  // namespace

void delay(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    if (!block.instructions.empty()) {
      Delays(block).run();
    }
  }
}

}  // namespace weft
