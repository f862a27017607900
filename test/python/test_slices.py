# SPDX-License-Identifier: Apache-2.0
"""A sequence that goes through in slices, one after the other, gives the step, to rounding."""

import bert
import gpt
import llama
import pytest
from lockstep import Step
from weft import _weft


@pytest.fixture(scope="module")
def steps():
    """GPT with dropout everywhere but inside attention, and Llama; texts of unequal lengths."""
    return {
        "gpt": Step(*gpt.tiny(layers=4, dropout=0.1, attention_dropout=0.0)),
        "llama": Step(*llama.tiny(layers=4)),
    }


def check(step, plan):
    worst = step.difference(plan)
    assert worst["loss"] < 1e-6, (plan, worst)
    assert worst["gradient"] < 1e-5, (plan, worst)


@pytest.mark.parametrize("example", ["gpt", "llama"])
@pytest.mark.parametrize(
    "words",
    [
        "slices=4",
        "slices=13:9:6:4",
        "micro-batches=2,slices=3",
        "pipeline=2,slices=4,schedule=token",
        "pipeline=2,slices=5:3,schedule=1f1b",
        "pipeline=4,slices=12:9:7:4,schedule=token",
        "pipeline=4,micro-batches=2,slices=3,schedule=1f1b",
        "pipeline=2,micro-batches=4,slices=7:5:3,schedule=token",
        "pipeline=4,slices=3,schedule=zb-h1",
        "pipeline=2,slices=3,micro-batches=2,schedule=interleaved",
        "pipeline=2,data=2,slices=4,micro-batches=2,zero=1",
        "pipeline=2,data=2,slices=5:3,zero=3,schedule=token",
        "pipeline=2,tensor=2,slices=4",
        "pipeline=2,tensor=2,sequence,slices=4,micro-batches=2",
    ],
)
def test_slices(steps, example, words):
    step = steps[example]
    check(step, _weft.expand(step.graph, words))


def test_slices_wait_for_none_but_earlier_ones(steps):
    """The second stage begins when the first has done one slice, not all."""
    step = steps["gpt"]
    plan = _weft.expand(step.graph, "pipeline=2,slices=4,schedule=token")
    first = _weft.lower(step.graph, plan).split("block @")[1]
    forward, rest = first.split(" = send(", 1)
    assert rest.count("aten._scaled_dot_product_flash_attention") > forward.count(
        "aten._scaled_dot_product_flash_attention"
    )


def test_a_plan_says_where_and_never_when(steps):
    """A line for a value that is made part by part keeps it so: nothing is gathered over time."""
    step = steps["gpt"]
    for words in ["tensor=2,sequence,micro-batches=2", "tensor=2,sequence,slices=2"]:
        program = _weft.lower(step.graph, _weft.expand(step.graph, words))
        forward = program.split("forward:", 1)[1].split("backward:", 1)[0]
        assert "aten.cat(" not in forward, words


def test_attention_with_dropout_is_exact_though_nothing_overlaps():
    """Scores are then products of matrices, for which every slice needs all keys."""
    step = Step(*gpt.tiny(dropout=0.1))
    check(step, "plan @model on <pipeline=2> in <slice=3> { stage %blocks.1.* %batch.* [-, slice] }")


@pytest.mark.parametrize("make, words", [(bert.tiny, "slices=2"), (gpt.tiny, "pipeline=2,slices=2")])
def test_models_that_see_later_tokens_are_refused(make, words):
    step = Step(*make())
    with pytest.raises(_weft.UserError, match=r"needs all of the sequence; take micro-batches"):
        _weft.expand(step.graph, words)


def test_chosen_slices(steps):
    plan = _weft.expand(steps["gpt"].graph, "pipeline=4,slices=auto")
    check(steps["gpt"], plan)
    assert "slices and context both split the sequence" in refusal(steps["gpt"], "context=2,slices=2")
    assert "takes a number" in refusal(steps["gpt"], "slices=3:x")


def refusal(step, words):
    with pytest.raises(_weft.UserError) as error:
        _weft.expand(step.graph, words)
    return str(error.value)


@pytest.mark.parametrize(
    "plan",
    [
        "plan @model on <data=3:1> { %batch.* [data, -] }",
        "plan @model on <data=1:2:1> { %batch.* [data, -] %blocks.*.up.weight [data, -] compute [-, -] }",
        "plan @model on <tensor=3:1> { %blocks.*.up.weight [tensor, -] %blocks.*.down.weight [-, tensor] }",
        "plan @model on <context=5:3> { %batch.* [-, context] }",
    ],
)
def test_ranks_that_differ_get_unequal_parts(steps, plan):
    check(steps["gpt"], plan)


def test_a_schedule_of_ones_own_may_have_slices(steps, tmp_path):
    units = "F0.0 F0.1 B0.1 B0.0"
    text = f"schedule @mine {{\n  stages 2\n  micro_batches 1\n  slices 2\n  0: {units}\n  1: {units}\n}}\n"
    (tmp_path / "mine.schedule").write_text(text)
    plan = _weft.expand(steps["gpt"].graph, f"pipeline=2,schedule={tmp_path}/mine.schedule")
    assert "slice=2" in plan
    check(steps["gpt"], plan)
