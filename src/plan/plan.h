// SPDX-License-Identifier: Apache-2.0
// The Plan: every decision about how to run one Graph, as a small text that a
// person can read, edit, diff and keep in git.
//
//   plan @gpt on <pipeline=2, data=2, tensor=2> in <micro=4> {
//     schedule 1f1b
//     stage %blocks.6.*
//     recompute %blocks.*/gelu
//     %batch.* [data*micro, -]
//     %blocks.*.up.weight [tensor*data, -] compute [tensor, -]
//     %blocks.*/mm [data, -]
//   }
//
// A decision names values of the graph's step by a pattern ('*' stands for any
// characters) and says how they lie on the mesh once they are made. Where
// several match, the last one counts. What no decision names follows from what
// is named (lower/propagate_layouts.cpp). The empty plan on <> is one rank with
// the whole step.
//
// A parameter may have two layouts: how it is stored from step to step, and
// after `compute` the one in which forward and backward read it.
//
// `in` gives axes of time. They split values as the mesh's do, and a rank does
// the parts one after the other: `micro`, parts of the batch; `slice`, parts of
// the sequence. Only what the data loader gives is split over them by a
// decision; the rest follows. Axes of time stand behind those of the mesh
// (`data*micro`), where each rank's batch is cut, or in front of them.
//
// The axis `pipeline` splits no value but the step: forward is cut where the
// first node stands that makes a value of a `stage` line's pattern; backward
// and the optimizer follow it.
//
// Each stage has the other axes of the plan's mesh, or a mesh of its own:
// `stage %blocks.6.* on <tensor=4>`. The decisions are the same for all; an
// axis that a stage does not have splits nothing there. Ranks are then numbered
// position by position. Axes of time then stand first, `[micro*data, -]`, so
// that a micro-batch has the same rows everywhere.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "plan/schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Decision {
  // Without the '%'.
  std::string pattern;
  // For an input that the next step reads too: as it is stored between steps.
  Layout layout;
  // Of a parameter, as forward and backward read it; none: as it is stored.
  std::optional<Layout> compute = std::nullopt;
  // "FILE:LINE" of the text it was read from, for messages; else "". Not part
  // of ==.
  std::string where = "";

  bool operator==(const Decision& other) const {
    return pattern == other.pattern && layout == other.layout &&
           compute == other.compute;
  }
};

// Values of forward that backward makes again instead of keeping them.
struct Recompute {
  // Without the '%'.
  std::string pattern;
  // As in Decision.
  std::string where = "";

  bool operator==(const Recompute& other) const {
    return pattern == other.pattern;
  }
};

// Where a stage of the pipeline begins in forward; stage 0 begins at its start.
struct StageStart {
  // Without the '%'.
  std::string pattern;
  // As in Decision.
  std::string where = "";
  // Of the stage's ranks; none: the plan's without the axis `pipeline`.
  std::optional<Mesh> mesh = std::nullopt;

  bool operator==(const StageStart& other) const {
    return pattern == other.pattern && mesh == other.mesh;
  }
};

// Which stage keeps and updates what stays from step to step; else the first
// that reads it does. The states of a parameter follow it.
struct StageKeep {
  int64_t stage = 0;
  // Without the '%'.
  std::string pattern;
  // As in Decision.
  std::string where = "";

  bool operator==(const StageKeep& other) const {
    return stage == other.stage && pattern == other.pattern;
  }
};

// Names of axes that mean something.
inline constexpr std::string_view kPipelineAxis = "pipeline";
inline constexpr std::string_view kMicroAxis = "micro";
inline constexpr std::string_view kSliceAxis = "slice";

