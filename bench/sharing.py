# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step on two ranks that share more than the batch, beside what PyTorch has.

    bench/parallel [--quick] [--repeats 5] [--sizes compute,communication]

Each rank has one core, which it is pinned to, and one thread. Weft and its peer take turns, step by step, in one
process a rank; medians. Tables stay whole in all tensor-parallel arms, so that both do the same work. The targets are
those of the project, printed beside what was measured: nothing here fails when one is missed.

peak: of the rank's arena for Weft, which is all that a step takes; peers have no such figure on a CPU.
"""

import argparse
import os

from stepping import SIZES, cell, ratio, work

# What Weft is told, the peer, and the target for each size.
PAIRS = [
    ("data=2,zero=3", "FSDP2", {"compute": 0.82, "communication": 0.60}),
    ("tensor=2,vocabulary=off", "DTensor", {"compute": 0.80, "communication": 0.80}),
    ("tensor=2,sequence,vocabulary=off", "DTensor", {"compute": 0.80, "communication": 0.80}),
]


def row(size, words, peer, target, result):
    if "error" in result:
        return f"{size.name:<22}{words:<36}{result['error']}"
    return (
        f"{size.name:<22}{words:<36}{peer:>9}"
        + cell(result[peer], ".4f", 9)
        + cell(result["weft"], ".4f", 9)
        + cell(ratio(result["weft"], result[peer]), ".2f", 8)
        + cell(f"<= {target:.2f}", "", 9)
        + cell(result.get("hidden"), ".0%", 8)
        + cell(result["used_bytes"] / (1 << 20), ".1f", 11)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--repeats", type=int, default=0, help="turns of both arms")
    parser.add_argument("--sizes", default="compute,communication")
    chosen = parser.parse_args()
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    print(f"seconds a step, medians; {os.cpu_count()} cores, two ranks; load {os.getloadavg()[0]:.1f}")
    print(
        f"{'size':<22}{'words':<36}{'peer':>9}{'peer s':>9}{'weft s':>9}{'ratio':>8}{'target':>9}{'hidden':>8}"
        f"{'peak MiB':>11}"
    )
    for name in chosen.sizes.split(","):
        for words, peer, targets in PAIRS:
            result = work("sharing", SIZES[name], 2, repeats=repeats, words=words, peer=peer)
            print(row(SIZES[name], words, peer, targets[name], result), flush=True)


if __name__ == "__main__":
    main()
