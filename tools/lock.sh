#!/usr/bin/env bash
# Writes requirements/*.lock anew from requirements/*.txt: every package and what
# it requires, with one version for each Python we support and the hashes of all
# files the index has of it, for every platform. To be run after a change of a
# .txt. PyTorch and what only its CUDA build requires are left out: its builds
# have other files under one version (tools/setup.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.8

lock() { # lock NAME ARGUMENT...
  local name=$1
  shift
  # What is locked stays as it is where it still fits.
  [ ! -f "requirements/$name.lock" ] || cp "requirements/$name.lock" "$work/$name.lock"
  "$work/venv/bin/uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header \
    --no-config --output-file "$work/$name.lock" "$@" "requirements/$name.txt"
  {
    echo "# Written by tools/lock.sh from requirements/$name.txt."
    # An entry is its line, and those after it that are indented.
    awk '/^[^ #]/ { kept = !/^(torch==|triton==|nvidia-|cuda-)/ } kept || /^#/' "$work/$name.lock"
  } >"requirements/$name.lock"
}

lock dev --python-version 3.10
# Installed beside .venv's packages, without their own requirements.
lock zoo --python-version 3.11 --no-deps
