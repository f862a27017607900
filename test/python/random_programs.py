# SPDX-License-Identifier: Apache-2.0
"""Random programs of views and writes in place, the same program for the same seed."""

import itertools
import random

import torch
from torch import nn


class Program(nn.Module):
    """Draws what to do while it runs, from what the tensors' shapes allow.

    The choices follow from the seed and from shapes alone, so a captured run and
    an eager one make the same. Half of the programs write where autograd follows
    (in tensors that came out of an operator), half under no_grad as well.
    """

    def __init__(self, seed, steps=14):
        super().__init__()
        self.seed = seed
        self.steps = steps
        self.weight = nn.Parameter(torch.randn(4, 6))
        self.turn = nn.Parameter(torch.randn(4, 3, dtype=torch.complex64))
        self.register_buffer("state", torch.randn(4, 6))
        self.done = []

    def forward(self, x, index, mask):
        draw = random.Random(self.seed)
        self.done = []
        tensors = [x * self.weight, torch.view_as_complex(x.reshape(4, 3, 2) + 0) * self.turn, self.weight.t() * 2]
        tensors.append(torch.zeros(4, 6) + x)
        for _ in range(self.steps):
            if draw.random() < 0.55:
                self.add_view(draw, tensors)
            elif draw.random() < 0.8:
                self.write(draw, tensors, index, mask)
            else:
                self.compute(draw, tensors)
        if draw.random() < 0.3:
            with torch.no_grad():
                self.note("state")
                self.state[1:3].mul_(0.5)
                self.state.t()[2].add_(tensors[3].detach().reshape(-1)[:4])
        total = 0.0
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            total = total + (real * torch.linspace(0.5, 1.5, real.numel()).reshape(real.shape)).sum()
        return total + self.state.sum()

    def note(self, *what):
        self.done.append(" ".join(str(one) for one in what))

    def add_view(self, draw, tensors):
        at = draw.randrange(len(tensors))
        x = tensors[at]
        name = draw.choice(VIEWS)
        made = view(draw, name, x)
        if made is None:
            return
        self.note(f"t{len(tensors)} = {name}(t{at})", [tuple(one.shape) for one in made])
        tensors.extend(made)

    def write(self, draw, tensors, index, mask):
        at, other = draw.randrange(len(tensors)), draw.randrange(len(tensors))
        x, y = tensors[at], tensors[other]
        name = draw.choice(WRITES)
        quiet = draw.random() < 0.2
        y = fitted(y.detach() if quiet else y, x)
        self.note(f"{name}(t{at}, t{other})", "no_grad" if quiet else "")
        with torch.set_grad_enabled(not quiet):
            write(draw, name, x, y, index, mask)

    def compute(self, draw, tensors):
        at, other = draw.randrange(len(tensors)), draw.randrange(len(tensors))
        x, y = tensors[at], tensors[other]
        self.note(f"t{len(tensors)} = t{at} + t{other}")
        tensors.append(x * 0.5 + fitted(y, x).sin() if draw.random() < 0.7 else x.clone())


VIEWS = [
    *("transpose", "permute", "select", "slice", "step", "unsqueeze", "squeeze", "view", "split", "chunk", "unbind"),
    *("diagonal", "as_strided", "conj", "real", "imag", "view_as_real", "view_as_complex", "expand", "detach", "data"),
    *("unfold", "narrow", "neg", "empty", "flatten", "alias", "movedim", "adjoint"),
]


