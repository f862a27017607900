#!/usr/bin/env python3
"""Runs clang-tidy on the sources that need no torch and changed since they were last clean.

The preset `tidy` lists exactly these sources, each by itself. A clean result is
kept under the hash of the source, of our headers behind it, and of .clang-tidy.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

from source_files import ROOT

BUILD = ROOT / "build" / "tidy"
CLEAN = ROOT / "build" / "clang-tidy"
INCLUDE = re.compile(r'^#include "(.+)"', re.M)
JOBS = int(os.environ.get("JOBS") or os.cpu_count())


def with_headers(source):
    """The source and, through includes, every header of ours behind it."""
    seen, left = set(), [source]
    while left:
        file = left.pop()
        if file in seen or not file.exists():
            continue
        seen.add(file)
        left += [ROOT / "src" / name for name in INCLUDE.findall(file.read_text())]
    return sorted(seen)


def fingerprint(source):
    digest = hashlib.sha256(str(source.relative_to(ROOT)).encode())
    for file in [ROOT / ".clang-tidy", *with_headers(source)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def clean(tidy, source):
    """Shows what is wrong with a source, or remembers that nothing is."""
    mark = CLEAN / fingerprint(source)
    if mark.exists():
        return True
    # The build switches off warnings that only gcc has; clang finds gcc's own headers deprecated.
    quiet = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-declarations"]
    command = [tidy, "--quiet", *quiet, "-p", BUILD, source]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr if not done.stdout else "", sep="", flush=True)
        return False
    mark.touch()
    return True


def main():
    tidy = shutil.which("clang-tidy-19") or shutil.which("clang-tidy")
    if not tidy:
        print("no clang-tidy here; install clang-tidy-19")
        return 1
    if subprocess.run(["cmake", "--preset", "tidy"], cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        return 1
    CLEAN.mkdir(parents=True, exist_ok=True)
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    sources = sorted({ROOT / entry["file"] for entry in commands} & set((ROOT / "src").rglob("*.cpp")))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda source: clean(tidy, source), sources))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
