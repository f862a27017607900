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


def marked(layer, x):
    x[:, 0] = 0
    x.mul_(2)
    return layer(x)


@pytest.mark.parametrize("plan", ["", "micro-batches=2"])
def test_a_step_that_writes_into_its_batch_writes_into_that_of_the_script(plan):
    kept = []

    def batches():
        kept.append(inputs())
        return [kept[-1]] * 4

    ours, theirs = train_both(marked, batches, inputs(), plan)
    if plan:
        # A float of Python is held to the rounding of f64, and a loss is computed in f32.
        torch.testing.assert_close(torch.tensor(ours[0]), torch.tensor(theirs[0]))
        torch.testing.assert_close(ours[1], theirs[1])
    else:
        assert ours[0] == theirs[0]
        assert torch.equal(ours[1], theirs[1])
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], torch.cat([torch.zeros(4, 1), inputs()[:, 1:] * 16], 1))


def test_an_evaluation_does_too():
    model, optimizer = make(marked)
    trainer = weft.parallelize(model, optimizer, (inputs(),))
    given, same = inputs(1), inputs(1)
    with torch.no_grad():
        assert trainer.evaluate((given,)) == model(same).item()
    assert torch.equal(given, same)


def looked_at(layer, x):
    if float(x[0, 0]) > 100:
        x = x * 2
    x.add_(1.0)
    return layer(x)


def test_a_capture_with_values_leaves_the_batch():
    """Of a new size, so that every step is captured."""
    ours, theirs = train_both(looked_at, lambda: [inputs(i, 4 + i) for i in range(3)], inputs(7, 9))
    assert ours[0] == theirs[0]
    assert torch.equal(ours[1], theirs[1])
    model, optimizer = make(looked_at)
    given = inputs()
    weft.parallelize(model, optimizer, (given,))
    assert torch.equal(given, inputs())


def computed(layer, x):
    hidden = layer(x.clone())
    x[:, 0] = hidden[:, 0].detach()
    return hidden + x


def test_writing_into_the_batch_what_parameters_made_is_refused():
    model, optimizer = make(computed)
    with pytest.raises(weft.UserError, match="writes into 0 of its batch, and what it writes depends on more"):
        weft.parallelize(model, optimizer, (inputs(),))