struct Plan {
  // Of the graph that it is for.
  std::string graph;
  Mesh mesh;
  // Axes of time.
  Mesh time = {};
  // `local batch_norm`: batch norms that train take their statistics from each
  // rank's own part of the batch, as DistributedDataParallel does. This changes
  // the mathematics.
  bool local_batch_norm = false;
  // `seats 2`: where experts are on different ranks, those of a rank have room
  // for twice as many choices of a sample as an even share; a step in which
  // more fall to them stops. 0: for all of them.
  int64_t seats = 0;
  // `schedule NAME`: in which order stages work on the parts (schedule.h).
  std::string schedule = "1f1b";
  // `schedule @name { ... }`: that order itself, in place of a name.
  std::optional<Schedule> own_schedule = std::nullopt;
  // `stage %pattern`, in order.
  std::vector<StageStart> stages = {};
  // `keep 1 %pattern`; the last match counts.
  std::vector<StageKeep> keeps = {};
  // `recompute cheap`: values that cost little more than reading and writing
  // them, and that backward reads long after they were made, are made again.
  bool recompute_cheap = false;
  // `recompute %pattern`: these too, whatever they cost, but for values that
  // ranks would have to exchange something for once more.
  std::vector<Recompute> recompute = {};
  // `recompute collectives`: those as well.
  bool recompute_collectives = false;
  std::vector<Decision> decisions = {};
  // Where the text begins, as in Decision.
  std::string where = "";

  bool operator==(const Plan& other) const {
    return graph == other.graph && mesh == other.mesh &&
           local_batch_norm == other.local_batch_norm && seats == other.seats &&
           time == other.time && schedule == other.schedule &&
           own_schedule == other.own_schedule && stages == other.stages &&
           keeps == other.keeps && recompute_cheap == other.recompute_cheap &&
           recompute == other.recompute &&
           recompute_collectives == other.recompute_collectives &&
           decisions == other.decisions;
  }
};

// '*' matches any run of characters, every other character itself.
bool matches(std::string_view pattern, std::string_view name);

// How forward and backward read the value that it is about.
const Layout& compute_layout(const Decision& decision);

std::string print(const Plan& plan);
std::string print(const Decision& decision);
// `source` names the text in messages. Throws UserError with line and column.
// `schedule "FILE"` is read from beside `source`, and is in the plan from then
// on: what is printed needs no other file.
Plan parse_plan(std::string_view text, const std::string& source);

// Mesh well-formed; the graph is the one meant; every pattern matches a value
// of its step (of forward, for `recompute`); every layout fits the type of each
// value it counts for: as many dims, axes of the mesh, none twice, and no dim
// cut into more pieces than it has elements. Pieces of a dim differ by at most
// one element. Only parameters have a `compute` layout. Throws UserError that
// begins with the line and says what would do.
void verify(const Plan& plan, const Graph& graph);

// Of the axis; 1 where there is none.
int64_t axis_size(const Mesh& mesh, std::string_view axis);

// The stage that a `keep` line gives the input, if any does.
std::optional<int64_t> kept_in(const Plan& plan, std::string_view value_name);

// How many stages there are.
int64_t stage_count(const Plan& plan);
// In which order they work. Throws UserError for a name that there is not, or
// that does not go with the stages.
Schedule schedule_of(const Plan& plan);
// The mesh that each stage has for itself: without the axis `pipeline`.
Mesh stage_mesh(const Mesh& mesh);
// The same of a stage of the plan, which may have its own.
Mesh stage_mesh(const Plan& plan, int64_t stage);

// Whether one stage has another mesh than the first.
bool has_unequal_stages(const Plan& plan);
// The stage mesh at each position of the pipeline. Throws as schedule_of.
std::vector<Mesh> position_meshes(const Plan& plan);
// The axes of all stages, each with its largest size; then those of time.
Mesh widest_mesh(const Plan& plan);
// Of all positions.
int64_t rank_count(const Plan& plan);

// The schedule is one that there is and is for the plan's positions, stages and
// parts; verify() asks too. Throws UserError.
void verify_schedule(const Plan& plan);

// The plan is for as many ranks as there are. Throws UserError.
void verify_ranks(const Plan& plan, int64_t ranks);

}  // namespace weft
