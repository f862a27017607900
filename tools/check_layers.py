#!/usr/bin/env python3
"""Fails when a file includes a folder that its own folder may not use.

The allowed edges are the ```layers block of ARCHITECTURE.md. The build links
the same edges, so this check also refuses a CMake file that links two of our
libraries by hand. LibTorch counts as one folder, `torch`, HiGHS as one,
`highs`, and OpenSSL's libcrypto as one, `crypto`.

And when a file turns characters into numbers by itself: what
src/base/number.h does is checked for every text at once.
"""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([A-Za-z0-9_]+)/')
CRYPTO = {"openssl"}
TORCH = {"torch", "ATen", "c10", "caffe2", "gloo", "pybind11"}
# What is no folder of ours.
OUTSIDE = {"torch", "highs", "crypto"}
NUMBERS_HOME = pathlib.Path("src/base/number.cpp")
HAND_MADE_NUMBER = re.compile(
    r"\b(from_chars|sto[ild]|stof|stoll|stoull?|strto[a-z]+|ato[ifl]l?|sscanf|lexical_cast)\s*\("
)
HAND_MADE_EDGE = re.compile(r"target_link_libraries\s*\([^)]*\bweft_[a-z]+\b[^)]*\)")
LIBRARY = re.compile(r"\bweft_([a-z]+)\b")


def read_layers(text):
    """The block as {folder: folders it may use}; `*` is every line above."""
    block = re.search(r"```layers\n(.*?)```", text, re.S)
    if not block:
        raise SystemExit("ARCHITECTURE.md: no ```layers block")
    layers = {}
    for line in block[1].splitlines():
        folder, _, uses = line.partition(":")
        allowed = set(uses.split())
        if "*" in allowed:
            allowed = set(layers) | {"torch"}
        for unknown in sorted(allowed - set(layers) - OUTSIDE):
            raise SystemExit(f"ARCHITECTURE.md: {folder} uses {unknown}, which no line above names")
        layers[folder.strip()] = allowed
    return layers


def folder_of(name):
    """src/graph/mesh.h is in `graph`; python/module.cpp is in `python`."""
    return name.parts[1] if name.parts[0] == "src" else name.parts[0]


def bad_includes(root, layers):
    known = set(layers) | OUTSIDE
    files = [*root.glob("src/*/**/*.[hc]*"), *root.glob("python/**/*.[hc]*")]
    for path in sorted(path for path in files if path.suffix in {".h", ".cpp"}):
        name = path.relative_to(root)
        folder = folder_of(name)
        if folder not in layers:
            yield f"{name}: folder {folder} is not in ARCHITECTURE.md"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            used = "torch" if match[1] in TORCH else "crypto" if match[1] in CRYPTO else match[1]
            if used in known and used not in layers[folder] | {folder}:
                yield f"{name}:{number}: {folder} may not include {used}"


def hand_made_numbers(root):
    files = [*root.glob("src/*/**/*.cpp"), *root.glob("src/*/**/*.h"), *root.glob("python/*.cpp")]
    for path in sorted(files):
        name = path.relative_to(root)
        if name == NUMBERS_HOME or name.stem.endswith("_test"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = HAND_MADE_NUMBER.search(line.partition("//")[0])
            if match:
                yield f"{name}:{number}: {match[1]} reads a number by hand; read it with base/number.h"


def hand_made_edges(root, layers):
    for path in sorted(root.glob("src/**/CMakeLists.txt")):
        text = path.read_text()
        for call in HAND_MADE_EDGE.finditer(text):
            folders = [name for name in LIBRARY.findall(call[0]) if name in layers]
            if len(folders) > 1:
                number = text.count("\n", 0, call.start()) + 1
                yield (
                    f"{path.relative_to(root)}:{number}: {folders[0]} is linked to"
                    f" {', '.join(folders[1:])} by hand; name the edge in ARCHITECTURE.md"
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=here)
    root = parser.parse_args().root.resolve()
    layers = read_layers((root / "ARCHITECTURE.md").read_text())
    errors = [*bad_includes(root, layers), *hand_made_edges(root, layers), *hand_made_numbers(root)]
    print(*errors, sep="\n", end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
