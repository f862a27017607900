#!/usr/bin/env python3
"""Formats C++, Python and CMake files in place; with --check only looks."""

import subprocess
import sys

from source_files import BIN, ROOT, cmake_files, cpp_files, python_files


def formatters(check):
    """Commands, each with the files it is for."""
    yield (
        [BIN / "clang-format", *(["--dry-run", "-Werror"] if check else ["-i"])],
        cpp_files(),
    )
    yield (
        [BIN / "ruff", "format", *(["--check"] if check else [])],
        python_files(),
    )
    yield (
        [BIN / "gersemi", *(["--check"] if check else ["-i"]), "--no-cache"],
        cmake_files(),
    )


def main():
    failed = False
    for command, files in formatters("--check" in sys.argv[1:]):
        if files and subprocess.run([*command, *files], cwd=ROOT).returncode:
            failed = True
    if failed:
        print("not formatted: run `make format`", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
