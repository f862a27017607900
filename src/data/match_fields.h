// SPDX-License-Identifier: Apache-2.0
// Which field of a dataset fills which batch input of a model.
#pragma once

#include "data/dataset.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// An input of the model that comes with the batch; dim 0 are the samples.
struct BatchInput {
  std::string key;
  TensorType type;
};

struct FieldMatch {
  std::string key;
  // What fills it: a field of the dataset, or ones in every place.
  enum class Source : uint8_t { Field, Ones } source = Source::Field;
  size_t field = 0;
  // Of one sample, as the model takes it.
  TensorType type;

  bool operator==(const FieldMatch&) const = default;
};

// One match an input, in their order. The first rule that gives one wins:
//   1. `pairs`, each "KEY=FIELD"; the field `ones` is always there.
//   2. Of a stream, when there is an input `input_ids`, the names of Hugging
//      Face: `input_ids` and `labels` are both `tokens` (its models shift the
//      labels themselves), `attention_mask` is ones.
//   3. The field of the same name; `attention_mask` without one is ones.
//   4. Of a stream: the first integer input of sizes [B, L] gets `tokens`, the
//      second `labels`.
// Throws UserError that lists inputs and fields when an input is left without,
// when sizes differ, when the dtype does not convert (convert.h), and when a
// pair names what is not there.
std::vector<FieldMatch> match_fields(
    const std::vector<BatchInput>& inputs,
    const Dataset& dataset,
    const std::vector<std::string>& pairs = {});

}  // namespace weft
