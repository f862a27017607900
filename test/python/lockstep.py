# SPDX-License-Identifier: Apache-2.0
"""A captured step under a plan, all ranks in this process, beside the step as it is."""

import math
import random
import re

import torch
import weft
from eager import EagerStep
from evaluating import first_state
from weft import _weft
from weft.capture import batch_tensors


class Step:
    """A captured step with values for its inputs, and what eager PyTorch makes of them."""

    def __init__(self, model, batch, optimizer, name="model"):
        self.graph = weft.capture(model, batch, optimizer, name=name)
        known = {("batch", key): value for key, value in batch_tensors(batch)}
        known |= {("parameter", n): p.detach() for n, p in model.named_parameters(remove_duplicate=False)}
        known |= {("buffer", n): b.detach() for n, b in model.named_buffers()}
        if optimizer is not None:
            for i, group in enumerate(optimizer.param_groups):
                known[("scalar", f"lr.{i}")] = torch.tensor(group["lr"], dtype=torch.float64)
        self.inputs = []
        for kind, key in self.graph.inputs("step"):
            if kind == "constant":
                self.inputs.append(_weft.constant(self.graph, key))
            elif kind == "state":
                self.inputs.append(first_state(self.graph, key, optimizer))
            else:
                self.inputs.append(known[(kind, key)])
        self.expected = EagerStep(model, batch, self.graph, seed=3).outputs()
        # Every value of the step: its name and sizes.
        text = str(self.graph).split("func @step")[1]
        self.values = [
            (name, [int(n) for n in sizes.split(",") if n.strip()])
            for name, sizes in re.findall(r"^  (?:input )?%(\S+)(?:,.*?)? (?:=.*)?: \w+\[([\d, ]*)\]", text, re.M)
        ]

    def outputs(self, values):
        return dict(zip(self.graph.outputs("step"), values, strict=True))

    def difference(self, plan):
        """The largest relative differences of the loss, of a gradient and of a buffer, under the plan."""
        got = self.outputs(_weft.run_lockstep(self.graph, plan, self.inputs, seed=3))
        worst = {"loss": 0.0, "gradient": 0.0, "buffer": 0.0}
        largest = max(v.abs().max().item() for (kind, _), v in self.expected.items() if kind == "gradient")
        for (kind, key), value in got.items():
            if kind not in worst or not value.is_floating_point() or value.numel() == 0:
                continue
            expected = self.expected[(kind, key)].double()
            # A gradient that is 0 but for rounding (of a key's bias) is measured by the others.
            scale = max(expected.abs().max().item(), 1e-3 * largest if kind == "gradient" else 0.0, 1e-30)
            worst[kind] = max(worst[kind], (value.double() - expected).abs().max().item() / scale)
        return worst


def random_plan(step, seed):
    """A valid plan of random layouts, on a random mesh of 2 to 8 ranks."""
    draw = random.Random(seed)
    mesh = draw.choice([{"x": 2}, {"x": 3}, {"x": 4}, {"x": 2, "y": 2}, {"x": 2, "y": 3}, {"x": 2, "y": 2, "z": 2}])
    parameters = {key for kind, key in step.graph.inputs("step") if kind == "parameter"}
    lines = ["  recompute cheap"] if draw.random() < 0.5 else []
    for name, sizes in step.values:
        is_input = "/" not in name
        if not sizes or draw.random() > (0.5 if is_input else 0.05):
            continue
        lines.append(f"  %{name} {random_layout(draw, mesh, sizes)}")
        if name in parameters and draw.random() < 0.3:
            lines[-1] += f" compute {random_layout(draw, mesh, sizes)}"
    axes = ", ".join(f"{name}={size}" for name, size in mesh.items())
    return f"plan @model on <{axes}> {{\n" + "\n".join(lines) + "\n}\n"


def random_layout(draw, mesh, sizes):
    axes = [[] for _ in sizes]
    left = list(sizes)
    for axis in draw.sample(list(mesh), len(mesh)):
        dim = draw.randrange(len(sizes))
        if draw.random() < 0.7 and left[dim] >= mesh[axis]:
            axes[dim].append(axis)
            left[dim] //= mesh[axis]
    return "[" + ", ".join(random_dim(draw, mesh, names, size) for names, size in zip(axes, sizes)) + "]"


def random_dim(draw, mesh, names, size):
    """Now and then in sections, of which each is split, or every n-th element is."""
    ways = math.prod(mesh[name] for name in names)
    sections = [n for n in range(2, size) if size % n == 0 and size // n >= ways]
    if names and sections and draw.random() < 0.15:
        count = draw.choice(sections)
        split = f"{'*'.join(names)}:{size // count}"
        return draw.choice([f"({count} {split})", f"({split} {count})"])
    return "*".join(names) or "-"
