# SPDX-License-Identifier: Apache-2.0
"""What functions, methods and partials take along when a step calls them, changed between two steps."""

import functools

import pytest
import torch
import weft
from test_state_changes import Net, batch, captures, compare
from torch import nn
from torch.nn import functional


class Scale:
    """An object whose method a model or a hook calls."""

    def __init__(self):
        self.factor = 1.0

    def apply(self, hidden):
        return hidden * self.factor

    def after(self, module, inputs, output):
        return output * self.factor

    def __call__(self, hidden):
        return self.apply(hidden)


def scaled(hidden, factor=1.0, *, shift=0.0):
    return hidden * factor * getattr(scaled, "gain", 1.0) + shift


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.method = Scale().apply
        self.partial = functools.partial(torch.mul, other=1.0)

    def forward(self, inputs, labels):
        return functional.cross_entropy(scaled(self.partial(self.method(self.linear(inputs)))), labels)


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _, number: setattr(model.method.__self__, "factor", 1.0 + number // 2),
        lambda model, _, number: model.partial.keywords.update(other=1.0 + number // 2),
        lambda model, _, number: setattr(scaled, "__defaults__", (1.0 + number // 2,)),
        lambda model, _, number: setattr(scaled, "__kwdefaults__", {"shift": float(number // 2)}),
        lambda model, _, number: setattr(scaled, "gain", 1.0 + number // 2),
    ],
)
def test_what_a_callable_takes_along_may_change(change):
    scaled.gain = 1.0
    try:
        assert captures(compare(change, kind=Calls)) == 3
    finally:
        scaled.__defaults__, scaled.__kwdefaults__ = (1.0,), {"shift": 0.0}


@pytest.mark.parametrize(
    "hook",
    [
        lambda scale: scale.after,
        lambda scale: functools.partial(Scale.after, scale),
        lambda scale: lambda module, inputs, output: scale(output),
    ],
)
def test_an_object_behind_a_hook_may_change(hook):
    def change(model, _, number):
        if number == 0:
            scales.append(Scale())
            model.second.register_forward_hook(hook(scales[-1]))
        scales[-1].factor = 1.0 + number // 2

    scales = []
    compare(change)


def test_an_object_behind_a_hook_of_a_parameter_may_change():
    def change(model, _, number):
        if number == 0:
            scales.append(Scale())
            model.first.weight.register_hook(scales[-1].apply)
        scales[-1].factor = 1.0 + number // 2

    scales = []
    compare(change)


def test_a_batch_may_have_tensors_that_expand_made():
    def expanded(number):
        given = batch(number)
        return {**given, "inputs": given["inputs"][:1].expand(8, 6)}

    compare(lambda *_: None, make_batch=expanded)
    compare(lambda *_: None, make_batch=lambda number: (expanded if number % 2 else batch)(number))
    model = Net()
    trainer = weft.parallelize(model, torch.optim.Adam(model.parameters()), batch(0))
    given = expanded(1)
    trainer.step(given)
    assert given["inputs"].stride(0) == 0
