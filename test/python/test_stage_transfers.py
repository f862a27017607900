# SPDX-License-Identifier: Apache-2.0
"""What stages of a pipeline send each other: activations forward and their gradients back, and nothing else."""

import collections
import re

import gpt
import llama
import pytest
import torch
from lockstep import Step
from timelines import simulated, weft, write_step

MICRO_BATCHES = 4


@pytest.fixture(scope="module", params=[gpt, llama], ids=lambda module: module.__name__)
def folder(request, tmp_path_factory):
    made = tmp_path_factory.mktemp("stages")
    torch.manual_seed(0)
    write_step(Step(*request.param.tiny(batch_size=2 * MICRO_BATCHES)), made)
    # As it is trained: gradients that somebody asks for travel, too.
    graph = made / "step.graph"
    graph.write_text("".join(line for line in graph.open() if not line.startswith("  return gradient")))
    (made / "machines.cluster").write_text(weft(made, "cluster", "show", "1x4xA100-40G", "--text"))
    return made


@pytest.mark.parametrize("words", ["pipeline=2", "pipeline=2,data=2,zero=1", "pipeline=2,data=2,zero=3"])
def test_what_comes_back_is_the_gradients_of_what_went(folder, words):
    received = collections.defaultdict(collections.Counter)
    for event in simulated(folder, f"{words},micro-batches={MICRO_BATCHES}", "machines.cluster"):
        what = re.fullmatch(r"start %(\S+) = receive", event.label)
        if what:
            received[event.rank][re.sub(r"\.part\d+", "", what[1])] += 1
    first, last = received[0], received[max(received)]
    went = [name for name, count in last.items() if count == MICRO_BATCHES]
    # The gradient of the weight that GPT's head shares with its embedding is added up there.
    came = [name for name, count in first.items() if count == MICRO_BATCHES and not name.startswith("head/")]
    assert 1 <= len(came) <= len(went) <= 2, (went, came)
    once = [name for name, count in first.items() if count == 1]
    assert set(first.values()) <= {1, MICRO_BATCHES} and len(once) <= 3, once
