// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"
#include "plan/plan_place.h"

#include <algorithm>

namespace weft {
namespace {

// Every line two spaces further in.
std::string indented(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    out += line.empty() ? "" : cat("  ", line, "\n");
  }
  return out;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // Most names end otherwise.
  const size_t last = pattern.rfind('*');
  if (last == std::string_view::npos) {
    return pattern == name;
  }
  if (!name.ends_with(pattern.substr(last + 1))) {
    return false;
  }
  // Where the last '*' was, and how far it has stretched: on a mismatch it
  // stretches by one more.
  size_t star = std::string_view::npos;
  size_t stretched = 0;
  size_t p = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      stretched = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++stretched;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

const Layout& compute_layout(const Decision& decision) {
  return decision.compute ? *decision.compute : decision.layout;
}

std::optional<int64_t> kept_in(const Plan& plan, std::string_view value_name) {
  for (auto it = plan.keeps.rbegin(); it != plan.keeps.rend(); ++it) {
    if (matches(it->pattern, value_name)) {
      return it->stage;
    }
  }
  return std::nullopt;
}

int64_t stage_count(const Plan& plan) {
  return static_cast<int64_t>(plan.stages.size()) + 1;
}

int64_t axis_size(const Mesh& mesh, std::string_view axis) {
  const int found = find_axis(mesh, std::string(axis));
  return found < 0 ? 1 : mesh.axes[static_cast<size_t>(found)].size;
}

Schedule schedule_of(const Plan& plan) {
  if (plan.own_schedule) {
    return *plan.own_schedule;
  }
  try {
    return make_schedule(
        plan.schedule,
        {.positions = axis_size(plan.mesh, kPipelineAxis),
         .stages = stage_count(plan),
         .micro_batches = axis_size(plan.time, kMicroAxis),
         .slices = axis_size(plan.time, kSliceAxis)});
  } catch (const UserError& error) {
    throw UserError(cat(place(plan), ": ", error.what()));
  }
}

Mesh stage_mesh(const Mesh& mesh) {
  Mesh out;
  for (const Axis& axis : mesh.axes) {
    if (axis.name != kPipelineAxis) {
      out.axes.push_back(axis);
    }
  }
  return out;
}

Mesh stage_mesh(const Plan& plan, int64_t stage) {
  // Stage 0 has no line.
  const StageStart* line =
      stage == 0 ? nullptr : &plan.stages.at(static_cast<size_t>(stage) - 1);
  return line != nullptr && line->mesh ? *line->mesh : stage_mesh(plan.mesh);
}

bool has_unequal_stages(const Plan& plan) {
  const Mesh first = stage_mesh(plan.mesh);
  return std::any_of(
      plan.stages.begin(), plan.stages.end(), [&](const StageStart& line) {
        return line.mesh && *line.mesh != first;
      });
}

std::vector<Mesh> position_meshes(const Plan& plan) {
  std::vector<Mesh> meshes(
      static_cast<size_t>(axis_size(plan.mesh, kPipelineAxis)),
      stage_mesh(plan.mesh));
  if (has_unequal_stages(plan)) {
    const Schedule schedule = schedule_of(plan);
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      meshes.at(static_cast<size_t>(position_of(schedule, stage))) =
          stage_mesh(plan, stage);
    }
  }
  return meshes;
}

Mesh widest_mesh(const Plan& plan) {
  Mesh out;
  for (int64_t stage = 0; stage < stage_count(plan); ++stage) {
    for (const Axis& axis : stage_mesh(plan, stage).axes) {
      const int found = find_axis(out, axis.name);
      if (found < 0) {
        out.axes.push_back(axis);
      } else if (out.axes[static_cast<size_t>(found)].size < axis.size) {
        out.axes[static_cast<size_t>(found)] = axis;
      }
    }
  }
  return whole_mesh(out, plan.time);
}

int64_t rank_count(const Plan& plan) {
  if (!has_unequal_stages(plan)) {
    return rank_count(plan.mesh);
  }
  int64_t ranks = 0;
  for (const Mesh& mesh : position_meshes(plan)) {
    ranks += rank_count(mesh);
  }
  return ranks;
}

std::string print(const Decision& decision) {
  return cat(
      "%",
      decision.pattern,
      " ",
      print(decision.layout),
      decision.compute ? cat(" compute ", print(*decision.compute)) : "");
}

std::string print(const Plan& plan) {
  std::string out =
      cat("plan @",
          plan.graph,
          " on ",
          print(plan.mesh),
          plan.time.axes.empty() ? "" : cat(" in ", print(plan.time)),
          " {\n");
  if (plan.local_batch_norm) {
    out += "  local batch_norm\n";
  }
  if (plan.seats > 0) {
    out += cat("  seats ", plan.seats, "\n");
  }
  if (plan.own_schedule) {
    out += indented(print(*plan.own_schedule));
  } else if (plan.schedule != Plan().schedule) {
    out += cat("  schedule ", plan.schedule, "\n");
  }
  for (const StageStart& stage : plan.stages) {
    out +=
        cat("  stage %",
            stage.pattern,
            stage.mesh ? cat(" on ", print(*stage.mesh)) : "",
            "\n");
  }
  for (const StageKeep& keep : plan.keeps) {
    out += cat("  keep ", keep.stage, " %", keep.pattern, "\n");
  }
  if (plan.recompute_cheap) {
    out += "  recompute cheap\n";
  }
  for (const Recompute& line : plan.recompute) {
    out += cat("  recompute %", line.pattern, "\n");
  }
  if (plan.recompute_collectives) {
    out += "  recompute collectives\n";
  }
  for (const Decision& decision : plan.decisions) {
    out += cat("  ", print(decision), "\n");
  }
  return out + "}\n";
}

}  // namespace weft
