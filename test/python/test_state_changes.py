# SPDX-License-Identifier: Apache-2.0
"""What a script changes between two steps: every step is what eager PyTorch computes from what is there by then."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import random
import types
import warnings

import numpy as np
import pytest
import torch
import weft
from torch import nn
from torch.nn import functional

SCALE = 1.0
TABLE = {"shift": 0.5}
BIAS = torch.zeros(3)


class Net(nn.Module):
    """Reads of Python what a model may read."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.0)
        self.second = nn.Linear(8, 3)
        self.act = nn.ReLU()
        self.gain = 1.0
        self.settings = {"power": [1.0, 2.0]}
        self.mask = torch.ones(8)

    def forward(self, inputs, labels):
        hidden = self.dropout(self.act(self.norm(self.first(inputs)))) * self.gain * self.mask
        hidden = hidden * self.settings["power"][0]
        logits = self.second(hidden) * SCALE + TABLE["shift"] + BIAS
        return functional.cross_entropy(logits, labels)


@dataclasses.dataclass
class Pair:
    inputs: torch.Tensor
    labels: torch.Tensor


Named = collections.namedtuple("Named", "inputs labels")


def make(kind=Net, optimizer=torch.optim.Adam, **options):
    torch.manual_seed(0)
    model = kind()
    return model, optimizer(model.parameters(), **{"lr": 0.01, **options})


def batch(number=0, size=8):
    generator = torch.Generator().manual_seed(number)
    return {
        "inputs": torch.randn(size, 6, generator=generator),
        "labels": torch.randint(3, (size,), generator=generator),
    }


def eager_step(model, optimizer, given):
    optimizer.zero_grad()
    loss = model(**given) if isinstance(given, dict) else model(*given)
    loss.backward()
    optimizer.step()
    return loss.item()


def compare(change, kind=Net, steps=6, make_batch=batch, around=contextlib.nullcontext, **options):
    """Trains two copies, with `change(model, optimizer, number)` before every step."""
    ours, our_optimizer = make(kind, **options)
    theirs, their_optimizer = make(kind, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = weft.parallelize(ours, our_optimizer, make_batch(0))
        losses = []
        for number in range(steps):
            change(ours, our_optimizer, number)
            with around():
                losses.append(trainer.step(make_batch(number)))
    expected = []
    for number in range(steps):
        change(theirs, their_optimizer, number)
        with around():
            theirs_loss = None
            their_optimizer.zero_grad()
            given = make_batch(number)
            theirs_loss = theirs(**given) if isinstance(given, dict) else theirs(*given)
        theirs_loss.backward()
        their_optimizer.step()
        expected.append(theirs_loss.item())
    assert losses == expected
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name]), name
    return trainer


def captures(trainer):
    return sum(len(steps) for steps in trainer._table._steps.values())


def freeze(model, _, number):
    model.first.weight.requires_grad_(number not in (2, 3))
    model.first.bias.requires_grad_(number not in (2, 3))


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_frozen_parameters_stay_and_go_on(optimizer):
    options = {"momentum": 0.9, "weight_decay": 0.1} if optimizer is torch.optim.SGD else {"weight_decay": 0.1}
    trainer = compare(freeze, optimizer=optimizer, **options)
    assert captures(trainer) == 2


def frozen_at_first(model, _, number):
    model.second.weight.requires_grad_(number >= 2)


def test_a_parameter_may_be_trained_from_some_step_on():
    compare(frozen_at_first)
    compare(frozen_at_first, optimizer=torch.optim.SGD, momentum=0.9, dampening=0.5)


