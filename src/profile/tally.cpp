// SPDX-License-Identifier: Apache-2.0
#include "profile/tally.h"

#include "ops/op_def.h"
#include "profile/module_tree.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace weft {
namespace {

constexpr int32_t kNone = -1;

int64_t& of(PhaseFlops& flops, Phase phase) {
  switch (phase) {
    case Phase::Backward:
      return flops.backward;
    case Phase::Recompute:
      return flops.recompute;
    case Phase::Optimizer:
      return flops.optimizer;
    case Phase::Init:
    case Phase::Forward:
      return flops.forward;
  }
  return flops.forward;
}

int64_t& of(KindBytes& bytes, StorageKind kind) {
  switch (kind) {
    case StorageKind::Parameter:
      return bytes.parameters;
    case StorageKind::State:
      return bytes.optimizer_state;
    case StorageKind::Buffer:
      return bytes.buffers;
    case StorageKind::Input:
      return bytes.inputs;
    case StorageKind::Gradient:
      return bytes.gradients;
    case StorageKind::Activation:
      return bytes.activations;
    case StorageKind::Temporary:
      return bytes.temporaries;
  }
  return bytes.temporaries;
}

// "fc.weight" of the state "fc.weight.exp_avg".
std::string_view parameter_of(std::string_view state) {
  return state.substr(0, state.rfind('.'));
}

// Costs so far, and the temporaries that are alive now.
struct Part {
  Costs costs;
  int64_t temporary_bytes = 0;
};

class Tally {
 public:
  Tally(const Graph& graph, const Function& step, Profile& profile)
      : step_(step), profile_(profile), tree_(graph) {}

  void run() {
    place_nodes();
    place_storages();
    modules_.resize(tree_.entries().size());
    add_parameters();
    add_in_order();
    report_modules();
    report_ops();
    report_phases();
  }

 private:
  void place_nodes() {
    std::unordered_map<std::string_view, int32_t> ops;
    // Nodes of one module mostly stand together.
    std::string_view path;
    int32_t module = ModuleTree::kRoot;
    for (const Node& node : step_.nodes) {
      if (module_path(step_, node) != path) {
        path = module_path(step_, node);
        module = tree_.find(path);
      }
      module_of_.push_back(module);
      const auto [op, is_new] =
          ops.try_emplace(node.op, static_cast<int32_t>(ops_.size()));
      if (is_new) {
        ops_.emplace_back();
        op_names_.push_back(node.op);
      }
      op_of_.push_back(op->second);
    }
  }

  // Finds the module that a storage counts for.
  void place_storages() {
    const Lifetimes& lifetimes = profile_.lifetimes;
    for (const Storage& storage : lifetimes.storages) {
      home_.push_back(
          storage.first == NodeId::None ? ModuleTree::kRoot
                                        : module_of_[index(storage.first)]);
    }
    for (const Input& input : step_.inputs) {
      const bool is_owned = input.kind == InputKind::Parameter ||
                            input.kind == InputKind::Buffer ||
                            input.kind == InputKind::State;
      if (is_owned && !input.keys.empty()) {
        const std::string_view key = input.keys.front();
        home(input.value) = tree_.owner(
            input.kind == InputKind::State ? parameter_of(key) : key);
      }
    }
    for (const Output& output : step_.outputs) {
      if (output.kind == OutputKind::Gradient) {
        home(output.value) = tree_.owner(output.key);
      }
    }
  }

  int32_t& home(ValueId value) {
    return home_[static_cast<size_t>(
        profile_.lifetimes.storage_of[index(value)])];
  }

  template <typename Visit>
  void for_module_and_above(int32_t module, Visit&& visit) {
    for (; module != kNone;
         module = tree_.entries()[static_cast<size_t>(module)].parent) {
      visit(modules_[static_cast<size_t>(module)]);
    }
  }

  // The parts that what `node` does in `module` counts for.
  template <typename Visit>
  void for_each_part(NodeId node, int32_t module, Visit&& visit) {
    for_module_and_above(module, visit);
    if (node != NodeId::None) {
      visit(ops_[static_cast<size_t>(op_of_[index(node)])]);
      visit(phases_[static_cast<size_t>(step_.nodes[index(node)].phase)]);
    }
  }

  template <typename Visit>
  void for_each_part_of_storage(size_t storage, Visit&& visit) {
    for_each_part(
        profile_.lifetimes.storages[storage].first, home_[storage], visit);
  }

