// SPDX-License-Identifier: Apache-2.0
#include "search/again_step.h"

#include "base/error.h"
#include "ops/op_def.h"
#include "profile/call_seconds.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"
#include "search/recompute_policy.h"
#include "simulate/reuse.h"

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

// Less than this part of all that backward reads is kept in any case: there are
// many such values, and little is won by them.
constexpr int64_t kLeastPart = 1000;

// The lowered step, asked by names of the step before.
class Lowered {
 public:
  Lowered(const Block& block, const Cluster& cluster)
      : block_(block), device_(cluster.device), live_(live_bytes(block)) {
    const Function& function = block.function;
    costs_ = node_costs(function, signatures(function));
    uses_ = has_caches(device_)
                ? uses_of(block, costs_)
                : std::vector<std::vector<Use>>(block.instructions.size());
    for (size_t i = 0; i < function.values.size(); ++i) {
      values_.emplace(function.values[i].name, static_cast<ValueId>(i));
    }
    for (size_t i = 0; i < block.instructions.size(); ++i) {
      if (const auto* call = std::get_if<Call>(&block.instructions[i])) {
        for (const ValueId result : node(*call).results) {
          calls_.emplace(function[result].name, i);
        }
      }
    }
  }

  const Block& block() const { return block_; }
  const Node& node(const Call& call) const {
    return block_.function.nodes[index(call.node)];
  }
  // After an instruction.
  int64_t live(size_t instruction) const { return live_[instruction]; }

  // Nothing, where lowering has made another value of it.
  int64_t bytes(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end()
               ? 0
               : aligned(storage_bytes(block_.function[found->second].type));
  }

  // The instruction that makes any of the node's results; else `otherwise`.
  size_t instruction(
      const Function& step, const Node& node, size_t otherwise) const {
    for (const ValueId result : node.results) {
      if (const auto found = calls_.find(step[result].name);
          found != calls_.end()) {
        return found->second;
      }
    }
    return otherwise;
  }

  double seconds(size_t instruction) const {
    const auto* call = std::get_if<Call>(&block_.instructions[instruction]);
    return call == nullptr
               ? 0
               : call_seconds(
                     costs_[index(call->node)],
                     block_.function[node(*call).results.front()].type.dtype,
                     device_,
                     uses_[instruction]);
  }

 private:
  const Block& block_;
  const Device& device_;
  std::vector<int64_t> live_;
  std::vector<NodeCosts> costs_;
  std::vector<std::vector<Use>> uses_;
  std::unordered_map<std::string, ValueId> values_;
  // By name of a result.
  std::unordered_map<std::string, size_t> calls_;
};

class StepReader {
 public:
  StepReader(const Function& step, const Block& block, const Cluster& cluster)
      : step_(step),
        lowered_(block, cluster),
        root_(storage_roots(step)),
        storage_(step.values.size(), -1) {}

  StepAgain run(const std::set<std::string>& exchanged) {
    read_forward(exchanged);
    read_later();
    leave_small_ones();
    subtract_kept();
    return std::move(out_);
  }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;

  // Those that a node reads, each once.
  std::vector<int32_t> storages_read(const Node& node) const {
    std::vector<int32_t> out;
    for (const ValueId read : operands(node)) {
      const int32_t storage = storage_[index(root_[index(read)])];
      if (storage >= 0 &&
          std::find(out.begin(), out.end(), storage) == out.end()) {
        out.push_back(storage);
      }
    }
    return out;
  }