def test_modes_of_submodules_and_back():
    def change(model, _, number):
        model.norm.train(number % 2 == 0)

    assert captures(compare(change)) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _, number: setattr(model, "gain", 1.0 + number // 2),
        lambda model, _, number: model.settings["power"].__setitem__(0, 1.0 + number // 2),
        lambda model, _, number: setattr(model, "settings", {"power": [2.0 + number // 2]}),
        lambda model, _, number: model.mask.fill_(number // 2),
        lambda model, _, number: setattr(model, "mask", torch.full((8,), float(number // 2))),
        lambda model, _, number: setattr(model, "act", nn.Tanh() if number > 2 else nn.ReLU()),
        lambda model, _, number: setattr(model.norm, "momentum", 0.1 if number < 3 else 0.5),
        lambda model, _, number: setattr(model.norm, "eps", 1e-5 if number < 3 else 1e-3),
    ],
)
def test_attributes_of_modules(change):
    compare(change)


def test_dropout_that_begins_later():
    def change(model, _, number):
        model.dropout.p = 1.0 if number == 3 else 0.0

    compare(change)


def test_globals_that_change(monkeypatch):
    def change(_model, _optimizer, number):
        monkeypatch.setitem(globals(), "SCALE", 1.0 + number // 3)
        monkeypatch.setitem(TABLE, "shift", 0.5 + number // 2)
        BIAS.copy_(torch.tensor([0.0, number // 2, 1.0]))

    compare(change)
    BIAS.zero_()


def test_variables_of_closures():
    scale = 1.0

    class Closed(Net):
        def forward(self, inputs, labels):
            return super().forward(inputs, labels) * scale

    def change(_model, _optimizer, number):
        nonlocal scale
        scale = 1.0 + number // 2

    compare(change, kind=Closed)


def test_a_forward_that_is_replaced():
    def other(self, inputs, labels):
        return functional.cross_entropy(self.second(self.first(inputs).sigmoid()), labels)

    def change(model, _, number):
        if number == 2:
            model.forward = other.__get__(model)
        if number == 4:
            del model.forward

    assert captures(compare(change)) == 2

    class Patched(Net):
        pass

    def patch(_model, _optimizer, number):
        Patched.forward = other if number in (2, 3) else Net.forward

    compare(patch, kind=Patched)


def test_hooks_that_come_and_go():
    def change(model, _, number):
        if number == 1:
            model.handle = model.first.register_forward_hook(lambda module, args, output: output * 2)
        if number == 3:
            model.handle.remove()

    compare(change)


def test_a_hook_that_removes_itself():
    def change(model, _, number):
        def hook(module, args, output):
            handle.remove()
            return output * 2

        if number in (0, 3):
            handle = model.first.register_forward_hook(hook)

    compare(change)


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, inputs, labels):
        self.calls += 1
        return super().forward(inputs, labels) * self.calls


def test_a_counter_in_forward():
    trainer = compare(lambda *_: None, kind=Counting)
    assert trainer.model.calls == 6
    trainer = weft.parallelize(*make(Counting), batch())
    with pytest.warns(UserWarning, match=r"model\.calls changes while a step runs"):
        for number in range(2):
            trainer.step(batch(number))


class Rolling(Net):
    def forward(self, inputs, labels):
        return super().forward(inputs, labels) * (1 + round(random.random() * 3)) + float(np.random.rand())


def test_random_numbers_of_python_and_numpy():
    states = random.getstate(), np.random.get_state()

    def change(_model, _optimizer, number):
        if number == 0:
            random.setstate(states[0])
            np.random.set_state(states[1])

    compare(change, kind=Rolling)


class Leaving(Net):
    """Leaves tensors behind: one that nobody reads, one that the same step reads, and a table made once."""

    def __init__(self):
        super().__init__()
        self.last = None
        self.parts = []
        self.table = None

    def forward(self, inputs, labels):
        if self.table is None or len(self.table) < len(inputs):
            self.table = torch.arange(len(inputs)).float().cos()
        self.parts = []
        self.last = self.first(inputs)
        self.parts.append(self.last.square().mean())
        return super().forward(inputs * self.table[: len(inputs), None], labels) + sum(self.parts)


def test_tensors_that_a_step_leaves_behind():
    trainer = compare(lambda *_: None, kind=Leaving)
    # Neither its last output nor the list of parts makes a step capture again.
    assert captures(trainer) <= 3
    with pytest.raises(RuntimeError, match=r"model\.last was set while a training step ran"):
        trainer.model.last.sum().item()
    assert torch.equal(trainer.model.table, torch.arange(8).float().cos())


class Remembering(Net):
    def __init__(self):
        super().__init__()
        self.running = torch.zeros(())

    def forward(self, inputs, labels):
        self.running = 0.9 * self.running + 0.1 * inputs.mean()
        return super().forward(inputs, labels) + self.running


def test_what_an_earlier_step_made_is_refused_by_name():
    trainer = weft.parallelize(*make(Remembering), batch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.step(batch())
        with pytest.raises(
            weft.UserError,
            match=r"an earlier step made.*register_buffer.*model\.running\n  at .*py:\d+ in forward: self",
        ):
            trainer.step(batch())


class Filled(Net):
    """A buffer without a tensor, until the first step makes one."""

    is_constant = True

    def __init__(self):
        super().__init__()
        self.register_buffer("table", None)

    def forward(self, inputs, labels):
        if self.table is None:
            self.table = torch.arange(3.0) / 3 if self.is_constant else inputs.mean() * torch.ones(3)
        return super().forward(inputs, labels) * self.table.sum()


class FilledByBatch(Filled):
    is_constant = False


def test_a_buffer_that_the_first_step_makes_has_its_values():
    model, optimizer = make(Filled)
    trainer = weft.parallelize(model, optimizer, batch())
    twin, twin_optimizer = make(Filled)
    for _ in range(3):
        assert trainer.step(batch()) == eager_step(twin, twin_optimizer, batch())
    torch.testing.assert_close(trainer.state_dict()["table"], twin.table, rtol=0, atol=0)


def test_a_buffer_that_the_first_step_makes_of_the_batch_is_refused_by_name():
    trainer = weft.parallelize(*make(FilledByBatch), batch())
    trainer.step(batch())
    with pytest.raises(weft.UserError, match=r"the buffer table was registered while.*Register it before.*copy_"):
        trainer.step(batch())


class Writing(Net):
    def forward(self, inputs, labels):
        with torch.no_grad():
            self.mask.add_(inputs.mean())
        return super().forward(inputs, labels)


def test_writing_into_a_tensor_that_is_no_buffer_is_refused_by_name():
    with pytest.raises(weft.UserError, match=r"neither a parameter nor a buffer.*register_buffer.*model\.mask"):
        weft.parallelize(*make(Writing), batch())


class Filling(Net):
    def forward(self, inputs, labels):
        weights = torch.tensor([1.0, 1.0, 1.0])
        weights[1] = 2.0
        weights.mul_(inputs.abs().mean())
        return super().forward(inputs, labels) * weights.sum()


def test_writing_into_what_the_step_has_made_itself():
    compare(lambda *_: None, kind=Filling)


class Clamping(Net):
    def forward(self, inputs, labels):
        with torch.no_grad():
            self.first.weight.clamp_(-0.1, 0.1)
        return super().forward(inputs, labels)


def test_writing_into_a_parameter_is_refused_by_name():
    with pytest.raises(weft.UserError, match="writes into the parameter .first.weight."):
        weft.parallelize(*make(Clamping), batch())


class Rebinding(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, inputs, labels):
        self.mean = 0.9 * self.mean + 0.1 * inputs.mean(0).detach()
        return super().forward(inputs - self.mean, labels)


def test_buffers_that_the_step_replaces():
    assert captures(compare(lambda *_: None, kind=Rebinding)) == 1


def test_buffers_that_the_script_replaces():
    def change(model, _, number):
        if number == 2:
            model.mean = torch.ones(6)

    compare(change, kind=Rebinding)


def test_autocast_around_the_step():
    compare(lambda *_: None, around=lambda: torch.autocast("cpu", dtype=torch.bfloat16))

    # And in some of the steps only.
    class Sometimes:
        number = 0

        def __enter__(self):
            self.context = torch.autocast("cpu", dtype=torch.bfloat16, enabled=Sometimes.number % 2 == 1)
            self.context.__enter__()
            Sometimes.number = (Sometimes.number + 1) % 6

        def __exit__(self, *error):
            self.context.__exit__(*error)

    assert captures(compare(lambda *_: None, around=Sometimes)) == 2


def test_no_step_without_gradients():
    trainer = weft.parallelize(*make(), batch())
    with torch.no_grad(), pytest.raises(weft.UserError, match="does not depend on any parameter"):
        trainer.step(batch())
    trainer.step(batch())


class Taking(Net):
    def forward(self, data):
        if isinstance(data, dict):
            data = Pair(**data)
        return super().forward(data.inputs, data.labels)


class Point:
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels


torch.utils._pytree.register_pytree_node(
    Point, lambda point: ([point.inputs, point.labels], None), lambda items, _: Point(*items)
)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda given: (Pair(**given),),
        lambda given: (Named(**given),),
        lambda given: (Point(**given),),
        lambda given: {"data": Pair(**given)},
        lambda given: [collections.OrderedDict(given)],
    ],
)
def test_structures_of_batches(wrap):
    compare(lambda *_: None, kind=Taking, make_batch=lambda number: wrap(batch(number)))


def test_a_batch_that_is_one_object():
    class One(Taking):
        def forward(self, data):
            return super().forward(data)

    ours, optimizer = make(One)
    trainer = weft.parallelize(ours, optimizer, Pair(**batch(0)))
    theirs, their_optimizer = make(One)
    # The same object, filled again.
    given = Pair(**batch(0))
    for number in range(3):
        given.inputs, given.labels = batch(number).values()
        assert trainer.step(given) == eager_step(theirs, their_optimizer, (given,))


class Closed:
    def __init__(self, **given):
        self.store = given


def test_an_object_that_cannot_be_opened_is_refused_by_name():
    for given in (Closed(**batch()), (Closed(**batch()),), {"data": Closed(**batch())}):
        with pytest.raises(weft.UserError, match=r"a Closed.*Closed.store.inputs.*register_pytree_node"):
            weft.parallelize(*make(Taking), given)


class Optional(Net):
    def forward(self, inputs, labels, weight=None, how="mean", count=None):
        loss = super().forward(inputs, labels)
        if weight is not None:
            loss = loss * weight.mean()
        if how == "double":
            loss = 2 * loss
        return loss if count is None else loss.sum() * 3.0 / count + inputs.mean() * count


def test_entries_that_come_and_go():
    def make_batch(number):
        given = batch(number)
        if number % 2:
            given["weight"] = torch.full((3,), float(number)) if number % 4 == 1 else None
        if number > 2:
            given["how"] = "double" if number % 2 else "mean"
        return given

    compare(lambda *_: None, kind=Optional, make_batch=make_batch)


@pytest.mark.parametrize("values", [(3, 5, 7, 11, 2, 1), (0.5, 0.1, 0.7, 1.3, 2.9, 3.1)])
def test_a_number_that_only_enters_arithmetic_is_an_input(values):
    trainer = compare(
        lambda *_: None, kind=Optional, make_batch=lambda number: {**batch(number), "count": values[number]}
    )
    assert captures(trainer) == 1


class Branching(Net):
    def forward(self, inputs, labels, count):
        return super().forward(inputs, labels) * (2.0 if count > 4 else 1.0) + int(count)


def test_a_number_that_is_read_is_part_of_the_step():
    trainer = compare(
        lambda *_: None, kind=Branching, make_batch=lambda number: {**batch(number), "count": 3 + number // 2}
    )
    assert captures(trainer) == 3


class Scaled(Net):
    def forward(self, inputs, labels, options):
        return super().forward(inputs, labels) * options.scale


def test_an_object_in_a_batch_that_is_filled_again():
    options = types.SimpleNamespace(scale=1.0)

    def make_batch(number):
        options.scale = 1.0 + number // 2
        return {**batch(number), "options": options}

    compare(lambda *_: None, kind=Scaled, make_batch=make_batch)


def test_what_changes_in_many_steps_is_told_once():
    model, optimizer = make()
    trainer = weft.parallelize(model, optimizer, batch())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(20):
            model.gain = 1.0 + number
            trainer.step(batch(number))
    assert len([each for each in told if "model.gain was another one in 8 steps" in str(each.message)]) == 1


def test_closures_of_one_decorator_keep_their_own_variables():
    def scaled(by):
        def decorate(function):
            return lambda x: function(x) * by

        return decorate

    first, second = scaled(2)(torch.relu), scaled(3)(torch.tanh)

    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return second(first(self.layer(x))).sum()

    torch.manual_seed(0)
    model, x = Decorated(), torch.randn(3, 4)
    expected = model(x).item()
    trainer = weft.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.0), (x,))
    assert [model(x).item(), trainer.step((x,)), trainer.step((x,))] == [expected] * 3


class Factored(nn.Module):
    """Multiplied by what a function gives that no test of another model has called."""

    def __init__(self, factor):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.factor = factor

    def forward(self, x):
        return (self.layer(x) * self.factor()).sum()


def counting():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step


def drawing():
    source = np.random.default_rng(5)
    return lambda: torch.from_numpy(source.random(4).astype("float32"))


@pytest.mark.parametrize("make_factor", [counting, drawing])
def test_what_a_step_changes_goes_on_as_in_eager(make_factor):
    # Closures of the same function that have not run are there as well.
    others = [make_factor() for _ in range(3)]
    x = torch.randn(3, 4)
    losses = []
    for kind in ("eager", "ours"):
        model = Factored(make_factor())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if kind == "ours":
            trainer = weft.parallelize(model, optimizer, (x,))
            losses.append([trainer.step((x,)) for _ in range(4)])
            continue
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(x)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]
    assert len(others) == 3


def test_a_parameter_that_lies_otherwise_in_memory_is_refused():
    """Its values would be the same, and kernels would round otherwise."""

    def turn(model, _, number):
        if number == 2:
            weight = model.first.weight
            weight.data = weight.data.t().contiguous().t()

    with pytest.raises(weft.UserError, match=r"the parameter first.weight was given a tensor with strides \(1, 8\)"):
        compare(turn)


class Outside(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.before = self.layer.weight * 2
        self.compute = compute

    def forward(self, x):
        return self.compute(self, x).square().mean()


def in_a_thread(model, x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: model.layer(x) * 2).result()


def made_before(model, x):
    return functional.linear(model.layer(x), model.before)


@pytest.mark.parametrize("compute", [in_a_thread, made_before])
def test_gradients_through_what_is_computed_elsewhere_are_refused(compute):
    model = Outside(compute)
    with pytest.raises(weft.UserError, match="computed outside of it"):
        weft.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(3, 4))
