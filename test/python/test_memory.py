# SPDX-License-Identifier: Apache-2.0
"""The memory that lowering predicts for a step is the memory that its run uses, to the byte."""

import pytest
import weft
from training import EXAMPLES, make

# Bytes of one temporary of a convolution's backward that come from the system. Lowering plans what eager PyTorch has
# alive besides the results. At that moment this temporary would have to lie across the planned scratch and the place of
# a result that is not made yet, which are not side by side.
TAKES_MORE = {"resnet": 65536, "unet3d": 65536}


@pytest.mark.parametrize("example", EXAMPLES)
def test_predicted_bytes_are_used_bytes(example):
    model, batch, optimizer = make(example, dropout=0.1)
    trainer = weft.parallelize(model, optimizer, batch)
    for _ in range(2):
        trainer.step(batch)
    predicted, used, overflow, where = trainer._core.memory(trainer._tensors(batch))
    assert used == predicted
    assert overflow == TAKES_MORE.get(example, 0), where
