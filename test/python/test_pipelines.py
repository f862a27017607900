# SPDX-License-Identifier: Apache-2.0
"""Steps cut into stages over ranks and into micro-batches over time are the step, to rounding."""

import re

import gpt
import pytest
from lockstep import Step
from training import EXAMPLES, make
from training_runs import make_text, train_tiny
from weft import _weft

SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]


@pytest.fixture(scope="module")
def steps():
    made = {}

    def get(example):
        if example not in made:
            made[example] = Step(*make(example, dropout=0.1))
        return made[example]

    return get


def check(step, words):
    worst = step.difference(_weft.expand(step.graph, words))
    assert worst["loss"] < 1e-6, (words, worst)
    assert worst["gradient"] < 1e-5, (words, worst)
    assert worst["buffer"] < 1e-5, (words, worst)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("positions", [2, 4])
def test_every_schedule(steps, schedule, positions):
    check(steps("gpt"), f"pipeline={positions},schedule={schedule},micro-batches=4")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_model(steps, example):
    """Tied weights, an encoder and a decoder, skips across stages, and batch norms over the whole batch among them."""
    for words in ["micro-batches=2", "pipeline=2,micro-batches=4", "pipeline=4,micro-batches=3,schedule=zb-h1"]:
        check(steps(example), words)


@pytest.mark.parametrize(
    "words",
    [
        "pipeline=2,data=2,micro-batches=2,zero=1",
        "pipeline=2,data=2,micro-batches=2,zero=2,schedule=zb-h1",
        "pipeline=2,data=2,micro-batches=2,zero=3",
        "pipeline=2,tensor=2,sequence,micro-batches=4,schedule=interleaved",
        "pipeline=2,data=2,tensor=2,micro-batches=2,zero=3,schedule=zb-v",
        "pipeline=8,micro-batches=4",
    ],
)
def test_with_other_words(steps, words):
    check(steps("gpt"), words)


def test_stages_may_begin_anywhere(steps):
    """In the middle of a module, too: what crosses is sent."""
    step = steps("gpt")
    text = str(step.graph).split("func @step")[1].split("forward:")[1].split("backward:")[0]
    names = re.findall(r"^  %([^ ,]+)", text, re.M)
    for cut in range(1, len(names), 7):
        plan = f"plan @model on <pipeline=2> in <micro=2> {{ stage %{names[cut]} %batch.* [micro, -] }}"
        worst = step.difference(plan)
        assert worst["loss"] < 1e-6, (names[cut], worst)
        assert worst["gradient"] < 1e-5, (names[cut], worst)


def arena_bytes(schedule, count):
    """Where the last value of the first stage begins, for micro-batches of two samples."""
    step = Step(*gpt.tiny(layers=4, batch_size=2 * count))
    plan = _weft.expand(step.graph, f"pipeline=2,schedule={schedule},micro-batches={count}")
    block = _weft.lower(step.graph, plan).split("block @")[1]
    return max(int(n) for n in re.findall(r"offset\((\d+)", block))


def test_activations_are_bounded_by_stages():
    """1F1B keeps as many micro-batches as stages follow, however many there are; GPipe keeps all."""
    assert arena_bytes("1f1b", 8) < 1.1 * arena_bytes("1f1b", 4)
    assert arena_bytes("gpipe", 8) > 1.5 * arena_bytes("gpipe", 4)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return make_text(tmp_path_factory.mktemp("text"))


def train(text, output, *more, steps=4):
    return train_tiny("gpt", text, output, *more, steps=steps)


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    return train(text, tmp_path_factory.mktemp("alone") / "run", "--clip-norm", "0.5", steps=8)


@pytest.mark.parametrize(
    "words",
    [
        "pipeline=2,micro-batches=4",
        "pipeline=4,micro-batches=4,schedule=zb-h1",
        "pipeline=2,data=2,micro-batches=2,zero=3",
    ],
)
def test_training_in_processes(text, alone, tmp_path, words):
    more = ["--clip-norm", "0.5", "--evaluate-every", "2"]
    got = train(text, tmp_path / "run", *more, "--parallel", words)
    assert list(got.values()) == pytest.approx(list(alone.values())[:4], rel=2e-6)


def test_a_run_goes_on_with_other_stages(text, alone, tmp_path):
    train(text, tmp_path / "run", "--clip-norm", "0.5", "--parallel", "pipeline=2,micro-batches=2")
    more = ["--resume", "--clip-norm", "0.5"]
    train(text, tmp_path / "run", *more, "--parallel", "pipeline=4,micro-batches=4,schedule=zb-h1", steps=6)
    got = train(text, tmp_path / "run", *more, steps=8)
    assert list(got.values()) == pytest.approx(list(alone.values()), rel=1e-5)
