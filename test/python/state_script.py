# SPDX-License-Identifier: Apache-2.0
"""What test_state_ranks.py runs on two ranks: steps of a model that the script changes in between, and eager ones."""

import json
import os
import sys
import warnings

import torch
import weft
from torch import nn
from torch.nn import functional

STEPS = 6
SCALES = {"wide": 0.5, "narrow": 1.5}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        # A bias before a batch norm has gradients that are 0 but for rounding, which AdamW would make large.
        self.first = nn.Linear(8, 16, bias=False)
        # Its buffers are split where its channels are.
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)
        self.gain = 1.0
        self.calls = 0
        self.counts = False
        self.order = ("wide", "narrow")

    def forward(self, inputs, labels, count):
        if self.counts:
            self.calls += 1
        hidden = torch.tanh(self.norm(self.first(inputs))) * self.gain
        hidden = hidden + torch.tanh(self.second(hidden)) * (1.0 + self.calls)
        waves = {name: torch.sin(inputs[:, :1] * torch.tensor(SCALES[name], dtype=inputs.dtype)) for name in self.order}
        hidden = hidden + waves["wide"] - waves["narrow"]
        return functional.cross_entropy(self.head(hidden), labels, reduction="sum") / count


def make():
    torch.manual_seed(0)
    model = Net().double()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return {
        "inputs": torch.randn(8, 8, generator=generator, dtype=torch.float64),
        "labels": torch.randint(4, (8,), generator=generator),
        "count": 8 + number,
    }


def freeze(model, number):
    for parameter in model.second.parameters():
        parameter.requires_grad_(number not in (2, 3))


def set_gain(model, number):
    model.gain = 1.0 + number // 2


def count(model, number):
    model.counts = number > 1


def reorder(model, number):
    """As a Python set of strings has another order in every process."""
    if number >= 2 and os.environ["RANK"] == "1":
        model.order = ("narrow", "wide")
    # All ranks capture again in the same step.
    model.gain = 1.0 + (number >= 2)


CHANGES = {"freeze": freeze, "gain": set_gain, "count": count, "order": reorder}


def run(words, change):
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, batch(0), parallel=words)
    other, theirs = make()
    worst = 0.0
    for number in range(STEPS):
        change(model, number)
        change(other, number)
        loss = trainer.step(batch(number))
        theirs.zero_grad()
        expected = other(**batch(number))
        expected.backward()
        theirs.step()
        worst = max(worst, abs(loss - expected.item()))
    for name, tensor in trainer.state_dict().items():
        worst = max(worst, (tensor - other.state_dict()[name]).abs().max().item())
    return worst


def main(folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    result = {}
    for words in ("data=2", "data=2,zero=1", "data=2,zero=3", "tensor=2"):
        for name, change in CHANGES.items():
            try:
                result[f"{words} {name}"] = run(words, change)
            except weft.UserError as error:
                result[f"{words} {name}"] = str(error)
    with open(os.path.join(folder, os.environ["RANK"]), "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(sys.argv[1])
