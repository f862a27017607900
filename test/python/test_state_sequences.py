# SPDX-License-Identifier: Apache-2.0
"""Random sequences of what a script may change between two steps: every loss and every parameter has the bits of eager
PyTorch, or the step is refused by name, and every kind of refusal is one that docs/limits.md lists.
"""

import collections
import contextlib
import copy
import dataclasses
import pathlib
import random
import warnings

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional

STEPS = 6
LIMITS = " ".join((pathlib.Path(__file__).parents[2] / "docs" / "limits.md").read_text().split())
# A refusal is recognised by words of its message, which docs/limits.md shows.
REFUSALS = (
    "does not depend on any parameter that requires a gradient",
    "neither a parameter nor a buffer",
    "that an earlier step made",
    "writes into the parameter",
    "only lr may change",
    "cannot be opened",
)
FACTOR = 1.0
OPTIONS = {"shift": [0.0, 0.25]}
OFFSET = torch.zeros(4)


@dataclasses.dataclass
class Given:
    inputs: torch.Tensor
    labels: torch.Tensor
    count: float = 1.0


class Closed:
    def __init__(self, given):
        self.given = given


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)
        self.alpha = 1.0
        self.table = torch.ones(width)
        self.calls = 0
        self.counts = False
        self.writes = False
        self.remembers = False
        self.seen = torch.zeros(())

    def forward(self, x):
        if self.counts:
            self.calls += 1
            x = x * (1.0 + self.calls % 3)
        if self.writes:
            self.table.add_(x.mean().detach())
        if self.remembers:
            self.seen = self.seen + x.mean().detach()
            x = x + self.seen
        return x + self.dropout(functional.gelu(self.inner(self.norm(x)))) * self.alpha * self.table


class Model(nn.Module):
    def __init__(self, with_batch_norm):
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.norm = nn.BatchNorm1d(8) if with_batch_norm else nn.Identity()
        self.head = nn.Linear(8, 4)
        self.smoothing = 0.0
        self.config = Closed({"scale": 1.0})

    def forward(self, inputs, labels=None, count=1.0, weight=None, how="mean"):
        if isinstance(inputs, Given):
            inputs, labels, count = inputs.inputs, inputs.labels, inputs.count
        elif isinstance(inputs, (tuple, list, dict)):
            inputs, labels = inputs.values() if isinstance(inputs, dict) else inputs
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)) * FACTOR + OPTIONS["shift"][1] + OFFSET * self.config.given["scale"]
        loss = functional.cross_entropy(logits, labels, weight, label_smoothing=self.smoothing, reduction="sum")
        return loss / count if how == "mean" else loss / count / 2


