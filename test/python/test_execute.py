# SPDX-License-Identifier: Apache-2.0
"""Steps that `weft run` runs, on one rank and on two, against eager PyTorch."""

import os
import pathlib
import subprocess
import sys

import gpt
import pytest
import torch
import weft
from safetensors.torch import load_file, save_file

STEPS = 3
PROGRAM = os.environ.get("WEFT_PROGRAM", str(pathlib.Path(sys.executable).parent / "weft"))


def weft_command(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tiny_step():
    """A GPT and a batch whose first half has five times as many labels as the second."""
    torch.manual_seed(0)
    model, (tokens, labels), optimizer = gpt.tiny(dropout=0.0)
    labels[: len(labels) // 2] = torch.randint(256, labels[: len(labels) // 2].shape)
    labels[len(labels) // 2 :, 6:] = -100
    return model, (tokens, labels), optimizer


def eager_steps(model, batch, optimizer):
    """The losses of STEPS steps, and loss and gradients of the first."""
    losses, first = [], {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        if not first:
            first = {f"gradient/{name}": p.grad.clone() for name, p in model.named_parameters()}
            first["loss"] = loss.detach()
        losses.append(loss.item())
        optimizer.step()
    return losses, first


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt")
    model, batch, optimizer = tiny_step()
    (folder / "gpt.graph").write_text(str(weft.capture(model, batch, optimizer, name="gpt")))
    inputs = {f"parameter/{name}": p.detach().clone() for name, p in model.named_parameters()}
    inputs |= {f"batch/{i}": tensor for i, tensor in enumerate(batch)}
    for i, group in enumerate(optimizer.param_groups):
        inputs[f"scalar/lr.{i}"] = torch.tensor(group["lr"], dtype=torch.float64)
    save_file(inputs, folder / "inputs.safetensors")
    return folder, *eager_steps(model, batch, optimizer)


def plan_arguments(root, ranks):
    return [] if ranks == 1 else ["--plan", root / "examples" / "plans" / "data_parallel.plan"]


def distance(ours, theirs):
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


@pytest.mark.parametrize("ranks", [1, 2])
def test_loss_and_gradients_are_those_of_eager(step, root, tmp_path, ranks):
    folder, _, expected = step
    weft_command(
        *("run", folder / "gpt.graph", *plan_arguments(root, ranks)),
        *("--inputs", folder / "inputs.safetensors", "--outputs", tmp_path / "outputs.safetensors"),
    )
    outputs = load_file(tmp_path / "outputs.safetensors")
    assert set(expected) <= set(outputs)
    worst = max(expected, key=lambda name: distance(outputs[name], expected[name]))
    assert distance(outputs[worst], expected[worst]) < 1e-6, worst


@pytest.mark.parametrize("ranks", [1, 2])
def test_training_follows_eager(step, root, ranks):
    folder, expected, _ = step
    printed = weft_command(
        *("run", folder / "gpt.graph", *plan_arguments(root, ranks)),
        *("--inputs", folder / "inputs.safetensors", "--steps", STEPS),
    )
    losses = [float(line.split()[-1]) for line in printed.splitlines()]
    assert losses == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_measured_timeline_is_the_simulated_one_but_for_times(step, root, tmp_path, ranks):
    folder, _, _ = step
    measured = tmp_path / "measured.timeline"
    weft_command(
        *("run", folder / "gpt.graph", *plan_arguments(root, ranks), "--steps", 2),
        *("--inputs", folder / "inputs.safetensors", "--timeline", measured),
    )
    printed = weft_command(
        *("simulate", folder / "gpt.graph", *plan_arguments(root, ranks), "--against", measured),
        *("--cluster", root / "examples" / "clusters" / "two_cores.cluster"),
    )
    print(printed)
    assert "the same, in the same order, with the same live bytes" in printed


def test_a_rank_that_fails_ends_the_others(step, root, tmp_path):
    folder, _, _ = step
    inputs = load_file(folder / "inputs.safetensors")
    del inputs["batch/1"]
    save_file(inputs, tmp_path / "inputs.safetensors")
    done = subprocess.run(
        [
            *(PROGRAM, "run", folder / "gpt.graph", *plan_arguments(root, 2)),
            *("--inputs", tmp_path / "inputs.safetensors"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert 'inputs.safetensors has no tensor "batch/1"' in done.stderr
