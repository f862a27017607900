# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a link of a chosen rate between them: two machines, as far as sockets can tell."""

import contextlib
import dataclasses
import os
import secrets
import shutil
import subprocess

RATE_BITS = 1_000_000_000
# What the shaper lets through at once; less would cost rate at this clock, more would hide the limit.
BURST_BYTES = 256 * 1024


class NoLink(Exception):
    """Why there is none."""


@dataclasses.dataclass
class Place:
    """Where one rank runs: what stands before its command, and what its environment has."""

    command: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoLink(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")


@contextlib.contextmanager
def slow_link(rate_bits=RATE_BITS):
    """Two places, in the order of ranks. Raises NoLink with the reason when this machine cannot have them."""
    if os.geteuid() != 0:
        raise NoLink("network namespaces need root")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise NoLink(f"there is no `{tool}` (apt install iproute2)")
    names = [f"weft{os.getpid()}{side}" for side in "ab"]
    secret = secrets.token_hex(16)
    wires = [f"w{os.getpid() % 100000}{side}" for side in "ab"]
    try:
        for name in names:
            call("ip", "netns", "add", name)
        call(
            "ip",
            "link",
            "add",
            wires[0],
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            wires[1],
            "netns",
            names[1],
        )
        places = []
        for number, (name, wire) in enumerate(zip(names, wires)):
            within = ["ip", "netns", "exec", name]
            call(*within, "ip", "addr", "add", f"10.77.0.{number + 1}/24", "dev", wire)
            call(*within, "ip", "link", "set", "lo", "up")
            call(*within, "ip", "link", "set", wire, "up")
            shaper = ["rate", f"{rate_bits}bit", "burst", str(BURST_BYTES), "latency", "50ms"]
            call(*within, "tc", "qdisc", "add", "dev", wire, "root", "tbf", *shaper)
            # The two see one pid namespace and could share memory, which machines cannot.
            environment = {
                "MASTER_ADDR": "10.77.0.1",
                "GLOO_SOCKET_IFNAME": wire,
                "WEFT_COMMUNICATION": "gloo",
                "WEFT_SECRET": secret,
            }
            places.append(Place(within, environment))
        yield places
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
