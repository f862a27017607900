// SPDX-License-Identifier: Apache-2.0
// Parameters, buffers and optimizer states between a trainer and the disk.
#pragma once

#include "checkpoint/async_saver.h"
#include "checkpoint/tensor_source.h"
#include "execute/communicator.h"
#include "train/trainer.h"

#include <string>
#include <vector>

namespace weft {

// What a checkpoint of this model holds, in short: equal for trainers of the
// same model and optimizer, however many ranks they have.
std::string fingerprint(const Trainer& trainer);

// Copies of what this rank writes. Of a tensor that several ranks hold, one
// writes it, in turn.
std::vector<OwnedPiece> pieces_to_save(const Trainer& trainer);

// Fills everything from a checkpoint. Throws UserError when a tensor is missing
// or has another type.
void load_state(Trainer& trainer, TensorSource& source);

// Fills parameters, and the buffers that are there, from tensors under the
// model's own names; a tied one may be under any of its names. Throws UserError
// naming what is missing and what is there and has no place.
void load_parameters(Trainer& trainer, TensorSource& source);

// Fills parameters and buffers by the `init` of a graph, each with the rank's
// own piece; not those that `except` holds.
void initialise_parameters(
    Trainer& trainer, const Graph& graph, TensorSource* except = nullptr);

// A parameter, buffer or state of that name (Trainer::find_kept), whole on
// every rank: the rank's own where all have all of it, else put together. All
// ranks must call it; `everybody` is of all of them, and none for one rank.
at::Tensor whole_tensor(
    const Trainer& trainer, Communicator* everybody, const std::string& name);

}  // namespace weft
