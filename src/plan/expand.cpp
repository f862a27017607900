// SPDX-License-Identifier: Apache-2.0
// The plan that a short form stands for: the mesh, then word by word what each
// of them splits.
#include "base/error.h"
#include "plan/grid_split.h"
#include "plan/name_patterns.h"
#include "plan/parallel.h"
#include "plan/pipeline_cut.h"
#include "plan/schedule.h"
#include "plan/sequence_split.h"
#include "plan/spatial_split.h"
#include "plan/spot.h"
#include "plan/tensor_split.h"
#include "plan/token_slices.h"
#include "plan/zero.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

constexpr const char* kData = "data";
constexpr const char* kReplica = "replica";
constexpr const char* kShard = "shard";
constexpr const char* kExpert = "expert";
constexpr const char* kContext = "context";
constexpr const char* kTensor = "tensor";
// Of `tensor` over two or three axes.
constexpr const char* kGrid[] = {"x", "y", "z"};

class Expansion {
 public:
  // `layouts`: in place of what `tensor` and `sequence` split; nullptr: none.
  Expansion(
      const Parallel& parallel,
      const std::vector<Decision>* layouts,
      const Graph& graph,
      const Device& device)
      : parallel_(parallel),
        known_(layouts),
        graph_(graph),
        step_(step_of(graph)),
        device_(device) {}

  Plan run() {
    plan_.graph = graph_.name;
    plan_.recompute_cheap = true;
    plan_.seats = parallel_.seats;
    if (rank_count(parallel_) > 1 || parallel_.micro_batches > 1 ||
        has_slices(parallel_)) {
      make_mesh();
      split_images();
      split_batch();
      split_heads();
      if (known_ != nullptr) {
        take_known();
      } else if (needs_rules()) {
        rules_ = std::make_unique<StepRules>(graph_);
        tokens_ = token_dims(*rules_);
        split_parameters();
        split_sequence();
      }
      split_storage();
      split_time();
      split_in_slices();
      cut_stages();
      write_decisions();
    }
    verify(plan_, graph_);
    return std::move(plan_);
  }

 private:
  int64_t context() const {
    return std::max(parallel_.context, parallel_.ulysses);
  }

  bool is_grid() const { return parallel_.tensor.size() > 1; }

  // Over one axis.
  int64_t tensor() const {
    return parallel_.tensor.size() == 1 ? parallel_.tensor.front() : 1;
  }

  bool needs_rules() const {
    return is_grid() || tensor() > 1 || context() > 1 || parallel_.expert > 1 ||
           has_slices(parallel_);
  }

  void add_axis(const std::string& name, int64_t size) {
    if (size > 1) {
      plan_.mesh.axes.push_back({name, size});
    }
  }

  // What exchanges most often varies fastest: those ranks are nearest.
  void make_mesh() {
    add_axis(std::string(kPipelineAxis), parallel_.pipeline);
    if (parallel_.shard > 1) {
      add_axis(kReplica, parallel_.data / parallel_.shard);
      add_axis(kShard, parallel_.shard);
    } else {
      add_axis(kData, parallel_.data);
    }
    for (const Axis& axis : stage_mesh(plan_.mesh).axes) {
      batch_axes_.push_back(axis.name);
    }
    data_axes_ = batch_axes_;
    state_axes_ = parallel_.shard > 1 ? Axes{kShard} : data_axes_;
    add_axis(kExpert, parallel_.expert);
    if (parallel_.expert > 1) {
      batch_axes_.emplace_back(kExpert);
    }
    add_axis(kContext, context());
    for (size_t i = 0; i < parallel_.spatial.size(); ++i) {
      add_axis(spatial_name(i), parallel_.spatial[i]);
    }
    add_axis(kTensor, tensor());
    for (size_t i = 0; is_grid() && i < parallel_.tensor.size(); ++i) {
      grid_.push_back({kGrid[i], parallel_.tensor[i]});
      plan_.mesh.axes.push_back(grid_.back());
    }
    for (size_t i = 0; i + 1 < grid_.size(); ++i) {
      batch_axes_.push_back(grid_[i].name);
    }
  }

