# SPDX-License-Identifier: Apache-2.0
"""Runs captured steps one after another with Weft's own kernels, in one process."""

import re

import torch
from weft import _weft
from weft.capture import batch_tensors

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}


class Training:
    """Parameters, buffers and state that go from step to step."""

    def __init__(self, graph, model):
        # Every graph that is stepped later reads and writes these.
        self.graph = graph
        self.values = {
            ("parameter", name): p.detach().clone() for name, p in model.named_parameters(remove_duplicate=False)
        }
        self.values |= {("buffer", name): b.detach().clone() for name, b in model.named_buffers()}

    def step(self, batch=(), optimizer=None, graph=None, scalars=None, number=0):
        """The outputs by kind and key."""
        graph = graph or self.graph
        known = {("batch", key): value for key, value in batch_tensors(batch)}
        if optimizer is not None:
            for i, group in enumerate(optimizer.param_groups):
                known[("scalar", f"lr.{i}")] = torch.tensor(group["lr"], dtype=torch.float64)
        known |= {("scalar", key): torch.tensor(float(value)) for key, value in (scalars or {}).items()}
        inputs = []
        for kind, key in graph.inputs("step"):
            if kind == "constant":
                inputs.append(_weft.constant(graph, key))
                continue
            if kind == "state" and (kind, key) not in self.values:
                self.values[(kind, key)] = first_state(graph, key, optimizer)
            inputs.append(known.get((kind, key), self.values.get((kind, key))))
        outputs = _weft.evaluate(graph, "step", inputs, step=number)
        outputs = dict(zip(graph.outputs("step"), outputs, strict=True))
        self.values |= {k: v for k, v in outputs.items() if k[0] in ("parameter", "buffer", "state")}
        return outputs


def first_state(graph, key, optimizer):
    found = re.search(rf"input %\S+ : (\w+)\[([\d, ]*)\]\S* = state \"{re.escape(key)}\"", str(graph))
    sizes = [int(n) for n in found[2].split(",") if n.strip()]
    value = 0.0
    if key.endswith(".sum"):
        value = optimizer.defaults["initial_accumulator_value"]
    return torch.full(sizes, value, dtype=DTYPES[found[1]])
