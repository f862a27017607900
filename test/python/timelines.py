# SPDX-License-Identifier: Apache-2.0
"""Steps written to a folder for the `weft` program, and the timelines that come back."""

import dataclasses
import subprocess

from safetensors.torch import save_file
from training_runs import WEFT


@dataclasses.dataclass
class Event:
    rank: int
    stream: str
    start: float
    end: float
    live: int
    label: str

    @property
    def is_wait(self):
        return self.label.startswith("wait ")


def weft(folder, *arguments, beside=lambda process: None):
    """What the program printed. `beside` is called while it runs."""
    command = [WEFT, *map(str, arguments)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        beside(process)
        try:
            out, err = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, err
    return out


def write_step(step, folder):
    """step.graph and inputs.safetensors of a lockstep.Step."""
    (folder / "step.graph").write_text(str(step.graph))
    inputs = {
        f"{kind}/{key}": value.clone().contiguous()
        for (kind, key), value in zip(step.graph.inputs("step"), step.inputs, strict=True)
        if kind != "constant"
    }
    save_file(inputs, folder / "inputs.safetensors")


def plan_arguments(plan):
    """For words, or the name of a plan's file."""
    return ["--plan" if plan.endswith(".plan") else "--parallel", plan]


def measured(folder, plan, steps=3, **options):
    """The last step of a run of what write_step wrote, one thread a rank."""
    command = ["run", "step.graph", *plan_arguments(plan), "--inputs", "inputs.safetensors", "--steps", steps]
    weft(folder, *command, "--threads", 1, "--timeline", "measured.timeline", **options)
    return read(folder / "measured.timeline")


def simulated(folder, plan, cluster):
    command = ["simulate", "step.graph", *plan_arguments(plan), "--cluster", cluster]
    weft(folder, *command, "--timeline", "simulated.timeline")
    return read(folder / "simulated.timeline")


def read(path):
    events = []
    for line in path.read_text().splitlines()[1:]:
        rank, stream, _, start, end, _, live, label = line.split(maxsplit=7)
        events.append(Event(int(rank), stream, float(start), float(end), int(live), label.strip('"')))
    return events


def idle_share(events):
    """Of all ranks' time from the first event to the last, what they spend in waits or behind their last event."""
    ranks = {event.rank for event in events}
    total = max(event.end for event in events) * len(ranks)
    worked = sum(event.end - event.start for event in events if event.stream == "compute" and not event.is_wait)
    return 1 - worked / total


def peaks(events):
    """The most live bytes of each rank."""
    most = {}
    for event in events:
        most[event.rank] = max(most.get(event.rank, 0), event.live)
    return most
