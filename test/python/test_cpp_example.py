# SPDX-License-Identifier: Apache-2.0
"""The C++ program in examples/cpp learns."""

import os
import pathlib
import subprocess

import pytest


def test_the_loss_falls(root):
    program = pathlib.Path(
        os.environ.get("WEFT_CPP_EXAMPLE", root / "build/release/examples/cpp/example_train_spirals")
    )
    if not program.exists():
        pytest.skip(f"{program} is not built")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(losses) == 5
    assert losses[-1] < 0.6 * losses[0]
