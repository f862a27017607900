# SPDX-License-Identifier: Apache-2.0
"""Seconds and bytes of a training step on two ranks that share more than the batch, beside what PyTorch has.

    bench/parallel [--quick] [--repeats 5] [--sizes compute,communication] [--peers FSDP2,DTensor] [--link shared,1gbit]

Each rank has one core, which it is pinned to, and one thread. Weft and its peer take turns, step by step, in one
process a rank; medians. Tables stay whole in all tensor-parallel arms, so that both do the same work. The targets are
those of the project, printed beside what was measured: nothing here fails when one is missed.

link: `shared`, both ranks on this machine, where Weft reads its neighbour's memory and the peers use Gloo; `1gbit`,
each in a network namespace of its own with 1 Gbit/s between them, where all use Gloo. The latter needs root.
hidden: the share of the time on the communication stream that is not spent in waits.
predicted: `weft simulate` of the program that ran, on this machine as measured, with that link; `error` is its distance
from the measured step.
MiB: the most that one rank has in a step, each arm in processes of its own: what the CPU allocator gives and, for Weft,
its arena.
"""

import argparse
import os

from slow_link import RATE_BITS, NoLink, slow_link
from stepping import SIZES, add_cluster_option, cell, cluster_of, names_of, ratio, simulated_seconds, work

# What Weft is told, the peer, and the target for each size.
PAIRS = [
    ("data=2,zero=3", "FSDP2", {"compute": 0.82, "communication": 0.60}),
    ("tensor=2,vocabulary=off", "DTensor", {"compute": 0.80, "communication": 0.80}),
    ("tensor=2,sequence,vocabulary=off", "DTensor+SP", {"compute": 0.80, "communication": 0.80}),
    ("data=2,zero=2", "DeepSpeed-2", {"compute": 0.82, "communication": 0.60}),
    ("data=2,zero=3", "DeepSpeed-3", {"compute": 0.82, "communication": 0.60}),
]
MEMORY_TARGET = 0.90
MIB = 1 << 20


def at_rate(cluster, rate_bits):
    """The cluster's text with links between ranks of that rate, which all transfers reach and no core works for."""
    lines, is_group = [], False
    for line in cluster.splitlines():
        is_group = is_group or line.startswith("group ")
        name, _, _ = line.partition("=")
        if is_group and name.strip() == "bytes_per_second":
            line = f"{name}= {rate_bits / 8:g}"
        if not is_group or name.split()[0] not in ("efficiency", "device_share"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def row(size, words, peer, target, result, memory, cluster):
    if "error" in result:
        return f"{size.name:<22}{words:<34}{peer:>12}  {result['error']}"
    predicted = simulated_seconds(result["program"], cluster)
    error = ratio(predicted, result["weft"])
    ours, theirs = (memory[arm].get("bytes") for arm in ("weft", peer))
    return (
        f"{size.name:<22}{words:<34}{peer:>12}"
        + cell(result[peer], ".4f", 9)
        + cell(result["weft"], ".4f", 9)
        + cell(ratio(result["weft"], result[peer]), ".2f", 7)
        + cell(f"<= {target:.2f}", "", 9)
        + cell(result["hidden"], ".0%", 8)
        + cell(predicted, ".4f", 11)
        + cell(None if error is None else error - 1, "+.0%", 7)
        + cell(None if theirs is None else theirs / MIB, ".1f", 10)
        + cell(None if ours is None else ours / MIB, ".1f", 10)
        + cell(None if None in (ours, theirs) else ours / theirs, ".2f", 7)
        + cell(f"<= {MEMORY_TARGET:.2f}", "", 9)
    )


def table(chosen, repeats, link, places, cluster):
    print(f"\nlink {link}")
    print(
        f"{'size':<22}{'words':<34}{'peer':>12}{'peer s':>9}{'weft s':>9}{'ratio':>7}{'target':>9}{'hidden':>8}"
        f"{'predicted':>11}{'error':>7}{'peer MiB':>10}{'weft MiB':>10}{'ratio':>7}{'target':>9}"
    )
    for name in chosen.sizes:
        for words, peer, targets in PAIRS:
            if peer not in chosen.peers:
                continue
            settings = {"words": words, "peer": peer, "repeats": repeats, "places": places}
            result = work("sharing", SIZES[name], 2, **settings)
            memory = {"weft": {}, peer: {}}
            if "error" not in result and not chosen.no_memory:
                memory = {arm: work("sharing_memory", SIZES[name], 2, arm=arm, **settings) for arm in memory}
            print(row(SIZES[name], words, peer, targets[name], result, memory, cluster), flush=True)
            for arm, found in memory.items():
                if "error" in found:
                    print(f"  memory of {arm} not measured: {found['error']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--repeats", type=int, default=0, help="turns of both arms")
    parser.add_argument("--sizes", default="compute,communication")
    peers = list(dict.fromkeys(peer for _, peer, _ in PAIRS))
    parser.add_argument("--peers", default=",".join(peers))
    parser.add_argument("--link", default="shared", help="shared, 1gbit, or both: shared,1gbit")
    parser.add_argument("--no-memory", action="store_true", help="seconds only")
    add_cluster_option(parser)
    chosen = parser.parse_args()
    chosen.sizes = names_of(parser, "--sizes", chosen.sizes, ["compute", "communication"])
    chosen.peers = names_of(parser, "--peers", chosen.peers, peers)
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    cluster = cluster_of(chosen)
    print(f"seconds a step, medians; {os.cpu_count()} cores, two ranks; load {os.getloadavg()[0]:.1f}")
    for link in chosen.link.split(","):
        if link == "shared":
            table(chosen, repeats, link, None, cluster)
        elif link == "1gbit":
            try:
                with slow_link() as places:
                    table(chosen, repeats, link, places, at_rate(cluster, RATE_BITS))
            except NoLink as reason:
                print(f"\nlink {link}: not measured here: {reason}")
        else:
            parser.error(f"there is no link {link!r}: shared or 1gbit")


if __name__ == "__main__":
    main()
