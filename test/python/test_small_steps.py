# SPDX-License-Identifier: Apache-2.0
"""What models of other packages do in a line or two, as a step of its own, against eager PyTorch."""

import copy

import pytest
import torch
import weft
from torch import nn


class Step(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("frequencies", torch.rand(4))
        self.register_buffer("zero", torch.zeros(()))
        self.step = forward

    def forward(self, x):
        return self.step(self, self.layer(x))


def sorted_rows(module, h):
    """Tokens in the order of their experts: every part of the batch looks up rows of every other."""
    order = h[:, 0].argsort()
    rows = h[order] * torch.arange(len(h))[:, None]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(h))
    return (rows[place] * h).square().mean()


def raised_in_place(module, h):
    return ((h.abs() + 1).sum(0).pow_(-0.5) * h).mean()


def raised_to_a_tensor_in_place(module, h):
    return ((h.abs() + 1).sum(0).pow_(h.detach().mean(0)) * h).mean()


def joined_to_nothing(module, h):
    losses = torch.empty(0)
    for row in h:
        losses = torch.cat([losses, row.square().mean().view(1)])
    return losses.mean()


def average_bound_anew(module, h):
    module.average = 0.9 * module.average + 0.1 * h.detach().mean(0)
    return (h - module.average).square().mean()


def table_made_when_first_needed(module, h):
    if "table" not in dict(module.named_buffers()):
        module.register_buffer("table", torch.arange(4.0) / 4, persistent=False)
    return (h * module.table).square().mean()


def table_of_a_buffer_made_when_first_needed(module, h):
    """As rotary embeddings keep what follows from their frequencies."""
    if not hasattr(module, "waves"):
        module.waves = torch.sin(torch.arange(4.0) * module.frequencies)
        module.register_buffer("bias", -module.frequencies.square(), persistent=False)
    return (h * module.waves + module.bias).square().mean()


def loss_that_starts_from_a_buffer(module, h):
    loss = module.zero.requires_grad_()
    return loss + h.square().mean()


@pytest.mark.parametrize("parallel", ["", "micro-batches=2"])
@pytest.mark.parametrize(
    "forward",
    [
        sorted_rows,
        raised_in_place,
        raised_to_a_tensor_in_place,
        joined_to_nothing,
        average_bound_anew,
        table_made_when_first_needed,
        table_of_a_buffer_made_when_first_needed,
        loss_that_starts_from_a_buffer,
    ],
)
def test_step_is_that_of_eager_pytorch(forward, parallel):
    torch.manual_seed(0)
    model = Step(forward)
    twin = copy.deepcopy(model)
    batches = [torch.randn(6, 4) for _ in range(3)]
    trainer = weft.parallelize(
        model, torch.optim.SGD(model.parameters(), lr=0.1), batches[0], parallel=parallel, keep_gradients=True
    )
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        loss = twin(batch)
        loss.backward()
        optimizer.step()
        assert trainer.step(batch) == pytest.approx(loss.item(), rel=1e-6)
        torch.testing.assert_close(model.layer.weight.grad, twin.layer.weight.grad)
        torch.testing.assert_close(model.average, twin.average)