  void add_parameters() {
    for (const Input& input : step_.inputs) {
      if (input.kind != InputKind::Parameter) {
        continue;
      }
      const int64_t count = element_count(step_[input.value].type);
      profile_.trained_parameters += input.trained ? count : 0;
      for_module_and_above(home(input.value), [&](Part& part) {
        part.costs.parameters += count;
      });
    }
  }

  void add_in_order() {
    const std::vector<Storage>& storages = profile_.lifetimes.storages;
    // By node, the temporaries that end with it, as a list through `also`.
    std::vector<int32_t> ending(step_.nodes.size(), kNone);
    std::vector<int32_t> also(storages.size(), kNone);
    for (size_t i = 0; i < storages.size(); ++i) {
      if (storages[i].kind == StorageKind::Temporary &&
          storages[i].last != NodeId::None) {
        also[i] = ending[index(storages[i].last)];
        ending[index(storages[i].last)] = static_cast<int32_t>(i);
      }
    }
    size_t next = 0;
    const auto add_made_by = [&](NodeId node) {
      for (; next < storages.size() && storages[next].first == node; ++next) {
        add_storage(next);
      }
    };
    add_made_by(NodeId::None);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      add_made_by(static_cast<NodeId>(i));
      add_node(static_cast<NodeId>(i));
      for (int32_t at = ending[i]; at != kNone;
           at = also[static_cast<size_t>(at)]) {
        const auto storage = static_cast<size_t>(at);
        for_each_part_of_storage(storage, [&](Part& part) {
          part.temporary_bytes -= storages[storage].bytes;
        });
      }
    }
  }

  void add_storage(size_t storage) {
    const Storage& each = profile_.lifetimes.storages[storage];
    for_each_part_of_storage(storage, [&](Part& part) {
      if (each.kind == StorageKind::Temporary) {
        part.temporary_bytes += each.bytes;
      } else {
        of(part.costs.bytes, each.kind) += each.bytes;
      }
    });
  }

  void add_node(NodeId node) {
    const NodeCosts& costs = profile_.nodes[index(node)];
    const Phase phase = step_.nodes[index(node)].phase;
    for_each_part(node, module_of_[index(node)], [&](Part& part) {
      part.costs.nodes += 1;
      of(part.costs.flops, phase) += costs.flops;
      part.costs.moved_bytes += costs.read_bytes + costs.written_bytes;
      part.costs.bytes.temporaries = std::max(
          part.costs.bytes.temporaries,
          part.temporary_bytes + costs.scratch_bytes);
    });
  }

  void report_modules() {
    for (const int32_t module : tree_.in_order()) {
      const auto at = static_cast<size_t>(module);
      const ModuleTree::Entry& entry = tree_.entries()[at];
      profile_.modules.push_back(
          {std::string(entry.path),
           std::string(entry.type),
           entry.depth,
           modules_[at].costs});
    }
    profile_.whole = modules_[ModuleTree::kRoot].costs;
  }

  void report_ops() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      profile_.ops.push_back(
          {std::string(op_names_[i]),
           find_op(op_names_[i]) == nullptr,
           ops_[i].costs});
    }
    std::stable_sort(
        profile_.ops.begin(),
        profile_.ops.end(),
        [](const OpCosts& a, const OpCosts& b) {
          return total(a.costs.flops) > total(b.costs.flops);
        });
  }

  void report_phases() {
    std::vector<int64_t> peaks(phases_.size());
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      int64_t& peak = peaks[static_cast<size_t>(step_.nodes[i].phase)];
      peak = std::max(peak, profile_.live_bytes[i]);
    }
    for (size_t i = 0; i < phases_.size(); ++i) {
      if (phases_[i].costs.nodes > 0) {
        profile_.phases.push_back(
            {static_cast<Phase>(i), phases_[i].costs, peaks[i]});
      }
    }
  }

  const Function& step_;
  Profile& profile_;
  ModuleTree tree_;
  std::vector<Part> modules_;
  std::vector<Part> ops_;
  std::vector<std::string_view> op_names_;
  std::array<Part, 5> phases_;
  // By node.
  std::vector<int32_t> module_of_;
  std::vector<int32_t> op_of_;
  // By storage.
  std::vector<int32_t> home_;
};

}  // namespace

void add_up(const Graph& graph, const Function& step, Profile& profile) {
  Tally(graph, step, profile).run();
}

}  // namespace weft
