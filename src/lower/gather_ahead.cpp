// SPDX-License-Identifier: Apache-2.0
// Parameters that are stored in pieces are gathered a layer at a time, and a
// layer ahead: when the parameters of one layer are waited for, those of the
// next one in the order of their use start, so that they travel while the layer
// computes. So at most one transfer's bytes are there before they are needed.
//
// It starts later where that would raise the peak of the step, if that leaves a
// call to hide behind: the first layers of backward are not gathered while the
// loss has its logits.
#include "base/error.h"
#include "lower/collectives.h"
#include "lower/pass.h"
#include "ops/op_def.h"
#include "program/live_bytes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace weft {
namespace {

// A layer's parameters travel as one up to so many bytes of the whole.
constexpr int64_t kLayerBytes = int64_t{32} << 20;

// The name up to its first number, "blocks.3" of "blocks.3.up.weight", as lists
// of modules give them; empty without one.
std::string layer_of(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (end > begin && std::all_of(
                           name.begin() + static_cast<std::ptrdiff_t>(begin),
                           name.begin() + static_cast<std::ptrdiff_t>(end),
                           [](char c) { return c >= '0' && c <= '9'; })) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  return {};
}

// A gather of what is resident.
struct Gather {
  size_t start = 0;
  size_t wait = 0;
  // The calls that make its operands, in order.
  std::vector<size_t> before;
  std::string layer;
  // Whether it is read after forward.
  bool is_later = false;
  int64_t bytes = 0;
};

class GatherBlock {
 public:
  explicit GatherBlock(Block& block) : block_(block) {
    std::vector<size_t> made_at(block.function.values.size(), 0);
    for (const Input& input : block.function.inputs) {
      if (is_resident(input)) {
        resident_.insert(input.value);
      }
    }
    for (size_t at = 0; at < block.instructions.size(); ++at) {
      for (const ValueId made : makes(block, block.instructions[at])) {
        made_at[index(made)] = at;
      }
    }
    for (const size_t at : collectives(block)) {
      find(at, made_at);
    }
  }

  const std::vector<Gather>& gathers() const { return gathers_; }
  const Start& start(const Gather& gather) const {
    return std::get<Start>(block_.instructions[gather.start]);
  }
  const Block& block() const { return block_; }

  // The instruction that calls the maker of the value of this name; the
  // number of instructions when none does.
  size_t find_call(const std::string& name) const {
    size_t at = 0;
    for (; at < block_.instructions.size(); ++at) {
      const auto* call = std::get_if<Call>(&block_.instructions[at]);
      if (call != nullptr &&
          block_.function[block_.function.nodes[index(call->node)]
                              .results.front()]
                  .name == name) {
        break;
      }
    }
    return at;
  }

  // Gathers `members` together before instruction `at`, and waits where the
  // first of them was waited for.
  void gather_at(size_t at, const std::vector<size_t>& members) {
    prepare();
    Start all;
    for (const size_t member : members) {
      const Gather& gather = gathers_[member];
      const Start& one = start(gather);
      for (const size_t call : gather.before) {
        if (call >= at && !is_gone_[call]) {
          is_gone_[call] = true;
          before_[at].push_back(block_.instructions[call]);
        }
      }
      all.kind = one.kind;
      all.axes = one.axes;
      all.operands.insert(
          all.operands.end(), one.operands.begin(), one.operands.end());
      all.results.insert(
          all.results.end(), one.results.begin(), one.results.end());
      is_gone_[gather.start] = true;
      is_gone_[gather.wait] = true;
    }
    before_[gathers_[members.front()].wait].emplace_back(
        Wait{all.results.front()});
    before_[at].emplace_back(std::move(all));
  }

  void rewrite() {
    prepare();
    std::vector<Instruction> out;
    for (size_t at = 0; at < before_.size(); ++at) {
      std::move(
          before_[at].begin(), before_[at].end(), std::back_inserter(out));
      if (at < is_gone_.size() && !is_gone_[at]) {
        out.push_back(std::move(block_.instructions[at]));
      }
    }
    block_.instructions = std::move(out);
  }

 private:
  void prepare() {
    is_gone_.resize(block_.instructions.size(), false);
    before_.resize(block_.instructions.size() + 1);
  }

  void find(size_t at, const std::vector<size_t>& made_at) {
    const auto& start = std::get<Start>(block_.instructions[at]);
    if (start.kind != TransferKind::AllGather) {
      return;
    }
    Gather gather;
    gather.start = at;
    for (const ValueId operand : start.operands) {
      const ValueId root = follow(operand, made_at, gather.before);
      if (root == ValueId::None) {
        return;
      }
      if (operand == start.operands.front()) {
        gather.layer = layer_of(block_.function[root].name);
      }
    }
    std::sort(gather.before.begin(), gather.before.end());
    gather.bytes = transfer_bytes(block_, start);
    for (size_t i = at; i < block_.instructions.size(); ++i) {
      const auto* wait = std::get_if<Wait>(&block_.instructions[i]);
      if (wait != nullptr && wait->value == start.results.front()) {
        gather.wait = i;
        break;
      }
    }
    for (size_t i = gather.wait; i < block_.instructions.size(); ++i) {
      const auto* call = std::get_if<Call>(&block_.instructions[i]);
      if (call != nullptr) {
        gather.is_later =
            weft::is_later(block_.function.nodes[index(call->node)].phase);
        break;
      }
    }
    gathers_.push_back(std::move(gather));
  }

