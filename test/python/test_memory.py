# SPDX-License-Identifier: Apache-2.0
"""The memory that lowering predicts for a step is the memory that its run uses, to the byte, and nothing comes from
elsewhere.
"""

import importlib

import pytest
import torch
import weft
from torch import nn
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


class Full(nn.Module):
    """Nothing of the arena is free while the mean is taken, which divides by a number."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, inputs):
        return (inputs.mean(-1, keepdim=True) * self.weight).sum()


def test_numbers_have_room_in_a_full_arena():
    model = Full()
    check(model, {"inputs": torch.rand(4, 1024)}, torch.optim.SGD(model.parameters(), lr=0.1))
