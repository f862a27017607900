# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step as a pipeline of four ranks over slices of long sequences, beside micro-batches alone.

    bench/terapipe [--quick] [--repeats 5] [--batches 1,2,4] [--slices 4,8,16,auto]

A GPT of 8 layers on sequences of 2048 tokens, four stages on four ranks. With one sequence, micro-batches leave three
stages of four idle; slices of the sequence fill them (TeraPipe), and the more sequences there are the less they gain.
`gpipe` has as many micro-batches as sequences; `slices=N` cuts each into N equal parts as well; `slices=auto` cuts
where the dynamic programme says. Ratios are to gpipe; all arms take turns, step by step, in the same processes;
medians.

Every rank has 0.4 of a core by a control group, whatever the others do: two cores do the work of four small ones, and
what is left over is for all else that runs here. Where this machine has no such groups, two ranks are pinned to a core,
and the table says so: then a rank that waits lends its half to its neighbour, which makes idle stages cheaper than they
are.
predicted: `weft simulate` of the program that ran, on this machine as measured, its devices of 0.4 of the rate; `error`
is its distance from the measured step.
"""

import argparse
import contextlib
import os

from core_share import NoShare, core_shares
from stepping import Size, add_cluster_option, cell, cluster_of, ratio, simulated_seconds, work

RANKS = 4
SHARE = 0.4
MODEL = {"layers": 8, "width": 256, "heads": 4, "vocabulary": 1024, "sequence": 2048, "dropout": 0.0}


def at_share(cluster, share, ranks):
    """The cluster's text with so many devices, of that share of the rate and of the memory's."""
    lines = []
    for line in cluster.splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and name.split()[0] in ("flops_per_second", "memory_bytes_per_second"):
            line = f"{name}= {float(value) * share:g}"
        elif is_setting and name.strip() == "call_seconds":
            line = f"{name}= {float(value) / share:g}"
        elif line.startswith("group "):
            line = f"{name}= {ranks} x {value.split(' x ')[1]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def arms_of(batch_size, slices):
    pipeline = f"pipeline={RANKS}" + (f",micro-batches={batch_size}" if batch_size > 1 else "")
    return {"gpipe": f"{pipeline},schedule=gpipe"} | {
        f"slices={count}": f"{pipeline},schedule=token,slices={count}" for count in slices
    }


def table(batch_size, slices, repeats, places, cluster):
    size = Size(f"batch {batch_size}", "piping_arms.untied_gpt", {**MODEL, "batch_size": batch_size})
    arms = arms_of(batch_size, slices)
    result = work("slicing", size, RANKS, places, arms=arms, repeats=repeats)
    if "error" in result:
        print(f"batch {batch_size}: {result['error']}", flush=True)
        return
    base = result["seconds"]["gpipe"]
    for name in arms:
        taken = result["seconds"].get(name)
        if taken is None:
            print(f"{batch_size:<7}{name:<12}  {result['refused'][name].split(';')[0]}", flush=True)
            continue
        predicted = simulated_seconds(result["programs"][name], cluster)
        error = ratio(predicted, taken)
        print(
            f"{batch_size:<7}{name:<12}"
            + cell(taken, ".4f", 9)
            + cell(ratio(taken, base), ".2f", 9)
            + cell(predicted, ".4f", 11)
            + cell(None if error is None else error - 1, "+.0%", 7),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, batches of 1 and 4")
    parser.add_argument("--repeats", type=int, default=0, help="turns of every arm")
    parser.add_argument("--batches", default="")
    parser.add_argument("--slices", default="4,8,16,auto")
    add_cluster_option(parser)
    chosen = parser.parse_args()
    repeats = chosen.repeats or (3 if chosen.quick else 5)
    batches = chosen.batches or ("1,4" if chosen.quick else "1,2,4")
    cluster = at_share(cluster_of(chosen), SHARE, RANKS)
    with contextlib.ExitStack() as stack:
        try:
            places, share = stack.enter_context(core_shares(RANKS, SHARE)), f"{SHARE} core a rank, by control groups"
        except NoShare as reason:
            places, share = None, f"two ranks a core, pinned, and no limit ({reason})"
        print(f"seconds a step, medians; {RANKS} ranks, {share}; load {os.getloadavg()[0]:.1f}")
        print(f"{'batch':<7}{'words':<12}{'s':>9}{'/ gpipe':>9}{'predicted':>11}{'error':>7}")
        for batch_size in map(int, batches.split(",")):
            table(batch_size, chosen.slices.split(","), repeats, places, cluster)


if __name__ == "__main__":
    main()
