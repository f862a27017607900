# SPDX-License-Identifier: Apache-2.0
"""Reading and writing through every kind of view, with the batch in parts: the loss and gradients of eager PyTorch."""

import copy
import functools

import pytest
import torch
import weft
from lockstep import Step
from torch import nn
from weft import _weft

ROWS, LENGTH, WIDTH = 4, 6, 8


def written(h, write):
    """A copy of h that no gradient flows through, with something written into it."""
    copy = h.detach().clone(memory_format=torch.contiguous_format)
    write(copy)
    return copy


# What is done to h, [ROWS, LENGTH, WIDTH], whose memory belongs to it alone. Writes go through views on purpose.
CHANGES = {
    "select": lambda h: h.select(1, 2).mul_(3),
    "select the last": lambda h: h.select(1, -1).mul_(3),
    "slice": lambda h: h[:, 1:4].mul_(3),
    "slice with steps": lambda h: h[:, ::2, 1:7:3].add_(1),
    "slice of slices": lambda h: h[:, 1:][..., 2:5].sigmoid_(),
    "assign a slice": lambda h: h[:, :-1].copy_(h[:, 1:].clone()),
    "assign a number": lambda h: h[:, 2:4, 3].fill_(0.5),
    "transpose": lambda h: h.transpose(1, 2)[:, 3:5].mul_(3),
    "permute": lambda h: h.permute(2, 0, 1)[1:3].mul_(3),
    "view": lambda h: h.view(ROWS, LENGTH, 2, WIDTH // 2)[:, :, 1].mul_(3),
    "flatten": lambda h: h.flatten(1)[:, 5:17].mul_(3),
    "diagonal": lambda h: h.diagonal(0, 1, 2).mul_(3),
    "diagonal of a slice": lambda h: h[:, 2:].diagonal(1, 1, 2).mul_(3),
    "unsqueeze": lambda h: h.unsqueeze(2)[:, :3].mul_(3),
    "squeeze": lambda h: h[:, 2:3].squeeze(1).mul_(3),
    "narrow": lambda h: h.narrow(2, 3, 4).mul_(3),
    "movedim": lambda h: h.movedim(2, 0)[2:6].mul_(3),
    "as_strided": lambda h: h.as_strided((ROWS, 3, 4), (h.stride(0), h.stride(1), h.stride(2)), h.stride(1)).mul_(3),
    "as_strided of a slice": lambda h: h[:, 2:].as_strided((ROWS, 2), (h.stride(0), h.stride(2)), h.stride(1)).mul_(3),
    # Views of which there are many at once can be written where no gradient is asked for.
    "unbind": lambda h: h.mul_(written(h, lambda m: m.unbind(1)[3].mul_(3))),
    "split": lambda h: h.mul_(written(h, lambda m: m.split(4, 1)[1].mul_(3))),
    "split of a slice": lambda h: h.mul_(written(h, lambda m: m[:, 1:5].split(3, 2)[1].mul_(3))),
    "split with sizes": lambda h: h.mul_(written(h, lambda m: m.split([1, 2, 3], 1)[2].mul_(3))),
    "chunk": lambda h: h.mul_(written(h, lambda m: m.chunk(2, -1)[1].mul_(3))),
    "real part": lambda h: h.mul_(written(h, lambda m: torch.view_as_complex(m.view(ROWS, LENGTH, -1, 2)).mul_(2j))),
    "masked": lambda h: h[:, 1:3].masked_fill_(h[:, 1:3] > 0, 0.25),
    "two writes": lambda h: (h[:, 1:3].mul_(3), h[..., 2:4].add_(1)),
    "a write and a read": lambda h: h[:, 0].add_(h[:, 1:3].mul_(2).sum(1)),
}
# What is read of it.
READS = {
    "windows": lambda h: h.unfold(1, 3, 1),
    "windows side by side": lambda h: h.unfold(2, 4, 4),
    "windows by strides": lambda h: h.as_strided((ROWS, 4, 3, WIDTH), (h.stride(0), *h.stride()[1:2] * 2, h.stride(2))),
    "part by strides": lambda h: h.as_strided((ROWS, 3), (h.stride(0), h.stride(1)), 2 * h.stride(2)),
    "part of a slice by strides": lambda h: h[:, 2:].as_strided((ROWS, 3), (h.stride(0), h.stride(1)), 3 * h.stride(2)),
    "all by strides": lambda h: h.as_strided((ROWS, WIDTH, LENGTH), (h.stride(0), h.stride(2), h.stride(1))),
}
# How h lies: its batch outermost in memory, or inside.
ORDERS = {"rows": (0, 1, 2), "columns": (1, 0, 2), "channels first": (2, 1, 0)}
PLANS = ["micro-batches=2", "micro-batches=4", "data=2", "data=2,micro-batches=2", "data=2,zero=3"]


class Changed(nn.Module):
    def __init__(self, change, read, order):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.change, self.read, self.order = change, read, order

    def forward(self, x):
        h = self.first(x).permute(self.order).contiguous()
        h = h.permute([self.order.index(dim) for dim in range(3)])
        if self.change is not None:
            self.change(h)
        read = self.read(h) if self.read is not None else h
        weight = torch.linspace(-1, 1, read[0].numel(), dtype=read.dtype).view(read.shape[1:])
        return (read.sin() * weight).flatten(1).sum(1).mean() + self.last(h.tanh()).mean()


@functools.cache
def step(change, read, order):
    torch.manual_seed(0)
    model = Changed(CHANGES.get(change), READS.get(read), ORDERS[order]).double()
    batch = (torch.randn(ROWS, LENGTH, WIDTH, dtype=torch.float64),)
    return Step(model, batch, torch.optim.SGD(model.parameters(), lr=0.1))


CELLS = [(change, None) for change in CHANGES] + [(None, read) for read in READS] + [("slice", "windows by strides")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("change", "read"), CELLS)
def test_views_with_the_batch_in_parts(change, read, order):
    one = step(change, read, order)
    wrong = {}
    for words in PLANS:
        difference = one.difference(_weft.expand(one.graph, words))
        if not (difference["loss"] < 1e-12 and difference["gradient"] < 1e-12):
            wrong[words] = difference
    assert not wrong


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("change", "read"), CELLS)
def test_views_on_one_rank_are_bit_equal(change, read, order):
    one = step(change, read, order)
    ours = one.outputs(_weft.evaluate(one.graph, "step", one.inputs, seed=3))
    for key, expected in one.expected.items():
        assert torch.equal(ours[key], expected), key


