# SPDX-License-Identifier: Apache-2.0
"""What the search is worth.

    bench/pays [--quick] [--repeats 5] [--models gpt,llama,bert,vit] [--cluster FILE] [--no-runs] [--no-joint]

runs: two ranks, a core each, on this machine as `weft cluster measure` finds it (or as --cluster says), with less
memory than data parallelism takes. The plan that `weft plan` finds runs by turns with every plan of a grid that fits:
each split of two ranks by data, tensor, pipeline and ZeRO, with nothing and with every layer made again. `ratio` is
the searched plan's step to the best of the grid; medians.

joint: on larger machines, simulated or, where the summary says so, estimated. `then` searches as if memory were
no matter and nothing made again, keeps these words, and then makes again what the memory asks for; `joint` chooses both
together.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

from stepping import ROOT, WEFT, Size, add_cluster_option, cell, cluster_of, simulated_seconds, work

MODELS = ROOT / "examples" / "models"
OTHER = {"layers": 6, "width": 256, "heads": 4, "vocabulary": 4096, "sequence": 128, "batch_size": 8}
SIZES = {
    "gpt": Size("gpt", "gpt.gpt2_small", {**OTHER, "width": 384, "heads": 6, "dropout": 0.0}, 1),
    "llama": Size("llama", "llama.tiny", {**OTHER, "hidden": 768}, 2),
    "bert": Size("bert", "bert.tiny", {**OTHER, "positions": 128, "dropout": 0.0}, 2),
    "vit": Size(
        "vit",
        "vit.tiny",
        {
            "layers": 8,
            "width": 256,
            "hidden": 1024,
            "heads": 4,
            "image": 64,
            "patch": 8,
            "batch_size": 16,
            "dropout": 0.0,
        },
        2,
    ),
}
# Of what data parallelism takes.
BUDGET_SHARE = 0.75
PIPELINES = [
    f"pipeline=2,schedule={schedule},micro-batches={count}" for schedule in ("gpipe", "1f1b") for count in (2, 4)
]
GRID = ["data=2", "data=2,zero=1", "data=2,zero=2", "data=2,zero=3", "tensor=2", "tensor=2,sequence", *PIPELINES]
MIB = 1 << 20


@dataclasses.dataclass
class Case:
    """A model on machines, and how many rows a step has."""

    model: str
    options: dict
    cluster: str
    rows: int


CASES = [
    Case("gpt.py:gpt2_large", {"sequence": 1024}, "4xRTX4090", 64),
    Case("gpt.py:gpt2_xl", {"sequence": 1024}, "8xV100", 128),
    Case("llama.py:llama_7b", {"sequence": 2048}, "8xA100-40G", 64),
    Case("llama.py:llama_7b", {"sequence": 4096}, "2x8xA100-40G", 64),
]


class Refused(Exception):
    """What `weft` said."""


def weft(*words):
    done = subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Refused(said[0] if said else f"status {done.returncode}")
    return done.stdout


def settings(options):
    return [word for key, value in options.items() for word in ("--set", f"{key}={value}")]


def capture(size, folder):
    module, _, function = size.model.partition(".")
    path = pathlib.Path(folder, "step.graph")
    options = {key: value for key, value in size.options.items() if key != "batch_size"}
    weft(
        "capture",
        MODELS / f"{module}.py:{function}",
        *settings(options),
        *("--batch-size", size.options["batch_size"], "-o", path),
    )
    return path


def with_memory(cluster, budget_bytes):
    """The cluster's text with devices of so much memory."""
    return re.sub(r"memory_bytes = \d+", f"memory_bytes = {budget_bytes}", cluster, count=1)


def searched(graph, cluster, *flags):
    return json.loads(weft("plan", graph, "--cluster", cluster, *flags, "--json"))


def plans_by_hand(graph, cluster):
    """Every plan of the grid that the model allows and that fits: its name and its text."""
    for words in GRID:
        for recompute in ("none", "full"):
            flags = ["--parallel", words, "--recompute", recompute, "--cluster", cluster]
            try:
                yield f"{words},recompute={recompute}", weft("plan", graph, *flags)
            except Refused:
                continue


