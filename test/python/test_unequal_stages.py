# SPDX-License-Identifier: Apache-2.0
"""Stages with meshes of their own, and so with unequal numbers of ranks, compute the step of one rank, to rounding."""

import random
import re

import gpt
import pytest
import torch
from lockstep import Step, random_plan
from timelines import measured, peaks, simulated, write_step
from training import make
from training_runs import make_text, train_tiny
from weft import _weft


@pytest.fixture(scope="module")
def steps():
    made = {}

    def get(example):
        if example not in made:
            # Rows enough for two micro-batches on four ranks.
            is_gpt = example == "gpt"
            made[example] = Step(*(gpt.tiny(dropout=0.1, batch_size=8) if is_gpt else make(example, dropout=0.1)))
        return made[example]

    return get


def unequal(graph, words, *meshes):
    """The plan of the words, for the largest mesh, with a mesh a stage in place of it."""
    text = _weft.expand(graph, words)
    positions = re.search(r"pipeline=\d+", text)[0]
    first = f"{positions}, {meshes[0]}" if meshes[0] else positions
    text = re.sub(r"on <[^>]*>", f"on <{first}>", text, count=1)
    others = iter(meshes[1:])
    text = re.sub(r"^  stage %\S+$", lambda line: f"{line[0]} on <{next(others)}>", text, flags=re.M)
    assert not list(others), "as many meshes as stages"
    # A micro-batch has the same rows at all stages.
    return re.sub(r"((?:\w+\*)+)micro", lambda axes: f"micro*{axes[1][:-1]}", text)


def check(step, plan):
    worst = step.difference(plan)
    assert worst["loss"] < 1e-6, (plan, worst)
    assert worst["gradient"] < 1e-5, (plan, worst)
    assert worst["buffer"] < 1e-5, (plan, worst)


@pytest.mark.parametrize("example", ["gpt", "t5", "unet3d", "resnet"])
@pytest.mark.parametrize("meshes", [("data=2", ""), ("", "data=2"), ("data=4", "data=2"), ("data=2", "", "data=3")])
def test_every_model(steps, example, meshes):
    """Tied weights, an encoder and a decoder, skips across stages, and batch norms over the whole batch."""
    step = steps(example)
    check(step, unequal(step.graph, f"pipeline={len(meshes)},data=2", *meshes))


@pytest.mark.parametrize(
    ("words", "meshes"),
    [
        ("tensor=2", ("tensor=2", "")),
        ("tensor=2", ("", "tensor=4")),
        ("data=2,tensor=2", ("tensor=2", "data=2")),
        ("data=2,tensor=2", ("data=2, tensor=2", "tensor=2")),
        ("data=2,tensor=2,sequence", ("data=2, tensor=2", "data=2")),
        ("data=2,zero=1", ("data=2", "")),
        ("data=2,zero=3", ("data=2", "data=4")),
        ("data=2,tensor=2,zero=3", ("data=2, tensor=2", "data=2")),
    ],
)
def test_other_axes(steps, words, meshes):
    step = steps("gpt")
    check(step, unequal(step.graph, f"pipeline=2,{words}", *meshes))
    check(step, unequal(step.graph, f"pipeline=2,{words},micro-batches=2", *meshes))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
def test_every_schedule(steps, schedule):
    words = f"pipeline=3,data=2,tensor=2,micro-batches=4,schedule={schedule}"
    step = steps("gpt")
    check(step, unequal(step.graph, words, "tensor=2", "data=2", ""))


@pytest.mark.parametrize(("schedule", "own"), [("interleaved", (0, 1, 0, 1)), ("zb-v", (0, 1, 1, 0))])
def test_several_stages_a_position(steps, schedule, own):
    step = steps("gpt")
    meshes = ["data=2", ""]
    words = f"pipeline=2,data=2,micro-batches=4,schedule={schedule}"
    check(step, unequal(step.graph, words, *(meshes[position] for position in own)))