  Layout& layout_of(ValueId value) {
    const auto [it, is_new] = layouts_.try_emplace(value);
    if (is_new) {
      it->second = replicated(static_cast<int>(step_[value].type.sizes.size()));
      order_.push_back(value);
    }
    return it->second;
  }

  // --- The batch.

  // The first image or volume of the batch, or where there is none the first
  // signal: one dim after the channels.
  const TensorType& image() const {
    for (const size_t least : {kFirstSpatialDim + 2, kFirstSpatialDim + 1}) {
      for (const Input& input : step_.inputs) {
        const TensorType& type = step_[input.value].type;
        if (input.kind == InputKind::Batch && type.sizes.size() >= least) {
          return type;
        }
      }
    }
    throw UserError(
        cat(print(parallel_),
            ": spatial splits signals, images and volumes, and no input of the "
            "batch has 3 to 5 dims"));
  }

  std::string spatial_name(size_t position) const {
    constexpr const char* kNames[] = {"depth", "height", "width"};
    const size_t count = image().sizes.size() - kFirstSpatialDim;
    WEFT_CHECK_USER(
        parallel_.spatial.size() <= count && count <= 3,
        print(parallel_),
        ": spatial has more numbers than ",
        print(image()),
        " has dims after the channels");
    return kNames[3 - count + position];
  }

  void split_images() {
    for (const Input& input : step_.inputs) {
      if (parallel_.spatial.empty() || input.kind != InputKind::Batch) {
        continue;
      }
      const size_t first = first_spatial_dim(step_[input.value].type, image());
      for (size_t i = 0; first > 0 && i < parallel_.spatial.size(); ++i) {
        if (parallel_.spatial[i] > 1) {
          layout_of(input.value).dims[first + i] =
              split_over({spatial_name(i)});
        }
      }
    }
  }

  // Where space ends, its axes go to samples, if there are enough.
  void split_heads() {
    if (parallel_.spatial.empty()) {
      return;
    }
    Axes axes = batch_axes_;
    for (size_t i = 0; i < parallel_.spatial.size(); ++i) {
      if (parallel_.spatial[i] > 1) {
        axes.push_back(spatial_name(i));
      }
    }
    const std::vector<ValueId> all = heads(step_, image());
    if (all.empty() || image().sizes.front() % ways(plan_.mesh, axes) != 0) {
      return;
    }
    for (const ValueId value : all) {
      layout_of(value).dims.front() = split_over(axes);
    }
    for (const ValueId value : spread_gradients(step_, image())) {
      layout_of(value).dims.front() = split_over(batch_axes_);
    }
  }

  void split_batch() {
    int64_t batch = 0;
    for (const Input& input : step_.inputs) {
      const Dims& sizes = step_[input.value].type.sizes;
      if (input.kind != InputKind::Batch || sizes.empty()) {
        continue;
      }
      if (batch == 0) {
        batch = sizes.front();
        choose_batch_axes(batch);
      }
      if (sizes.front() == batch && !batch_axes_.empty()) {
        layout_of(input.value).dims.front() = split_over(batch_axes_);
      }
    }
  }

  // As many axes as leave every rank a row, from the outermost on. Pieces must
  // be of one size where something else is split inside them.
  void choose_batch_axes(int64_t batch) {
    const bool is_even = is_grid() || parallel_.sequence || context() > 1;
    while (!batch_axes_.empty() && !fits(batch, batch_axes_, is_even)) {
      batch_axes_.pop_back();
    }
  }

  bool fits(int64_t size, const Axes& axes, bool is_even) const {
    const int64_t pieces = ways(plan_.mesh, axes);
    return is_even ? size % pieces == 0 : size >= pieces;
  }

