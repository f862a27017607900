# SPDX-License-Identifier: Apache-2.0
"""Network namespaces with a link between them: other machines, as far as sockets can tell."""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        pytest.skip(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")


@contextlib.contextmanager
def linked_namespaces(count=2):
    """(what stands before a command to run it there, its address) for each; skips where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` (apt install iproute2)")
    bridge = f"weft{os.getpid()}hub"
    names = [f"weft{os.getpid()}n{number}" for number in range(count)]
    try:
        call("ip", "netns", "add", bridge)
        within = ["ip", "netns", "exec", bridge]
        call(*within, "ip", "link", "add", "hub", "type", "bridge")
        call(*within, "ip", "link", "set", "hub", "up")
        places = []
        for number, name in enumerate(names):
            call("ip", "netns", "add", name)
            inner = ["ip", "netns", "exec", name]
            call(*inner, "ip", "link", "add", "wire", "type", "veth", "peer", "name", f"wire{number}", "netns", bridge)
            call(*within, "ip", "link", "set", f"wire{number}", "master", "hub", "up")
            call(*inner, "ip", "addr", "add", f"10.77.1.{number + 1}/24", "dev", "wire")
            call(*inner, "ip", "link", "set", "lo", "up")
            call(*inner, "ip", "link", "set", "wire", "up")
            places.append((inner, f"10.77.1.{number + 1}"))
        yield places
    finally:
        for name in (*names, bridge):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=30)


def listening(pids):
    """[(address, port)] of TCP sockets that these processes listen on: addresses as the kernel writes them."""
    found = []
    for pid in pids:
        inodes = set()
        with contextlib.suppress(OSError):
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(entry)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
            for table in ("tcp", "tcp6"):
                for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                    fields = line.split()
                    address, _, port = fields[1].partition(":")
                    if fields[3] == "0A" and fields[9] in inodes:
                        found.append((address, int(port, 16)))
    return found
