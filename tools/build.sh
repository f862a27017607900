#!/usr/bin/env bash
# tools/build.sh PRESET: configure and build; `release` is also installed into
# .venv, so that .venv/bin/weft and `import weft` are what was just built.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
dir=build/$preset

# Two builds in one folder at once would break each other.
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9 2>/dev/null || true

quietly() { # Shows what the command said only when it fails.
  local out
  out=$("$@" 2>&1) || {
    printf '%s\n' "$out" >&2
    return 1
  }
}

# CMake runs itself again when its inputs change; only the first time is ours,
# and any time the presets change.
if [ ! -f "$dir/build.ninja" ] || [ CMakePresets.json -nt "$dir/build.ninja" ]; then
  echo "[build] configuring $dir"
  quietly cmake --preset "$preset"
fi
cmake --build "$dir" -j "${JOBS:-$(nproc)}"

if [ "$preset" = release ]; then
  quietly cmake --install "$dir" --prefix .venv --component cli
  quietly cmake --install "$dir" --prefix .venv --component python
fi
