# SPDX-License-Identifier: Apache-2.0
"""Models that cannot be captured, each for one reason."""

import torch
from torch import nn


class Positive(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x)
        return y[y > 0].sort().values.sum()


def shapes_depend_on_data():
    return Positive(), (torch.randn(2, 4),)


def raises():
    raise ValueError("the vocabulary is empty")


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        return self.second(self.first(x)).mean()


class LogitsFirst(TwoLayers):
    def forward(self, x):
        hidden = self.first(x)
        return hidden, self.second(hidden).mean()


def logits_first():
    return LogitsFirst(), (torch.randn(2, 4),)


def wrong_batch():
    return TwoLayers(), (torch.randn(2, 5),)


def too_many_in_batch():
    return TwoLayers(), (torch.randn(2, 4), torch.randn(2, 4))


def vector_loss():
    return nn.Linear(4, 3), (torch.randn(2, 4),)


def returns_model_alone():
    return nn.Linear(4, 3)


def batch_is_a_number():
    return TwoLayers(), 3


class Frozen(TwoLayers):
    def forward(self, x):
        return super().forward(x).detach()


def no_gradient():
    return Frozen(), (torch.randn(2, 4),)


class Momentless(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})


def own_optimizer():
    model = TwoLayers()
    return model, (torch.randn(2, 4),), Momentless(model.parameters())


def fine(width=4, layers=1):
    return TwoLayers(), (torch.randn(2, width),)