  // As many micro-batches as every rank has rows for.
  void split_time() {
    const std::string micro(kMicroAxis);
    int64_t batch = 0;
    for (const Input& input : step_.inputs) {
      const Dims& sizes = step_[input.value].type.sizes;
      if (input.kind != InputKind::Batch || sizes.empty()) {
        continue;
      }
      if (batch == 0) {
        batch = sizes.front();
        const int64_t count = std::min(
            parallel_.micro_batches, batch / ways(plan_.mesh, batch_axes_));
        if (count > 1) {
          plan_.time.axes.push_back({micro, count});
        }
      }
      if (sizes.front() == batch && !plan_.time.axes.empty()) {
        Levels& rows = layout_of(input.value).dims.front();
        Axes axes = axes_of(rows);
        axes.push_back(micro);
        rows = split_over(axes);
      }
    }
  }

  void check_sequence() const {
    WEFT_CHECK_USER(
        has_sequence(*rules_, tokens_),
        print(parallel_),
        ": no input of the batch has a second dim that is a sequence (two or "
        "three dims)");
  }

  void split_in_slices() {
    if (!has_slices(parallel_)) {
      return;
    }
    check_sequence();
    const ValueId later = sees_later_tokens(*rules_, tokens_);
    WEFT_CHECK_USER(
        later == ValueId::None,
        print(parallel_),
        ": slices go through one after the other where no token sees later "
        "ones, and %",
        later == ValueId::None ? "" : step_[later].name,
        " needs all of the sequence; take micro-batches, or causal attention "
        "without dropout");
    Axis axis;
    for (const Input& input : step_.inputs) {
      const auto& spot = tokens_.sequence[index(input.value)];
      if (input.kind != InputKind::Batch || !spot) {
        continue;
      }
      if (axis.name.empty()) {
        axis = slices_of(spot->size);
        if (axis.size == 1) {
          return;
        }
        plan_.time.axes.push_back(axis);
      }
      split(
          layout_of(input.value), step_[input.value].type, *spot, {axis.name});
    }
  }

  Axis slices_of(int64_t length) const {
    Axis axis = {
        std::string(kSliceAxis), parallel_.slices, parallel_.slice_shares};
    if (parallel_.slices_are_chosen) {
      const SliceShape shape = {
          .length = length,
          .stages = stage_count(parallel_),
          .micro_batches = parallel_.micro_batches};
      axis.shares = best_slices(slice_costs(step_, device_, shape), shape);
      axis.size = static_cast<int64_t>(axis.shares.size());
    }
    // As many as there are tokens for.
    if (axis.size > length) {
      axis.size = length;
      axis.shares.clear();
    }
    return axis;
  }

  void cut_stages() {
    if (parallel_.own_schedule) {
      plan_.own_schedule = first_micro_batches(
          *parallel_.own_schedule, axis_size(plan_.time, kMicroAxis));
    } else {
      plan_.schedule = parallel_.schedule;
    }
    if (parallel_.pipeline > 1) {
      plan_.stages = balanced_stages(step_, stage_count(parallel_));
    }
  }

  // --- Parameters.

  void take_known() {
    std::unordered_map<std::string_view, const Layout*> by_name;
    for (const Decision& decision : *known_) {
      by_name.emplace(decision.pattern, &decision.layout);
    }
    for (size_t i = 0; i < step_.values.size(); ++i) {
      const auto at = by_name.find(step_.values[i].name);
      if (at != by_name.end()) {
        layout_of(static_cast<ValueId>(i)) = only_on(*at->second, plan_.mesh);
      }
    }
  }

  void split_parameters() {
    if (is_grid()) {
      split_grid();
    }
    if (tensor() > 1) {
      tensor_ = tensor_split(*rules_, tensor(), parallel_.vocabulary);
      split_by(tensor_.parameters, kTensor, tensor());
    }
    if (parallel_.expert > 1) {
      split_by(
          expert_split(*rules_, parallel_.expert), kExpert, parallel_.expert);
    }
  }

  void split_by(const Spots& spots, const std::string& axis, int64_t size) {
    bool is_used = false;
    for (size_t i = 0; i < spots.size(); ++i) {
      if (const auto& spot = spots[i]) {
        const auto value = static_cast<ValueId>(i);
        split(layout_of(value), step_[value].type, *spot, {axis});
        is_used = true;
      }
    }
    WEFT_CHECK_USER(
        is_used,
        print(parallel_),
        ": ",
        axis,
        "=",
        size,
        axis == kExpert
            ? " splits parameters that hold one matrix an expert, and the step "
              "has none whose experts divide so"
            : " fits no product of the step: none has a dim that divides so "
              "and is summed over by a later product");
  }

