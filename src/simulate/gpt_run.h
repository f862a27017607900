// SPDX-License-Identifier: Apache-2.0
// Training runs of GPT models that someone measured and published, and what the
// costs of this folder say about them. Such tables come without a graph: a row
// says how large the model was and how ranks shared it, and the step is put
// together from the calls that the training code of that time made
// (Megatron-LM, eager PyTorch, 16 bit floats, every layer recomputed). Each
// call, transfer and the host that issues them cost what they would in a
// Program; the order of the pipeline is that of plan/schedule.h.
#pragma once

#include "cluster/cluster.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct GptRun {
  int64_t global_batch = 1;
  int64_t micro_batch = 1;
  int64_t hidden = 1;
  int64_t heads = 1;
  int64_t layers = 1;
  int64_t sequence = 1;
  int64_t vocabulary = 50257;
  // Ranks: of them, those of one tensor group are neighbours, then data.
  int64_t tensor = 1;
  int64_t data = 1;
  int64_t pipeline = 1;
  // Of each position of the pipeline; above 1: interleaved.
  int64_t stages_per_position = 1;
  // 0: nobody measured it.
  double measured_seconds = 0;
};

int64_t rank_count(const GptRun& run);

// A table with a line of names, then a row a run: global_batch, micro_batch,
// hidden, heads, layers, sequence, tensor, data, pipeline; and if they are
// there gpus, vocabulary, stages_per_position and iteration_ms. Other columns
// are passed over, and lines that begin with '#'. Throws UserError with the
// line.
std::vector<GptRun> parse_gpt_runs(
    std::string_view text, const std::string& source);

// Where the step's time goes, on the rank that ends last.
struct GptSeconds {
  double step = 0;
  // Waiting for other stages.
  double bubble = 0;
  // All that is not in the layers: embedding, head and loss.
  double ends = 0;
  double gradients = 0;
  double optimizer = 0;
};

// Throws UserError when the cluster has too few devices.
GptSeconds gpt_seconds(const GptRun& run, const Cluster& cluster);

}  // namespace weft
