// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "plan/pattern_index.h"
#include "plan/plan.h"
#include "plan/plan_place.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// How many characters to add, drop or change until the pattern matches the
// name; what '*' stands for is free.
size_t changes_to_match(std::string_view pattern, std::string_view name) {
  std::vector<size_t> before(name.size() + 1);
  for (size_t n = 0; n < before.size(); ++n) {
    before[n] = n;
  }
  for (const char c : pattern) {
    std::vector<size_t> now(before.size());
    now[0] = c == '*' ? before[0] : before[0] + 1;
    for (size_t n = 1; n < now.size(); ++n) {
      now[n] = c == '*' ? std::min(before[n], now[n - 1])
                        : std::min(
                              {before[n] + 1,
                               now[n - 1] + 1,
                               before[n - 1] + (c == name[n - 1] ? 0 : 1)});
    }
    before = std::move(now);
  }
  return before.back();
}

// "; near are %a, %b": the names that the writer may have meant, or "".
std::string nearest(
    const std::string& pattern, const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names) {
    const size_t changes = changes_to_match(pattern, name);
    if (changes <= 1 + pattern.size() / 3) {
      near.emplace_back(changes, name);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min(kMost, near.size()); ++i) {
    words.push_back(cat("%", near[i].second));
  }
  return words.empty() ? "; `weft capture` prints the names"
                       : cat("; near are ", join(words, ", "));
}

class PlanVerifier {
 public:
  PlanVerifier(const Plan& plan, const Graph& graph)
      : plan_(plan),
        graph_(graph),
        step_(step_of(graph)),
        meshes_(meshes_of(plan)) {
    kinds_.resize(step_.values.size());
    for (const Input& input : step_.inputs) {
      kinds_[index(input.value)] = input.kind;
    }
  }

  void run() {
    try {
      verify(whole_mesh(plan_.mesh, plan_.time));
    } catch (const UserError& error) {
      throw UserError(cat(start(plan_.where), error.what()));
    }
    check_stage_meshes();
    WEFT_CHECK_USER(
        plan_.graph == graph_.name,
        start(plan_.where),
        "the plan is for graph @",
        plan_.graph,
        ", and this is graph @",
        graph_.name);
    for (const Axis& axis : plan_.time.axes) {
      WEFT_CHECK_USER(
          axis.name == kMicroAxis || axis.name == kSliceAxis,
          start(plan_.where),
          "'in' has no axis '",
          axis.name,
          "'; axes of time are ",
          kMicroAxis,
          " and ",
          kSliceAxis);
    }
    WEFT_CHECK_USER(
        find_axis(plan_.time, std::string(kSliceAxis)) <= 0 ||
            plan_.time.axes.front().name == kMicroAxis,
        start(plan_.where),
        "'in' has slices of micro-batches: write <micro=N, slice=N>");
    check_parts_in_time();
    check_stages();
    verify_schedule(plan_);
    check_shared_positions();
    check_keeps();
    check_recompute();
    check_decisions();
  }

 private:
  // A plan that was not read from a text is named by its graph.
  std::string start(const std::string& where) const {
    return where.empty() ? cat("plan @", plan_.graph, ": ") : cat(where, ": ");
  }

  std::string start(const Decision& decision, const std::string& value) const {
    return cat(
        start(decision.where),
        print(decision),
        value == decision.pattern ? "" : cat(" (for %", value, ")"),
        ": ");
  }

  // A part that nothing of the batch can be cut into would be the whole step
  // once more. A step without a batch, an update by itself, has none.
  void check_parts_in_time() const {
    std::optional<int64_t> most;
    for (const Input& input : step_.inputs) {
      if (input.kind == InputKind::Batch) {
        for (const int64_t size : step_[input.value].type.sizes) {
          most = std::max(most.value_or(1), size);
        }
      }
    }
    for (const Axis& axis : plan_.time.axes) {
      WEFT_CHECK_USER(
          !most || axis.size <= *most,
          start(plan_.where),
          "'in' asks for ",
          axis.size,
          " parts along ",
          axis.name,
          ", and no dim of the batch has more than ",
          *most,
          " elements; ask for fewer");
    }
  }

  std::vector<std::string> made_in_forward() const {
    std::vector<std::string> names;
    for (const Node& node : step_.nodes) {
      for (const ValueId result : node.results) {
        if (node.phase == Phase::Forward) {
          names.push_back(step_[result].name);
        }
      }
    }
    return names;
  }

