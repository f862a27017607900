# SPDX-License-Identifier: Apache-2.0
"""weft.parallelize in the loop of a script: batches, schedulers, saving, loading, options, mistakes."""

import collections
import copy
import gc
import warnings

import pytest
import torch
import weft
from torch import nn

STEPS = 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.5)
        self.second = nn.Linear(16, 3)

    def forward(self, inputs, labels, scale=1.0):
        hidden = self.dropout(torch.relu(self.norm(self.first(inputs))))
        return nn.functional.cross_entropy(self.second(hidden) * scale, labels)


def make(dropout=0.0, optimizer=torch.optim.Adam, **options):
    torch.manual_seed(0)
    model = Net()
    model.dropout.p = dropout
    return model, optimizer(model.parameters(), **{"lr": 0.01, **options})


def batch(number=0, size=8):
    generator = torch.Generator().manual_seed(number)
    return {
        "inputs": torch.randn(size, 6, generator=generator),
        "labels": torch.randint(3, (size,), generator=generator),
    }


def eager_steps(model, optimizer, numbers, after=lambda: None):
    for number in numbers:
        optimizer.zero_grad()
        model(**batch(number)).backward()
        optimizer.step()
        after()


def assert_same(model, other):
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_a_scheduler_goes_on_without_warnings():
    model, optimizer = make()
    other, theirs = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        trainer = weft.parallelize(model, optimizer, batch())
        for number in range(STEPS):
            trainer.step(batch(number))
            scheduler.step()
    expected = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, STEPS)
    eager_steps(other, theirs, range(STEPS), expected.step)
    assert trainer.steps == STEPS
    assert_same(model, other)


def test_a_momentum_that_changes_is_an_error():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, batch())
    optimizer.param_groups[0]["betas"] = (0.8, 0.999)
    with pytest.raises(weft.UserError, match="betas of group 0 .* only lr may change"):
        trainer.step(batch())


@pytest.mark.parametrize("options", [{}, {"optimizer": torch.optim.SGD, "momentum": 0.9, "dampening": 0.5}])
def test_an_optimizer_gives_the_state_that_it_has(options):
    model, optimizer = make(**options)
    eager_steps(model, optimizer, range(3))
    other, theirs = copy.deepcopy((model, optimizer))
    trainer = weft.parallelize(model, optimizer, batch())
    for number in range(3, 6):
        trainer.step(batch(number))
    eager_steps(other, theirs, range(3, 6))
    assert_same(model, other)
    # And gives it back: eager steps follow.
    eager_steps(model, optimizer, range(6, 8))
    eager_steps(other, theirs, range(6, 8))
    assert_same(model, other)


def test_state_dicts_are_loaded_as_ever():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, batch())
    trainer.step(batch(0))
    kept = copy.deepcopy((trainer.state_dict(), trainer.optimizer_state_dict()))
    first = trainer.step(batch(1))
    trainer.step(batch(2))
    model.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    assert trainer.step(batch(1)) == first
    eager, theirs = make()
    eager_steps(eager, theirs, range(2))
    assert_same(model, eager)


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    model, optimizer = make(dropout=0.5)
    trainer = weft.parallelize(model, optimizer, batch())
    for number in range(2):
        trainer.step(batch(number))
    assert trainer.save(tmp_path, extra={"epoch": 3}) == str(tmp_path / "step-2")
    expected = [trainer.step(batch(number)) for number in range(2, 5)]
    other, theirs = make(dropout=0.5)
    again = weft.parallelize(other, theirs, batch())
    assert again.load(tmp_path) == {"epoch": 3}
    assert again.steps == 2
    assert [again.step(batch(number)) for number in range(2, 5)] == expected
    assert_same(model, other)


def test_a_checkpoint_of_another_model_is_an_error(tmp_path):
    trainer = weft.parallelize(*make(), batch())
    trainer.save(tmp_path)
    other = weft.parallelize(*make(optimizer=torch.optim.SGD), batch())
    with pytest.raises(weft.UserError):
        other.load(tmp_path)
    with pytest.raises(weft.UserError, match="nowhere"):
        other.load(tmp_path / "nowhere")


def test_a_model_in_eval_mode_trains_and_evaluates():
    model, optimizer = make(dropout=0.5)
    model.eval()
    trainer = weft.parallelize(model, optimizer, batch())
    before = model.norm.running_mean.clone()
    expected = model(**batch(7)).item()
    assert trainer.evaluate(batch(7)) == expected
    assert torch.equal(model.norm.running_mean, before)
    trainer.step(batch(7))
    assert not torch.equal(model.norm.running_mean, before)
    assert not model.training


def test_batches_of_any_kind():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, collections.UserDict(batch()))
    turned = dict(reversed(batch(1).items()))
    other, theirs = make()
    assert trainer.step(turned) == other(**batch(1)).item()
    assert trainer.step(batch(2, size=6)) > 0
    pair = weft.parallelize(other, theirs, tuple(batch().values()))
    assert pair.step(list(batch(1).values())) > 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"inputs": torch.zeros(8, 6)}, "it has no labels"),
        ({**batch(), "more": torch.zeros(1)}, "it has more"),
        ({**batch(), "labels": 3}, "labels is a int, and in the example a Tensor"),
        (3, "the batch must be"),
    ],
)
def test_a_batch_of_another_structure_is_an_error(wrong, words):
    trainer = weft.parallelize(*make(), batch())
    with pytest.raises(weft.UserError, match=words):
        trainer.step(wrong)


