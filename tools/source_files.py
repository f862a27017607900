"""Which files the checks look at: what git knows or would add."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"


def source_files(*patterns):
    """Existing files, not ignored by git, whose path matches a pathspec."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = sorted(set(filter(None, listed.stdout.split("\0"))))
    return [name for name in names if (ROOT / name).is_file()]


def cpp_files():
    return source_files("*.h", "*.cpp")


def python_files():
    return source_files("*.py")


def cmake_files():
    return source_files("CMakeLists.txt", "*/CMakeLists.txt", "*.cmake")
