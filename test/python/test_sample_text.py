# SPDX-License-Identifier: Apache-2.0
"""What `weft train` exports is the plain PyTorch model."""

import subprocess
import sys

import pytest
import torch
from training_runs import GPT, ROOT, finish, make_text, metrics

OPTIONS = ["layers=2", "width=64", "heads=4", "vocabulary=256", "sequence=32", "dropout=0.0"]
SCRIPT = ROOT / "examples" / "sample_text.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    settings = [f"--set={option}" for option in OPTIONS]
    data = make_text(folder / "data")
    given = [f"{GPT}:gpt2_small", *settings, "--batch-size", 8, "--learning-rate", 3e-3, "--data", data]
    given += ["--in-order", "--steps", 60]
    status, _, err = finish(given, folder / "run")
    assert status == 0, err
    return folder


def test_the_exported_model_has_the_loss_of_the_run(trained, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import sample_text

    options = {key: float(value) if "." in value else int(value) for key, value in (o.split("=") for o in OPTIONS)}
    model = sample_text.load(trained / "run" / "model.safetensors", options)
    text = torch.tensor(list((trained / "data" / "words.txt").read_bytes()[: 8 * 32 + 1]))
    with torch.no_grad():
        loss = model(text[:-1].view(8, 32), text[1:].view(8, 32)).item()
    seen = metrics(trained / "run")
    # The first batch, seen again with what was learnt since.
    assert loss < 0.7 * seen[0]["loss"]
    assert loss == pytest.approx(seen[-1]["loss"], rel=0.3)


def test_the_script_goes_on_from_a_start(trained):
    command = [
        sys.executable,
        SCRIPT,
        trained / "run" / "model.safetensors",
        *OPTIONS,
        "--start",
        "step ",
        "--count",
        40,
    ]
    first = subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout
    assert first.startswith(b"step ") and 5 + 1 < len(first.decode()) <= 5 + 40 + 1
    other = subprocess.run(list(map(str, [*command, "--seed", 1])), capture_output=True, check=True).stdout
    assert other.startswith(b"step ") and other != first