  void split_grid() {
    const GridSplit grid = grid_split(*rules_, grid_);
    WEFT_CHECK_USER(
        !grid.parameters.empty(),
        print(parallel_),
        ": no product of the step makes what divides so");
    for (const GridParameter& each : grid.parameters) {
      const TensorType& type = step_[each.value].type;
      Layout compute = replicated(static_cast<int>(type.sizes.size()));
      for (const GridParameter::Part& part : each.parts) {
        split(layout_of(each.value), type, part.spot, part.stored);
        split(compute, type, part.spot, part.compute);
      }
      if (canonical(compute, type, plan_.mesh) !=
          canonical(layout_of(each.value), type, plan_.mesh)) {
        compute_.emplace(each.value, std::move(compute));
      }
    }
    for (const GridValue& each : grid.values) {
      const TensorType& type = step_[each.value].type;
      if (const auto& batch = tokens_.batch[index(each.value)]) {
        Axes axes = data_axes_;
        axes.insert(axes.end(), each.tokens.begin(), each.tokens.end());
        while (!axes.empty() && !fits(batch->size, axes, true)) {
          axes.pop_back();
        }
        split(layout_of(each.value), type, *batch, axes);
      }
      split(layout_of(each.value), type, each.spot, each.channel);
    }
  }

  // --- Values of the step.

  void split_sequence() {
    if (!parallel_.sequence && context() == 1) {
      return;
    }
    check_sequence();
    is_striped_ = parallel_.context > 1 &&
                  wants_stripes(*rules_, tokens_, parallel_.context);
    for (const Input& input : step_.inputs) {
      const auto& spot = tokens_.sequence[index(input.value)];
      if (spot && context() > 1) {
        if (parallel_.ulysses > 1) {
          check_length(spot->size, context());
        }
        split_tokens(
            layout_of(input.value), step_[input.value].type, *spot, {});
      }
    }
    if (parallel_.ulysses > 1) {
      const std::vector<SplitValue> heads =
          heads_for_sequence(*rules_, tokens_, parallel_.ulysses * tensor());
      WEFT_CHECK_USER(
          !heads.empty(),
          print(parallel_),
          ": nothing that needs the whole sequence has heads that divide into ",
          parallel_.ulysses * tensor(),
          "; take fewer ranks, or context=",
          parallel_.ulysses);
      for (const SplitValue& each : heads) {
        split(
            split_otherwise(each.value),
            step_[each.value].type,
            each.spot,
            {kContext});
      }
    }
    if (parallel_.sequence) {
      for (const SplitValue& each :
           scattered_sums(*rules_, tokens_, tensor_.parameters)) {
        check_length(each.spot.size, context() * tensor());
        split_tokens(
            split_otherwise(each.value),
            step_[each.value].type,
            each.spot,
            {kTensor});
      }
    }
  }

  // Over `context`, and what that leaves over `inner`. Where ranks pass blocks
  // round, rank r of n has the tokens r, r + n, ...: then all see as much.
  void split_tokens(
      Layout& layout,
      const TensorType& type,
      const Spot& spot,
      const Axes& inner) const {
    if (!is_striped_ || spot.size % context() != 0) {
      Axes axes = context() > 1 ? Axes{kContext} : Axes{};
      axes.insert(axes.end(), inner.begin(), inner.end());
      split(layout, type, spot, axes);
      return;
    }
    const int64_t rows = spot.size / context();
    split(
        layout, type, {spot.dim, spot.sections * rows, context()}, {kContext});
    split(layout, type, {spot.dim, spot.sections, rows}, inner);
  }

  void check_length(int64_t length, int64_t pieces) const {
    WEFT_CHECK_USER(
        length % pieces == 0,
        print(parallel_),
        ": a sequence of ",
        length,
        " does not divide into ",
        pieces,
        " pieces");
  }

