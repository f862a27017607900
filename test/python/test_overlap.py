# SPDX-License-Identifier: Apache-2.0
"""What travels while ranks compute, in the timeline of a real run."""

import contextlib
import os
import signal
import time

import gpt
import pytest
import torch
from lockstep import Step
from timelines import measured, write_step
from training_runs import children


def slow_rank_1(run):
    """Stops it most of the time, so that rank 0 waits for it."""
    end = time.monotonic() + 60
    pid = None
    while run.poll() is None and time.monotonic() < end:
        pid = pid or children(run.pid).get(1)
        if pid is None:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.02)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.005)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Of rank 0 of two that run GPT under zero=3: (stream, start, end, label)."""
    folder = tmp_path_factory.mktemp("overlap")
    torch.manual_seed(0)
    options = {"layers": 4, "width": 128, "heads": 4, "vocabulary": 512, "sequence": 128, "batch_size": 4}
    write_step(Step(*gpt.gpt2_small(**options, dropout=0.0)), folder)
    # Otherwise a gather on a busy machine can be over before the thread that computes goes on.
    found = measured(folder, "data=2,zero=3", beside=slow_rank_1)
    return [(e.stream, e.start, e.end, e.label) for e in found if e.rank == 0]


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
    assert any(s < end and begin < e for s, e in calls for begin, end in intervals), intervals
