# SPDX-License-Identifier: Apache-2.0
"""What travels while ranks compute, in the timeline of a real run."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from lockstep import Step
from safetensors.torch import save_file

PROGRAM = os.environ.get("WEFT_PROGRAM", str(pathlib.Path(sys.executable).parent / "weft"))


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Of rank 0 of two that run GPT under zero=3: (stream, start, end, label)."""
    folder = tmp_path_factory.mktemp("overlap")
    torch.manual_seed(0)
    options = {"layers": 4, "width": 128, "heads": 4, "vocabulary": 512, "sequence": 128, "batch_size": 4}
    step = Step(*importlib.import_module("gpt").gpt2_small(**options, dropout=0.0))
    (folder / "gpt.graph").write_text(str(step.graph))
    names = [f"{kind}/{key}" for kind, key in step.graph.inputs("step") if kind != "constant"]
    values = [value for (kind, _), value in zip(step.graph.inputs("step"), step.inputs) if kind != "constant"]
    save_file({name: value.clone().contiguous() for name, value in zip(names, values)}, folder / "in.safetensors")
    command = ["run", "gpt.graph", "--parallel", "data=2,zero=3", "--inputs", "in.safetensors", "--steps", "3"]
    done = subprocess.run(
        [PROGRAM, *command, "--threads", "1", "--timeline", "step.timeline"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = []
    for line in (folder / "step.timeline").read_text().splitlines()[1:]:
        rank, stream, _, start, end, _, _, label = line.split(maxsplit=7)
        if rank == "0":
            found.append((stream, float(start), float(end), label.strip('"')))
    return found


def layer_of(label):
    return label.split("blocks.")[1].split(".")[0]


def gathers(events, phase):
    """By layer, the start and the end of its first gather; the tables interrupt the first layer's in backward."""
    found = {}
    for stream, start, end, label in events:
        if stream == "communication" and label.startswith("start %blocks.") and f".{phase}.moved" in label:
            found.setdefault(layer_of(label), (start, end))
    return found


def waits(events, phase):
    """By layer, when it is first waited for."""
    found = {}
    for _, start, _, label in events:
        if label.startswith("wait %blocks.") and f".{phase}.moved" in label:
            found.setdefault(layer_of(label), start)
    return found


@pytest.mark.parametrize(("phase", "order"), [("forward", "0123"), ("backward", "3210")])
def test_the_next_layer_is_gathered_while_this_one_computes(events, phase, order):
    started, waited = gathers(events, phase), waits(events, phase)
    assert sorted(started) == sorted(waited) == sorted(order)
    for layer, after in zip(order, order[1:]):
        between = [
            label
            for stream, start, end, label in events
            if stream == "compute" and started[after][0] <= start and end <= waited[after]
        ]
        products = [label for label in between if f"%blocks.{layer}." in label and "mm" in label]
        assert len(products) >= 4, (layer, after, between)


def test_gathers_are_under_way_while_calls_run(events):
    intervals = [*gathers(events, "forward").values(), *gathers(events, "backward").values()]
    calls = [(s, e) for stream, s, e, label in events if stream == "compute" and " = " in label and e > s]
    # Not all: on a busy machine a gather can be over before the thread that computes goes on.
    assert any(s < end and begin < e for s, e in calls for begin, end in intervals), intervals
