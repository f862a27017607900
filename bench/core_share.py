# SPDX-License-Identifier: Apache-2.0
"""The same part of a core for every rank, however many there are: a rank that waits lends nothing to the others."""

import contextlib
import os
import pathlib

from slow_link import Place

ROOT = pathlib.Path("/sys/fs/cgroup")
PERIOD_US = 10_000


class NoShare(Exception):
    """Why there is none."""


def write(path, text):
    try:
        path.write_text(str(text))
    except OSError as error:
        raise NoShare(f"cannot write {text} to {path}: {error.strerror}") from None


def make_group(name, share):
    """A control group whose processes have that share of a core together; by version 2 or 1 of the interface."""
    is_second = (ROOT / "cgroup.controllers").exists()
    folder = ROOT / name if is_second else ROOT / "cpu" / name
    try:
        folder.mkdir()
    except OSError as error:
        raise NoShare(f"cannot make {folder}: {error.strerror}") from None
    quota_us = round(share * PERIOD_US)
    if is_second:
        write(folder / "cpu.max", f"{quota_us} {PERIOD_US}")
    else:
        write(folder / "cpu.cfs_period_us", PERIOD_US)
        write(folder / "cpu.cfs_quota_us", quota_us)
    return folder


@contextlib.contextmanager
def core_shares(ranks, share):
    """A place for each rank (stepping.work takes them), which has `share` of a core. Raises NoShare with the reason
    when this machine cannot."""
    folders = []
    try:
        for rank in range(ranks):
            folders.append(make_group(f"weft{os.getpid()}.{rank}", share))
        # A shell joins the group and becomes the rank.
        yield [Place(["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(folder)]) for folder in folders]
    finally:
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
