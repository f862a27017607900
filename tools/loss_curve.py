#!/usr/bin/env python3
"""Draws the losses of a run as text: a line for each tenth of it.

tools/loss_curve.py run/metrics.jsonl
"""

import json
import pathlib
import sys

WIDTH = 50
LINES = 10


def main():
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    points = [(line["step"], line["loss"]) for line in map(json.loads, lines) if line.get("loss") is not None]
    if not points:
        sys.exit(f"{sys.argv[1]} holds no losses")
    size = -(-len(points) // LINES)
    parts = [points[begin : begin + size] for begin in range(0, len(points), size)]
    means = [sum(loss for _, loss in part) / len(part) for part in parts]
    for part, mean in zip(parts, means):
        bar = "#" * round(WIDTH * mean / max(means))
        print(f"steps {part[0][0]:>5} to {part[-1][0]:>5}  loss {mean:.3f}  {bar}")


if __name__ == "__main__":
    main()
