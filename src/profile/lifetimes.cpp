// SPDX-License-Identifier: Apache-2.0
#include "profile/lifetimes.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

constexpr int32_t kNoStorage = -1;

StorageKind kind_of(InputKind kind) {
  switch (kind) {
    case InputKind::Parameter:
      return StorageKind::Parameter;
    case InputKind::Buffer:
      return StorageKind::Buffer;
    case InputKind::State:
      return StorageKind::State;
    case InputKind::Batch:
    case InputKind::Scalar:
    case InputKind::Constant:
      return StorageKind::Input;
  }
  return StorageKind::Input;
}

bool is_kept(OutputKind kind) {
  return kind == OutputKind::Parameter || kind == OutputKind::Buffer ||
         kind == OutputKind::State;
}

// Fills a Lifetimes in three passes: who lies where, until when, as what.
class Accountant {
 public:
  explicit Accountant(const Function& function) : function_(function) {}

  Lifetimes run() {
    result_.storage_of.assign(function_.values.size(), kNoStorage);
    place_inputs();
    place_results();
    end_storages();
    name_kinds();
    return std::move(result_);
  }

 private:
  int32_t& storage_of(ValueId value) {
    return result_.storage_of[index(value)];
  }

  Storage& storage(ValueId value) {
    const int32_t at = storage_of(value);
    WEFT_CHECK(at != kNoStorage, "no storage of ", function_[value].name);
    return result_.storages[static_cast<size_t>(at)];
  }

  void make(ValueId value, NodeId first, StorageKind kind) {
    storage_of(value) = static_cast<int32_t>(result_.storages.size());
    result_.storages.push_back({
        .value = value,
        .bytes = storage_bytes(function_[value].type),
        .first = first,
        .last = NodeId::None,
        .kind = kind,
    });
  }

  void place_inputs() {
    std::unordered_map<std::string_view, ValueId> kept;
    for (const Input& input : function_.inputs) {
      make(input.value, NodeId::None, kind_of(input.kind));
      // Keys of parameters, buffers and states differ; others may repeat them.
      if (!input.keys.empty() && kind_of(input.kind) != StorageKind::Input) {
        kept.emplace(input.keys.front(), input.value);
      }
    }
    for (const Output& output : function_.outputs) {
      const auto input = kept.find(output.key);
      if (is_kept(output.kind) && input != kept.end()) {
        updates_.emplace(output.value, input->second);
      }
    }
  }

  void place_results() {
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      const Node& node = function_.nodes[i];
      ValueId base = ValueId::None;
      if (is_view(node)) {
        base = first_operand(node);
      }
      for (const ValueId value : node.results) {
        const ValueId old =
            value == node.results.front() && node.overwrites != ValueId::None
                ? node.overwrites
                : before_update(value);
        if (base != ValueId::None) {
          storage_of(value) = storage_of(base);
        } else if (old != ValueId::None) {
          storage_of(value) = storage_of(old);
        } else {
          make(value, static_cast<NodeId>(i), StorageKind::Temporary);
        }
      }
    }
  }

  static ValueId first_operand(const Node& node) {
    ValueId first = ValueId::None;
    for_each_operand(node, [&](ValueId value) {
      first = first == ValueId::None ? value : first;
    });
    return first;
  }

  // The input that this value replaces, or None.
  ValueId before_update(ValueId value) const {
    const auto update = updates_.find(value);
    if (update == updates_.end() ||
        storage_bytes(function_[value].type) !=
            storage_bytes(function_[update->second].type)) {
      return ValueId::None;
    }
    return update->second;
  }

  void end_storages() {
    result_.recorded = std::any_of(
        function_.nodes.begin(), function_.nodes.end(), [](const Node& node) {
          return !node.releases.empty();
        });
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      const Node& node = function_.nodes[i];
      const auto here = static_cast<NodeId>(i);
      const auto end = [&](ValueId value) { storage(value).last = here; };
      if (result_.recorded) {
        std::for_each(node.releases.begin(), node.releases.end(), end);
      } else {
        for_each_operand(node, end);
        std::for_each(node.results.begin(), node.results.end(), end);
      }
    }
    if (!result_.recorded) {
      for (const Output& output : function_.outputs) {
        storage(output.value).last = NodeId::None;
      }
    }
    for (Storage& each : result_.storages) {
      if (each.first == NodeId::None) {
        each.last = NodeId::None;
      }
    }
  }

  void name_kinds() {
    for (const Output& output : function_.outputs) {
      Storage& each = storage(output.value);
      if (each.first == NodeId::None) {
        continue;
      }
      if (output.kind == OutputKind::Gradient) {
        each.kind = StorageKind::Gradient;
      } else if (output.kind == OutputKind::Parameter) {
        each.kind = StorageKind::Parameter;
      } else if (output.kind == OutputKind::Buffer) {
        each.kind = StorageKind::Buffer;
      } else if (output.kind == OutputKind::State) {
        each.kind = StorageKind::State;
      }
    }
    const auto backward = std::find_if(
        function_.nodes.begin(), function_.nodes.end(), [](const Node& node) {
          return node.phase == Phase::Backward ||
                 node.phase == Phase::Recompute;
        });
    if (backward == function_.nodes.end()) {
      return;
    }
    const auto begin = static_cast<NodeId>(backward - function_.nodes.begin());
    for (Storage& each : result_.storages) {
      if (each.kind == StorageKind::Temporary && each.first < begin &&
          is_alive(each, begin)) {
        each.kind = StorageKind::Activation;
      }
    }
  }

  const Function& function_;
  Lifetimes result_;
  // From the value of a parameter, buffer or state after the step to the input
  // that held it before.
  std::unordered_map<ValueId, ValueId> updates_;
};

}  // namespace

std::string_view name(StorageKind kind) {
  switch (kind) {
    case StorageKind::Parameter:
      return "parameters";
    case StorageKind::State:
      return "optimizer_state";
    case StorageKind::Buffer:
      return "buffers";
    case StorageKind::Input:
      return "inputs";
    case StorageKind::Gradient:
      return "gradients";
    case StorageKind::Activation:
      return "activations";
    case StorageKind::Temporary:
      return "temporaries";
  }
  return "temporaries";
}

Lifetimes lifetimes(const Function& function) {
  return Accountant(function).run();
}

std::vector<int64_t> live_bytes(
    const Function& function, const Lifetimes& lifetimes) {
  const size_t count = function.nodes.size();
  // How the bytes alive change from the node before to this one.
  std::vector<int64_t> live(count + 1);
  for (const Storage& each : lifetimes.storages) {
    live[each.first == NodeId::None ? 0 : index(each.first)] += each.bytes;
    if (each.last != NodeId::None) {
      live[index(each.last) + 1] -= each.bytes;
    }
  }
  live.pop_back();
  int64_t sum = 0;
  for (int64_t& bytes : live) {
    sum += bytes;
    bytes = sum;
  }
  return live;
}

std::array<int64_t, kStorageKinds> live_bytes_by_kind(
    const Lifetimes& lifetimes, NodeId during) {
  std::array<int64_t, kStorageKinds> bytes{};
  for (const Storage& each : lifetimes.storages) {
    if (is_alive(each, during)) {
      bytes[static_cast<size_t>(each.kind)] += each.bytes;
    }
  }
  return bytes;
}

}  // namespace weft
