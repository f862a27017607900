# SPDX-License-Identifier: Apache-2.0
"""Clipping, loss scaling and accumulation as nodes, against the PyTorch loops, bit for bit."""

import pytest
import torch
import weft
from evaluating import Training
from torch import nn
from weft import _weft

STEPS = 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 33), nn.GELU(), nn.LayerNorm(33), nn.Linear(33, 5))

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.layers(x), y)


def setting(make=lambda p: torch.optim.AdamW(p, lr=0.01)):
    torch.manual_seed(0)
    model = Net()
    optimizer = make(model.parameters())
    batches = [(torch.randn(16, 12) * 3, torch.randint(5, (16,))) for _ in range(4 * STEPS)]
    graph = weft.capture(model, batches[0], optimizer)
    return model, optimizer, batches, graph


def checked(graph):
    graph.verify()
    assert str(weft.Graph.parse(str(graph))) == str(graph)
    return graph


def assert_same(training, model, where):
    for name, parameter in model.named_parameters():
        assert torch.equal(training.values[("parameter", name)], parameter.detach()), (where, name)


@pytest.mark.parametrize("max_norm", [0.05, 1e3])
def test_clipping_is_that_of_torch(max_norm):
    model, optimizer, batches, graph = setting()
    training = Training(checked(_weft.clip_gradients(graph, max_norm)), model)
    for number in range(STEPS):
        outputs = training.step(batches[number], optimizer)
        optimizer.zero_grad()
        model(*batches[number]).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)
        optimizer.step()
        assert torch.equal(outputs[("extra", "gradient_norm")], norm)
        assert_same(training, model, number)


def test_clipping_includes_parameters_that_no_optimizer_steps():
    model, optimizer, batches, graph = setting(lambda p: torch.optim.SGD(list(p)[:2], lr=0.1))
    training = Training(checked(_weft.clip_gradients(graph, 0.05)), model)
    training.step(batches[0], optimizer)
    model(*batches[0]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05, foreach=False)
    optimizer.step()
    assert_same(training, model, 0)


@pytest.mark.parametrize("clips", [False, True])
def test_loss_scaling_is_that_of_grad_scaler(clips):
    model, optimizer, batches, graph = setting()
    graph = checked(_weft.scale_loss(graph))
    if clips:
        graph = checked(_weft.clip_gradients(graph, 0.05))
    training = Training(graph, model)
    scaler = torch.amp.GradScaler("cpu", init_scale=3e4, growth_interval=3, growth_factor=3.0)
    batches[3] = (batches[3][0] * float("inf"), batches[3][1])
    skipped = []
    for number in range(STEPS):
        scale = scaler.get_scale()
        outputs = training.step(batches[number], optimizer, scalars={"loss_scale": scale})
        skipped.append(outputs[("extra", "found_inf")].item())
        optimizer.zero_grad()
        scaler.scale(model(*batches[number])).backward()
        scaler.unscale_(optimizer)
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05, foreach=False)
        scaler.step(optimizer)
        scaler.update()
        assert_same(training, model, number)
        assert (scaler.get_scale() < scale) == (skipped[-1] == 1)
    assert skipped == [0, 0, 0, 1, 0, 0, 0, 0]


def test_a_loss_that_is_not_finite_changes_nothing():
    model, optimizer, batches, graph = setting()
    graph = checked(_weft.skip_bad_loss(graph))
    training = Training(graph, model)
    bad = (batches[0][0] * float("nan"), batches[0][1])
    training.step(bad, optimizer)
    assert_same(training, model, "bad")
    assert training.values[("state", "layers.0.weight.step")] == 0
    training.step(batches[0], optimizer)
    model(*batches[0]).backward()
    optimizer.step()
    assert_same(training, model, "good")


def test_both_reasons_to_skip_hold():
    model, optimizer, batches, graph = setting()
    graph = checked(_weft.skip_bad_loss(_weft.scale_loss(graph)))
    training = Training(graph, model)
    training.step((batches[0][0] * float("nan"), batches[0][1]), optimizer, scalars={"loss_scale": 1.0})
    assert_same(training, model, "loss")
    # A scale that overflows backward, with a loss that is finite.
    training.step(batches[0], optimizer, scalars={"loss_scale": float("inf")})
    assert_same(training, model, "gradients")


@pytest.mark.parametrize("kind", ["plain", "clipped", "scaled"])
def test_accumulation_is_that_of_the_loop(kind):
    count = 3
    model, optimizer, batches, graph = setting(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    scalars = {}
    if kind == "scaled":
        graph = _weft.scale_loss(graph)
        scalars = {"loss_scale": 1024.0}
    if kind != "plain":
        graph = _weft.clip_gradients(graph, 0.05)
    accumulate, update = map(checked, _weft.accumulate_gradients(graph, count))
    assert "weft.sgd" not in str(accumulate) and "batch" not in str(update)
    training = Training(accumulate, model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=kind == "scaled")
    for number in range(STEPS):
        for batch in batches[number * count : (number + 1) * count]:
            outputs = training.step(batch, optimizer, scalars=scalars)
            loss = model(*batch)
            assert torch.equal(outputs[("loss", "")], loss.detach())
            scaler.scale(loss / count).backward()
        for name, parameter in model.named_parameters():
            assert torch.equal(training.values[("state", f"{name}.gradient")], parameter.grad), name
        training.step((), optimizer, graph=update, scalars=scalars)
        scaler.unscale_(optimizer) if kind == "scaled" else None
        if kind != "plain":
            nn.utils.clip_grad_norm_(model.parameters(), 0.05, foreach=False)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert_same(training, model, number)
    assert training.values[("state", "layers.0.weight.gradient")].eq(0).all()


def test_gradient_outputs_can_go():
    model, optimizer, batches, graph = setting()
    dropped = checked(_weft.drop_gradient_outputs(graph))
    assert not [key for key in dropped.outputs("step") if key[0] == "gradient"]
    training = Training(dropped, model)
    training.step(batches[0], optimizer)
    model(*batches[0]).backward()
    optimizer.step()
    assert_same(training, model, 0)


def test_mistakes_are_said():
    model, _, batches, graph = setting()
    bare = weft.capture(model, batches[0])
    with pytest.raises(weft.UserError, match="no optimizer"):
        _weft.clip_gradients(bare, 1.0)
    with pytest.raises(weft.UserError, match="clipped already"):
        _weft.scale_loss(_weft.clip_gradients(graph, 1.0))
    with pytest.raises(weft.UserError, match="scaled already"):
        _weft.scale_loss(_weft.scale_loss(graph))
    with pytest.raises(weft.UserError, match="above 0"):
        _weft.clip_gradients(graph, 0.0)
    with pytest.raises(weft.UserError, match="cannot be combined with accumulation"):
        _weft.accumulate_gradients(_weft.skip_bad_loss(graph), 2)
