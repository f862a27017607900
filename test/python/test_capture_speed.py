# SPDX-License-Identifier: Apache-2.0
"""Capture is cheaper than the meta run that it replaces, and linear in layers."""

import time

import gpt
import pytest
import torch
import weft
from replaying import eager_step


def weft_seconds(layers):
    captured = weft.capture_function(gpt.gpt3_175b, {"layers": layers})
    start = time.perf_counter()
    figures = weft.profile(captured.graph)
    return captured.capture_seconds + time.perf_counter() - start, figures


def meta_seconds(layers):
    with torch.device("meta"):
        model, batch = gpt.gpt3_175b(layers=layers)[:2]
    start = time.perf_counter()
    eager_step(model, batch)
    return time.perf_counter() - start


@pytest.mark.clock
def test_at_most_half_of_a_meta_run():
    weft_seconds(2)
    meta_seconds(2)
    # The arms take turns; the least of each is the one with the least noise.
    ours, meta = zip(*((weft_seconds(96)[0], meta_seconds(96)) for _ in range(3)), strict=True)
    print(f"{min(ours):.3f} s, meta {min(meta):.3f} s, {min(ours) / min(meta):.2f}x")
    assert min(ours) <= 0.5 * min(meta)


def test_nodes_and_costs_are_linear_in_layers():
    eight, sixteen, twenty_four = (weft_seconds(layers)[1] for layers in (8, 16, 24))
    for key in ("nodes", "parameters"):
        assert twenty_four[key] - sixteen[key] == sixteen[key] - eight[key]
    (layer,) = twenty_four["layer_classes"]
    assert layer["count"] == 24
    assert eight["layer_classes"][0] | {"count": 24, "name": ""} == layer | {"name": ""}


@pytest.mark.clock
def test_time_is_linear_in_layers():
    weft_seconds(2)
    # Long enough that both arms have outgrown the caches (a layer of 48 takes half of what one of 192 does), and what
    # grows faster than the layers shows; turns until noise has left each arm alone once.
    short, long = zip(*((weft_seconds(192)[0], weft_seconds(768)[0]) for _ in range(5)), strict=True)
    print(f"{min(short):.3f} s, four times the layers {min(long):.3f} s, {min(long) / min(short):.2f}x")
    assert min(long) <= 6 * min(short)
