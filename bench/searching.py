# SPDX-License-Identifier: Apache-2.0
"""Seconds from a model's source to its plan, by stage, beside what other planners take.

    bench/search [--only gpt3,llama] [--repeats 1] [--no-peers]

Weft: one `weft plan` a row, from starting it to the plan on disk. `start` is all that no other column has: starting
Python, importing PyTorch, writing the plan; `build` makes the model and `capture` its step; `samples` lowers small steps for one rank;
`estimates` puts candidates together; `simulation` lowers and simulates the best of them for all ranks. With several
repeats, the fastest.

Peers: planners that search as much are in no package that runs on a machine without GPUs; their figures are as
reported, or as measured by others on two cores like these.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_PROGRAM") or pathlib.Path(sys.executable).parent / "weft")

GPT = "examples/models/gpt.py:"
DEEP = ["width=1024", "heads=16", "dropout=0.0"]
# Name: model, its settings, cluster, rows, seconds that are allowed.
ROWS = {
    "gpt3 175B, 1024 A100": (GPT + "gpt3_175b", [], "128x8xA100-80G", 1536, 10),
    "llama 70B, 64 H100": ("examples/models/llama.py:llama_70b", [], "8x8xH100", 512, 5),
    "gpt2 XL, 16 A100": (GPT + "gpt2_xl", ["dropout=0.0"], "2x8xA100-80G", 512, None),
    "gpt 100 layers, 64 A100": (GPT + "gpt2_small", ["layers=100", *DEEP], "8x8xA100-80G", 512, None),
    "gpt 1000 layers, 64 A100": (GPT + "gpt2_small", ["layers=1000", *DEEP], "8x8xA100-80G", 512, None),
}
STAGES = ["start", "build", "capture", "units", "samples", "estimates", "simulation", "plan"]

# Planner: what it planned, seconds, where they are from.
REPORTED = {
    "Galvatron-2 (hetu-galvatron 2.4.0)": ("Llama 7B, 8 GPUs", 299, "measured on two cores; its package needs CUDA"),
    "Aceso": ("GPT 1.3B, 4 GPUs", 125, "measured on two cores; in no package"),
    "Calculon": ("8,112 settings of one model", 100, "measured on two cores; in no package"),
    "autoparallel": ("Llama 8B, 64 GPUs, layouts alone", 639, "measured on two cores, 208 s of CPU; in no package"),
    "Piper": ("BERT of 32 layers, 64 devices", 0.37, "measured on two cores; far fewer choices; in no package"),
    "Alpa (alpa 0.2.3)": ("GPT 1.3B, 4 GPUs", 4179, "reported; its package needs jax 0.3.22, not for this Python"),
}


def plan(model, settings, cluster, rows):
    """Seconds in all, and what `weft plan --json` says."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "plan.json"
        command = [WEFT, "plan", model, "--cluster", cluster, "--global-batch", str(rows)]
        command += ["--precision", "bf16-mixed", "--json", "-o", output]
        for setting in settings:
            command += ["--set", setting]
        start = time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        found = json.loads(output.read_text())
        found["seconds_by_stage"]["start"] = seconds - sum(found["seconds_by_stage"].values())
        return seconds, found


def show(name, seconds, found, allowed):
    stages = "".join(f"{found['seconds_by_stage'][stage]:>11.2f}" for stage in STAGES)
    target = "-" if allowed is None else f"<= {allowed}"
    print(f"{name:<26}{seconds:>8.2f}{target:>8}{stages}", flush=True)
    print(
        f"{'':<26}{len(found['candidates'])} candidates, {found['samples']} samples of {found['lowered_samples']} "
        f"programs, {found['simulated']} simulated: {found['words']}, {found['step_seconds']:.3f} s a step",
        flush=True,
    )


def show_peers():
    print(f"\n{'other planners':<38}{'seconds':>9}  what")
    for name, (what, seconds, source) in REPORTED.items():
        print(f"{name:<38}{seconds:>9}  {what}; {source}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose names contain one of these words, with commas between")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    flags = parser.parse_args()
    wanted = [word for word in flags.only.split(",") if word]
    print(f"{'seconds':<26}{'in all':>8}{'target':>8}" + "".join(f"{stage:>11}" for stage in STAGES))
    for name, (model, settings, cluster, rows, allowed) in ROWS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        runs = [plan(model, settings, cluster, rows) for _ in range(flags.repeats)]
        show(name, *min(runs, key=lambda run: run[0]), allowed)
    if not flags.no_peers:
        show_peers()


if __name__ == "__main__":
    main()
