# SPDX-License-Identifier: Apache-2.0
"""Predicted beside measured step times of many plans on two ranks, a core each.

The machine is measured first (`weft cluster measure`), with both ranks busy, or read from --cluster. Then every plan of
a model runs by turns, and the program that ran is simulated on that cluster. At the end: the median and the worst
error, and the rank correlation of predicted and measured times, over all plans and within each model. The targets are
those of the project: nothing here fails when one is missed.

--calls shows where a prediction is off instead: what each operator and kind of transfer takes in a step of rank 0.
"""

import argparse
import os
import pathlib
import statistics

from stepping import Size, add_cluster_option, cell, cluster_of, simulated_events, simulated_seconds, work

GPT = {"layers": 6, "width": 384, "heads": 6, "vocabulary": 8192, "dropout": 0.0}
SMALL = {**GPT, "layers": 4, "width": 128, "heads": 4}
DEEP = {**GPT, "layers": 12, "width": 256, "heads": 4, "vocabulary": 2048}
OTHER = {"layers": 6, "width": 256, "heads": 4, "vocabulary": 4096, "sequence": 128, "batch_size": 8}
SIZES = [
    Size("gpt wide", "gpt.gpt2_small", {**GPT, "sequence": 256, "batch_size": 8}),
    Size("gpt short", "gpt.gpt2_small", {**GPT, "sequence": 64, "batch_size": 4}, 3),
    Size("gpt small", "gpt.gpt2_small", {**SMALL, "sequence": 128, "batch_size": 4}, 5),
    Size("gpt deep", "gpt.gpt2_small", {**DEEP, "sequence": 128, "batch_size": 8}, 2),
    Size("llama", "llama.tiny", {**OTHER, "hidden": 768}, 3),
    Size("bert", "bert.tiny", {**OTHER, "positions": 128, "dropout": 0.0}, 3),
]
WORDS = [
    "data=2",
    "data=2,zero=1",
    "data=2,zero=3",
    "tensor=2",
    "tensor=2,sequence",
    "pipeline=2,schedule=1f1b,micro-batches=4",
    "pipeline=2,schedule=gpipe,micro-batches=2",
]
MEDIAN_TARGET, WORST_TARGET, ORDER_TARGET = 0.08, 0.20, 0.9


def places(values):
    """Of each value in order, from 0 on."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0] * len(values)
    for place, number in enumerate(order):
        found[number] = place
    return found


def rank_correlation(a, b):
    return statistics.correlation(places(a), places(b)) if len(a) > 1 else float("nan")


def plans_of(size, words, repeats, cluster):
    """(words, measured, predicted) of every plan that the model allows."""
    result = work("slicing", size, 2, arms={each: each for each in words}, repeats=repeats)
    if "error" in result:
        print(f"{size.name:<12}{result['error']}", flush=True)
        return
    for each, reason in result["refused"].items():
        print(f"{size.name:<12}{each:<44}  {reason.split(';')[0]}", flush=True)
    for each, taken in result["seconds"].items():
        predicted = simulated_seconds(result["programs"][each], cluster)
        if predicted is not None:
            yield each, taken, predicted


def what(label):
    """An instruction by its operator, or by what it does."""
    return label.partition(" = ")[2] if " = " in label else label.split()[0]


def by_kind(events):
    """Calls and seconds of (label, stream, seconds) by what they are. A transfer has its own time, not its waits'."""
    kinds = {}
    for label, stream, taken in events:
        name = what(label) if stream == "compute" else f"({what(label)})"
        count, total = kinds.get(name, (0, 0.0))
        kinds[name] = (count + 1, total + taken)
    return kinds


def print_calls(size, words, repeats, cluster):
    result = work("calls", size, 2, arms={each: each for each in words}, repeats=repeats)
    if "error" in result:
        print(f"{size.name:<12}{result['error']}", flush=True)
        return
    for each, found in result.items():
        measured = by_kind(found["events"])
        predicted = by_kind(
            (label, stream, end - start)
            for rank, stream, start, end, label in simulated_events(found["program"], cluster)
            if rank == 0
        )
        print(f"\n{size.name}, {each}\n{'':<58}{'calls':>6}{'measured':>12}{'predicted':>12}{'off by':>12}  (ms)")
        off = {name: predicted.get(name, (0, 0.0))[1] - measured[name][1] for name in measured}
        for name in sorted(off, key=lambda name: -abs(off[name])):
            count, taken = measured[name]
            if taken + abs(off[name]) > 1e-5:
                times = "".join(f"{1e3 * value:>12.3f}" for value in (taken, taken + off[name]))
                print(f"{name:<58}{count:>6}{times}{1e3 * off[name]:>+12.3f}")
        alone = [name for name in off if not name.startswith("(")]
        total = sum(measured[name][1] for name in alone)
        print(
            f"{'all that a rank does':<64}{1e3 * total:>12.3f}{1e3 * (total + sum(off[n] for n in alone)):>12.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, two models")
    parser.add_argument("--repeats", type=int, default=0, help="turns of every plan")
    add_cluster_option(parser)
    parser.add_argument("--keep", help="where to write the measured cluster")
    parser.add_argument("--calls", metavar="WORDS", help="of plans (';' between them), what takes how long")
    parser.add_argument("--models", default="", help="some of them: gpt wide,llama")
    chosen = parser.parse_args()
    sizes = [size for size in SIZES if not chosen.models or size.name in chosen.models.split(",")]
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    cluster = cluster_of(chosen)
    if chosen.keep:
        pathlib.Path(chosen.keep).write_text(cluster)
    if chosen.calls:
        for size in sizes[:2] if chosen.quick else sizes:
            print_calls(size, chosen.calls.split(";"), repeats, cluster)
        return

    print(f"seconds a step, medians; 2 ranks, a core each; load {os.getloadavg()[0]:.1f}")
    print(f"{'model':<12}{'plan':<44}{'measured':>10}{'predicted':>11}{'error':>8}")
    taken, predicted, orders = [], [], []
    for size in sizes[:2] if chosen.quick else sizes:
        rows = list(plans_of(size, WORDS, repeats, cluster))
        for words, seconds, expected in rows:
            error = expected / seconds - 1
            print(
                f"{size.name:<12}{words:<44}"
                + cell(seconds, ".4f", 10)
                + cell(expected, ".4f", 11)
                + cell(error, "+.1%", 8),
                flush=True,
            )
            taken.append(seconds)
            predicted.append(expected)
        if len(rows) > 1:
            orders.append(rank_correlation([row[1] for row in rows], [row[2] for row in rows]))
    errors = [abs(expected / seconds - 1) for seconds, expected in zip(taken, predicted, strict=True)]
    print(f"\nplans              {len(errors)}")
    print(f"median error       {statistics.median(errors):.1%}  (target {MEDIAN_TARGET:.0%})")
    print(f"worst error        {max(errors):.1%}  (target {WORST_TARGET:.0%})")
    print(f"rank correlation   {rank_correlation(taken, predicted):.3f}  (target {ORDER_TARGET})")
    print(f"  within a model   {statistics.mean(orders):.3f} on average")


if __name__ == "__main__":
    main()
