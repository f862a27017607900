# SPDX-License-Identifier: Apache-2.0
"""The C++ program in examples/cpp learns."""

import subprocess


def test_the_loss_falls(spirals):
    done = subprocess.run([spirals], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(losses) == 5
    assert losses[-1] < 0.6 * losses[0]