  void check_stages() const {
    const int64_t positions = axis_size(plan_.mesh, kPipelineAxis);
    const int64_t stages = stage_count(plan_);
    // A schedule of the plan's own says itself who has which.
    WEFT_CHECK_USER(
        stages >= positions && (plan_.own_schedule || stages % positions == 0),
        start(plan_.where),
        stages - 1,
        " stage line(s) make ",
        stages,
        " stage(s), and ",
        positions == 1 ? "the mesh has no axis pipeline"
                       : cat("the mesh has pipeline=", positions),
        "; write one line for every stage but the first, so that there are ",
        positions,
        " stages or a multiple of it");
    if (plan_.stages.empty()) {
      return;
    }
    const std::vector<std::string> names = made_in_forward();
    // An update by itself has nothing to cut: `keep` lines say who does what.
    if (names.empty()) {
      return;
    }
    size_t before = 0;
    for (const StageStart& stage : plan_.stages) {
      const auto found =
          std::find_if(names.begin(), names.end(), [&](const auto& name) {
            return matches(stage.pattern, name);
          });
      WEFT_CHECK_USER(
          found != names.end(),
          start(stage.where),
          "stage %",
          stage.pattern,
          ": no value that forward makes has such a name",
          nearest(stage.pattern, names));
      const auto at = static_cast<size_t>(found - names.begin());
      WEFT_CHECK_USER(
          at > before,
          start(stage.where),
          "stage %",
          stage.pattern,
          " begins at %",
          *found,
          ", where the stage before has not begun yet; stages stand in the "
          "order of forward");
      before = at;
    }
  }

  void check_stage_meshes() const {
    for (const StageStart& stage : plan_.stages) {
      if (!stage.mesh) {
        continue;
      }
      try {
        verify(whole_mesh(*stage.mesh, plan_.time));
      } catch (const UserError& error) {
        throw UserError(cat(start(stage.where), error.what()));
      }
      WEFT_CHECK_USER(
          find_axis(*stage.mesh, std::string(kPipelineAxis)) < 0,
          start(stage.where),
          "stage %",
          stage.pattern,
          " on ",
          print(*stage.mesh),
          ": a stage is at one position of the pipeline; leave out the axis "
          "pipeline");
    }
  }