def test_numbers_in_a_batch_may_change():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, {**batch(), "scale": 2.0})
    other, theirs = make()
    for number in range(3):
        given = {**batch(number), "scale": 2.0 + number}
        theirs.zero_grad()
        expected = other(**given)
        expected.backward()
        theirs.step()
        assert trainer.step(given) == expected.item()
    assert_same(model, other)


def test_an_optimizer_that_is_not_known_is_an_error():
    model, _ = make()
    with pytest.raises(weft.UserError, match="the optimizer rprop"):
        weft.parallelize(model, torch.optim.Rprop(model.parameters()), batch())
    with pytest.raises(weft.UserError, match=r"not a torch.optim.Optimizer"):
        weft.parallelize(model, None, batch())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parallel": "dta=2"}, 'parallel: no word is called "dta"'),
        ({"parallel": "data=2"}, "the mesh <data=2> needs 2 ranks, and there is 1; start 2"),
        ({"plan": "plan @Net on <x=2> { }"}, "plan:1: the mesh <x=2> needs 2 ranks, and there is 1; start 2"),
        ({"plan": "data=2"}, 'plan: "data=2" is not the text of a plan; words as data=2 are for parallel'),
        ({"parallel": "data=2", "plan": "plan @Net on <> { }"}, "plan and parallel both say how to run"),
    ],
)
def test_a_plan_that_does_not_fit_is_an_error(options, words):
    with pytest.raises(weft.UserError) as error:
        weft.parallelize(*make(), batch(), **options)
    assert words in str(error.value)


def test_clipping_and_accumulation_are_those_of_a_loop():
    model, optimizer = make()
    other, theirs = make()
    trainer = weft.parallelize(model, optimizer, batch(), clip_norm=0.1, accumulate=2)
    for number in range(4):
        trainer.step(batch(number))
        (other(**batch(number)) / 2).backward()
        if number % 2:
            norm = nn.utils.clip_grad_norm_(other.parameters(), 0.1, foreach=False)
            theirs.step()
            theirs.zero_grad()
            assert trainer.last.gradient_norm == norm.item()
    assert trainer.steps == 2
    assert_same(model, other)


def test_a_bad_loss_stops_or_is_left_out():
    bad = batch()
    bad["inputs"][0, 0] = float("nan")
    model, optimizer = make()
    before = copy.deepcopy(dict(model.named_parameters()))
    with pytest.raises(weft.UserError, match="the loss of step 0 is nan"):
        weft.parallelize(model, optimizer, batch()).step(bad)
    trainer = weft.parallelize(model, optimizer, batch(), bad_loss="skip")
    trainer.step(bad)
    assert trainer.last.is_skipped
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    # A good one in between counts anew.
    trainer.step(batch())
    for _ in range(49):
        trainer.step(bad)
    with pytest.raises(weft.UserError, match="the last 50 steps were left out"):
        trainer.step(bad)


@pytest.mark.parametrize("precision", ["bf16", "bf16-mixed", "f16-mixed"])
def test_other_precisions_learn(precision):
    model, optimizer = make(optimizer=torch.optim.SGD, lr=0.1)
    trainer = weft.parallelize(model, optimizer, batch(), precision=precision)
    losses = [trainer.step(batch()) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert model.first.weight.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert trainer.loss_scale == (65536.0 if precision == "f16-mixed" else 1.0)


def test_loss_scaling_changes_no_bit_where_nothing_overflows():
    model, optimizer = make()
    other, theirs = make()
    trainer = weft.parallelize(model, optimizer, batch(), loss_scale=1024.0)
    for number in range(STEPS):
        trainer.step(batch(number))
    eager_steps(other, theirs, range(STEPS))
    assert_same(model, other)


def test_gradients_can_be_kept():
    model, optimizer = make()
    other, _ = make()
    weft.parallelize(model, optimizer, batch(), keep_gradients=True).step(batch())
    other(**batch()).backward()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_a_model_outlives_its_trainer():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, batch())
    trainer.step(batch())
    kept = copy.deepcopy(model.state_dict())
    del trainer
    gc.collect()
    [torch.full((1000,), float(i)) for i in range(100)]
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    eager_steps(model, optimizer, range(2))


def test_a_plan_for_the_model_of_a_file_is_for_that_of_a_script():
    model, optimizer = make()
    other, theirs = make()
    plan = "plan @net on <> {\n  recompute %relu\n}\n"
    trainer = weft.parallelize(model, optimizer, batch(), plan=plan)
    for number in range(STEPS):
        trainer.step(batch(number))
    eager_steps(other, theirs, range(STEPS))
    assert_same(model, other)
    with pytest.raises(weft.UserError, match="plan:2.*gone"):
        weft.parallelize(*make(), batch(), plan="plan @net on <> {\n  recompute %gone\n}\n")
