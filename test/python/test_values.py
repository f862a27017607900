# SPDX-License-Identifier: Apache-2.0
"""Values that Python reads in a step: numbers that are followed, branches that are captured again."""

from __future__ import annotations

import copy
import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import weft
from torch import nn


class Net(nn.Module):
    """A few layers, and a forward that a test gives."""

    def __init__(self, forward, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(6, 5, dtype=dtype)
        self.norm = nn.BatchNorm1d(5, dtype=dtype)
        self.run = forward

    def forward(self, *batch):
        return self.run(self, *batch)


def batches(count=4, rows=8, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.randn(rows, 6, dtype=dtype) for _ in range(count)]


def check(forward, data=None, dtype=torch.float32, tolerance=0.0, **options):
    """The steps are eager PyTorch's: losses, parameters and buffers."""
    data = data or batches(dtype=dtype)
    eager, ours = Net(forward, dtype), Net(forward, dtype)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    trainer = weft.parallelize(ours, torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9), data[0], **options)
    for batch in data:
        arguments = batch if isinstance(batch, tuple) else (batch,)
        loss = eager(*arguments)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(trainer.step(batch), loss.item(), rtol=tolerance, atol=tolerance)
    for (name, expected), found in zip(eager.state_dict().items(), ours.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: n + text)
    return trainer


def graph_of(forward, batch=None):
    return str(weft.capture(Net(forward), batches()[0] if batch is None else batch))


def only_logged(net, x):
    loss = net.body(x).square().mean()
    seen = [loss.item(), loss, f"{loss:.3f}", f"{float(loss):.2f}", "%.3f" % loss.item(), x.sum(1).tolist()]
    print(*seen)
    return loss


def divided_by_count(net, x):
    return net.body(x).square().sum() / (x > 0).sum().item()


def scaled(net, x):
    scale = x.abs().max().item()
    return (net.body(x) * (1.0 / scale) + scale / 3 - 2 * scale).square().mean() * scale


def whole_numbers(net, x):
    count = (x > 0).sum().item()
    weights = torch.arange(5) * count
    return (net.body(x) * weights / (count // 3 + count % 4 + 1)).square().mean()


def rooted(net, x):
    total = x.square().sum().item()
    return net.body(x).square().mean() / math.sqrt(total) + net.body(x).sum() / total**0.5


def checked(net, x):
    loss = net.body(x).square().mean()
    if math.isnan(loss.item()) or not math.isfinite(loss.item()):
        raise ValueError("bad")
    return loss


def filled(net, x):
    y = net.body(x)
    most = y.detach().max().item()
    return y.masked_fill(y < 0, most).square().mean() + torch.tensor(most) * y.sum()


def into_place(net, x):
    y = net.body(x) * 1
    y += x.mean().item()
    y *= x.std().item()
    loss = y.square().mean()
    loss /= x.abs().sum().item()
    return loss


def through_list(net, x):
    y = net.body(x)
    return sum(weight * row.square().sum() for weight, row in zip(x.mean(1).tolist(), y, strict=True))


FOLLOWED = [only_logged, divided_by_count, scaled, whole_numbers, rooted, filled, into_place, through_list]


@pytest.mark.parametrize("forward", FOLLOWED)
def test_a_number_that_is_only_computed_with_or_printed_is_part_of_the_step(forward):
    assert "weft.guard" not in graph_of(forward)
    check(forward)


def test_a_number_keeps_the_types_that_a_python_number_leads_to():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(scaled, dtype=dtype)
        check(divided_by_count, dtype=dtype)


def test_a_check_of_a_number_is_guarded_by_its_answer():
    graph = graph_of(checked)
    assert graph.count("weft.guard") == 2
    assert 'at="' in graph and "math.isnan(loss.item())" in graph
    check(checked)


def branches(net, x):
    y = net.norm(net.body(x))
    if x.mean().item() > 0:
        return y.square().mean()
    return (y * net.body(x)).abs().mean() + 1


def branches_late(net, x):
    loss = net.norm(net.body(x)).square().mean() * x.mean()
    if loss > 0:
        return loss * 2
    return loss - 1


@pytest.mark.parametrize("forward", [branches, branches_late])
def test_another_path_is_captured_and_both_are_kept(forward, capfd):
    one, other = torch.ones(8, 6), -torch.ones(8, 6)
    torch.manual_seed(3)
    noise = [0.1 * torch.randn(8, 6) for _ in range(6)]
    data = [sign + each for sign, each in zip((one, one, other, one, other, one), noise, strict=True)]

    def counted(net, x):
        # Not into a list: a step that changes what it reads has to run in Python each time.
        os.write(1, b"ran\n")
        return forward(net, x)

    check(counted, data)
    told = capfd.readouterr()
    # Eager's six; two captures, each of which tries three times to do without values.
    assert 2 <= told.out.count("ran\n") - 6 <= 2 * 4
    assert told.err.count("captured again") == 1 and "test_values.py" in told.err


def test_a_path_that_is_new_every_time_is_refused_after_some():
    def by_value(net, x):
        return net.body(x).square().mean() * float(x.mean())

    data = batches(20)
    net = Net(by_value)
    trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), data[0])
    with pytest.raises(
        weft.UserError, match=r"test_values.py:\d+ in by_value.*float\(x.mean\(\)\)[\s\S]*captured 16 times"
    ):
        for batch in data:
            trainer.step(batch)


