# SPDX-License-Identifier: Apache-2.0
"""What is made again in backward is what it was, bit for bit: dropout too."""

import re

import pytest
from lockstep import Step
from training import make
from weft import _weft


@pytest.fixture(scope="module")
def steps():
    made = {}

    def get(example):
        if example not in made:
            made[example] = Step(*make(example, dropout=0.1))
        return made[example]

    return get


def plan_of(step, words, policy):
    return _weft.set_recompute(step.graph, _weft.expand(step.graph, words), policy)


@pytest.mark.parametrize("example", ["gpt", "resnet", "t5"])
@pytest.mark.parametrize("policy", ["selective", "full"])
def test_one_rank_is_exact(steps, example, policy):
    step = steps(example)
    plan = plan_of(step, "", policy)
    assert policy == "selective" or plan.count("recompute %") > 5
    worst = step.difference(plan)
    assert worst == {"loss": 0.0, "gradient": 0.0, "buffer": 0.0}


@pytest.mark.parametrize("words", ["data=2,zero=3", "tensor=2", "tensor=2,sequence", "pipeline=2,micro-batches=2"])
@pytest.mark.parametrize("example", ["gpt", "t5"])
def test_ranks_are_exact(steps, example, words):
    step = steps(example)
    worst = step.difference(plan_of(step, words, "full"))
    assert worst["loss"] < 1e-6, worst
    assert worst["gradient"] < 1e-5, worst


@pytest.mark.parametrize("example", ["gpt", "t5"])
@pytest.mark.parametrize("words", ["tensor=2", "tensor=2,sequence", "data=2,tensor=2"])
def test_no_collective_is_repeated(steps, example, words):
    step = steps(example)

    def collectives(policy):
        program = _weft.lower(step.graph, plan_of(step, words, policy))
        return sorted(re.findall(r"start .* = (all_\w+|reduce_scatter)\(.*(over \{[\w, ]*\})", program))

    assert len(collectives("full")) <= len(collectives("none"))


def test_less_is_kept(steps):
    """Every layer's input and no more: half of what is kept else, or less."""
    step = steps("gpt")

    def peak(policy):
        program = _weft.lower(step.graph, plan_of(step, "", policy))
        return max(int(n) for n in re.findall(r"offset\((\d+)", program))

    assert peak("full") < peak("none")