@pytest.mark.parametrize("example", ["t5", "unet3d", "resnet"])
def test_micro_batches(steps, example):
    """Samples of unequal length among them."""
    step = steps(example)
    check(step, unequal(step.graph, "pipeline=2,data=2,micro-batches=2", "data=2", ""))
    check(step, unequal(step.graph, "pipeline=2,data=2,micro-batches=2", "", "data=2"))


@pytest.mark.parametrize(
    ("time", "batch", "first", "second"),
    [
        ("slice=3:2:1", "[data, slice]", ", data=2", "tensor=2"),
        ("micro=2, slice=2", "[micro*data, slice]", "", "data=2"),
    ],
)
def test_slices(time, batch, first, second):
    """Keys and values of earlier slices stay where they are."""
    step = Step(*gpt.tiny(dropout=0.1, attention_dropout=0.0))
    lines = f"schedule token stage %blocks.1.* on <{second}> %batch.* {batch} %blocks.*.up.weight [tensor, -]"
    lines = lines if "tensor" in second else lines.split(" %blocks.*.up")[0]
    check(step, f"plan @model on <pipeline=2{first}> in <{time}> {{ {lines} }}")


@pytest.mark.parametrize("example", ["gpt", "resnet"])
def test_random_plans(steps, example, campaign_size):
    """Any layouts, on any two meshes."""
    step = steps(example)
    values = re.findall(r"^  %([^ ,]+)", str(step.graph).split("forward:")[-1].split("backward:")[0], re.M)
    for seed in range(campaign_size(7, 40)):
        draw = random.Random(seed)
        plan = random_plan(step, seed)
        axes = re.search(r"on <([^>]*)>", plan)[1].split(", ")
        smaller = [axis for axis in axes if draw.random() < 0.5]
        first, second = draw.sample([", ".join(axes), ", ".join(smaller)], 2)
        header = f"on <pipeline=2{', ' if first else ''}{first}> {{"
        cut = values[draw.randrange(1, len(values))]
        # Settings stand before the layouts.
        plan = re.sub(r"on <[^>]*> {", f"{header}\n  stage %{cut} on <{second}>", plan)
        check(step, plan)


def test_each_rank_needs_the_bytes_that_were_predicted(root, tmp_path):
    torch.manual_seed(0)
    write_step(Step(*gpt.tiny(dropout=0.1), name="tiny"), tmp_path)
    plan = str(root / "examples" / "plans" / "gpt_unequal.plan")
    found = peaks(measured(tmp_path, plan))
    assert len(found) == 5
    assert found == peaks(simulated(tmp_path, plan, "8xA100-80G"))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return make_text(tmp_path_factory.mktemp("text"))


def train(text, output, *more, steps=4):
    return train_tiny("gpt", text, output, "--clip-norm", "0.5", *more, steps=steps)


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    return train(text, tmp_path_factory.mktemp("alone") / "run", steps=8)


def test_training_in_processes(root, text, alone, tmp_path):
    """Five ranks at three stages."""
    plan = root / "examples" / "plans" / "gpt_unequal.plan"
    got = train(text, tmp_path / "run", "--plan", plan)
    assert list(got.values()) == pytest.approx(list(alone.values())[:4], rel=2e-6)


def test_a_run_goes_on_with_other_stages(root, text, alone, tmp_path):
    """From one rank to unequal stages with pieces of parameters, to equal ones."""
    plan = tmp_path / "first.plan"
    plan.write_text(
        "plan @tiny on <pipeline=2, data=2> in <micro=2> {\n"
        "  stage %blocks.1.* on <>\n"
        "  %batch.* [micro*data, -]\n"
        "  %*.weight [data, -] compute [-, -]\n"
        "  %*norm.weight [data] compute [-]\n"
        "  %*.weight.exp_avg* [data, -]\n"
        "  %*norm.weight.exp_avg* [data]\n"
        "}\n"
    )
    train(text, tmp_path / "run", steps=2)
    train(text, tmp_path / "run", "--resume", "--plan", plan, steps=6)
    got = train(text, tmp_path / "run", "--resume", "--parallel", "pipeline=2,micro-batches=2", steps=8)
    assert list(got.values()) == pytest.approx(list(alone.values()), rel=1e-5)
