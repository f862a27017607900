# SPDX-License-Identifier: Apache-2.0
"""The fuzzers of fuzz/, a minute each."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
READERS = sorted(path.name for path in (ROOT / "fuzz" / "corpus").iterdir())


@pytest.fixture(scope="module")
def fuzzers():
    if not shutil.which("clang++-19"):
        pytest.skip("the fuzzers need clang++-19")
    assert subprocess.run(["tools/build.sh", "fuzz"], cwd=ROOT, check=False).returncode == 0


@pytest.mark.campaign
@pytest.mark.parametrize("reader", READERS)
def test_every_input_has_an_answer(fuzzers, reader):
    seconds = os.environ.get("WEFT_FUZZ_SECONDS", "60")
    command = [sys.executable, "tools/fuzz.py", "--seconds", seconds, reader]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_corpus_has_a_fuzzer():
    """The lists of fuzz/ name the same readers."""
    table = (ROOT / "fuzz" / "readers.cpp").read_text()
    programs = (ROOT / "fuzz" / "CMakeLists.txt").read_text().split("weft_fuzzed")[1].split(")")[0].split()
    assert sorted(programs) == READERS
    for reader in READERS:
        assert f'{{"{reader}",' in table
