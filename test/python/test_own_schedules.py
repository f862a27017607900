# SPDX-License-Identifier: Apache-2.0
"""Schedules that are written down, in a file or in a plan: the step is the same, and every door takes them."""

import random

import gpt
import pytest
from lockstep import Step
from training_runs import make_text, train_tiny
from weft import UserError, _weft

# Backwards in pairs: no schedule with a name has this order.
PAIRS = """schedule @pairs {
  stages 2
  micro_batches 4
  0: F0 F1 B1 B0 F2 F3 B3 B2
  1: F0 F1 B1 B0 F2 F3 B3 B2
}
"""
# Three stages at two positions, the middle one alone.
UNEVEN = """schedule @uneven {
  stages 3
  micro_batches 2
  0: F0 F1 F0@2 B0@2 F1@2 B1@2 B0 B1
  1: F0 F1 B0 B1
}
"""


def random_schedule(seed, positions, micro_batches):
    """Any order in which nothing waits for ever: each next unit is one whose turn it may be."""
    choice = random.Random(seed)
    done, lines = set(), [[] for _ in range(positions)]
    units = [(kind, stage, part) for kind in "FBW" for stage in range(positions) for part in range(micro_batches)]

    def ready(kind, stage, part):
        if kind == "F":
            return stage == 0 or ("F", stage - 1, part) in done
        if kind == "W":
            return ("B", stage, part) in done
        return ("F", stage, part) in done and (stage + 1 == positions or ("B", stage + 1, part) in done)

    while left := [unit for unit in units if unit not in done and ready(*unit)]:
        kind, stage, part = choice.choice(left)
        done.add((kind, stage, part))
        lines[stage].append(f"{kind}{part}")
    text = "".join(f"  {stage}: {' '.join(line)}\n" for stage, line in enumerate(lines))
    return f"schedule @any{seed} {{\n  stages {positions}\n  micro_batches {micro_batches}\n{text}}}\n"


@pytest.fixture(scope="module")
def step():
    return Step(*gpt.tiny(layers=4, dropout=0.1))


def check(step, plan):
    worst = step.difference(plan)
    assert worst["loss"] < 1e-6, worst
    assert worst["gradient"] < 1e-5, worst


@pytest.mark.parametrize(("text", "units"), [(PAIRS, "pipeline=2"), (UNEVEN, "pipeline=2,data=2")])
def test_written_schedules_are_the_step(step, tmp_path, text, units):
    path = tmp_path / "mine.schedule"
    path.write_text(text)
    plan = _weft.expand(step.graph, f"{units},schedule={path}")
    assert "  schedule @" in plan
    path.unlink()  # the plan has it
    check(step, plan)


def test_any_order_is_the_step(step, tmp_path, campaign_size):
    for seed in range(campaign_size(4, 60)):
        path = tmp_path / "any.schedule"
        path.write_text(random_schedule(seed, 2 + seed % 2, 2 + seed % 3))
        check(step, _weft.expand(step.graph, f"pipeline={2 + seed % 2},schedule={path}"))


def test_a_batch_of_fewer_rows_takes_the_first_micro_batches(tmp_path):
    path = tmp_path / "mine.schedule"
    path.write_text(PAIRS)
    small = Step(*gpt.tiny(layers=4, batch_size=3))
    plan = _weft.expand(small.graph, f"pipeline=2,schedule={path}")
    assert "0: F0 F1 B1 B0 F2 B2\n" in plan
    check(small, plan)


def test_a_plan_without_its_file_is_an_error(step):
    with pytest.raises(UserError, match=r"plan:1:\d+: there is no file gone.schedule"):
        _weft.lower(step.graph, 'plan @model on <> { schedule "gone.schedule" }')


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return make_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    return train_tiny("gpt", text, tmp_path_factory.mktemp("alone") / "run", "--evaluate-every", "2", steps=6)


def test_training_with_a_schedule_from_a_file(text, alone, tmp_path):
    """By words, evaluating; then on from there by a plan that names the file, and by one that has it."""
    path = tmp_path / "mine.schedule"
    path.write_text(PAIRS)
    words = ["--parallel", f"pipeline=2,schedule={path}"]
    train_tiny("gpt", text, tmp_path / "run", *words, "--evaluate-every", "2", steps=2)
    plan = _weft.expand(Step(*gpt.tiny(), name="tiny").graph, words[1])
    (tmp_path / "has.plan").write_text(plan)
    begin, end = plan.index("schedule @"), plan.index("  }\n") + 4
    (tmp_path / "names.plan").write_text(plan[:begin] + 'schedule "mine.schedule"\n' + plan[end:])
    # A plan is for one shape of batch; the last one of an evaluation has fewer rows.
    more = ["--resume", "--evaluate-every", "0"]
    train_tiny("gpt", text, tmp_path / "run", *more, "--plan", str(tmp_path / "names.plan"), steps=4)
    path.unlink()
    got = train_tiny("gpt", text, tmp_path / "run", *more, "--plan", str(tmp_path / "has.plan"), steps=6)
    assert list(got.values()) == pytest.approx(list(alone.values()), rel=1e-5)
