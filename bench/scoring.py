# SPDX-License-Identifier: Apache-2.0
"""How far predicted step times are from measured ones, on runs that others made and published.

`weft simulate --table` with the A100 preset, one set of constants for all rows, beside what two other simulators
report. Calculon's and vTrain's figures are those that vTrain's authors give for their whole set, of which the tables
here are a quarter; nobody gives any for Megatron-LM's table.

--plans searches a plan for every model of Megatron-LM's table on the machines that it ran on, beside the published
words on the same machines, by the same estimate.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).with_name("data")
MODELS = pathlib.Path(__file__).resolve().parent.parent / "examples" / "models"
WEFT = pathlib.Path(os.environ.get("WEFT_PROGRAM") or pathlib.Path(sys.executable).parent / "weft")

# File, machines, target, vTrain, Calculon.
TABLES = {
    "vTrain, one node": ("vtrain_single_node.csv", "A100-80G+4xHDR", 0.08, 0.0837, 0.3895),
    "vTrain, many nodes": ("vtrain_multi_node.csv", "A100-80G+4xHDR", 0.10, 0.1473, 0.1287),
    "Megatron-LM 2021": ("megatron_2021.csv", "A100-80G+8xHDR", 0.10, None, None),
}


def score(file, cluster):
    command = [WEFT, "simulate", "--table", DATA / file, "--cluster", cluster, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def published_runs():
    lines = (DATA / "megatron_2021.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [
        {name: float(value) if name == "iteration_ms" else int(value) for name, value in row.items()} for row in rows
    ]


def searched(run, *flags):
    """What `weft plan` finds for the model on its machines."""
    sizes = {
        "layers": "layers",
        "width": "hidden",
        "heads": "heads",
        "sequence": "sequence",
        "vocabulary": "vocabulary",
    }
    settings = [word for name, column in sizes.items() for word in ("--set", f"{name}={run[column]}")]
    command = [WEFT, "plan", MODELS / "gpt.py:gpt2_small", *settings, "--set", "dropout=0.0"]
    command += ["--cluster", f"{run['gpus'] // 8}x8xA100-80G+8xHDR", "--global-batch", str(run["global_batch"])]
    command += ["--precision", "f16-mixed", "--json", *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[0]}
    return json.loads(done.stdout)


def published_words(run):
    words = [f"{word}={run[word]}" for word in ("tensor", "data", "pipeline")]
    words.append(f"micro-batches={run['global_batch'] // run['data'] // run['micro_batch']}")
    if run["pipeline"] > 1:
        words.append(f"schedule={'interleaved' if run['stages_per_position'] > 1 else '1f1b'}")
        words.append(f"stages={run['pipeline'] * run['stages_per_position']}")
    # As it was run; sequences were not split and states not shared then.
    return [*words, "zero=0", "recompute=full"]


def print_plans(most):
    print(f"\n{'seconds a step':<16}{'published':>11}{'searched':>10}{'ratio':>7}{'searched in':>13}  words")
    for run in published_runs()[:most]:
        fixed = [part for word in published_words(run) for part in ("--fix", word)]
        published = searched(run, *fixed, "--forbid", "sequence")
        found = searched(run)
        name = f"{run['gpus']} A100"
        if "error" in found or "error" in published:
            print(f"{name:<16}{found.get('error') or published.get('error')}", flush=True)
            continue
        ratio = found["step_seconds"] / published["step_seconds"]
        print(
            f"{name:<16}{published['step_seconds']:>11.3f}{found['step_seconds']:>10.3f}{ratio:>7.3f}"
            f"{found['search_seconds']:>11.1f} s  {found['words']}",
            flush=True,
        )


def percent(share):
    return "-" if share is None else f"{share:.2%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--plans", type=int, metavar="ROWS", help="search plans for so many models of Megatron-LM's table"
    )
    chosen = parser.parse_args()
    print(
        f"{'mean absolute error':<22}{'rows':>6}{'weft':>9}{'target':>10}{'bias':>9}{'worst':>9}"
        f"{'vTrain':>9}{'Calculon':>10}"
    )
    for name, (file, cluster, target, vtrain, calculon) in TABLES.items():
        found = score(file, cluster)
        print(
            f"{name:<22}{found['measured_rows']:>6}{percent(found['mean_absolute_error']):>9}"
            f"{'<= ' + format(target, '.0%'):>10}{found['mean_error']:>+9.1%}{found['worst_error']:>9.1%}"
            f"{percent(vtrain):>9}{percent(calculon):>10}"
        )
    if chosen.plans:
        print_plans(chosen.plans)


if __name__ == "__main__":
    main()
