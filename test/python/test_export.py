# SPDX-License-Identifier: Apache-2.0
"""A .pt2 file, captured by the `weft` program without Python, is the step that Python captures."""

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
import torch
import torch.nn.functional as F
import weft
from replaying import check_graph
from torch import nn

EXAMPLES = ["gpt", "llama", "bert", "t5", "vit", "resnet", "unet3d", "cosmoflow", "moe", "lstm"]
PROGRAM = os.environ.get("WEFT_PROGRAM", str(pathlib.Path(sys.executable).parent / "weft"))


def run_weft(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def export(model, batch, path, **options):
    arguments, keywords = ((), dict(batch)) if isinstance(batch, dict) else (tuple(batch), {})
    torch.export.save(torch.export.export(model, arguments, keywords, strict=False, **options), path)
    return path


def captured(path):
    done = run_weft("capture", path)
    assert done.returncode == 0, done.stderr
    return weft.Graph.parse(done.stdout)


def nodes(graph):
    """Phase, module, operator and result types of every node of the step, in order."""
    found, phase = [], None
    for line in str(graph).split("func @step")[1].splitlines():
        if re.fullmatch(r"\w+:", line):
            phase = line
        elif match := re.match(r"  %(\S+?)(?:, .*)? = ([\w.]+)\(.*?\) : (.*?)(?: release| overwrites|$)", line):
            name, op, types = match.groups()
            found.append((phase, name.rpartition("/")[0], op, types))
    return found


def loss_only(function):
    """The function without its optimizer, which a .pt2 file does not have."""
    return lambda: function()[:2]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_the_step_that_python_captures(example, tmp_path):
    function = loss_only(importlib.import_module(example).tiny)
    graph = captured(export(*function(), tmp_path / f"{example}.pt2"))
    assert graph.name == example
    check_graph(graph, function)
    by_python = weft.capture_function(function).graph
    assert sorted(graph.inputs("step")) == sorted(by_python.inputs("step"))
    assert sorted(graph.outputs("step")) == sorted(by_python.outputs("step"))
    assert nodes(graph) == nodes(by_python)


@pytest.mark.parametrize("architecture", ["gpt2", "t5", "convnext"])
def test_hugging_face_model_replays_bit_equal(architecture, tmp_path):
    pytest.importorskip("transformers")
    build = importlib.import_module("hugging_face").build
    function = loss_only(lambda: build(architecture))
    check_graph(captured(export(*function(), tmp_path / "model.pt2")), function)


def test_profile_takes_an_export(tmp_path):
    function = loss_only(importlib.import_module("gpt").tiny)
    done = run_weft("profile", export(*function(), tmp_path / "gpt.pt2"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flops"] == weft.profile(weft.capture_function(function).graph)["flops"]


class Regions(nn.Module):
    """Constants, regions without gradients, running statistics, a dict in and a dict out."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)
        self.register_buffer("scale", torch.linspace(0, 1, 8))

    def forward(self, batch, labels, missing=None, power=2):
        x = batch["x"]
        with torch.no_grad():
            scale = self.scale * 2
        with torch.autocast("cpu", enabled=False):
            shift = scale + 1
        weight = torch.tensor([1.0, 2.0, 3.0])
        x = self.norm(self.first(x).relu()) * scale + shift
        x = x.view(batch["x"].shape[0] * 2, -1).view(batch["x"].shape[0], 8)
        logits = self.last(x) * weight
        loss = logits[:, [0, 2]].pow(power).mean() + F.cross_entropy(logits, labels)
        return {"logits": logits, "loss": loss}


def regions():
    return Regions(), ({"x": torch.randn(4, 8)}, torch.randint(3, (4,)), None, 2)


def test_regions_constants_and_dicts(tmp_path):
    graph = captured(export(*regions(), tmp_path / "regions.pt2"))
    assert ("batch", "0.x") in graph.inputs("step")
    assert [kind for kind, _ in graph.inputs("step")].count("constant") == 2
    check_graph(graph, regions)


def test_sizes_that_vary_are_those_of_the_batch(tmp_path):
    many = torch.export.Dim("many", min=2, max=64)
    shapes = ({"x": {0: many}}, {0: many}, None, None)
    check_graph(captured(export(*regions(), tmp_path / "dynamic.pt2", dynamic_shapes=shapes)), regions)


def test_a_functional_program_changes_its_buffers(tmp_path):
    model, batch = regions()
    program = torch.export.export(model, batch, strict=False).run_decompositions()
    torch.export.save(program, tmp_path / "functional.pt2")
    graph = captured(tmp_path / "functional.pt2")
    assert ("buffer", "norm.running_mean") in graph.outputs("step")
    assert ("buffer", "norm.num_batches_tracked") in graph.outputs("step")


def test_frozen_parameters_get_no_gradient(tmp_path):
    def frozen():
        model, batch = regions()
        model.first.requires_grad_(False)
        return model, batch

    graph = captured(export(*frozen(), tmp_path / "frozen.pt2"))
    assert ("gradient", "first.weight") not in graph.outputs("step")
    check_graph(graph, frozen)


class Small(nn.Module):
    def __init__(self, reduce=True):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.reduce = reduce

    def forward(self, x):
        x = self.layer(x)
        return x.mean() if self.reduce else x


def small(path, **options):
    return export(Small(**options), (torch.randn(2, 4),), path)


def edited(path, edit):
    """The same file with its program changed by `edit(program)`."""
    other = path.with_name("edited.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                program = json.loads(content)
                edit(program)
                content = json.dumps(program)
            new.writestr(name, content)
    return other


def error_of(path):
    done = run_weft("capture", path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("weft: error: [capture] ").strip().replace(str(path), "FILE")


ADVICE = ". Write it with torch.export.save(torch.export.export(model, batch), path) of PyTorch 2.13"


def test_errors_of_the_file(tmp_path):
    assert error_of(tmp_path / "none.pt2") == "cannot open the file: FILE"

    path = tmp_path / "text.pt2"
    path.write_text("import torch")
    assert error_of(path) == "FILE is not a .pt2 file (it is no zip archive)" + ADVICE

    whole = small(tmp_path / "small.pt2")
    path = tmp_path / "half.pt2"
    path.write_bytes(whole.read_bytes()[:2000])
    message = "FILE is damaged: it ends before its table of contents. Was it copied completely?"
    assert error_of(path) == message

    path = tmp_path / "other.pt2"
    with zipfile.ZipFile(path, "w") as other:
        other.writestr("folder/readme", "hello")
    assert error_of(path) == "FILE is a zip archive, but not one of torch.export" + ADVICE

    path = tmp_path / "weights.pt2"
    torch.save({"weight": torch.zeros(2)}, path)
    assert error_of(path) == "FILE is a zip archive, but not one of torch.export" + ADVICE


def test_errors_of_the_program(tmp_path):
    whole = small(tmp_path / "small.pt2")

    path = edited(whole, lambda program: program["schema_version"].update(major=99))
    message = "FILE was written by a PyTorch whose export schema has version 99; version 8 can be read"
    assert error_of(path) == message + ADVICE

    def unknown_operator(program):
        program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.linear_of_the_future.default"

    assert error_of(edited(whole, unknown_operator)).startswith(
        "this PyTorch has no operator torch.ops.aten.linear_of_the_future.default (node linear)"
    )

    def unknown_argument(program):
        program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_dream": 1}

    assert error_of(edited(whole, unknown_argument)) == (
        "not supported: an argument of torch.ops.aten.linear.default of a kind that PyTorch 2.13 does not know "
        "(node linear in module layer)"
    )

    path = edited(whole, lambda program: program.update(graph_module="none"))
    assert error_of(path).startswith("FILE: the program in it cannot be read (")


def test_errors_of_the_step(tmp_path):
    assert error_of(small(tmp_path / "vector.pt2", reduce=False)).startswith(
        "the loss must be one number; the exported model returns a tensor of f32[2, 4] first"
    )

    model = Small().requires_grad_(False)
    path = export(model, (torch.randn(2, 4),), tmp_path / "frozen.pt2")
    assert error_of(path).startswith("the loss does not depend on any parameter that requires a gradient")


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.layer(y).mean(), lambda y: self.layer(y).sum(), (x,))


def test_a_region_that_has_no_place_in_a_graph_is_refused_by_name(tmp_path):
    path = export(Branch(), (torch.randn(2, 4),), tmp_path / "branch.pt2")
    assert error_of(path).startswith("not supported in an exported program: cond (node cond)")
