# SPDX-License-Identifier: Apache-2.0
"""Layouts that are searched for every operator compute the loss and gradients of the undivided step."""

import importlib

import pytest
import torch
from lockstep import Step
from weft import _weft
from weft.capture import map_batch

# Links that are fast and slow beside the devices: layouts differ.
FAST = """cluster @fast
device core
  flops_per_second f32 = 1e11
  memory_bytes = 1099511627776
  memory_bytes_per_second = 1e11
  call_seconds = 1e-06
group node = 8 x core
  latency_seconds = 1e-06
  bytes_per_second = 1e11
"""
SLOW = FAST.replace("@fast", "@slow").replace("  bytes_per_second = 1e11", "  bytes_per_second = 1e8")
WORDS = (
    "tensor=2",
    "data=2,tensor=2,zero=1",
    "tensor=2,micro-batches=2",
    "tensor=2,pipeline=2,micro-batches=2",
)


def step_of(example):
    torch.manual_seed(0)
    model, batch, optimizer = importlib.import_module(example).tiny()
    model = model.double()
    batch = map_batch(batch, lambda _, tensor: tensor.double() if tensor.is_floating_point() else tensor)
    return Step(model, batch, type(optimizer)(model.parameters(), lr=0.1))


@pytest.mark.parametrize("example", ["gpt", "llama", "moe", "resnet", "t5"])
def test_searched_layouts_are_exact(example, tmp_path):
    step = step_of(example)
    texts = set()
    for name, text in (("fast", FAST), ("slow", SLOW)):
        cluster = tmp_path / f"{name}.cluster"
        cluster.write_text(text)
        for words in WORDS:
            plans = _weft.plans_of_menu(step.graph, words, str(cluster), 2)
            texts.update(plans)
    assert len(texts) >= len(WORDS)
    for plan in texts:
        worst = step.difference(plan)
        assert max(worst.values()) < 1e-9, f"{worst} under\n{plan}"
