"""Text tests: a file holds its input, the command to run and what must come out.

    // RUN: weft opt --verify %s | filecheck %s
    // CHECK: graph @mlp

`weft` is the program of .venv, as a user has it; WEFT_PROGRAM names another. Folders are the
stages of ARCHITECTURE.md, and `error` for messages. test/python and test/zoo belong to pytest.
"""

import os
import pathlib

import lit.formats

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"

config.name = "weft"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".graph", ".plan", ".program", ".cluster", ".test"]
config.excludes = ["Inputs", "python", "zoo"]
config.test_source_root = str(ROOT / "test")
config.test_exec_root = str(ROOT / "build" / "test")

# Programs by whole word, so that `weft` in a path or a flag stays as it is.
weft = os.environ.get("WEFT_PROGRAM", str(BIN / "weft"))
config.substitutions += [
    ("%root", str(ROOT)),
    ("%python", str(BIN / "python")),
    (r"(?<![\w./-])filecheck(?![\w./-])", str(BIN / "filecheck")),
    (r"(?<![\w./-])weft(?![\w./-])", weft),
]

# Torch with one thread a process: lit already runs as many tests as there are cores.
config.environment.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
for name in ("HOME", "TMPDIR", "LSAN_OPTIONS", "ASAN_OPTIONS", "ONEDNN_MAX_CPU_ISA"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
