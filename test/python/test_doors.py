# SPDX-License-Identifier: Apache-2.0
"""What is given to Weft: wrapped models, where the loss is, devices, token ids, and exceptions of the user's own."""

from __future__ import annotations

import types
import warnings

import pytest
import torch
import torch.nn.functional as F
import weft
from torch import nn
from weft.devices import check_devices
from weft.wrapped_model import unwrap


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
        self.outer = nn.Linear(8, 3)

    def forward(self, x):
        return self.outer(self.inner(x)).square().mean()


def compiled(net):
    return torch.compile(net, backend="eager")


def compiled_inside(net):
    net.inner = torch.compile(net.inner, backend="eager")
    return net


def compiled_call(net):
    net.compile(backend="eager")
    net.inner[0].compile(backend="eager")
    return net


def compiled_forward(net):
    net.forward = torch.compile(net.forward, backend="eager")
    return net


def both(net):
    return nn.DataParallel(compiled(net))


WRAPPERS = [(compiled, True), (compiled_inside, True), (compiled_call, False), (compiled_forward, False), (both, True)]


@pytest.mark.parametrize("wrap, is_told", WRAPPERS)
def test_a_wrapped_model_is_trained_as_what_it_holds(wrap, is_told):
    x = torch.randn(4, 6)
    eager, wrapped = Net(), wrap(Net())
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        trainer = weft.parallelize(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), x)
    assert is_told == any("is taken out of" in str(note.message) for note in notes)
    for _ in range(2):
        loss = eager(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert trainer.step(x) == loss.item()
    assert list(trainer.state_dict()) == list(eager.state_dict())
    for name, tensor in trainer.state_dict().items():
        assert torch.equal(tensor, eager.state_dict()[name]), name


def test_a_model_for_data_parallel_ranks_is_taken_out_of_its_wrapper(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        eager, x = Net(), torch.randn(4, 6)
        wrapped = nn.parallel.DistributedDataParallel(Net())
        with pytest.warns(UserWarning, match="taken out of DistributedDataParallel"):
            trainer = weft.parallelize(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), x)
        assert trainer.step(x) == eager(x).item()
        assert list(trainer.state_dict()) == list(eager.state_dict())
    finally:
        torch.distributed.destroy_process_group()


def test_a_wrapped_model_is_captured_and_left_as_it_was():
    net = compiled_inside(Net())
    inner = net.inner
    with pytest.warns(UserWarning, match="taken out of torch.compile"):
        graph = str(weft.capture(net, torch.randn(4, 6)))
    assert net.inner is inner
    assert "_orig_mod" not in graph and "inner.0.weight" in graph


@pytest.mark.parametrize("name", ["FSDPModule", "FullyShardedDataParallel"])
def test_a_sharded_model_is_refused_with_the_way_out(name):
    # fully_shard changes the class of a module to one that has FSDPModule among its bases.
    mark = type(name, (), {"__module__": "torch.distributed.fsdp"})
    net = Net()
    net.inner.__class__ = type("FSDPSequential", (mark, nn.Sequential), {})
    with pytest.raises(weft.UserError, match=rf"{name} has sharded.*before it is wrapped.*zero=3"):
        unwrap(net)


class Pair(Net):
    """Logits first, as nanoGPT returns them."""

    def forward(self, x):
        logits = self.outer(self.inner(x))
        return logits, logits.square().mean()


class Parts(Pair):
    def forward(self, x):
        logits, total = super().forward(x)
        return {"logits": logits, "total": total}


def test_a_loss_in_another_place_is_pointed_at():
    with pytest.raises(weft.UserError, match=r"\(4, 3\). Element 1 is the scalar loss: return it first, or say loss=1"):
        weft.capture(Pair(), torch.randn(4, 6))
    with pytest.raises(weft.UserError, match=r"'total' is the scalar loss: say loss='total'"):
        weft.capture(Parts(), torch.randn(4, 6))
    with pytest.raises(weft.UserError, match=r"loss='nll': the model returned a dict, which has none"):
        weft.capture(Parts(), torch.randn(4, 6), loss="nll")


@pytest.mark.parametrize("model, loss", [(Pair, 1), (Pair, -1), (Parts, "total"), (Pair, lambda output: output[1] * 2)])
def test_a_loss_can_be_named(model, loss):
    net, x = model(), torch.randn(4, 6)
    output = net(x)
    expected = loss(output) if callable(loss) else output[loss]
    trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), x, loss=loss)
    assert trainer.step(x) == expected.item()


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.table(ids)).flatten(0, 1), labels.flatten())


def words():
    """A model, a batch for it, and one with an id that is not in its table."""
    torch.manual_seed(0)
    good = {"ids": torch.randint(8, (2, 5)), "labels": torch.randint(8, (2, 5))}
    bad = {key: tensor.clone() for key, tensor in good.items()}
    bad["ids"][1, 2] = 12
    return Words(), good, bad


def test_a_token_id_outside_of_the_vocabulary_is_named():
    net, good, bad = words()
    trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), good)
    trainer.step(good)
    with pytest.raises(weft.UserError, match=r"12 in the batch's ids is outside of the 8 of %table.weight.*0 to 7"):
        trainer.step(bad)
    with pytest.raises(weft.UserError, match=r"12 in the batch's labels is outside of the 8 of"):
        trainer.step({**good, "labels": bad["ids"]})
    trainer.step(good)


class Broken(Net):
    def forward(self, x):
        if self.training and x.sum().item() != 7:
            raise LookupError("the shelf is empty")
        return super().forward(x)


@pytest.mark.parametrize(
    "door", [weft.capture, lambda net, x: weft.parallelize(net, torch.optim.SGD(net.parameters()), x)]
)
def test_an_exception_of_the_model_keeps_its_traceback(door):
    with pytest.raises(LookupError, match="the shelf is empty") as raised:
        door(Broken(), torch.randn(4, 6))
    assert any(entry.name == "forward" and "test_doors" in str(entry.path) for entry in raised.traceback)


def test_a_parameter_that_ranks_share_already_is_refused(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import distribute_tensor

        net = Net()
        mesh = init_device_mesh("cpu", (1,))
        net.outer.bias = nn.Parameter(distribute_tensor(net.outer.bias.detach(), mesh))
        with pytest.raises(weft.UserError, match="the model's outer.bias is a DTensor.*before parallelize_module"):
            weft.capture(net, torch.randn(4, 6))
    finally:
        torch.distributed.destroy_process_group()


def test_what_lives_on_another_device_is_refused():
    elsewhere = types.SimpleNamespace(device=torch.device("cuda", 1))
    with pytest.raises(weft.UserError, match="the model's head.weight lives on cuda:1, and Weft runs on the CPU only"):
        check_devices("the model's", [("head.weight", elsewhere)])
    with pytest.raises(weft.UserError, match="the batch's 0 lives on meta"):
        weft.capture(Net(), torch.randn(4, 6, device="meta"))
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    optimizer.state[net.outer.bias]["momentum_buffer"] = torch.zeros(3, device="meta")
    with pytest.raises(weft.UserError, match="the optimizer's momentum_buffer of parameter 3 lives on meta"):
        weft.parallelize(net, optimizer, torch.randn(4, 6))