class Script:
    """One run of a sequence, by Weft or by eager PyTorch: the same numbers lead to the same changes."""

    def __init__(self, seed):
        self.numbers = random.Random(seed)
        torch.manual_seed(seed)
        self.model = Model(self.numbers.random() < 0.5)
        kind = self.numbers.choice([torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam])
        options = {"momentum": self.numbers.choice([0.0, 0.9])} if kind is torch.optim.SGD else {}
        self.optimizer = kind(self.model.parameters(), lr=0.01, weight_decay=0.01, **options)
        # Around the step, and around its forward alone.
        self.mode = contextlib.nullcontext
        self.precision = contextlib.nullcontext
        self.wrap = lambda given: given
        self.size = 6
        self.extra = {}
        self.handles = []
        # The script's own, which both runs start from.
        globals()["FACTOR"] = 1.0
        OPTIONS["shift"] = [0.0, 0.25]
        OFFSET.zero_()

    def batch(self, number):
        generator = torch.Generator().manual_seed(number)
        given = {
            "inputs": torch.randn(self.size, 5, generator=generator),
            "labels": torch.randint(4, (self.size,), generator=generator),
        }
        return self.wrap({**given, **self.extra} if self.wrap(given) is given else given)

    def change(self):
        for _ in range(self.numbers.choice([0, 1, 1, 2])):
            getattr(self, self.numbers.choice(CHANGES))()

    def change_alpha(self):
        self.numbers.choice(self.model.blocks).alpha = self.numbers.choice([0.5, 1.0, 2.0])

    def change_dropout(self):
        self.numbers.choice(self.model.blocks).dropout.p = self.numbers.choice([0.0, 0.0, 1.0])

    def change_table(self):
        block = self.numbers.choice(self.model.blocks)
        if self.numbers.random() < 0.5:
            block.table[self.numbers.randrange(8)] = self.numbers.choice([0.0, 1.0, 2.0])
        else:
            block.table = torch.full((8,), self.numbers.choice([0.5, 1.0]))

    def change_globals(self):
        globals()["FACTOR"] = self.numbers.choice([1.0, 1.5])
        OPTIONS["shift"][1] = self.numbers.choice([0.25, 0.5])
        OFFSET[self.numbers.randrange(4)] = self.numbers.choice([0.0, 1.0])
        self.model.config.given["scale"] = self.numbers.choice([1.0, 0.5])

    def change_requires_grad(self):
        for parameter in self.numbers.choice([self.model.embed, *self.model.blocks]).parameters():
            parameter.requires_grad_(not parameter.requires_grad)

    def change_training(self):
        module = self.numbers.choice([*self.model.blocks, self.model.norm])
        module.train(not module.training)

    def change_hooks(self):
        if self.handles:
            self.handles.pop().remove()
            return
        module = self.numbers.choice([self.model.embed, *self.model.blocks])
        factor = self.numbers.choice([0.5, 2.0])
        self.handles.append(module.register_forward_hook(lambda _, args, output: output * factor))

    def add_hook_that_fires_once(self):
        def fire(module, args, output):
            handle.remove()
            return output + 1

        handle = self.model.embed.register_forward_hook(fire)

    def change_rate(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.numbers.choice([0.01, 0.003])

    def change_size(self):
        self.size = self.numbers.choice([4, 6])

    def change_structure(self):
        self.wrap = self.numbers.choice(WRAPS)

    def change_entries(self):
        self.extra = self.numbers.choice(
            [{}, {"how": "half"}, {"weight": torch.tensor([1.0, 2.0, 1.0, 0.5])}, {"weight": None}]
        )

    def change_number(self):
        self.extra = {"count": self.numbers.choice([1.0, 2.5, 6, 11])}

    def change_mode(self):
        self.mode = self.numbers.choice([contextlib.nullcontext, lambda: torch.backends.mkldnn.flags(enabled=False)])

    def change_precision(self):
        self.precision = self.numbers.choice(
            [contextlib.nullcontext, lambda: torch.autocast("cpu", dtype=torch.bfloat16)]
        )

    def change_counting(self):
        block = self.numbers.choice(self.model.blocks)
        block.counts = not block.counts

    def change_module(self):
        self.model.blocks[0].dropout = self.numbers.choice([nn.Identity(), nn.Dropout(0.0), nn.Tanh()])

    def change_smoothing(self):
        self.model.smoothing = self.numbers.choice([0.0, 0.1])

    def change_weights(self):
        with torch.no_grad():
            self.model.head.weight.mul_(self.numbers.choice([0.5, 1.5]))

    def write_into_table(self):
        if self.numbers.random() < 0.3:
            self.model.blocks[1].writes = True

    def remember_a_tensor(self):
        if self.numbers.random() < 0.3:
            self.model.blocks[1].remembers = True

    def change_weight_decay(self):
        if self.numbers.random() < 0.2:
            self.optimizer.param_groups[0]["weight_decay"] = 0.5

    def close_the_batch(self):
        if self.numbers.random() < 0.2:
            self.wrap = lambda given: (Closed(given),)


CHANGES = [name for name in vars(Script) if name not in ("batch", "change") and not name.startswith("_")]
WRAPS = [
    lambda given: given,
    lambda given: given,
    lambda given: tuple(given.values()),
    lambda given: (Given(**given),),
    lambda given: Given(**given),
    lambda given: [tuple(given.values())],
    lambda given: {"inputs": collections.OrderedDict(given)},
]


def forward(model, given):
    if isinstance(given, dict):
        return model(**given)
    return model(*given) if isinstance(given, (tuple, list)) else model(given)


def eager(seed, count):
    script = Script(seed)
    losses = []
    for number in range(count):
        script.change()
        given = script.batch(number)
        script.optimizer.zero_grad()
        with script.mode():
            with script.precision():
                loss = forward(script.model, given)
            loss.backward()
            script.optimizer.step()
        losses.append(loss.item())
    return losses, script


def by_weft(seed):
    """The losses, the script, and the message of the step that was refused, if any."""
    script = Script(seed)
    trainer = weft.parallelize(script.model, script.optimizer, script.batch(0))
    losses = []
    for number in range(STEPS):
        script.change()
        try:
            with script.mode(), script.precision():
                losses.append(trainer.step(script.batch(number)))
        except weft.UserError as error:
            return losses, script, str(error)
    return losses, script, None


def run(seed):
    """Whether the sequence ended with a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses, ours, refusal = by_weft(seed)
    state = copy.deepcopy(ours.model.state_dict())
    expected, theirs = eager(seed, len(losses))
    assert losses == expected, seed
    if refusal is not None:
        # What the script changed before the step that was refused.
        theirs.change()
    for name, tensor in theirs.model.state_dict().items():
        assert torch.equal(state[name], tensor), (seed, name)
    if refusal is not None:
        kinds = [words for words in REFUSALS if words in refusal]
        assert kinds, (seed, refusal)
        assert kinds[0] in LIMITS
    return refusal is not None


def run_many(seeds):
    refused = sum(run(seed) for seed in seeds)
    print(f"{len(seeds)} sequences: {len(seeds) - refused} equal to the end, {refused} refused by name")
    # Most of what a script does is no mistake.
    assert refused <= len(seeds) // 3


def test_some_sequences_are_eager_or_refused_by_name():
    run_many(range(15))


@pytest.mark.campaign
def test_all_sequences_are_eager_or_refused_by_name():
    run_many(range(200))
