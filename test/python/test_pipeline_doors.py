# SPDX-License-Identifier: Apache-2.0
"""Pipelines from a script's own loop and from a C++ program, in real processes: what one rank sees."""

import json
import os
import pathlib
import subprocess
import sys

import gpt
import pipeline_script
import pytest
import torch
import weft
from lockstep import Step
from safetensors.torch import load_file, save_file
from training_runs import WEFT, environment, make_text, train_tiny


def torchrun(ranks, *command):
    path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            *map(str, command),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """By options other than `parallel`."""
    made = {}

    def get(**options):
        key = json.dumps(options)
        if key not in made:
            made[key] = pipeline_script.run(tmp_path_factory.mktemp("alone"), options)[:2]
        return made[key]

    return get


@pytest.mark.parametrize(
    ("ranks", "words", "options"),
    [
        (2, "pipeline=2,schedule=zb-h1,micro-batches=4", {"keep_gradients": True}),
        (2, "pipeline=2,schedule=interleaved,micro-batches=4", {"accumulate": 2}),
        (4, "pipeline=4,micro-batches=2", {"accumulate": 2}),
        (4, "pipeline=2,data=2,zero=3,micro-batches=2", {"keep_gradients": True}),
    ],
)
def test_a_script_sees_what_it_sees_on_one_rank(alone, tmp_path, ranks, words, options):
    script = pathlib.Path(pipeline_script.__file__)
    torchrun(ranks, script, tmp_path, json.dumps({**options, "parallel": words}))
    expected, tensors = alone(**options)
    for rank in range(ranks):
        seen, mine = torch.load(tmp_path / f"seen.{rank}")
        for key, value in expected.items():
            assert seen[key] == pytest.approx(value, rel=2e-5), (rank, key)
        assert seen["again"] == seen["more"], "a checkpoint does not go on where it was"
        assert seen["restored"] == seen["evaluation"] != seen["halved"]
        assert mine.keys() == tensors.keys()
        for name, tensor in mine.items():
            scale = tensors[name].abs().max().item()
            assert (tensor - tensors[name]).abs().max().item() <= 2e-5 * scale, (rank, name)


def test_a_checkpoint_of_a_pipeline_is_loaded_without_one(alone, tmp_path):
    options = {"parallel": "pipeline=2,micro-batches=2"}
    torchrun(2, pathlib.Path(pipeline_script.__file__), tmp_path, json.dumps(options))
    model, optimizer = pipeline_script.make()
    trainer = weft.parallelize(model, optimizer, pipeline_script.batch(0), clip_norm=0.5, seed=3)
    extra = trainer.load(tmp_path / "saved")
    optimizer.param_groups[0]["lr"] = extra["scheduler"]["_last_lr"][0]
    got = [trainer.step(pipeline_script.batch(number)) for number in range(4, 6)]
    assert got == pytest.approx(alone()[0]["more"], rel=2e-5)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(2, "pipeline=2,schedule=zb-h1,micro-batches=4"), (4, "pipeline=2,data=2,micro-batches=2")],
)
def test_a_program_in_cpp(spirals, ranks, words):
    numbers = []
    one = subprocess.run([spirals], capture_output=True, text=True, timeout=120, check=True).stdout
    for said in (one, torchrun(ranks, "--no-python", spirals, words)):
        numbers.append([float(line.split()[-1]) for line in said.splitlines()])
    assert len(numbers[0]) == 6
    assert numbers[1] == pytest.approx(numbers[0], rel=2e-4)


@pytest.mark.parametrize(
    "words", ["pipeline=2,micro-batches=2", "pipeline=2,data=2,zero=2,schedule=zb-h1,micro-batches=2"]
)
def test_accumulated_batches_of_weft_train(tmp_path, words):
    more = ["--accumulate", "3", "--clip-norm", "0.5"]
    text = make_text(tmp_path / "text")
    expected = train_tiny("gpt", text, tmp_path / "one", *more, steps=3)
    got = train_tiny("gpt", text, tmp_path / "run", *more, "--parallel", words, steps=3)
    assert list(got.values()) == pytest.approx(list(expected.values()), rel=2e-6)


def test_weft_run_writes_what_all_stages_return(tmp_path):
    """A gradient is where its stage is, and all of them come out."""
    step = Step(*gpt.tiny(), name="tiny")
    (tmp_path / "step.graph").write_text(str(step.graph))
    inputs = {}
    for (kind, key), value in zip(step.graph.inputs("step"), step.inputs, strict=True):
        if kind != "constant":
            inputs[f"{kind}/{key}"] = value.contiguous().clone()
    save_file(inputs, tmp_path / "inputs.safetensors")
    found = []
    for words in ([], ["--parallel", "pipeline=2,data=2,zero=2,micro-batches=2"]):
        out = tmp_path / f"out{len(found)}.safetensors"
        command = [WEFT, "run", "step.graph", "--inputs", "inputs.safetensors", "--outputs", out, *words]
        subprocess.run(command, check=True, cwd=tmp_path, env=environment(), timeout=120)
        found.append(load_file(out))
    assert found[0].keys() == found[1].keys()
    assert any(name.startswith("gradient/") for name in found[0])
    for name, tensor in found[0].items():
        if name.startswith(("gradient/", "loss")):
            scale = max(tensor.abs().max().item(), 1e-3)
            assert (tensor - found[1][name]).abs().max().item() <= 1e-5 * scale, name
