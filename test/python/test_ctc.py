# SPDX-License-Identifier: Apache-2.0
"""CTC losses whose lengths and labels change with the batch: one captured step gives eager PyTorch's bits for all."""

import copy

import pytest
import torch
import torch.nn.functional as F
import weft
from planned import Planned
from test_capture_styles import check_bits, check_plans
from torch import nn

INPUT_LENGTHS = [7, 6, 7, 5]
TARGET_LENGTHS = [3, 2, 3, 1]


class Ctc(nn.Module):
    """`targets_as`: rows with padding, one after the other, or selected from rows by a mask."""

    def __init__(self, targets_as="rows", lengths_as="tensors", **options):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 5)
        self.targets_as = targets_as
        self.lengths_as = lengths_as
        self.options = options

    def forward(self, x, labels, input_lengths, target_lengths):
        log_probs = self.head(self.body(x)).log_softmax(-1).transpose(0, 1)
        targets = labels
        if self.targets_as == "selected":
            mask = labels >= 0
            targets, target_lengths = labels.masked_select(mask), mask.sum(-1)
        elif self.targets_as == "selected by other rows":
            targets = labels.reshape(2, -1)
            targets = targets[targets >= 0]
        if self.lengths_as == "lists":
            input_lengths, target_lengths = INPUT_LENGTHS, TARGET_LENGTHS
        loss = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, **self.options)
        return loss.square().sum()


def labels_of(lengths, width=3):
    labels = torch.full((len(lengths), width), -100)
    for row, length in enumerate(lengths):
        labels[row, :length] = torch.randint(1, 5, (length,))
    return labels


def batch_of(targets_as, inputs=INPUT_LENGTHS, targets=TARGET_LENGTHS):
    labels = labels_of(targets)
    if targets_as == "one after the other":
        labels = labels[labels >= 0]
    return torch.randn(4, 7, 6), labels, torch.tensor(inputs), torch.tensor(targets)


def planned(make, targets_as):
    def build():
        torch.manual_seed(0)
        return make(), batch_of(targets_as)

    return Planned(build)


KINDS_OF_TARGETS = ["rows", "one after the other", "selected", "selected by other rows"]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("lengths_as", ["lists", "tensors"])
@pytest.mark.parametrize("targets_as", KINDS_OF_TARGETS)
def test_ctc_loss(targets_as, lengths_as, reduction):
    one = planned(lambda: Ctc(targets_as, lengths_as, reduction=reduction), targets_as)
    check_bits(one)
    check_plans(one, "data=2", "micro-batches=2", "data=2,zero=3", "pipeline=2,micro-batches=2", "tensor=2")


def test_lengths_are_operands_and_samples_are_split():
    one = planned(lambda: Ctc("selected"), "selected")
    graph = str(one.graph)
    assert "weft.guard" not in graph
    # Not wider than the rows of labels: two states for each of 3 and one more.
    assert "f32[4, 7, 7]" in graph
    program = weft._weft.lower(one.graph, weft._weft.expand(one.graph, "data=2"))
    assert "f32[2, 7, 7]" in str(program)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("targets_as", KINDS_OF_TARGETS)
def test_lengths_that_change_between_steps(targets_as, zero_infinity, capfd):
    torch.manual_seed(0)
    eager = Ctc(targets_as, zero_infinity=zero_infinity)
    ours = copy.deepcopy(eager)
    theirs = torch.optim.SGD(eager.parameters(), 0.1)
    first = batch_of(targets_as)
    trainer = weft.parallelize(ours, torch.optim.SGD(ours.parameters(), 0.1), first)
    # Each has nine labels. The last has a target that is too long for its input, and an infinite loss but for the option.
    others = [([7, 7, 5, 7], [1, 3, 3, 2]), ([7, 6, 5, 7], [0, 3, 3, 3])]
    if zero_infinity:
        others.append(([7, 1, 5, 7], [3, 3, 1, 2]))
    for batch in [first, *(batch_of(targets_as, *lengths) for lengths in others)]:
        theirs.zero_grad()
        loss = eager(*batch)
        loss.backward()
        theirs.step()
        assert trainer.step(batch) == loss.item()
    for (name, parameter), value in zip(eager.named_parameters(), ours.parameters(), strict=True):
        assert torch.equal(parameter, value), name
    assert "captured" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "inputs, targets, message",
    [
        ([8, 6, 7, 5], TARGET_LENGTHS, "Expected input_lengths to have value at most 7, but got value 8"),
        ([-1, 6, 7, 5], TARGET_LENGTHS, "Expected input_lengths to have value at least 0, but got value -1"),
        (INPUT_LENGTHS, [4, 2, 3, 1], "Expected tensor to have size at least 4 at dimension 1, but got size 3"),
        (INPUT_LENGTHS, [-1, 2, 3, 1], "Expected target_lengths to have value at least 0, but got value -1"),
    ],
)
def test_lengths_that_do_not_fit_have_eager_s_message(inputs, targets, message):
    torch.manual_seed(0)
    model = Ctc()
    x, labels, *lengths = batch_of("rows")
    trainer = weft.parallelize(model, torch.optim.SGD(model.parameters(), 0.1), (x, labels, *lengths))
    wrong = (x, labels, torch.tensor(inputs), torch.tensor(targets))
    with pytest.raises(RuntimeError, match=message):
        model(*wrong)
    with pytest.raises(weft.UserError, match=message):
        trainer.step(wrong)


def test_lengths_that_do_not_add_up_have_eager_s_message():
    torch.manual_seed(0)
    model = Ctc("one after the other")
    x, labels, *lengths = batch_of("one after the other")
    trainer = weft.parallelize(model, torch.optim.SGD(model.parameters(), 0.1), (x, labels, *lengths))
    wrong = (x, labels, lengths[0], torch.tensor([3, 3, 3, 1]))
    message = "Expected tensor to have size 10 at dimension 0, but got size 9 for argument #2 'targets'"
    with pytest.raises(RuntimeError, match=message):
        model(*wrong)
    with pytest.raises(weft.UserError, match=message):
        trainer.step(wrong)


def test_shapes_that_do_not_fit_have_eager_s_message():
    x, labels, *lengths = batch_of("rows")
    wrong = [
        ((x, labels, lengths[0][:3], lengths[1]), {}, "input_lengths must be of size batch_size"),
        ((x, labels, lengths[0], lengths[1].float()), {}, "target_lengths must be integral"),
        ((x, labels[:3], *lengths), {}, "Expected tensor to have size 4 at dimension 0, but got size 3"),
        ((x, labels, *lengths), {"blank": 5}, "blank must be in label range"),
    ]
    for batch, options, message in wrong:
        model = Ctc(**options)
        with pytest.raises(RuntimeError, match=message):
            model(*batch)
        with pytest.raises(RuntimeError, match=message):
            weft.capture(model, batch)


def test_a_single_sample_without_a_batch():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 5)

        def forward(self, x, labels, input_length, target_length):
            return F.ctc_loss(self.head(x).log_softmax(-1), labels, input_length, target_length, reduction="none")

    def build():
        torch.manual_seed(0)
        return Single(), (torch.randn(7, 6), torch.tensor([1, 2, 2]), torch.tensor(6), torch.tensor(3))

    check_bits(Planned(build))
