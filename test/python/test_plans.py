# SPDX-License-Identifier: Apache-2.0
"""The plans in examples/plans fit the models that they are for, and compute what those compute."""

import importlib
import pathlib
import subprocess
import sys

import pytest
import torch
from kinds import worst
from lockstep import Step
from safetensors.torch import load_file, save_file

PROGRAM = pathlib.Path(sys.executable).parent / "weft"

MODELS = {
    "gpt_megatron": "gpt",
    "gpt_megatron_sequence": "gpt",
    "gpt_fsdp": "gpt",
    "gpt_ulysses": "gpt",
    "gpt_ring": "gpt without dropout",
    "gpt_2d": "gpt",
    "gpt_3d": "gpt",
    "gpt_25d": "gpt",
    "gpt_zero1": "gpt",
    "gpt_hybrid_shard": "gpt",
    "gpt_megatron_zero3": "gpt",
    "gpt_unequal": "gpt",
    "llama_context_tensor": "llama",
    "moe_experts": "moe",
    "cosmoflow_spatial": "cosmoflow",
    "unet3d_spatial": "unet3d",
}
# The file in examples/models, and arguments of its function `tiny`.
SOURCES = {
    "gpt": ("gpt", {}),
    "gpt without dropout": ("gpt", {"dropout": 0.0}),
    "llama": ("llama", {}),
    "moe": ("moe", {}),
    "cosmoflow": ("cosmoflow", {}),
    "unet3d": ("unet3d", {"volume": 8}),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """The tiny examples, captured once."""
    folder = tmp_path_factory.mktemp("plans")
    models = pathlib.Path(__file__).parents[2] / "examples" / "models"
    for name, (source, options) in SOURCES.items():
        arguments = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
        path = folder / f"{name}.graph"
        subprocess.run([PROGRAM, "capture", f"{models}/{source}.py:tiny", *arguments, "-o", path], check=True)
    return folder


@pytest.mark.parametrize("plan", MODELS)
def test_a_plan_fits_its_model(root, graphs, plan):
    path = root / "examples" / "plans" / f"{plan}.plan"
    done = subprocess.run(
        [PROGRAM, "plan", graphs / f"{MODELS[plan]}.graph", "--plan", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in path.read_text().splitlines() if not line.startswith("//")]
    assert done.stdout.splitlines() == lines


@pytest.fixture(scope="module")
def steps():
    torch.manual_seed(0)
    return {
        name: Step(*importlib.import_module(source).tiny(**options), name="tiny")
        for name, (source, options) in SOURCES.items()
    }


@pytest.mark.parametrize("plan", MODELS)
def test_a_plan_is_exact(root, steps, plan):
    difference = steps[MODELS[plan]].difference((root / "examples" / "plans" / f"{plan}.plan").read_text())
    assert difference["loss"] < 1e-6
    assert difference["gradient"] < 1e-5


@pytest.mark.campaign
@pytest.mark.parametrize("plan", MODELS)
def test_a_plan_is_exact_on_real_ranks(root, graphs, steps, tmp_path, plan):
    step = steps[MODELS[plan]]
    named = zip(step.graph.inputs("step"), step.inputs, strict=True)
    inputs = {f"{kind}/{key}": value.clone().contiguous() for (kind, key), value in named if kind != "constant"}
    save_file(inputs, tmp_path / "inputs")
    command = [PROGRAM, "run", graphs / f"{MODELS[plan]}.graph", "--plan", root / "examples" / "plans" / f"{plan}.plan"]
    files = ["--inputs", tmp_path / "inputs", "--outputs", tmp_path / "outputs", "--seed", "3", "--threads", "1"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    outputs = load_file(tmp_path / "outputs")
    expected = {key: value for (kind, key), value in step.expected.items() if kind == "gradient"}
    loss = next(value for (kind, _), value in step.expected.items() if kind == "loss")
    got = outputs["loss"].item(), {key: outputs[f"gradient/{key}"] for key in expected}
    loss_difference, gradient_difference = worst(got, (loss.item(), expected))
    assert loss_difference < 1e-6
    assert gradient_difference < 1e-5


def test_every_plan_is_tested(root):
    plans = {path.stem for path in (root / "examples" / "plans").glob("*.plan")}
    assert plans == {*MODELS, "data_parallel"}  # test_execute.py runs that one
