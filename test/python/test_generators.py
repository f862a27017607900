# SPDX-License-Identifier: Apache-2.0
"""Random numbers of generators that a step makes or seeds itself: those of eager PyTorch, in every step."""

import copy

import pytest
import torch
import weft
from lockstep import Step
from torch import nn
from torch.utils.checkpoint import checkpoint

ROWS, WIDTH = 6, 8


def fresh(seed=3):
    return torch.Generator().manual_seed(seed)


def seeded_globally(draw):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return draw()


def some_of(h):
    """A branch on a value of the batch: the step is captured with values."""
    return h.relu() if h.detach().sum() > -1e9 else h


# What is done to h, [ROWS, WIDTH]. `model.generator` was made with the model.
DRAWS = {
    "randn": lambda model, h: h * torch.randn(WIDTH, generator=fresh()),
    "rand, twice": lambda model, h: (lambda g: h * torch.rand(3, 1, generator=g)[1] + torch.rand(8, generator=g))(
        fresh()
    ),
    "the default seed": lambda model, h: h + torch.rand(WIDTH, generator=torch.Generator()),
    "randperm": lambda model, h: h[torch.randperm(ROWS, generator=fresh())] * torch.arange(ROWS)[:, None],
    "randint": lambda model, h: h[:, torch.randint(0, WIDTH, (4,), generator=fresh())],
    "in place": lambda model, h: h * torch.empty(4, WIDTH).normal_(generator=fresh())[1],
    "in place, a mask": lambda model, h: h * torch.empty_like(h).bernoulli_(0.5, generator=fresh()),
    "into what the step made": lambda model, h: h.detach().clone().uniform_(generator=fresh()) * h,
    "of weights that are constant": lambda model, h: h[:, torch.multinomial(torch.arange(8.0), 3, generator=fresh())],
    "of a mean that is constant": lambda model, h: h * torch.normal(torch.arange(8.0), 1.0, generator=fresh()),
    "PyTorch's own, seeded": lambda model, h: h * seeded_globally(lambda: torch.randn_like(h)),
    "PyTorch's own, seeded for dropout": lambda model, h: seeded_globally(lambda: nn.functional.dropout(h)),
    "PyTorch's own, seeded for a layer": lambda model, h: (
        seeded_globally(lambda: h * torch.rand(WIDTH)) @ torch.ones(8, 2)
    ),
    "seeded anew in every step": lambda model, h: h * torch.rand(WIDTH, generator=model.generator.manual_seed(7)),
    "with values": lambda model, h: some_of(h) * torch.randn(ROWS, WIDTH, generator=fresh()).abs_(),
    "with values, in place": lambda model, h: some_of(h) * torch.empty(WIDTH).normal_(generator=fresh()),
    "with values, PyTorch's own": lambda model, h: some_of(h) * seeded_globally(lambda: torch.rand(WIDTH)),
    "in a checkpoint": lambda model, h: checkpoint(
        lambda x: x.sin() * torch.rand(WIDTH, generator=fresh()), h, use_reentrant=False
    ),
}


class Drawing(nn.Module):
    def __init__(self, draw):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.generator = fresh(11)
        self.draw = draw

    def __deepcopy__(self, memo):
        other = Drawing(self.draw)
        other.load_state_dict(self.state_dict())
        return other

    def forward(self, x):
        return self.draw(self, self.first(x)).sin().sum() + self.last(x).sum()


def step_of(draw):
    model = Drawing(draw)
    batch = (torch.randn(ROWS, WIDTH, generator=fresh(1)),)
    return model, batch, torch.optim.SGD(model.parameters(), lr=0.05)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_that_a_step_seeds_are_those_of_eager(draw):
    model, (x,), optimizer = step_of(draw)
    twin = copy.deepcopy(model)
    own = torch.optim.SGD(twin.parameters(), lr=0.05)
    trainer = weft.parallelize(model, optimizer, (x,))
    before = torch.get_rng_state()
    for shift in (0.0, 0.5, 1.0):
        own.zero_grad()
        expected = twin(x + shift)
        expected.backward()
        own.step()
        assert trainer.step((x + shift,)) == expected.item()
    assert torch.equal(torch.get_rng_state(), before)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("words", ["data=2", "data=3,zero=3", "data=2,micro-batches=3"])
def test_numbers_that_a_step_seeds_are_split_like_others(words):
    model, (x,), optimizer = step_of(DRAWS["in place, a mask"])
    one = Step(model.double(), (x.double(),), optimizer)
    difference = one.difference(weft._weft.expand(one.graph, words))
    assert difference["loss"] < 1e-12 and difference["gradient"] < 1e-12


def test_a_generator_that_goes_on_gives_other_numbers_in_every_step():
    model, batch, optimizer = step_of(lambda model, h: h * torch.rand(WIDTH, generator=model.generator))
    optimizer.param_groups[0]["lr"] = 0.0
    trainer = weft.parallelize(model, optimizer, batch)
    assert len({float(trainer.step(batch)) for _ in range(3)}) == 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, h: h[:, torch.multinomial(h.detach().exp().mean(0), 3, generator=fresh())],
        lambda model, h: h * seeded_globally(lambda: torch.bernoulli(h.detach().sigmoid())),
    ],
    ids=["multinomial", "bernoulli"],
)
def test_what_depends_on_more_than_constants_is_refused(draw):
    model, batch, optimizer = step_of(draw)
    with pytest.raises(weft.UserError, match="draws random numbers from a generator that the step seeds itself"):
        weft.parallelize(model, optimizer, batch)


def test_a_function_that_builds_a_model_cannot_tell_whether_a_step_seeds_a_generator():
    from weft.capture import capture_function

    def build():
        return step_of(lambda model, h: h * torch.rand(WIDTH, generator=model.generator))

    with pytest.raises(weft.UserError, match="a torch.Generator that outlives it"):
        capture_function(build)
