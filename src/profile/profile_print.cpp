// SPDX-License-Identifier: Apache-2.0
#include "profile/profile_print.h"

#include "base/text.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int kIndent = 2;
constexpr size_t kLargestShown = 5;

std::string human_seconds(double seconds) {
  return seconds < 0.9995 ? cat(decimals(seconds * 1000, 1), " ms")
                          : cat(decimals(seconds, 2), " s");
}

std::string times(const Profile& profile) {
  std::vector<std::string> parts;
  if (profile.build_seconds) {
    parts.push_back(cat("built in ", human_seconds(*profile.build_seconds)));
  }
  if (profile.capture_seconds) {
    parts.push_back(
        cat("captured in ", human_seconds(*profile.capture_seconds)));
  }
  parts.push_back(cat("profiled in ", human_seconds(profile.profile_seconds)));
  return join(parts, ", ");
}

// "forward 1.20 G, backward 2.40 G", the phases that there are.
std::string by_phase(const Profile& profile, bool flops) {
  std::vector<std::string> parts;
  for (const PhaseCosts& phase : profile.phases) {
    const Costs& costs = phase.costs;
    parts.push_back(
        cat(name(phase.phase),
            " ",
            flops ? count_text(total(costs.flops)) : with_commas(costs.nodes)));
  }
  return join(parts, ", ");
}

std::string figures(const Profile& profile, const TextStyle& style) {
  const Costs& whole = profile.whole;
  TextTable table;
  table.column("", Align::Left).column("").column("", Align::Left);
  const std::string trained =
      profile.trained_parameters == whole.parameters
          ? "all trained"
          : cat(count_text(profile.trained_parameters), " trained");
  table.row({"parameters", bold(count_text(whole.parameters), style), trained});
  table.row(
      {"flops",
       bold(count_text(total(whole.flops)), style),
       by_phase(profile, true)});
  table.row(
      {"intensity",
       bold(decimals(arithmetic_intensity(whole), 1), style),
       cat("flops a byte; ", bytes_text(whole.moved_bytes), " moved")});
  table.row(
      {"nodes",
       bold(with_commas(whole.nodes), style),
       by_phase(profile, false)});
  return table.print(style, kIndent);
}

struct MemoryLine {
  std::string name;
  int64_t step_bytes = 0;
  int64_t peak_bytes = 0;
};

std::vector<MemoryLine> memory_lines(const Profile& profile) {
  const KindBytes& bytes = profile.whole.bytes;
  const auto alive = [&](StorageKind kind) {
    return profile.peak.alive_bytes[static_cast<size_t>(kind)];
  };
  return {
      {"parameters", bytes.parameters, alive(StorageKind::Parameter)},
      {"gradients", bytes.gradients, alive(StorageKind::Gradient)},
      {"optimizer state", bytes.optimizer_state, alive(StorageKind::State)},
      {"buffers", bytes.buffers, alive(StorageKind::Buffer)},
      {"inputs", bytes.inputs, alive(StorageKind::Input)},
      {"activations", bytes.activations, alive(StorageKind::Activation)},
      {"temporaries", bytes.temporaries, alive(StorageKind::Temporary)},
      {"scratch", 0, profile.peak.scratch_bytes},
  };
}

std::string memory(const Profile& profile, const TextStyle& style) {
  const Peak& peak = profile.peak;
  std::string out = cat(
      std::string(kIndent, ' '), "peak  ", bold(bytes_text(peak.bytes), style));
  if (peak.node != NodeId::None) {
    out += cat(
        "  while %", peak.name, " = ", peak.op, " runs, ", name(peak.phase));
  }
  out += "\n";
  const std::vector<MemoryLine> lines = memory_lines(profile);
  std::vector<double> parts;
  for (const MemoryLine& line : lines) {
    parts.push_back(static_cast<double>(line.peak_bytes));
  }
  const int width = std::clamp(style.width - 2 * kIndent, 20, 72);
  out += cat(std::string(kIndent, ' '), stacked_bar(parts, width, style), "\n");

  TextTable table;
  table.column("", Align::Left).column("", Align::Left).column("at the peak");
  table.column("").column("in all");
  for (size_t i = 0; i < lines.size(); ++i) {
    const MemoryLine& line = lines[i];
    if (line.step_bytes == 0 && line.peak_bytes == 0) {
      continue;
    }
    const double share = static_cast<double>(line.peak_bytes) /
                         static_cast<double>(std::max<int64_t>(peak.bytes, 1));
    table.row(
        {part_mark(i, style),
         line.name,
         bytes_text(line.peak_bytes),
         percent(share),
         line.name == "scratch" ? "" : bytes_text(line.step_bytes)});
  }
  return out + table.print(style, kIndent);
}

std::string largest(const Profile& profile, const TextStyle& style) {
  if (profile.peak.largest.empty()) {
    return "";
  }
  TextTable table;
  table.column("largest at the peak", Align::Left).column("");
  table.column("", Align::Left);
  const size_t count = std::min(profile.peak.largest.size(), kLargestShown);
  for (size_t i = 0; i < count; ++i) {
    const Peak::LargeStorage& each = profile.peak.largest[i];
    table.row(
        {cat("%", shortened(each.name, std::max(20, style.width - 40))),
         bytes_text(each.bytes),
         std::string(name(each.kind))});
  }
  return "\n" + table.print(style, kIndent);
}

std::string layers(const Profile& profile, const TextStyle& style) {
  if (profile.layer_classes.empty()) {
    return "";
  }
  TextTable table;
  table.column("equal layers", Align::Left).column("count").column("nodes");
  table.column("parameters").column("forward flops").column("activations");
  const std::vector<LayerClass>& classes = profile.layer_classes;
  for (const LayerClass& each : classes) {
    size_t level = 0;
    for (int32_t at = each.parent; at >= 0;
         at = classes[static_cast<size_t>(at)].parent) {
      ++level;
    }
    table.row(
        {std::string(2 * level, ' ') +
             shortened(each.name, std::max(20, style.width - 60)),
         cat(with_commas(each.count), " x"),
         with_commas(each.nodes),
         count_text(each.parameters),
         count_text(each.forward_flops),
         bytes_text(each.activation_bytes)});
  }
  return "\n" + table.print(style, kIndent);
}

std::string unruled(const Profile& profile, const TextStyle& style) {
  std::vector<std::string> names;
  for (const OpCosts& op : profile.ops) {
    if (op.is_unruled) {
      names.push_back(cat(op.op, " (", op.costs.nodes, ")"));
    }
  }
  if (names.empty()) {
    return "";
  }
  return cat(
      "\n",
      std::string(kIndent, ' '),
      dim("operators without an entry in the op table:", style),
      " ",
      join(names, ", "),
      "\n");
}

}  // namespace

std::string print_summary(const Profile& profile, const TextStyle& style) {
  return cat(
      bold(profile.model, style),
      "  ",
      dim(times(profile), style),
      "\n",
      figures(profile, style),
      "\n",
      memory(profile, style),
      largest(profile, style),
      layers(profile, style),
      unruled(profile, style));
}

std::string print(const Profile& profile, const ProfileView& view) {
  return print_summary(profile, view.style) + "\n" + print_table(profile, view);
}

}  // namespace weft
