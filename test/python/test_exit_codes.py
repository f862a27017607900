# SPDX-License-Identifier: Apache-2.0
"""A mistake of the user ends `weft` with 2 and one message, below which is only where the user's code was."""

import pathlib
import re
import subprocess
import sys

import pytest

WEFT = pathlib.Path(sys.executable).parent / "weft"
BROKEN = pathlib.Path(__file__).parents[1] / "error" / "Inputs" / "broken_models.py"

# What stands below the message.
NOTHING = ""


def traceback(function, error):
    """That of the user's code, which is indented, and the error."""
    place = rf'  File "{re.escape(str(BROKEN))}", line \d+, in {function}\n'
    return rf"Traceback \(most recent call last\):\n(?:  .*\n)*?{place}(?:  .*\n)+{error}\n"


@pytest.mark.parametrize(
    ("arguments", "below"),
    [
        (["no/such.py:model"], NOTHING),
        (["no/such.pt2"], NOTHING),
        (["no/such.graph"], NOTHING),
        ([f"{BROKEN}:raises"], traceback("raises", "ValueError: the vocabulary is empty")),
        ([f"{BROKEN}:wrong_batch"], traceback("forward", "RuntimeError: mat1 and mat2 shapes .*")),
        ([f"{BROKEN}:shapes_depend_on_data"], rf"  at {re.escape(str(BROKEN))}:\d+ in forward: return .*\n"),
        ([f"{BROKEN}:fine", "--set", "height=3"], NOTHING),
    ],
)
def test_exit_code_and_one_message(arguments, below):
    done = subprocess.run([WEFT, "profile", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(rf"weft: error: .+\n{below}", done.stderr), done.stderr
