// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/spot.h"
#include "plan/tensor_split.h"

#include <cstdint>
#include <vector>

namespace weft {

// What to split of a value that the step makes.
struct SplitValue {
  ValueId value = ValueId::None;
  Spot spot;
};

// Where the step's tokens are: `batch` and `sequence` tell for every value
// where the first and the second dim of the batch are found in it.
struct TokenDims {
  Spots batch;
  Spots sequence;
};
// Texts are inputs of the batch with two or three dims; the second one of the
// first of them is the sequence, and so are those of its length and those of
// other texts as integers, [batch, words] (a decoder's).
TokenDims token_dims(const StepRules& rules);
bool has_sequence(const StepRules& rules, const TokenDims& tokens);

// Whether ranks that pass blocks round (OpDef::blocks) have unequal work when
// each holds neighbouring tokens, as a causal mask makes it, and equal
// work when each holds every `ways`-th.
bool wants_stripes(
    const StepRules& rules, const TokenDims& tokens, int64_t ways);

// The first value of forward that depends on later tokens of the sequence in a
// way that no slices of it can be computed one after the other; None for a
// causal model.
ValueId sees_later_tokens(const StepRules& rules, const TokenDims& tokens);

// Results of forward that are partial sums when `parameters` are split, and
// what the batch looks up: where they have a dim for the sequence alone, in
// themselves or in a view of them, that dim.
std::vector<SplitValue> scattered_sums(
    const StepRules& rules, const TokenDims& tokens, const Spots& parameters);

// For a sequence that is split, and heads that can be split `ways`: nodes of
// forward that need all of it, as attention does, get their operands split
// along another dim (heads), and where products with parameters read what comes
// of it the sequence is split again.
std::vector<SplitValue> heads_for_sequence(
    const StepRules& rules, const TokenDims& tokens, int64_t ways);

}  // namespace weft
