#!/usr/bin/env python3
"""Every check that is not a test: layers, sizes, headers, clang-tidy, ruff, spelling."""

import os
import subprocess
import sys
import time

from source_files import BIN, ROOT, python_files

JOBS = os.environ.get("JOBS") or str(os.cpu_count())


def checks():
    """Name and command of each, quick ones first."""
    yield "layers", [sys.executable, "tools/check_layers.py"]
    yield "file sizes", [sys.executable, "tools/check_file_size.py"]
    yield "docs", [sys.executable, "tools/check_docs.py"]
    yield "ruff", [BIN / "ruff", "check", "--quiet", *python_files()]
    yield "spelling", [BIN / "codespell"]
    yield "headers alone", ["cmake", "--build", "build/release", "-j", JOBS, "-t", "all_verify_interface_header_sets"]
    yield "clang-tidy", [sys.executable, "tools/clang_tidy.py"]


def main():
    failed = []
    for name, command in checks():
        start = time.monotonic()
        status = subprocess.run([str(part) for part in command], cwd=ROOT).returncode
        print(f"[lint] {name}: {'failed' if status else 'ok'}, {time.monotonic() - start:.1f} s", flush=True)
        if status:
            failed.append(name)
    print(f"[lint] failed: {', '.join(failed)}" if failed else "[lint] all ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
