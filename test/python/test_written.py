# SPDX-License-Identifier: Apache-2.0
"""Writes of a step into memory that somebody else looks at: its own operands, and the batch of the script."""

import pytest
import torch
import weft
from torch import nn


class Net(nn.Module):
    """A layer, with `body` around it."""

    def __init__(self, body):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.body = body

    def forward(self, inputs):
        return self.body(self.layer, inputs).pow(2).mean()


def make(body):
    torch.manual_seed(0)
    model = Net(body)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def inputs(number=0, size=4):
    return torch.randn(size, 6, generator=torch.Generator().manual_seed(number))


def train_both(body, batches, example, plan=""):
    """Losses and parameters of Weft, and of eager PyTorch; each has batches of its own."""
    model, optimizer = make(body)
    trainer = weft.parallelize(model, optimizer, (example,), parallel=plan)
    losses = [trainer.step((batch,)) for batch in batches()]
    ours = (losses, model.layer.weight.detach().clone())
    model, optimizer = make(body)
    losses = []
    for batch in batches():
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return ours, (losses, model.layer.weight.detach().clone())


def shifted(layer, x):
    hidden = layer(x).clone()
    hidden[:, 1:] -= hidden[:, :-1]
    return hidden


def test_a_write_into_what_it_reads_elsewhere_is_refused():
    model, optimizer = make(shifted)
    with pytest.raises(weft.UserError, match="writes into elements that it also reads as others") as error:
        weft.parallelize(model, optimizer, (inputs(),))
    assert "hidden[:, 1:] -= hidden[:, :-1]" in str(error.value)


def halves(layer, x):
    hidden = layer(x).clone()
    hidden[:, :3] -= hidden[:, 3:]
    hidden[:, ::2] += hidden[:, 1::2]
    hidden.add_(hidden)
    return hidden


def test_a_write_beside_what_it_reads_is_followed():
    ours, theirs = train_both(halves, lambda: [inputs(i) for i in range(3)], inputs())
    assert ours[0] == theirs[0]
    assert torch.equal(ours[1], theirs[1])