  void read_forward(const std::set<std::string>& exchanged) {
    // What is returned stays, as inputs do.
    std::vector<bool> stays(step_.values.size(), false);
    for (const Output& output : step_.outputs) {
      stays[index(root_[index(output.value)])] = true;
    }
    std::vector<bool> is_exchanged(step_.values.size(), false);
    for (size_t i = 0; i < step_.values.size(); ++i) {
      if (exchanged.contains(step_.values[i].name)) {
        is_exchanged[index(root_[i])] = true;
      }
    }
    size_t last = 0;
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward || is_view(node)) {
        continue;
      }
      const size_t at = lowered_.instruction(step_, node, kNowhere);
      last = at == kNowhere ? last : at;
      AgainStep::Call call = {
          .seconds = at == kNowhere ? 0 : lowered_.seconds(at),
          .reads = storages_read(node)};
      const auto number = static_cast<int32_t>(out_.step.calls.size());
      for (const ValueId result : node.results) {
        if (!stays[index(result)]) {
          storage_[index(result)] =
              static_cast<int32_t>(out_.step.storages.size());
          out_.step.storages.push_back(
              {.bytes = lowered_.bytes(step_[result].name),
               .call = number,
               .is_once = is_exchanged[index(result)]});
          out_.values.push_back(result);
        }
      }
      out_.step.calls.push_back(std::move(call));
      out_.step.call_bytes.push_back(lowered_.live(last));
    }
  }

  void read_later() {
    // By instruction, what it reads of forward.
    std::vector<std::vector<int32_t>> reads(
        lowered_.block().instructions.size());
    size_t last = kNowhere;
    std::vector<int32_t> unplaced;
    for (const Node& node : step_.nodes) {
      if (node.phase == Phase::Forward || is_view(node)) {
        continue;
      }
      last = lowered_.instruction(step_, node, last);
      for (const int32_t storage : storages_read(node)) {
        (last == kNowhere ? unplaced : reads[last]).push_back(storage);
      }
      if (last != kNowhere && !unplaced.empty()) {
        reads[last].insert(reads[last].end(), unplaced.begin(), unplaced.end());
        unplaced.clear();
      }
    }
    const std::vector<Instruction>& all = lowered_.block().instructions;
    bool is_later = false;
    // Moments that read nothing count as one.
    bool is_idle = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (const auto* call = std::get_if<Call>(&all[i])) {
        is_later = is_later || lowered_.node(*call).phase != Phase::Forward;
      }
      if (!is_later || std::holds_alternative<Free>(all[i])) {
        continue;
      }
      if (reads[i].empty() && is_idle) {
        int64_t& bytes = out_.step.moments.back().bytes;
        bytes = std::max(bytes, lowered_.live(i));
        continue;
      }
      is_idle = reads[i].empty();
      add_moment(i, reads[i]);
    }
  }

  void add_moment(size_t instruction, const std::vector<int32_t>& reads) {
    const auto moment = static_cast<int32_t>(out_.step.moments.size());
    const int64_t bytes = lowered_.live(instruction);
    out_.step.moments.push_back(
        {.before_bytes =
             instruction == 0 ? bytes : lowered_.live(instruction - 1),
         .bytes = bytes});
    for (const int32_t read : reads) {
      AgainStep::Storage& storage =
          out_.step.storages[static_cast<size_t>(read)];
      if (storage.first_read < 0) {
        storage.first_read = moment;
      }
      storage.last_read = moment;
    }
  }

  void leave_small_ones() {
    int64_t all = 0;
    for (const AgainStep::Storage& storage : out_.step.storages) {
      all += storage.first_read >= 0 ? storage.bytes : 0;
    }
    for (AgainStep::Storage& storage : out_.step.storages) {
      storage.is_once = storage.is_once || (storage.first_read >= 0 &&
                                            storage.bytes < all / kLeastPart);
    }
  }

  // Leaves what else lives.
  void subtract_kept() {
    AgainStep& step = out_.step;
    std::vector<int32_t> last_call;
    for (const AgainStep::Storage& storage : step.storages) {
      last_call.push_back(storage.call);
    }
    for (size_t i = 0; i < step.calls.size(); ++i) {
      for (const int32_t read : step.calls[i].reads) {
        last_call[static_cast<size_t>(read)] = static_cast<int32_t>(i);
      }
    }
    for (size_t i = 0; i < step.storages.size(); ++i) {
      const AgainStep::Storage& storage = step.storages[i];
      for (auto c = static_cast<size_t>(storage.call);
           c < step.calls.size() &&
           (storage.last_read >= 0 || c <= static_cast<size_t>(last_call[i]));
           ++c) {
        step.call_bytes[c] -= storage.bytes;
      }
      for (int32_t t = 0; t <= storage.last_read; ++t) {
        step.moments[static_cast<size_t>(t)].before_bytes -= storage.bytes;
        step.moments[static_cast<size_t>(t)].bytes -= storage.bytes;
      }
    }
  }

  const Function& step_;
  const Lowered lowered_;
  const std::vector<ValueId> root_;
  // By value: the storage that it is, -1 for others.
  std::vector<int32_t> storage_;
  StepAgain out_;
};

}  // namespace

StepAgain step_again(
    const Function& step,
    const std::set<std::string>& exchanged,
    const Program& sample,
    const Cluster& cluster) {
  return StepReader(step, sample.blocks.front(), cluster).run(exchanged);
}

std::vector<std::string> names_again(
    const Function& step, const StepAgain& again, const AgainChoice& choice) {
  std::vector<std::string> out;
  for (size_t i = 0; i < again.values.size(); ++i) {
    if (choice.is_again[i]) {
      out.push_back(step[again.values[i]].name);
    }
  }
  return out;
}

}  // namespace weft
