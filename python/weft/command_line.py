# SPDX-License-Identifier: Apache-2.0
"""What `weft` goes on in where its model is FILE.py:FUNCTION: the same command line, in the process that captures.

python -m weft.command_line plan FILE.py:FUNCTION ...
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from weft import _weft
from weft.capture_file import capture_model, end_at_once


def main(words):
    """The exit status, as that of `weft`."""
    # Of Python's own handler, C++ would never hear.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kept = []

    def capture(model, settings):
        with prints_go_to_errors():
            kept.append(capture_model(model, settings))
        return kept[-1]

    return _weft.run_command_line(words, capture)


@contextlib.contextmanager
def prints_go_to_errors():
    """What the user's code prints is no part of the command's output."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, 1)
        os.close(output)


if __name__ == "__main__":
    end_at_once(main(sys.argv[1:]))
