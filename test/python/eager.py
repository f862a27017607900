# SPDX-License-Identifier: Apache-2.0
"""What eager PyTorch computes in one training step: the expectation that every plan is held against.

Random numbers are Weft's own by design, so those alone come from it: the n-th random call of the eager step gets what
the n-th random node of the captured one draws. Nothing else of the graph is used.
"""

import contextlib
import re

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from weft import Graph, _weft
from weft.batch import batch_arguments
from weft.find_loss import find_loss


class EagerStep:
    """Loss, gradients and buffers of one step; the model is left as it was."""

    def __init__(self, model, batch, graph, seed=0, step=0):
        arguments, keywords = batch_arguments(batch)
        before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        gradients = {parameter: parameter.grad for parameter in model.parameters()}
        try:
            model.zero_grad(set_to_none=True)
            with torch.random.fork_rng(devices=[]), WeftRandom(graph, seed, step) as drawn:
                loss = find_loss(model(*arguments, **keywords))
                loss.backward()
            drawn.check_all_were_drawn()
            self.loss = loss.detach().clone()
            self.gradients = {
                name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None
            }
            self.buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        finally:
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)

    def outputs(self):
        """By kind and key, as a graph names them."""
        return (
            {("loss", ""): self.loss}
            | {("gradient", name): value for name, value in self.gradients.items()}
            | {("buffer", name): value for name, value in self.buffers.items()}
        )


class WeftRandom(TorchDispatchMode):
    """Random calls of PyTorch get the numbers of the graph's random nodes, in order."""

    def __init__(self, graph, seed, step):
        super().__init__()
        text = str(graph).split("func @step")[1].split("\n}")[0]
        self.nodes = [line.strip() for line in text.splitlines() if re.search(r"\brng=\d+", line)]
        self.next = 0
        self.context = {"seed": seed, "step": step}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags or kwargs.get("generator") is not None:
            # Of a generator that the step seeds itself, the numbers are constants of the graph.
            return function(*args, **kwargs)
        assert self.next < len(self.nodes), f"{function} is no random node of the graph"
        line = self.nodes[self.next]
        self.next += 1
        name = function.overloadpacket.__name__
        assert name.rstrip("_") in line, f"{function} is recorded as {line}"
        drawn = self.draw(line, [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)])
        if name.endswith("_"):
            return args[0].copy_(drawn[0])
        return tuple(drawn) if len(drawn) > 1 else drawn[0]

    def draw(self, line, operands):
        """The results of one random node alone, of these operands."""
        made, call = re.sub(r" (overwrites|release)\(.*", "", line).split(" = ", 1)
        read = re.findall(r"%[^\s,()\[\]]+", call)
        # Of an in-place call, the tensor that is filled may be no operand.
        inputs = [
            f'  input {value} : {type_text(operand)} = batch "{i}"'
            for i, (value, operand) in enumerate(zip(read, operands))
        ]
        assert len(inputs) == len(read), line
        results = [f'  return extra "{i}" = {value}' for i, value in enumerate(made.split(", "))]
        step = "\n".join([*inputs, "forward:", f"  {made} = {call}", *results])
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            graph = Graph.parse(f"graph @one\nfunc @step {{\n{step}\n}}\n")
            return _weft.evaluate(graph, "step", operands[: len(read)], **self.context)

    def check_all_were_drawn(self):
        assert self.next == len(self.nodes), f"eager PyTorch does not draw {self.nodes[self.next :]}"


NAMES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"} | {
    torch.int64: "i64",
    torch.bool: "bool",
}


def type_text(tensor):
    sizes, strides = ", ".join(map(str, tensor.shape)), ", ".join(map(str, tensor.stride()))
    return f"{NAMES[tensor.dtype]}[{sizes}]" + ("" if tensor.is_contiguous() else f"{{{strides}}}")