  // The resident input that the value is made of, by calls that read nothing
  // else; None when there is no such one.
  ValueId follow(
      ValueId value,
      const std::vector<size_t>& made_at,
      std::vector<size_t>& calls) const {
    while (!resident_.contains(value)) {
      const NodeId made_by = block_.function[value].node;
      if (made_by == NodeId::None) {
        return ValueId::None;
      }
      const std::vector<ValueId> read =
          operands(block_.function.nodes[index(made_by)]);
      if (read.size() != 1) {
        return ValueId::None;
      }
      calls.push_back(made_at[index(value)]);
      value = read.front();
    }
    return value;
  }

  Block& block_;
  std::set<ValueId> resident_;
  std::vector<Gather> gathers_;
  std::vector<bool> is_gone_;
  // What comes to stand before each instruction.
  std::vector<std::vector<Instruction>> before_;
};

// A layer's gathers, by number, which start when those of the layer before are
// waited for, or before the call that makes `behind`.
struct Layer {
  std::vector<size_t> gathers;
  int64_t bytes = 0;
  std::string behind;
};

std::vector<Layer> layers_of(const std::vector<GatherBlock>& blocks) {
  const GatherBlock& model = blocks.front();
  std::vector<Layer> layers;
  for (size_t i = 0; i < model.gathers().size(); ++i) {
    const Gather& gather = model.gathers()[i];
    int64_t bytes = 0;
    for (const GatherBlock& block : blocks) {
      bytes = std::max(bytes, block.gathers()[i].bytes);
    }
    const bool joins =
        i > 0 && model.gathers()[i - 1].layer == gather.layer &&
        model.gathers()[i - 1].is_later == gather.is_later &&
        model.start(model.gathers()[i - 1]).axes == model.start(gather).axes &&
        layers.back().bytes + bytes <= kLayerBytes;
    Layer& layer = joins ? layers.back() : layers.emplace_back();
    layer.gathers.push_back(i);
    layer.bytes += bytes;
  }
  return layers;
}

// Live bytes while each instruction of the first block runs.
std::vector<int64_t> live_now(const Lowering& lowering) {
  Lowering copy = {
      .plan = lowering.plan,
      .cluster = lowering.cluster,
      .graph = {},
      .reads = {},
      .unexpanded = {},
      .layouts = {},
      .resting = {},
      .assignments = {},
      .program = {}};
  copy.program.blocks = {lowering.program.blocks.front()};
  in_place(copy);
  lifetimes(copy);
  const Block& block = copy.program.blocks.front();
  const std::vector<int64_t> after = live_bytes(block);
  std::vector<int64_t> out;
  for (size_t at = 0; at < after.size(); ++at) {
    if (!std::holds_alternative<Free>(block.instructions[at])) {
      out.push_back(after[at]);
    }
  }
  return out;
}

// Lets layers that would be there at the step's peak start behind it.
void start_behind_peaks(
    const GatherBlock& model,
    std::vector<int64_t> live,
    std::vector<Layer>& layers) {
  const int64_t peak = *std::max_element(live.begin(), live.end());
  const Block& block = model.block();
  const auto gather = [&](size_t layer) {
    return model.gathers()[layers[layer].gathers.front()];
  };
  for (size_t i = 1; i < layers.size(); ++i) {
    const size_t begin = gather(i - 1).wait + 1;
    const size_t end = gather(i).start;
    size_t first = end;
    while (first > begin && live[first - 1] + layers[i].bytes <= peak) {
      --first;
    }
    size_t from = begin;
    for (size_t at = first; first > begin && at < end; ++at) {
      const auto* call = std::get_if<Call>(&block.instructions[at]);
      const Node* node =
          call == nullptr ? nullptr : &block.function.nodes[index(call->node)];
      if (node != nullptr && !is_view(*node)) {
        layers[i].behind = block.function[node->results.front()].name;
        from = at;
        break;
      }
    }
    for (size_t at = from; at < end; ++at) {
      live[at] += layers[i].bytes;
    }
  }
}

bool gather_all(std::vector<Block>& blocks, const std::vector<Layer>& layers) {
  for (Block& block : blocks) {
    GatherBlock gathering(block);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto first = [&](size_t layer) {
        return gathering.gathers()[layers[layer].gathers.front()];
      };
      size_t at = i == 0 ? first(0).start : first(i - 1).wait + 1;
      if (!layers[i].behind.empty()) {
        const size_t call = gathering.find_call(layers[i].behind);
        if (call < at || call > first(i).start) {
          return false;
        }
        at = call;
      }
      gathering.gather_at(at, layers[i].gathers);
    }
    gathering.rewrite();
  }
  return start_the_same(blocks);
}

void gather_stage(Lowering& lowering) {
  std::vector<Block>& blocks = lowering.program.blocks;
  if (!start_the_same(blocks)) {
    return;
  }
  std::vector<GatherBlock> gathering;
  for (Block& block : blocks) {
    gathering.emplace_back(block);
    if (gathering.back().gathers().empty() ||
        gathering.back().gathers().size() !=
            gathering.front().gathers().size()) {
      return;
    }
  }
  std::vector<Layer> layers = layers_of(gathering);
  start_behind_peaks(gathering.front(), live_now(lowering), layers);
  std::vector<Block> moved = blocks;
  if (!gather_all(moved, layers)) {
    // Ranks do not all have these calls, or not in the same place.
    for (Layer& layer : layers) {
      layer.behind.clear();
    }
    moved = blocks;
    WEFT_CHECK(gather_all(moved, layers), "ranks gather otherwise");
  }
  blocks = std::move(moved);
}

}  // namespace

void gather_ahead(Lowering& lowering) { run_by_stage(lowering, gather_stage); }

}  // namespace weft
