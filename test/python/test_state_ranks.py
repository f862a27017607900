# SPDX-License-Identifier: Apache-2.0
"""What a script changes between two steps, on two ranks and under plans that split parameters and optimizer states."""

import json
import os
import pathlib
import subprocess
import sys


def test_changes_between_steps_on_two_ranks(tmp_path):
    script = pathlib.Path(__file__).parent / "state_script.py"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *(str(script), str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        results = json.loads((tmp_path / str(rank)).read_text())
        for name, worst in results.items():
            assert isinstance(worst, float) and worst < 1e-11, (rank, name, worst)
