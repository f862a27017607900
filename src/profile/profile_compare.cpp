// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "profile/profile_print.h"

#include <cstdio>
#include <functional>

namespace weft {
namespace {

using Read = std::function<int64_t(const Profile&)>;
using Write = std::string (*)(double);

struct Line {
  std::string_view label;
  Write write;
  Read read;
};

std::string whole_number(double value) {
  return with_commas(static_cast<int64_t>(value));
}

int64_t layer_count(const Profile& profile) {
  int64_t count = 0;
  for (const LayerClass& each : profile.layer_classes) {
    count += each.parent < 0 ? each.count : 0;
  }
  return count;
}

std::vector<Line> lines() {
  const auto flops = [](int64_t PhaseFlops::*phase) -> Read {
    return [=](const Profile& profile) { return profile.whole.flops.*phase; };
  };
  const auto bytes = [](int64_t KindBytes::*kind) -> Read {
    return [=](const Profile& profile) { return profile.whole.bytes.*kind; };
  };
  return {
      {"parameters",
       human_count,
       [](const auto& p) { return p.whole.parameters; }},
      {"nodes", whole_number, [](const auto& p) { return p.whole.nodes; }},
      {"equal layers", whole_number, layer_count},
      {"flops",
       human_count,
       [](const auto& p) { return total(p.whole.flops); }},
      {"  forward", human_count, flops(&PhaseFlops::forward)},
      {"  backward", human_count, flops(&PhaseFlops::backward)},
      {"  recompute", human_count, flops(&PhaseFlops::recompute)},
      {"  optimizer", human_count, flops(&PhaseFlops::optimizer)},
      {"bytes moved",
       human_bytes,
       [](const auto& p) { return p.whole.moved_bytes; }},
      {"peak bytes", human_bytes, [](const auto& p) { return p.peak.bytes; }},
      {"  parameters", human_bytes, bytes(&KindBytes::parameters)},
      {"  gradients", human_bytes, bytes(&KindBytes::gradients)},
      {"  optimizer state", human_bytes, bytes(&KindBytes::optimizer_state)},
      {"  buffers", human_bytes, bytes(&KindBytes::buffers)},
      {"  inputs", human_bytes, bytes(&KindBytes::inputs)},
      {"  activations", human_bytes, bytes(&KindBytes::activations)},
      {"  temporaries", human_bytes, bytes(&KindBytes::temporaries)},
  };
}

std::string ratio(int64_t first, int64_t second) {
  if (first == 0) {
    return second == 0 ? "" : "new";
  }
  char buffer[32];
  std::snprintf(
      buffer,
      sizeof(buffer),
      "x %.3g",
      static_cast<double>(second) / static_cast<double>(first));
  return buffer;
}

}  // namespace

std::string print_comparison(
    const std::string& first_name,
    const Profile& first,
    const std::string& second_name,
    const Profile& second,
    const TextStyle& style) {
  TextTable table;
  table.column("", Align::Left).column(first_name).column(second_name);
  table.column("ratio");
  for (const Line& line : lines()) {
    const int64_t a = line.read(first);
    const int64_t b = line.read(second);
    if (a == 0 && b == 0) {
      continue;
    }
    const std::string change = ratio(a, b);
    table.row(
        {std::string(line.label),
         line.write(static_cast<double>(a)),
         line.write(static_cast<double>(b)),
         a == b ? dim(change, style) : bold(change, style)});
  }
  const auto intensity = [](const Profile& profile) {
    return decimals(arithmetic_intensity(profile.whole), 1);
  };
  table.row({"flops a byte moved", intensity(first), intensity(second), ""});
  return table.print(style);
}

}  // namespace weft
