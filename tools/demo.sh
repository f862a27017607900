#!/usr/bin/env bash
# Shows what Weft makes of two models, a language model and an image model: no
# GPU, no weights, nothing downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

export PATH="$PWD/.venv/bin:$PATH"
show weft profile examples/models/gpt.py:gpt2_small
show weft profile examples/models/resnet.py:resnet50
