#!/usr/bin/env bash
# Runs every benchmark, bench/bench_*.py, one after the other: two at once on
# one machine would measure each other.
set -euo pipefail
cd "$(dirname "$0")/.."

shopt -s nullglob
benchmarks=(bench/bench_*.py)
if [ ${#benchmarks[@]} = 0 ]; then
  echo "bench/ holds no bench_*.py" >&2
  exit 1
fi
for benchmark in "${benchmarks[@]}"; do
  printf '\n[bench] %s\n' "$benchmark"
  .venv/bin/python "$benchmark"
done
