# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step as a pipeline of two ranks, beside torch.distributed.pipelining.

    bench/pipeline [--quick] [--repeats 5] [--micro-batches 4,8]

The compute-bound GPT of bench/step, its head with a weight of its own. Each rank has one core, which it is pinned to,
and one thread; all arms take turns, step by step, in the same processes; medians. The peer is over Gloo, with stages
cut by hand. Under `cut`, `layers` has the same layers in each stage for both (3 and 3; 2, 1, 2 and 1 where there are
four stages), and `weft` where Weft's words put them. The targets are those of the project, printed beside what was
measured: nothing here fails when one is missed.

ideal: half of what the same step takes Weft on one rank. `share` is ideal / measured.
predicted: `weft simulate` of the program that ran, on this machine as `weft cluster measure` finds it; `error` is its
distance from the measured.
"""

import argparse
import dataclasses
import os

from stepping import SIZES, add_cluster_option, cell, cluster_of, ratio, simulated_seconds, work

# Where stages begin, but for the first.
CUTS = {"gpipe": [3], "1f1b": [3], "interleaved": [2, 3, 5]}
# Weft's own, with its own cut.
OTHERS = ["1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]
SAME_TARGET, BEST_TARGET = 1.00, 0.88


def row(schedule, arm, cut, taken, peer, target, ideal, predicted):
    error = ratio(predicted, taken)
    return (
        f"  {schedule:<13}{arm:<8}{cut:<8}"
        + cell(taken, ".4f", 9)
        + cell(ratio(taken, peer), ".2f", 7)
        + cell(None if target is None else f"<= {target:.2f}", "", 9)
        + cell(ratio(ideal, taken), ".0%", 8)
        + cell(predicted, ".4f", 11)
        + cell(None if error is None else error - 1, "+.0%", 7)
    )


def table(size, count, repeats, ideal, cluster):
    result = work("piping", size, 2, micro_batches=count, cuts=CUTS, others=OTHERS, repeats=repeats)
    print(f"\n{count} micro-batches, ideal {ideal:.4f} s")
    if "error" in result:
        print(f"  {result['error']}")
        return
    print(
        f"  {'schedule':<13}{'arm':<8}{'cut':<8}{'s':>9}{'ratio':>7}{'target':>9}{'share':>8}{'predicted':>11}"
        f"{'error':>7}"
    )
    taken = result["seconds"]
    for schedule in CUTS:
        peer, ours = taken[f"torch {schedule}"], taken[f"layers {schedule}"]
        print(row(schedule, "torch", "layers", peer, None, None, ideal, None))
        predicted = simulated_seconds(result["programs"][f"layers {schedule}"], cluster)
        print(row(schedule, "weft", "layers", ours, peer, SAME_TARGET, ideal, predicted))
    best_peer = min(taken[f"torch {schedule}"] for schedule in CUTS)
    ours = {name: seconds for name, seconds in taken.items() if not name.startswith("torch ")}
    best = min(ours, key=ours.get)
    for schedule in OTHERS:
        name = f"weft {schedule}"
        target = BEST_TARGET if name == best else None
        predicted = simulated_seconds(result["programs"][name], cluster)
        print(row(schedule, "weft", "weft", taken[name], best_peer, target, ideal, predicted))
    print(f"  best of weft / best of torch: {best}, {ours[best] / best_peer:.2f} (<= {BEST_TARGET:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--repeats", type=int, default=0, help="turns of every arm")
    parser.add_argument("--micro-batches", default="4,8")
    add_cluster_option(parser)
    chosen = parser.parse_args()
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    size = dataclasses.replace(SIZES["compute"], model="piping_arms.untied_gpt")
    cluster = cluster_of(chosen)
    print(f"seconds a step, medians; {os.cpu_count()} cores, two ranks; load {os.getloadavg()[0]:.1f}")
    alone = work("steps", size, 1, repeats=repeats, compile=False)
    if "error" in alone:
        raise SystemExit(alone["error"])
    print(f"one rank: eager {alone['eager']:.4f}, weft {alone['weft']:.4f}", flush=True)
    for count in map(int, chosen.micro_batches.split(",")):
        table(size, count, repeats, alone["weft"] / 2, cluster)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
