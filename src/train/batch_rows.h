// SPDX-License-Identifier: Apache-2.0
// A batch of which every rank gives its own rows, into the inputs of a step.
#pragma once

#include "execute/communicator.h"
#include "train/batch_agreement.h"
#include "train/row_transfer.h"
#include "train/trainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft {

// What ranks have to send each other before the step: nothing, where the plan
// cuts the batch where the parts begin. The same list on every rank.
std::vector<RowTransfer> row_transfers(
    const Program& program, const AgreedBatch& batch);

// Fills the batch inputs of the step with this rank's piece of the batch. All
// ranks must call it; `everybody` may be nullptr for one rank.
void fill_batch(
    const Trainer& trainer,
    PreparedStep& step,
    const AgreedBatch& batch,
    Communicator* everybody);

// The whole batch, on every rank: for a step whose capture reads values. All
// ranks must call it. `types` may have more rows than there are: then they come
// again.
NamedTensors gather_batch(
    const AgreedBatch& batch,
    const BatchTypes& types,
    int64_t rank,
    Communicator& everybody);

}  // namespace weft
