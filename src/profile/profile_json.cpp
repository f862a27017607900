// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include <nlohmann/json.hpp>

namespace weft {
namespace {

using nlohmann::json;

json to_json(const PhaseFlops& flops) {
  return {
      {"forward", flops.forward},
      {"backward", flops.backward},
      {"recompute", flops.recompute},
      {"optimizer", flops.optimizer},
  };
}

json to_json(const KindBytes& bytes) {
  return {
      {"parameters", bytes.parameters},
      {"gradients", bytes.gradients},
      {"optimizer_state", bytes.optimizer_state},
      {"buffers", bytes.buffers},
      {"inputs", bytes.inputs},
      {"activations", bytes.activations},
      {"temporaries", bytes.temporaries},
  };
}

json to_json(const Costs& costs) {
  return {
      {"nodes", costs.nodes},
      {"parameters", costs.parameters},
      {"flops", to_json(costs.flops)},
      {"bytes", to_json(costs.bytes)},
      {"moved_bytes", costs.moved_bytes},
      {"arithmetic_intensity", arithmetic_intensity(costs)},
  };
}

json to_json(const Peak& peak) {
  json alive = {{"scratch", peak.scratch_bytes}};
  for (size_t i = 0; i < kStorageKinds; ++i) {
    alive[std::string(name(static_cast<StorageKind>(i)))] = peak.alive_bytes[i];
  }
  json largest = json::array();
  for (const Peak::LargeStorage& each : peak.largest) {
    largest.push_back({
        {"name", each.name},
        {"module", module_path(each.name)},
        {"kind", name(each.kind)},
        {"bytes", each.bytes},
    });
  }
  return {
      {"node", peak.name},
      {"op", peak.op},
      {"phase", name(peak.phase)},
      {"alive", alive},
      {"largest", largest},
  };
}

json to_json(const LayerClass& layer) {
  return {
      {"name", layer.name},
      {"count", layer.count},
      {"nodes", layer.nodes},
      {"parameters", layer.parameters},
      {"flops", layer.forward_flops},
      {"activation_bytes", layer.activation_bytes},
      {"parent", layer.parent < 0 ? json() : json(layer.parent)},
  };
}

json to_json(const ModuleCosts& module) {
  json made = to_json(module.costs);
  made["path"] = module.path;
  made["type"] = module.type;
  made["depth"] = module.depth;
  return made;
}

json to_json(const OpCosts& op) {
  json made = to_json(op.costs);
  made["op"] = op.op;
  return made;
}

json to_json(const PhaseCosts& phase) {
  json made = to_json(phase.costs);
  made["phase"] = name(phase.phase);
  made["peak_bytes"] = phase.peak_bytes;
  return made;
}

template <typename Item>
json list(const std::vector<Item>& items) {
  json made = json::array();
  for (const Item& item : items) {
    made.push_back(to_json(item));
  }
  return made;
}

json unruled_ops(const std::vector<OpCosts>& ops) {
  json made = json::array();
  for (const OpCosts& op : ops) {
    if (op.is_unruled) {
      made.push_back({{"op", op.op}, {"count", op.costs.nodes}});
    }
  }
  return made;
}

json seconds(const std::optional<double>& value) {
  return value ? json(*value) : json();
}

}  // namespace

json to_json(const Profile& profile) {
  json made = to_json(profile.whole);
  made["model"] = profile.model;
  made["trained_parameters"] = profile.trained_parameters;
  made["peak_bytes"] = profile.peak.bytes;
  made["peak"] = to_json(profile.peak);
  made["layer_classes"] = list(profile.layer_classes);
  made["unruled_ops"] = unruled_ops(profile.ops);
  made["modules"] = list(profile.modules);
  made["ops"] = list(profile.ops);
  made["phases"] = list(profile.phases);
  made["build_seconds"] = seconds(profile.build_seconds);
  made["capture_seconds"] = seconds(profile.capture_seconds);
  made["profile_seconds"] = profile.profile_seconds;
  return made;
}

}  // namespace weft
