# SPDX-License-Identifier: Apache-2.0
"""Every schedule on 2, 4 and 8 positions, alone and with every other kind, on models that are hard to cut: tied tables,
an encoder beside a decoder, batch norms over the whole batch, skips across stages."""

import importlib

import pytest
import torch
from lockstep import Step
from training import in_double
from weft import _weft

# Deep enough for sixteen stages, with dropout where the model has it.
MODELS = {
    "gpt": {"layers": 4, "width": 32, "vocabulary": 251, "batch_size": 8, "dropout": 0.1},
    "t5": {"width": 32, "hidden": 64, "batch_size": 8, "dropout": 0.1},
    "resnet": {"layers": (3, 4, 6, 3), "width": 4},
    "unet3d": {"channels": (8, 16), "volume": 8, "batch_size": 8},
}
# Fifty layers of batch norm over a few pixels turn a last bit into 1e-3 of a gradient, on one rank as on many; of the
# U-Net, one start in five has a unit so near its kink that a last bit counts. What plans change shows only where there
# are more bits.
IN_DOUBLE = {"resnet", "unet3d"}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]
POSITIONS = [2, 4, 8]
OTHERS = ["", "data=2", "tensor=2", "data=2,zero=1", "data=2,zero=2", "data=2,zero=3"]
# In `make test` each of its own kind.
FEW = {
    ("gpt", 8, "zb-v", "data=2,zero=3"),
    ("t5", 8, "interleaved", ""),
    ("resnet", 4, "zb-h2", "data=2,zero=1"),
    ("unet3d", 8, "gpipe", "tensor=2"),
}
CELLS = [(m, p, s, o) for m in MODELS for p in POSITIONS for s in SCHEDULES for o in OTHERS]


@pytest.fixture(scope="module")
def steps():
    made = {}

    def get(model):
        if model not in made:
            made.clear()
            torch.manual_seed(0)
            module, batch, optimizer = importlib.import_module(model).tiny(**MODELS[model])
            if model in IN_DOUBLE:
                batch = in_double(module, batch)
            made[model] = Step(module, batch, optimizer)
        return made[model]

    return get


@pytest.mark.parametrize(
    ("model", "positions", "schedule", "others"),
    [cell if cell in FEW else pytest.param(*cell, marks=pytest.mark.campaign) for cell in CELLS],
)
def test_stages(steps, model, positions, schedule, others):
    step = steps(model)
    words = f"pipeline={positions},schedule={schedule},micro-batches=4" + (f",{others}" if others else "")
    worst = step.difference(_weft.expand(step.graph, words))
    loss, rest = (1e-10, 1e-9) if model in IN_DOUBLE else (1e-6, 1e-5)
    assert worst["loss"] < loss, worst
    assert worst["gradient"] < rest, worst
    assert worst["buffer"] < rest, worst