  // With what splits the value anyway, so that a decision about something else
  // moves nothing of that.
  Layout& split_otherwise(ValueId value) {
    const TensorType& type = step_[value].type;
    Layout& layout = layout_of(value);
    if (const auto& batch = tokens_.batch[index(value)]) {
      split(layout, type, *batch, batch_axes_);
    }
    if (!tensor_.values.empty()) {
      if (const auto& spot = tensor_.values[index(value)]) {
        split(layout, type, *spot, {kTensor});
      }
    }
    return layout;
  }

  // --- What is kept from step to step.

  void split_storage() {
    for (const Belongings& each : belongings(step_)) {
      const auto it = layouts_.find(each.parameter);
      const TensorType& type = step_[each.parameter].type;
      const Layout whole = replicated(static_cast<int>(type.sizes.size()));
      const Layout split = it == layouts_.end() ? whole : it->second;
      // Parameters are gathered for an optimizer that needs them whole.
      const bool is_stored_so =
          each.is_elementwise ? parallel_.zero > 0 : parallel_.zero >= 3;
      const Layout stored =
          is_stored_so ? stored_split(split, type, state_axes_, plan_.mesh)
                       : split;
      if (stored == whole) {
        continue;
      }
      if (parallel_.zero >= 3 && stored != split) {
        layout_of(each.parameter) = stored;
        compute_.try_emplace(each.parameter, split);
      }
      const Layout& updated = each.is_elementwise ? stored : split;
      for (const ValueId state : each.states) {
        layout_of(state) = updated;
      }
      if (parallel_.zero >= 2 && each.gradient != ValueId::None) {
        layout_of(each.gradient) = updated;
      }
    }
  }

  // Inputs in their order, then what the step makes in its order.
  void write_decisions() {
    std::sort(order_.begin(), order_.end());
    std::vector<Decision> decisions;
    for (const ValueId value : order_) {
      const TensorType& type = step_[value].type;
      // A size that the dim has anyway need not be said.
      const auto canonical_layout = [&](const Layout& layout) {
        Layout plain =
            canonical(layout, type, whole_mesh(plan_.mesh, plan_.time));
        for (Levels& levels : plain.dims) {
          if (levels.size() == 1) {
            levels.front().size = 0;
          }
        }
        return plain;
      };
      Decision decision;
      decision.pattern = step_[value].name;
      decision.layout = canonical_layout(layouts_.at(value));
      if (const auto it = compute_.find(value); it != compute_.end()) {
        decision.compute = canonical_layout(it->second);
      }
      decisions.push_back(std::move(decision));
    }
    plan_.decisions = with_patterns(decisions, step_);
  }

  const Parallel& parallel_;
  const std::vector<Decision>* known_;
  const Graph& graph_;
  const Function& step_;
  const Device& device_;
  Plan plan_;
  // Axes over which the batch is split, those of `data` among them, and those
  // over which `zero` splits.
  Axes batch_axes_;
  Axes data_axes_;
  Axes state_axes_;
  // The axes of `tensor` over two or three.
  std::vector<Axis> grid_;
  std::map<ValueId, Layout> layouts_;
  std::map<ValueId, Layout> compute_;
  std::vector<ValueId> order_;
  std::unique_ptr<StepRules> rules_;
  TokenDims tokens_;
  bool is_striped_ = false;
  TensorSplit tensor_;
};

}  // namespace

Plan expand(
    const Parallel& parallel, const Graph& graph, const Device& device) {
  verify(parallel);
  return Expansion(parallel, nullptr, graph, device).run();
}

Plan expand(
    const Parallel& parallel,
    const std::vector<Decision>& layouts,
    const Graph& graph,
    const Device& device) {
  verify(parallel);
  WEFT_CHECK(
      parallel.tensor.size() < 2 && parallel.context == 1 &&
          parallel.ulysses == 1 && parallel.expert == 1 &&
          parallel.spatial.empty() && !has_slices(parallel),
      "layouts are of data and tensor alone");
  return Expansion(parallel, &layouts, graph, device).run();
}

}  // namespace weft
