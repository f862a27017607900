# SPDX-License-Identifier: Apache-2.0
"""What `make setup` installs is pinned to the byte, but for PyTorch, whose builds differ."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)")
# Installed by its version alone; and what is of its CUDA build.
APART = {"torch"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path):
    """{(name, version)} of the lines that name a package; every such line has to pin it."""
    found = set()
    for line in path.read_text().splitlines():
        if line and not line.startswith(("#", " ")):
            assert PIN.match(line), f"{path}: {line} is not pinned"
            name, version = PIN.match(line).groups()
            found.add((normal(name), version))
    return found


def entries(path):
    """Each package's line with those that go on from it."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    return text.replace("\\\n", " ").split("\n")


@pytest.mark.parametrize("name", ["dev", "zoo"])
def test_a_lock_holds_what_is_asked_for_with_hashes(name):
    lock = ROOT / "requirements" / f"{name}.lock"
    asked = {pin for pin in pins(ROOT / "requirements" / f"{name}.txt") if pin[0] not in APART}
    assert asked <= pins(lock), f"run tools/lock.sh: {sorted(asked - pins(lock))}"
    assert not {each for each, _ in pins(lock)} & APART
    for entry in filter(None, entries(lock)):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("script", ["tools/setup.sh", "tools/zoo_setup.sh"])
def test_locks_are_installed_with_their_hashes_asked_for(script):
    installs = [line for line in (ROOT / script).read_text().splitlines() if ".lock" in line and " -r " in line]
    assert installs
    assert all("--require-hashes --no-deps" in line for line in installs)


def test_no_registry_is_named():
    for path in (ROOT / "requirements").iterdir():
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links", path.read_text()), path
