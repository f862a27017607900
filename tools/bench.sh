#!/usr/bin/env bash
# Runs every benchmark, the programs in bench/, one after the other: two at once
# on one machine would measure each other.
set -euo pipefail
cd "$(dirname "$0")/.."

for benchmark in bench/*; do
  if [ -f "$benchmark" ] && [ -x "$benchmark" ]; then
    printf '\n[bench] %s\n' "$benchmark"
    "$benchmark"
  fi
done
