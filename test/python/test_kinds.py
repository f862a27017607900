# SPDX-License-Identifier: Apache-2.0
"""Every kind of parallelism on every model: the loss and the gradients of eager PyTorch."""

import functools

import pytest
from kinds import MODELS, eager_step, make, rank_count, steps_on_ranks, words_for, worst
from lockstep import Step
from weft import _weft

LOSS = 1e-6
GRADIENT = 1e-5

# In one process these are enough for every day; a campaign takes all.
FEW = {"data=3", "data=2,tensor=2,zero=3", "tensor=2x2", "tensor=2,sequence", "ulysses=2", "expert=2", "spatial=2"}
FEW |= {"micro-batches=2", "data=2,micro-batches=3"}
# Two a model on real ranks.
QUICK = [
    ("gpt", "tensor=2,sequence"),
    ("gpt", "data=2,zero=3"),
    ("llama", "ulysses=2"),
    ("llama", "tensor=2"),
    ("bert", "context=2"),
    ("bert", "data=2,zero=2"),
    ("t5", "tensor=2,sequence"),
    ("t5", "data=2,zero=3"),
    ("vit", "tensor=2"),
    ("vit", "data=2,zero=1"),
    ("resnet", "data=2"),
    ("resnet", "spatial=2"),
    ("unet3d", "data=2,zero=3"),
    ("unet3d", "tensor=2"),
    ("moe", "expert=2"),
    ("moe", "tensor=2,sequence"),
    ("signals", "spatial=2"),
    ("windows", "data=2,micro-batches=3"),
    ("windows", "data=2,zero=3"),
]
CELLS = [(model, words) for model in MODELS for words in words_for(model)]


@functools.cache
def captured(model):
    return Step(*make(model))


@pytest.mark.parametrize(
    ("model", "words"),
    [cell if cell[1] in FEW else pytest.param(*cell, marks=pytest.mark.campaign) for cell in CELLS],
)
def test_all_ranks_in_one_process(model, words):
    step = captured(model)
    difference = step.difference(_weft.expand(step.graph, words))
    assert difference["loss"] < LOSS
    assert difference["gradient"] < GRADIENT


def check_ranks(ranks, folder, cells):
    expected = {model: eager_step(model) for model, _ in cells}
    got = steps_on_ranks(ranks, folder / "all", cells)
    differences = {cell: worst(got[cell], expected[cell[0]]) for cell in cells}
    wrong = {cell: each for cell, each in differences.items() if not (each[0] < LOSS and each[1] < GRADIENT)}
    assert not wrong


def test_two_real_ranks(tmp_path):
    check_ranks(2, tmp_path, QUICK)


@pytest.mark.campaign
@pytest.mark.parametrize(("model", "ranks"), sorted({(model, rank_count(words)) for model, words in CELLS}))
def test_real_ranks(tmp_path, model, ranks):
    check_ranks(ranks, tmp_path, [(model, words) for words in words_for(model) if rank_count(words) == ranks])