def view(draw, name, x):
    """The new tensors, or None where the view does not fit."""
    dims = x.dim()
    dim = draw.randrange(dims) if dims else 0
    size = x.shape[dim] if dims else 0
    if name in ("transpose", "movedim") and dims >= 2:
        return [getattr(x, name)(dim, draw.randrange(dims))]
    if name == "permute" and dims >= 1:
        return [x.permute(draw.sample(range(dims), dims))]
    if name == "adjoint" and dims >= 2:
        return [x.mH]
    if name == "select" and size:
        return [x.select(dim, draw.randrange(-size, size))]
    if name in ("slice", "narrow") and size > 1:
        start = draw.randrange(size - 1)
        length = draw.randrange(1, size - start + 1)
        return [x.narrow(dim, start, length)]
    if name == "step" and size > 1:
        return [x.transpose(0, dim)[draw.randrange(2) :: 2].transpose(0, dim)]
    if name == "empty" and dims:
        return list(x.narrow(dim, 0, 0).unbind(dim)) or None
    if name == "unsqueeze" and dims < 4:
        return [x.unsqueeze(draw.randrange(dims + 1))]
    if name == "squeeze":
        return [x.squeeze()]
    if name in ("view", "flatten"):
        return viewed(draw, x)
    if name in ("split", "chunk") and size > 1:
        return list(getattr(x, name)(2, dim))
    if name == "unbind" and 0 < size <= 4:
        return list(x.unbind(dim))
    if name == "diagonal" and dims >= 2:
        return [x.diagonal(draw.randrange(-1, 2), 0, 1)]
    if name == "as_strided" and x.numel() > 3 and x.is_contiguous():
        rows = draw.randrange(1, x.numel() // 2)
        return [x.as_strided((2, rows), (x.numel() // 2, 1), x.storage_offset() + x.numel() % 2)]
    if name == "unfold" and size > 2:
        return [x.unfold(dim, 2, draw.choice([2, 2, 1]))]
    if name == "expand" and dims and size:
        return [x.select(dim, 0).unsqueeze(dim).expand(x.shape)]
    if name in ("detach", "data", "alias"):
        return [x.detach() if name == "detach" else x.data if name == "data" else torch.ops.aten.alias(x)]
    if name == "conj":
        return [x.conj()]
    if name in ("real", "imag", "view_as_real") and x.is_complex():
        if name == "view_as_real":
            return None if x.is_conj() else [torch.view_as_real(x)]
        return [getattr(x, name)]
    if name == "neg" and not x.is_complex():
        return [torch._neg_view(x)]
    if name == "view_as_complex" and not x.is_complex() and dims and x.shape[-1] == 2 and x.stride(-1) == 1:
        even = x.storage_offset() % 2 == 0 and all(stride % 2 == 0 for stride in x.stride()[:-1])
        return [torch.view_as_complex(x)] if even and not x.is_neg() else None
    return None


def viewed(draw, x):
    sizes = [n for n in (-1, 1, 2, 3, 4, 6) if n != -1]
    for _ in range(4):
        first = draw.choice(sizes)
        if x.numel() % first or not x.numel():
            continue
        try:
            return [x.view(first, x.numel() // first)]
        except RuntimeError:
            continue
    return None


def fitted(y, x):
    """y as something that can be written into x: the same shape and element type."""
    y = y.resolve_conj().resolve_neg()
    if y.is_complex() and not x.is_complex():
        y = torch.view_as_real(y)
    flat = y.reshape(-1)
    if flat.numel() == 0:
        return torch.ones(x.shape, dtype=x.dtype)
    times = -(-x.numel() // flat.numel())
    return flat.repeat(max(times, 1))[: x.numel()].reshape(x.shape).to(x.dtype)


WRITES = [
    *("copy", "add", "mul", "fill", "zero", "masked_fill", "index_put", "slice", "select", "index_add", "addcmul"),
    *("clamp", "scatter", "index_copy", "copy_part", "masked_scatter_row", "out"),
]


def write(draw, name, x, y, index, mask):
    if overlapping(x) or x.numel() == 0:
        return
    rows = x.shape[0] if x.dim() else 0
    if name == "copy":
        x.copy_(y)
    elif name == "add":
        x.add_(y, alpha=2)
    elif name == "mul":
        x.mul_(0.5)
    elif name == "fill":
        x.fill_(0.25)
    elif name == "zero":
        x.zero_()
    elif name == "masked_fill":
        x.masked_fill_(mask.reshape(-1).repeat(x.numel())[: x.numel()].reshape(x.shape), 0.5)
    elif name == "index_put" and rows:
        x[index % rows] = y[index % rows]
    elif name == "slice" and rows > 1:
        x[1:] = y[:-1]
    elif name == "select" and rows:
        x[-1] = y[0]
    elif name == "index_add" and rows:
        x.index_add_(0, torch.arange(rows), y)
    elif name == "addcmul":
        x.addcmul_(y, y, value=0.5)
    elif name == "clamp" and not x.is_complex():
        x.clamp_(min=-1.0)
    elif name == "scatter" and rows:
        x.scatter_(0, torch.zeros(x.shape, dtype=torch.int64), y)
    elif name == "index_copy" and rows:
        x.index_copy_(0, torch.arange(rows).flip(0), y)
    elif name == "copy_part" and rows > 1:
        x[::2].copy_(y[::2])
    elif name == "masked_scatter_row" and rows:
        x[0].mul_(2)
    elif name == "out" and not x.requires_grad and not y.requires_grad:
        torch.add(y, y, out=x)


def overlapping(x):
    """Several elements in one place, which PyTorch does not let be written."""
    steps = [[i * stride for i in range(size)] for size, stride in zip(x.shape, x.stride(), strict=True)]
    places = [sum(place) for place in itertools.product(*steps)]
    return len(set(places)) != len(places)


def build(seed=0, steps=14):
    torch.manual_seed(seed)
    model = Program(seed, steps)
    return model, (torch.randn(4, 6), torch.tensor([2, 0, 3]), torch.tensor([[True, False, True, True]]))
