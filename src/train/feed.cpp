// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include "base/error.h"
#include "data/read_batch.h"
#include "program/piece.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <utility>

namespace weft {
namespace {

int64_t batch_size_of(const BatchTypes& types) {
  for (const BatchType& each : types) {
    if (!each.type.sizes.empty()) {
      return each.type.sizes.front();
    }
  }
  throw UserError(
      "the model's batch has no dim for samples: data cannot be fed to it");
}

// A stream is cut into sequences of the length that the model takes.
std::unique_ptr<Dataset> open(
    const BatchTypes& types, const TrainOptions& options) {
  DatasetOptions chosen = options.dataset;
  for (const BatchType& each : types) {
    if (chosen.sequence == 0 && each.type.sizes.size() == 2) {
      chosen.sequence = each.type.sizes[1];
    }
  }
  return open_dataset(options.data, chosen);
}

std::vector<FieldMatch> match(
    const BatchTypes& types,
    const Dataset& dataset,
    const TrainOptions& options) {
  std::vector<BatchInput> inputs;
  for (const BatchType& each : types) {
    inputs.push_back({each.key, each.type});
  }
  return match_fields(inputs, dataset, options.fields);
}

}  // namespace

Feed::Feed(const Graph& graph, const TrainOptions& options)
    : usual_(batch_types(graph)),
      batch_size_(batch_size_of(usual_)),
      dataset_(open(usual_, options)),
      matches_(match(usual_, *dataset_, options)),
      split_(split(dataset_->size(), options.evaluation_fraction)),
      training_(
          split_.training,
          {options.trainer.seed, options.shuffle, options.drop_last}) {
  WEFT_CHECK_USER(
      options.evaluate_every == 0 || split_.evaluation.count > 0,
      options.before
          ? "the run began without evaluation and has trained on all samples: "
            "an evaluation would be on what it has learnt. Leave out "
            "--evaluate-every, or begin another run"
          : "no samples are held out to evaluate on: give an "
            "--evaluation-fraction above 0");
}

std::vector<Batch> Feed::evaluation(int64_t count) const {
  const Sampler sampler(
      split_.evaluation, {.seed = 0, .shuffle = false, .drop_last = false});
  std::vector<Batch> batches;
  for (int64_t position = 0; position < split_.evaluation.count &&
                             static_cast<int64_t>(batches.size()) < count;) {
    batches.push_back(sampler.batch(position, batch_size_));
    position = batches.back().next_position;
  }
  return batches;
}

BatchTypes Feed::types(int64_t samples) const {
  BatchTypes types = usual_;
  for (BatchType& each : types) {
    if (!each.type.sizes.empty() && each.type.sizes.front() == batch_size_) {
      Dims sizes = each.type.sizes;
      sizes.front() = samples;
      each.type = make_type(each.type.dtype, std::move(sizes));
    }
  }
  return types;
}

void Feed::fill(
    const Trainer& trainer, PreparedStep& step, const Batch& batch) const {
  const Block& block = step.executor->block();
  const BatchTypes types = batch_types(step.graph);
  for (size_t i = 0; i < block.function.inputs.size(); ++i) {
    const Input& input = block.function.inputs[i];
    if (input.kind != InputKind::Batch) {
      continue;
    }
    const FieldMatch& match = matches_[position_in(types, input)];
    const at::Tensor& into = step.executor->inputs()[i];
    const Layout& layout = block.layouts[index(input.value)];
    const std::vector<Piece> ranges = ranges_of(
        trainer.team().mesh,
        layout.dims.front(),
        static_cast<int64_t>(batch.samples.size()),
        number_in(trainer.team(), trainer.options().rank));
    std::vector<int64_t> mine;
    for (const Piece& rows : ranges) {
      const auto first = batch.samples.begin() + rows.start;
      mine.insert(mine.end(), first, first + rows.size);
    }
    const auto count = static_cast<int64_t>(mine.size());
    const bool is_direct = into.is_contiguous() && into.size(0) == count &&
                           std::all_of(
                               layout.dims.begin() + 1,
                               layout.dims.end(),
                               [](const auto& axes) { return axes.empty(); });
    Dims sizes = {count};
    sizes.insert(sizes.end(), match.type.sizes.begin(), match.type.sizes.end());
    const at::Tensor read =
        is_direct ? into : at::empty(sizes, into.scalar_type());
    read_batch(
        *dataset_,
        {match},
        mine,
        {{static_cast<std::byte*>(read.mutable_data_ptr()), read.nbytes()}});
    if (!is_direct) {
      Layout inner = layout;
      inner.dims.front().clear();
      into.copy_(
          piece_of_tensor(read, inner, trainer.team(), trainer.options().rank));
    }
  }
}

}  // namespace weft
