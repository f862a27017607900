# SPDX-License-Identifier: Apache-2.0
"""How long the stages of a pipeline are idle, and how much memory each needs: in simulation by the closed forms, and
in processes as simulated."""

import statistics

import gpt
import pytest
import torch
from lockstep import Step
from timelines import idle_share, measured, peaks, simulated, write_step
from torch import nn

# Everything but products costs nothing, so that stages of equal layers are equal.
CLUSTER = """cluster @even
device even
  flops_per_second f32 = 1.0e10
  memory_bytes = 1099511627776
  memory_bytes_per_second = 1.0e18
  call_seconds = 1.0e-15
group all = 64 x even
  latency_seconds = 1.0e-15
  bytes_per_second = 1.0e18
"""
LAYERS_A_STAGE = 12


class Even(nn.Module):
    """Layers that are all alike."""

    def __init__(self, layers, width):
        super().__init__()
        self.start = nn.Parameter(torch.ones(width))  # so that the first layer has a gradient to pass on, as all have
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x):
        x = x * self.start
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


@pytest.fixture(scope="module")
def even(tmp_path_factory):
    """The folder of a step with so many stages' layers and micro-batches of so many rows."""
    made = {}

    def get(stages, count, rows=128, width=32):
        shape = (stages, count, rows, width)
        if shape not in made:
            folder = tmp_path_factory.mktemp("even")
            model = Even(LAYERS_A_STAGE * stages, width)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            write_step(Step(model, (torch.randn(rows * count, width),), optimizer), folder)
            (folder / "even.cluster").write_text(CLUSTER)
            made[shape] = folder
        return made[shape]

    return get


# By the schedule: how many stages a position has, and idle units beside so many of work (docs/schedules.md).
CLOSED_FORMS = {
    "gpipe": (1, lambda p, m: (p - 1, m)),
    "1f1b": (1, lambda p, m: (p - 1, m)),
    "interleaved": (2, lambda p, m: (p - 1, 2 * m)),
    "zb-h1": (1, lambda p, m: (p - 1, 3 * m)),
    "zb-h2": (1, lambda p, m: (p - 1, 3 * m)),
    "zb-v": (2, lambda p, m: (p - 1, 6 * m)),
}


def write_plan(folder, schedule, positions, count):
    """even.plan: stages of equally many layers."""
    starts = [f"stage %layers.{LAYERS_A_STAGE * i}/*" for i in range(1, positions * CLOSED_FORMS[schedule][0])]
    lines = [f"schedule {schedule}", *starts, "%batch.0 [micro, -]"]
    mesh = f"<pipeline={positions}> in <micro={count}>"
    (folder / "even.plan").write_text(f"plan @model on {mesh} {{\n" + "\n".join(lines) + "\n}\n")


@pytest.mark.campaign
@pytest.mark.parametrize("schedule", CLOSED_FORMS)
def test_idle_shares_in_a_run(even, schedule):
    """On two cores that have nothing else to do: with other work beside them ranks wait for the cores."""
    count = 4
    rounds, form = CLOSED_FORMS[schedule]
    idle, work = form(2, count)
    folder = even(2 * rounds, count, rows=512, width=256)
    write_plan(folder, schedule, 2, count)
    found = statistics.median(idle_share(measured(folder, "even.plan", steps=8)) for _ in range(5))
    print(f"{schedule}: idle {found:.3f} in a run, {idle / (idle + work):.3f} by the closed form")
    assert found == pytest.approx(idle / (idle + work), abs=0.06)


@pytest.mark.parametrize("schedule", CLOSED_FORMS)
@pytest.mark.parametrize("positions, count", [(2, 4), (4, 8)])
def test_idle_shares_are_the_closed_forms(even, schedule, positions, count):
    rounds, form = CLOSED_FORMS[schedule]
    idle, work = form(positions, count)
    folder = even(positions * rounds, count)
    write_plan(folder, schedule, positions, count)
    found = idle_share(simulated(folder, "even.plan", "even.cluster"))
    # What is no product, and the updates, make units a little unequal.
    assert found == pytest.approx(idle / (idle + work), abs=0.01), (idle, work)


def test_more_slices_leave_less_idle(tmp_path):
    """Slices of one text fill the pipeline as micro-batches do."""
    write_step(Step(*gpt.tiny(layers=8, sequence=64, batch_size=1, dropout=0.0)), tmp_path)
    (tmp_path / "even.cluster").write_text(CLUSTER)
    starts = "\n".join(f"stage %blocks.{2 * i}.*" for i in range(1, 4))
    shares = []
    for count in (1, 2, 4, 8):
        plan = f"plan @model on <pipeline=4> in <slice={count}> {{\nschedule token\n{starts}\n%batch.* [-, slice]\n}}\n"
        (tmp_path / "slices.plan").write_text(plan)
        shares.append(idle_share(simulated(tmp_path, "slices.plan", "even.cluster")))
    # The head makes the last stage longer, and later slices see more.
    forms = [3 / (count + 3) for count in (1, 2, 4, 8)]
    assert shares == pytest.approx(forms, abs=0.1), forms


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt")
    write_step(Step(*gpt.tiny(layers=4, dropout=0.1, attention_dropout=0.0)), folder)
    (folder / "even.cluster").write_text(CLUSTER)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "pipeline=2,micro-batches=4,schedule=gpipe",
        "pipeline=4,micro-batches=4,schedule=1f1b",
        "pipeline=2,micro-batches=4,schedule=zb-v",
        "pipeline=2,data=2,micro-batches=2,zero=3,schedule=zb-h1",
        "pipeline=4,slices=4,schedule=token",
    ],
)
def test_each_stage_needs_the_bytes_that_were_predicted(step, words):
    found = peaks(measured(step, words))
    assert found == peaks(simulated(step, words, "even.cluster"))