  // Stages of the same ranks have one mesh.
  void check_shared_positions() const {
    if (!has_unequal_stages(plan_)) {
      return;
    }
    const Schedule schedule = schedule_of(plan_);
    std::map<int64_t, int64_t> first;
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      const int64_t position = position_of(schedule, stage);
      const int64_t other = first.try_emplace(position, stage).first->second;
      WEFT_CHECK_USER(
          stage_mesh(plan_, stage) == stage_mesh(plan_, other),
          start(plan_.stages[static_cast<size_t>(stage) - 1].where),
          "stage ",
          stage,
          " is on ",
          print(stage_mesh(plan_, stage)),
          ", and stage ",
          other,
          ", of the same ranks (position ",
          position,
          "), on ",
          print(stage_mesh(plan_, other)),
          "; stages that share ranks need the same mesh");
    }
  }

  void check_keeps() const {
    std::vector<std::string> names;
    for (const Input& input : step_.inputs) {
      if (input.kind == InputKind::Parameter ||
          input.kind == InputKind::Buffer || input.kind == InputKind::State) {
        names.push_back(step_[input.value].name);
      }
    }
    for (const StageKeep& keep : plan_.keeps) {
      const std::string line = cat("keep ", keep.stage, " %", keep.pattern);
      WEFT_CHECK_USER(
          keep.stage >= 0 && keep.stage < stage_count(plan_),
          start(keep.where),
          line,
          ": the stages are 0 to ",
          stage_count(plan_) - 1);
      WEFT_CHECK_USER(
          std::any_of(
              names.begin(),
              names.end(),
              [&](const auto& name) { return matches(keep.pattern, name); }),
          start(keep.where),
          line,
          ": no parameter, buffer or state has such a name",
          nearest(keep.pattern, names));
    }
  }

  void check_recompute() const {
    if (plan_.recompute.empty()) {
      return;
    }
    const std::vector<std::string> names = made_in_forward();
    const PatternIndex patterns(plan_.recompute);
    std::vector<bool> found(plan_.recompute.size());
    for (const std::string& name : names) {
      patterns.for_each_match(name, [&](size_t i) { found[i] = true; });
    }
    for (size_t i = 0; i < plan_.recompute.size(); ++i) {
      const Recompute& line = plan_.recompute[i];
      WEFT_CHECK_USER(
          found[i],
          start(line.where),
          "recompute %",
          line.pattern,
          ": no value that forward makes has such a name",
          nearest(line.pattern, names));
    }
  }

  void check_decisions() const {
    std::vector<std::vector<ValueId>> about(plan_.decisions.size());
    std::vector<bool> found(plan_.decisions.size());
    const PatternIndex patterns(plan_.decisions);
    for (size_t v = 0; v < step_.values.size(); ++v) {
      std::optional<size_t> last;
      patterns.for_each_match(step_.values[v].name, [&](size_t i) {
        found[i] = true;
        last = std::max(last.value_or(0), i);
      });
      if (last) {
        about[*last].push_back(static_cast<ValueId>(v));
      }
    }
    for (size_t i = 0; i < plan_.decisions.size(); ++i) {
      const Decision& decision = plan_.decisions[i];
      if (!found[i]) {
        fail_unknown(decision);
      }
      // Layers are alike: what holds of a value holds of the next.
      ValueId last = ValueId::None;
      for (const ValueId value : about[i]) {
        if (last == ValueId::None || !is_alike(value, last)) {
          check(decision, value);
        }
        last = value;
      }
    }
  }

  // For all that a decision may say of them.
  bool is_alike(ValueId a, ValueId b) const {
    const bool is_input = step_[a].node == NodeId::None;
    return is_input == (step_[b].node == NodeId::None) &&
           (!is_input || kinds_[index(a)] == kinds_[index(b)]) &&
           step_[a].type == step_[b].type;
  }

  [[noreturn]] void fail_unknown(const Decision& decision) const {
    std::vector<std::string> names;
    for (const Value& value : step_.values) {
      names.push_back(value.name);
    }
    throw UserError(
        cat(start(decision, decision.pattern),
            "no value of the step has such a name",
            nearest(decision.pattern, names)));
  }

  void check(const Decision& decision, ValueId value) const {
    const bool is_input = step_[value].node == NodeId::None;
    const bool is_parameter =
        is_input && kinds_[index(value)] == InputKind::Parameter;
    WEFT_CHECK_USER(
        is_parameter || !decision.compute,
        start(decision, step_[value].name),
        "only a parameter has a compute layout, and this is ",
        is_input ? cat("an input of kind ", name(kinds_[index(value)]))
                 : "made by the step",
        "; leave out 'compute ...', or take a narrower pattern");
    for (const Layout* layout : {&decision.layout, &compute_layout(decision)}) {
      check_axes(decision, *layout, value);
      for (const Mesh& mesh : meshes_) {
        check(decision, *layout, step_[value], mesh);
      }
      WEFT_CHECK_USER(
          !is_input || layout->partial.empty(),
          start(decision, step_[value].name),
          "an input is no partial sum; leave out '+{",
          join(layout->partial, ", "),
          "}'");
    }
  }

  // No axis that this value cannot be split over.
  void check_axes(
      const Decision& decision, const Layout& layout, ValueId value) const {
    const bool is_batch = step_[value].node == NodeId::None &&
                          kinds_[index(value)] == InputKind::Batch;
    for (const std::string& axis : axes_of(layout)) {
      WEFT_CHECK_USER(
          axis != kPipelineAxis,
          start(decision, step_[value].name),
          "the axis pipeline splits the step and no value; write 'stage "
          "%pattern' lines");
      WEFT_CHECK_USER(
          is_batch || find_axis(plan_.time, axis) < 0,
          start(decision, step_[value].name),
          "only what the data loader gives is split over ",
          axis,
          ", an axis of time; the rest follows from it");
    }
  }

  // All that layouts may speak of, on the ranks of each stage; the first has
  // pipeline, too.
  static std::vector<Mesh> meshes_of(const Plan& plan) {
    std::vector<Mesh> meshes = {whole_mesh(plan.mesh, plan.time)};
    for (const StageStart& stage : plan.stages) {
      const Mesh mesh =
          stage.mesh ? whole_mesh(*stage.mesh, plan.time) : Mesh();
      if (stage.mesh &&
          std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) {
        meshes.push_back(mesh);
      }
    }
    return meshes;
  }

  // Without the axes that only other stages have.
  Layout on_stage(Layout layout, const Mesh& mesh) const {
    const auto is_others = [&](const std::string& axis) {
      return find_axis(mesh, axis) < 0 &&
             std::any_of(meshes_.begin(), meshes_.end(), [&](const Mesh& one) {
               return find_axis(one, axis) >= 0;
             });
    };
    for (Levels& levels : layout.dims) {
      for (Level& level : levels) {
        std::erase_if(level.axes, is_others);
      }
    }
    std::erase_if(layout.partial, is_others);
    return layout;
  }

  void check(
      const Decision& decision,
      const Layout& written,
      const Value& value,
      const Mesh& mesh) const {
    const std::string begin = start(decision, value.name);
    const Layout layout = on_stage(written, mesh);
    WEFT_CHECK_USER(
        layout.dims.size() == value.type.sizes.size(),
        begin,
        print(written),
        " has ",
        layout.dims.size(),
        " dims, and ",
        print(value.type),
        " has ",
        value.type.sizes.size(),
        "; give as many, as in ",
        print(replicated(static_cast<int>(value.type.sizes.size()))));
    try {
      verify(layout, value.type, mesh);
    } catch (const UserError& error) {
      throw UserError(cat(begin, error.what()));
    }
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      for (const Level& level : layout.dims[dim]) {
        const int64_t pieces = ways(mesh, level.axes);
        const int64_t size =
            level_size(layout.dims[dim], level, value.type.sizes[dim]);
        WEFT_CHECK_USER(
            size >= pieces || pieces == 1,
            begin,
            "dim ",
            dim,
            " of ",
            print(value.type),
            " has too few elements for ",
            pieces,
            " pieces; split another dim, or over fewer ranks");
      }
    }
  }

  // Written or not.
  static int64_t level_size(
      const Levels& levels, const Level& level, int64_t dim_size) {
    int64_t others = 1;
    for (const Level& other : levels) {
      others *= &other == &level || other.size == 0 ? 1 : other.size;
    }
    return level.size == 0 ? dim_size / others : level.size;
  }

  const Plan& plan_;
  const Graph& graph_;
  const Function& step_;
  const std::vector<Mesh> meshes_;
  // By value; meaningful for inputs.
  std::vector<InputKind> kinds_;
};

}  // namespace

