# SPDX-License-Identifier: Apache-2.0
"""Precision, evaluation and other batches: what capture can be asked for."""

import json
import subprocess
import sys

import gpt
import pytest
import torch
import weft
from evaluating import Training
from replaying import assert_bit_equal, step_inputs
from torch import nn
from weft import _weft
from weft.capture_file import main as capture_file

MIXED = {"bf16-mixed": torch.bfloat16, "f16-mixed": torch.float16}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)
        self.layers = nn.Sequential(nn.Linear(12, 33), nn.GELU(), nn.Dropout(0.5), nn.Linear(33, 5))

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.layers(self.norm(x)), y)


def net():
    torch.manual_seed(0)
    model = Net()
    return model, (torch.randn(16, 12), torch.randint(5, (16,))), torch.optim.SGD(model.parameters(), lr=0.1)


def replayed(graph, model, batch):
    torch.manual_seed(1)
    return dict(zip(graph.outputs("step"), _weft.replay(graph, "step", step_inputs(graph, model, batch)), strict=True))


@pytest.mark.parametrize("precision", MIXED)
def test_mixed_precision_is_autocast(precision):
    model, batch, optimizer = net()
    graph = weft.capture(model, batch, optimizer, precision=precision)
    graph.verify()
    ours = replayed(graph, model, batch)
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=MIXED[precision]):
        loss = model(*batch)
    loss.backward()
    assert_bit_equal("loss", ours[("loss", "")], loss.detach())
    for name, parameter in model.named_parameters():
        assert_bit_equal(name, ours[("gradient", name)], parameter.grad)
    assert ("bf16" if precision == "bf16-mixed" else "f16[") in str(graph)


def test_bf16_is_the_converted_model_and_the_model_is_left_alone():
    model, batch, optimizer = net()
    before = {name: tensor for name, tensor in model.state_dict().items()}
    pointers = [p.data_ptr() for p in model.parameters()]
    graph = weft.capture(model, batch, optimizer, precision="bf16")
    assert [p.data_ptr() for p in model.parameters()] == pointers
    for name, tensor in model.state_dict().items():
        assert_bit_equal(name, tensor, before[name])
    model.to(torch.bfloat16)
    batch = (batch[0].bfloat16(), batch[1])
    ours = replayed(graph, model, batch)
    torch.manual_seed(1)
    loss = model(*batch)
    loss.backward()
    assert_bit_equal("loss", ours[("loss", "")], loss.detach())
    for name, parameter in model.named_parameters():
        assert_bit_equal(name, ours[("gradient", name)], parameter.grad)


def test_bf16_training_follows_torch():
    def function():
        model, batch, _ = net()
        model.layers[2].p = 0.0
        return model, batch, torch.optim.AdamW(model.parameters(), lr=0.01)

    graph = weft.capture_function(function, precision="bf16").graph
    model, batch, optimizer = function()
    made = dict(zip(graph.outputs("init"), _weft.initialise(graph, 3), strict=True))
    assert made[("parameter", "layers.0.weight")].dtype == torch.bfloat16
    model.to(torch.bfloat16)
    batch = (batch[0].bfloat16(), batch[1])
    training = Training(graph, model)
    for _ in range(5):
        training.step(batch, optimizer)
        optimizer.zero_grad()
        model(*batch).backward()
        optimizer.step()
        for name, parameter in model.named_parameters():
            assert_bit_equal(name, training.values[("parameter", name)], parameter.detach())


def test_evaluation_is_the_loss_in_eval_mode():
    model, batch, optimizer = net()
    model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    graph = weft.capture(model, batch, optimizer, evaluation=True)
    assert [module.training for module in model.modules()] == modes
    graph.verify()
    assert graph.outputs("step") == [("loss", "")]
    assert "backward:" not in str(graph) and "bernoulli" not in str(graph)
    model.eval()
    with torch.no_grad():
        expected = model(*batch)
    assert_bit_equal("loss", replayed(graph, model, batch)[("loss", "")], expected)


def test_evaluation_of_a_function():
    graph = weft.capture_function(net, evaluation=True).graph
    assert graph.outputs("step") == [("loss", "")]
    assert ("parameter", "norm.weight") in graph.outputs("init")


def test_a_batch_of_other_sizes():
    def function():
        return gpt.tiny(dropout=0.0)

    types = {"0": "i64[3, 24]", "1": "i64[3, 24]"}
    graph = weft.capture_function(function, batch_types=types).graph
    assert "input %batch.0 : i64[3, 24]" in str(graph)
    model, _, optimizer = function()
    batch = (torch.randint(256, (3, 24)), torch.randint(256, (3, 24)))
    loss = Training(graph, model).step(batch, optimizer)[("loss", "")]
    assert_bit_equal("loss", loss, model(*batch).detach())


def capture_words(root, tmp_path, *words):
    output = tmp_path / "model.graph"
    capture_file([f"{root}/examples/models/gpt.py:tiny", str(output), *words])
    report = json.loads((tmp_path / "model.graph.json").read_text())
    return report, output.read_text() if output.exists() else ""


def test_words_of_the_command_line(root, tmp_path):
    words = ("batch:0=i64[3,24]", "batch:1=i64[3,24]", "capture:precision=bf16-mixed", "capture:evaluation=true")
    report, text = capture_words(root, tmp_path, *words, "dropout=0.0")
    assert "error" not in report
    assert "i64[3, 24]" in text and "bf16" in text and "backward:" not in text


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("batch:7=i64[3]", "the batch has no tensor 7; it has 0, 1"),
        ("batch:0=i65[3]", "i65"),
        ("capture:precision=f8", "there is no precision f8; there are f32, bf16, bf16-mixed, f16-mixed"),
        ("capture:evaluation=1", "capture:evaluation=true or false"),
        ("capture:speed=1", "there are capture:precision=NAME"),
    ],
)
def test_mistakes_are_said(root, tmp_path, word, message):
    report, _ = capture_words(root, tmp_path, word)
    assert message in report["error"]


def test_the_module_runs_as_a_program(root, tmp_path):
    words = [sys.executable, "-m", "weft.capture_file", f"{root}/examples/models/gpt.py:tiny"]
    subprocess.run([*words, str(tmp_path / "g"), "capture:precision=bf16"], check=True, timeout=120)
    assert "bf16[" in (tmp_path / "g").read_text()
