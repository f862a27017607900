# SPDX-License-Identifier: Apache-2.0
"""A mistake of the user ends `weft` with 2 and one message."""

import pathlib
import subprocess
import sys

import pytest

WEFT = pathlib.Path(sys.executable).parent / "weft"
BROKEN = pathlib.Path(__file__).parents[1] / "error" / "Inputs" / "broken_models.py"


@pytest.mark.parametrize(
    "arguments",
    [
        ["no/such.py:model"],
        ["no/such.pt2"],
        ["no/such.graph"],
        [f"{BROKEN}:raises"],
        [f"{BROKEN}:wrong_batch"],
        [f"{BROKEN}:shapes_depend_on_data"],
        [f"{BROKEN}:fine", "--set", "height=3"],
    ],
)
def test_exit_code_and_one_message(arguments):
    done = subprocess.run([WEFT, "profile", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("weft: error: ")
    assert done.stderr.count("\n") == 1, done.stderr
