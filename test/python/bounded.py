# SPDX-License-Identifier: Apache-2.0
"""Processes held to a number of processes by a pids control group, v1 or v2: a start without a bound cannot take the
machine down, and who is left can be seen."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest
from training_runs import environment

MOUNTS = [pathlib.Path("/sys/fs/cgroup/pids"), pathlib.Path("/sys/fs/cgroup")]


class PidsGroup:
    """While it lives, a control group of its own below where groups are mounted; skips the test where none can be."""

    def __init__(self, most):
        for mount in MOUNTS:
            self.folder = mount / f"weft.test.{os.getpid()}"
            with contextlib.suppress(OSError):
                self.folder.mkdir()
                (self.folder / "pids.max").write_text(str(most))
                return
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        pytest.skip("no control group can be made here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait_until_empty()
        self.folder.rmdir()

    def pids(self):
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    def wait_until_empty(self, seconds=20):
        """Whether it is."""
        end = time.monotonic() + seconds
        while self.pids() and time.monotonic() < end:
            time.sleep(0.02)
        return not self.pids()

    def start(self, words, **variables):
        """In the group from its first instruction on."""
        procs = str(self.folder / "cgroup.procs")

        def enter():
            # A shell without job control has what it starts in the background ignore it.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            descriptor = os.open(procs, os.O_WRONLY)
            os.write(descriptor, b"0")
            os.close(descriptor)

        return subprocess.Popen(
            [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
            preexec_fn=enter,
        )
