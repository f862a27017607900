# SPDX-License-Identifier: Apache-2.0
"""The memory that lowering predicts for a step is the memory that its run uses, to the byte, and nothing comes from
elsewhere.
"""

import importlib

import pytest
import torch
import weft
from training import EXAMPLES, make

# Shapes for which convolutions take other kernels.
OTHER_SIZES = [
    ("resnet", {"image": 64, "batch_size": 1}),
    ("resnet", {"image": 40, "batch_size": 3}),
    ("unet3d", {"batch_size": 1}),
    ("unet3d", {"batch_size": 3}),
    ("cosmoflow", {"batch_size": 1}),
    ("vit", {"batch_size": 1}),
]


def check(model, batch, optimizer):
    trainer = weft.parallelize(model, optimizer, batch)
    for _ in range(2):
        trainer.step(batch)
    predicted, used, overflow, where = trainer._core.memory(trainer._tensors(batch))
    assert overflow == 0, where
    assert used == predicted


@pytest.mark.parametrize("example", EXAMPLES)
def test_predicted_bytes_are_used_bytes(example):
    check(*make(example, dropout=0.1))


@pytest.mark.parametrize(("example", "sizes"), OTHER_SIZES)
def test_other_sizes(example, sizes):
    torch.manual_seed(0)
    check(*importlib.import_module(example).tiny(**sizes))
