#!/usr/bin/env bash
# Shows what Weft makes of two models, a language model and an image model, and
# trains a small one: no GPU, no weights, nothing downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

export PATH="$PWD/.venv/bin:$PATH"
show weft profile examples/models/gpt.py:gpt2_small
show weft profile examples/models/resnet.py:resnet50

# A small GPT learns Python from the standard library's sources, as bytes, on two
# ranks, for about a minute; then it writes some, in plain PyTorch.
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
sources=$(python -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')
options=(layers=2 width=128 heads=4 vocabulary=256 sequence=128)
printf '\n$ weft train examples/models/gpt.py:gpt2_small --nproc 2 --data %s/*.py ...\n' "$sources"
weft train examples/models/gpt.py:gpt2_small "${options[@]/#/--set=}" --set=dropout=0.0 \
  --batch-size 8 --nproc 2 --steps 1500 --learning-rate 3e-3 --schedule "cosine warmup=50 floor=0.1" \
  --output "$run/gpt" --data "$sources"/*.py
show python tools/loss_curve.py "$run/gpt/metrics.jsonl"
show python examples/sample_text.py "$run/gpt/model.safetensors" "${options[@]}"
