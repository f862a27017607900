# SPDX-License-Identifier: Apache-2.0
"""The account of a step against PyTorch's own counters."""

import importlib

import pytest
import torch
import weft
from replaying import eager_step
from torch.utils.flop_counter import FlopCounterMode, flop_registry
from weft import _weft

EXAMPLES = ["gpt", "llama", "bert", "t5", "vit", "resnet", "unet3d", "cosmoflow", "moe", "lstm"]


def counted_by_pytorch(model, batch):
    """Flops by operator name, for the operators that PyTorch counts."""
    with FlopCounterMode(display=False) as counter:
        eager_step(model, batch)
    counts = counter.get_flop_counts().get("Global", {})
    return {str(op): int(count) for op, count in counts.items() if count}


@pytest.mark.parametrize("example", EXAMPLES)
def test_flops_are_those_of_flop_counter(example):
    function = importlib.import_module(example).tiny
    figures = weft.profile(weft.capture_function(function).graph)
    counted = {str(op) for op in flop_registry}
    ours = {
        row["op"]: row["flops"]["forward"] + row["flops"]["backward"] for row in figures["ops"] if row["op"] in counted
    }
    model, batch = function()[:2]
    assert ours == counted_by_pytorch(model, batch)


def measured_peak_bytes(function):
    """The most bytes that the CPU allocator had out during a training step."""
    watch = _weft.AllocationWatch()
    try:
        model, batch, optimizer = (*function(), None)[:3]

        def step():
            for parameter in model.parameters():
                parameter.grad = None
            eager_step(model, batch)
            if optimizer is not None:
                optimizer.step()

        # The first step makes the optimizer's state, and lazily made buffers.
        step()
        for parameter in model.parameters():
            parameter.grad = None
        watch.reset_peak()
        step()
        return watch.peak_bytes
    finally:
        watch.close()


@pytest.mark.parametrize("example", EXAMPLES)
def test_peak_bytes_are_those_of_eager(example):
    function = importlib.import_module(example).tiny
    figures = weft.profile(weft.capture_function(function).graph)
    measured = measured_peak_bytes(function)
    error = figures["peak_bytes"] / measured - 1
    print(f"{example}: {figures['peak_bytes']:,} predicted, {measured:,} measured, {error:+.3%}")
    assert abs(error) <= 0.01


def test_threads_do_not_change_the_account():
    torch.set_num_threads(2)
    assert weft.profile(weft.capture_function(importlib.import_module("gpt").tiny).graph)