def run_model(size, cluster, repeats):
    with tempfile.TemporaryDirectory() as folder:
        graph = capture(size, folder)
        machine = pathlib.Path(folder, "machine.cluster")
        machine.write_text(cluster)
        plain = searched(graph, machine, "--fix", "data=2", "--fix", "zero=0", "--fix", "recompute=none")
        budget_bytes = int(BUDGET_SHARE * plain["peak_bytes"])
        small = pathlib.Path(folder, "small.cluster")
        small.write_text(with_memory(cluster, budget_bytes))
        found = searched(graph, small)
        plans = {"searched": found["plan"], **dict(plans_by_hand(graph, small))}
        result = work("plans", size, 2, plans=plans, repeats=repeats)
    if "error" in result:
        print(f"{size.name:<8}{result['error']}", flush=True)
        return
    taken = result["seconds"]
    best = min((name for name in taken if name != "searched"), key=taken.get, default=None)
    predicted = {name: simulated_seconds(result["programs"][name], cluster) for name in taken}
    for name in sorted(taken, key=taken.get):
        print(
            f"{size.name:<8}{name:<52}"
            + cell(predicted[name], ".4f", 11)
            + cell(taken[name], ".4f", 10)
            + ("  " + found["words"] if name == "searched" else ""),
            flush=True,
        )
    if best is None:
        print(f"{size.name:<8}no plan of the grid fits {budget_bytes / MIB:.1f} MiB", flush=True)
        return
    # What differs between two runs of one program is noise.
    is_same = result["programs"]["searched"] == result["programs"][best]
    ratio = 1.0 if is_same else taken["searched"] / taken[best]
    print(
        f"{size.name:<8}{budget_bytes / MIB:.1f} MiB of {plain['peak_bytes'] / MIB:.1f}, "
        f"{len(taken) - 1} of {2 * len(GRID)} plans by hand fit; ratio {ratio:.3f} (target <= 1.00)"
        + (", the same program\n" if is_same else "\n"),
        flush=True,
    )


def then_checkpoint(graph, case):
    """The search that knows of no memory, then what has to be made again for its words to fit."""
    first = searched(graph, case.cluster, "--max-bytes", "100000GiB", "--fix", "recompute=none")
    fixed = [word for part in first["words"].split(",") for word in ("--fix", part)]
    for word in ("tensor", "data", "pipeline", "zero", "micro-batches"):
        if not re.search(rf"(^|,){word}=", first["words"]):
            fixed += ["--fix", f"{word}={0 if word == 'zero' else 1}"]
    if "sequence" not in first["words"]:
        fixed += ["--forbid", "sequence"]
    return first["words"], searched(graph, case.cluster, *fixed)


def run_case(case):
    name = f"{case.model.partition(':')[2]}, {case.cluster}, {case.rows} rows"
    with tempfile.TemporaryDirectory() as folder:
        graph = pathlib.Path(folder, "step.graph")
        weft("capture", MODELS / case.model, *settings(case.options), "--batch-size", case.rows, "-o", graph)
        joint = searched(graph, case.cluster)
        try:
            words, then = then_checkpoint(graph, case)
            seconds = then["step_seconds"]
        except Refused as refused:
            words, seconds = str(refused), None
    ratio = None if seconds is None else joint["step_seconds"] / seconds
    kind = "simulated" if joint["is_simulated"] else "estimated"
    print(
        f"{name:<44}"
        + cell(seconds, ".4f", 10)
        + cell(joint["step_seconds"], ".4f", 10)
        + cell(ratio, ".3f", 8)
        + f"  {kind}"
    )
    print(f"    then   {words}\n    joint  {joint['words']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, one model, one case")
    parser.add_argument("--repeats", type=int, default=0, help="turns of every plan")
    parser.add_argument("--models", default="")
    add_cluster_option(parser)
    parser.add_argument("--no-runs", action="store_true", help="only the second table")
    parser.add_argument("--no-joint", action="store_true", help="only the first table")
    chosen = parser.parse_args()
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    names = chosen.models or ("gpt" if chosen.quick else ",".join(SIZES))
    if not chosen.no_runs:
        cluster = cluster_of(chosen)
        print(f"seconds a step, medians; 2 ranks, a core each; load {os.getloadavg()[0]:.1f}")
        print(f"{'model':<8}{'plan':<52}{'predicted':>11}{'measured':>10}")
        for name in names.split(","):
            run_model(SIZES[name], cluster, repeats)
    if not chosen.no_joint:
        print(f"{'seconds a step, predicted':<44}{'then':>10}{'joint':>10}{'ratio':>8}")
        for case in CASES[:1] if chosen.quick else CASES:
            run_case(case)


if __name__ == "__main__":
    main()