class Decoder(nn.Module):
    """A token becomes an image of one voxel, whose strides are those of channels last; a convolution goes by them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Linear(WIDTH, 24)
        self.grow = nn.ConvTranspose3d(24, 16, 2, 2)
        self.mix = nn.Conv3d(16, 8, 3, padding=1)

    def forward(self, x):
        image = self.encode(x).view(-1, 1, 1, 1, 24).permute(0, 4, 1, 2, 3)
        return self.mix(self.grow(image)).sin().sum()


class Pooled(nn.Module):
    """The average of an image with its channels last is one pixel, and lies so as well."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Conv2d(1, 48, 3, padding=1)
        self.mix = nn.Conv2d(48, 24, 1, bias=False)
        self.normalize = nn.BatchNorm2d(24)

    def forward(self, x):
        image = self.encode(x.view(len(x), 1, 2, -1)).to(memory_format=torch.channels_last)
        pixel = nn.functional.adaptive_avg_pool2d(image, 1)
        return (self.normalize(self.mix(pixel)).relu().expand_as(image[:, :24]) * image[:, 24:]).sin().sum()


def image_step(build, dtype):
    model = build().to(dtype)
    batch = (torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype),)
    return model, batch, torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize("build", [Decoder, Pooled])
def test_strides_of_dims_of_one_element_choose_the_kernel(build):
    model, batch, optimizer = image_step(build, torch.float32)
    twin = copy.deepcopy(model)
    loss = weft.parallelize(model, optimizer, batch, keep_gradients=True).step(batch)
    expected = twin(*batch)
    expected.backward()
    assert loss == expected.item()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("build", [Decoder, Pooled])
@pytest.mark.parametrize("words", [*PLANS, "pipeline=2,micro-batches=2"])
def test_strides_of_dims_of_one_element_are_followed_by_plans(build, words):
    one = Step(*image_step(build, torch.float64))
    difference = one.difference(_weft.expand(one.graph, words))
    assert difference["loss"] < 1e-12 and difference["gradient"] < 1e-12


class Regrouped(nn.Module):
    """Six rows become three, which four parts do not divide."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = self.first(x).clone()
        h.view(3, 2 * WIDTH).T[3].copy_(x.flatten()[:3])
        return h.sin().sum()


@pytest.mark.parametrize("words", ["data=2,micro-batches=2", "data=4", "data=3,micro-batches=2"])
def test_rows_that_become_fewer_than_there_are_parts(words):
    model = Regrouped().double()
    one = Step(model, (torch.randn(6, WIDTH, dtype=torch.float64),), torch.optim.SGD(model.parameters(), lr=0.1))
    difference = one.difference(_weft.expand(one.graph, words))
    assert difference["loss"] < 1e-12 and difference["gradient"] < 1e-12