def test_evaluation_takes_its_own_path():
    net = Net(branches)
    trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.ones(8, 6))
    for batch in (torch.ones(8, 6), -torch.ones(8, 6), torch.ones(8, 6)):
        net.eval()
        expected = net(batch).item()
        net.train()
        assert trainer.evaluate(batch) == expected


def test_elements_that_leave_torch_are_guarded():
    def by_numpy(net, x):
        weights = torch.from_numpy(x.abs().detach().numpy().mean(1))
        return (net.body(x) * weights[:, None]).square().mean()

    check(by_numpy, batches(3))


def test_equal_tensors_choose_a_path():
    def compares(net, x):
        return net.body(x).square().mean() * (2 if torch.equal(x[0], x[1]) else 3)

    same = torch.ones(8, 6)
    check(compares, [same, *batches(1), same * 2])


def test_numbers_that_code_cannot_take_are_plain():
    def to_text(net, x):
        import json

        json.dumps({"count": (x > -9).sum().item()})
        return net.body(x).square().mean()

    check(to_text)


def test_ranks_that_share_a_step_follow_values_together():
    here = pathlib.Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "values_script.py",
            "data=2",
        ],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("same ") == 2 * 16
    assert done.stdout.count("refused 12 in the batch's ids is outside of the 8 of %table.weight") == 2


def test_a_guard_with_any_text_can_be_read_back():
    def quoted(net, x):
        return net.body(x).mean() if x.sum() > len("\"'\\") else net.body(x).sum()  # "\\ %{}

    graph = weft.capture(Net(quoted), batches()[0])
    assert str(weft.Graph.parse(str(graph))) == str(graph)


def test_constants_of_two_steps_are_two():
    def with_constant(net, x):
        return (net.body(x) * torch.tensor([1.0, 2.0, 3.0, 4.0, float(len(x))])).square().mean()

    check(with_constant, [torch.ones(8, 6), torch.ones(4, 6), torch.ones(8, 6)])


def caught(read):
    """A forward that goes on with another number where the values cannot be read."""

    def forward(self, x):
        try:
            number = read(x, self.linear)
        except Exception:
            number = 5.0
        return self.linear(x).square().mean() * float(number)

    return forward


@pytest.mark.parametrize(
    "read", [lambda x, _: int(x.sum()), lambda x, _: x.numpy().sum(), lambda x, _: bool(x.sum() > 0)]
)
def test_a_model_that_catches_errors_gets_the_values(read):
    model = with_forward(caught(read))
    theirs = copy.deepcopy(model)
    trainer = weft.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.0), torch.ones(4, 6))
    for factor in (1.0, -2.0, 3.0):
        given = torch.full((4, 6), factor)
        assert trainer.step(given) == theirs(given).item()


def test_a_refusal_that_a_model_catches_stays_one():
    model = with_forward(caught(lambda x, linear: linear(x).relu().nonzero().shape[0]))
    with pytest.raises(weft.UserError, match="the shape of its result depends on data"):
        weft.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(4, 6))


def with_forward(forward):
    torch.manual_seed(0)
    model = type("Model", (nn.Module,), {"forward": forward})()
    model.linear = nn.Linear(6, 3)
    return model


def by_equality(net, x):
    hidden = net.body(x)
    return hidden.square().mean() if torch.equal(x.sign(), x.round().sign()) else hidden.abs().mean()


def test_a_branch_on_equal_tensors_is_guarded():
    data = [torch.ones(8, 6), *batches(2), torch.full((8, 6), -2.0)]
    check(by_equality, data)


def reads_and_sorts(net, x):
    # The number needs values, and so quantile meets its own check of q with values too.
    return net.body(x).quantile(0.3) * (2.0 if float(x[0, 0]) > 1e6 else 1.0)


def test_constants_that_are_compared_are_no_guards():
    data = [torch.ones(8, 6), torch.cat([torch.ones(1, 6), batches(1)[0][1:]])]
    check(reads_and_sorts, data)
    assert graph_of(reads_and_sorts, data[0]).count("weft.guard") == 1


@pytest.mark.parametrize("limit, is_decided", [(0.0, True), (1.0, True), (0.5, False)])
def test_random_numbers_are_compared_without_drawing_them(limit, is_decided):
    """As layers are dropped with a probability of 0."""

    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            if torch.rand([]) < limit:
                x = x.sin()
            return self.layer(x).square().mean()

    captured = weft.capture_function(lambda: (Dropped(), (torch.ones(2, 4),)), name="dropped")
    assert captured.real is not is_decided
    assert not is_decided or ("aten.sin" in str(captured.graph)) == (limit == 1.0)


def test_a_write_in_place_needs_no_values():
    class Buckets(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(8, 4)

        def forward(self, x):
            buckets = (x > 3).long() * 2
            buckets += torch.where(x > 1, x, x + 1).clamp_max(4)
            return self.table(buckets).square().mean()

    assert not weft.capture_function(lambda: (Buckets(), (torch.arange(6),)), name="buckets").real