void verify(const Plan& plan, const Graph& graph) {
  PlanVerifier(plan, graph).run();
}

void verify_schedule(const Plan& plan) {
  if (!plan.own_schedule) {
    if (stage_count(plan) > 1) {
      schedule_of(plan);
    }
    return;
  }
  const Schedule& own = *plan.own_schedule;
  verify(own);
  const std::string where = own.where.empty() ? place(plan) : own.where;
  const auto check = [&](const char* what,
                         int64_t of_schedule,
                         int64_t of_plan,
                         const std::string& from) {
    WEFT_CHECK_USER(
        of_schedule == of_plan,
        where,
        ": schedule @",
        own.name,
        " is for ",
        of_schedule,
        " ",
        what,
        ", and the plan has ",
        of_plan,
        " (",
        from,
        "); change one of them");
  };
  check(
      "position(s)",
      static_cast<int64_t>(own.order.size()),
      axis_size(plan.mesh, kPipelineAxis),
      cat("on ", print(plan.mesh)));
  check(
      "stage(s)",
      own.stages,
      stage_count(plan),
      cat(plan.stages.size(), " stage line(s)"));
  const std::string time =
      plan.time.axes.empty() ? "no 'in'" : cat("in ", print(plan.time));
  check(
      "micro-batch(es)",
      own.micro_batches,
      axis_size(plan.time, kMicroAxis),
      time);
  check("slice(s)", own.slices, axis_size(plan.time, kSliceAxis), time);
  for (size_t p = 0; p < own.order.size(); ++p) {
    WEFT_CHECK_USER(
        !own.order[p].empty(),
        p < own.position_where.size() ? own.position_where[p] : where,
        ": schedule @",
        own.name,
        ": position ",
        p,
        " has nothing to do; give it a stage, or the mesh a smaller pipeline");
  }
}

std::string place(const Plan& plan) {
  return plan.where.empty() ? cat("plan @", plan.graph) : plan.where;
}

std::string meshes_text(const Plan& plan) {
  if (!has_unequal_stages(plan)) {
    return cat("the mesh ", print(plan.mesh));
  }
  std::vector<std::string> texts;
  for (const Mesh& mesh : position_meshes(plan)) {
    texts.push_back(print(mesh));
  }
  return cat("the pipeline of ", join(texts, " and "));
}

void verify_ranks(const Plan& plan, int64_t ranks) {
  const int64_t needed = rank_count(plan);
  WEFT_CHECK_USER(
      needed == ranks,
      place(plan),
      ": ",
      meshes_text(plan),
      " needs ",
      needed,
      needed == 1 ? " rank" : " ranks",
      ", and there ",
      ranks == 1 ? "is " : "are ",
      ranks,
      "; start ",
      needed,
      ", or write a mesh of ",
      ranks);
}

}  // namespace weft
