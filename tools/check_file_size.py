#!/usr/bin/env python3
"""Fails when a source file is longer than a person can hold.

A file over the limit has two ideas in it: split it by idea. What truly cannot
be split is named in tools/file_size_allowed.txt with its reason.
"""

import sys

from source_files import ROOT, source_files

LIMIT = 800
ALLOWED = ROOT / "tools" / "file_size_allowed.txt"
SUFFIXES = (".h", ".cpp", ".py", ".sh", ".cmake", ".js", ".ts")


def allowed():
    lines = ALLOWED.read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def main():
    exempt = allowed()
    failed = False
    for name in source_files("src", "python", "tools", "test", "web", "cmake"):
        if not name.endswith(SUFFIXES) or name in exempt:
            continue
        lines = len((ROOT / name).read_text().splitlines())
        if lines > LIMIT:
            print(f"{name}: {lines} lines, the limit is {LIMIT}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
