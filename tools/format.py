#!/usr/bin/env python3
"""Formats C++, Python and CMake files in place; with --check only looks."""

import re
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
        [BIN / "ruff", "format", *(["--check", "--output-format", "concise"] if check else ["--quiet"])],
        python_files(),
    )
    yield (
        [BIN / "gersemi", *(["--check"] if check else ["-i"]), "--no-cache"],
        cmake_files(),
    )


def unformatted(command, files):
    """The files that a checking command finds fault with: its answer names each many times."""
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    said = done.stdout + done.stderr
    return [name for name in files if re.search(rf"(^|/){re.escape(name)}\b", said, re.M)] or [said]


def main():
    check = "--check" in sys.argv[1:]
    failed = False
    for command, files in formatters(check):
        if not files:
            continue
        if check:
            wrong = unformatted(command, files)
            print(*[f"not formatted: {name}" for name in wrong], sep="\n", end="\n" if wrong else "")
            failed |= bool(wrong)
        else:
            failed |= subprocess.run([*command, *files], cwd=ROOT).returncode != 0
    if check and failed:
        print("run `make format`")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
