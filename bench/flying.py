# SPDX-License-Identifier: Apache-2.0
"""What the flight record costs.

    bench/flight [--pairs 8] [--steps 200] [--sizes overhead]

`weft train` on one rank and on two (tensor=2), each pinned to a core, with the record and without by turns: the median step of
every run, its first steps left out, then the median of the runs. `range` is what runs of one arm differ by.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from stepping import ROOT, SIZES, WEFT

# The first steps touch memory for the first time.
WARM_UP = 20
ARMS = {"without": {"WEFT_FLIGHT_RECORD": "off"}, "with": {}}


def captured(size, folder):
    module, _, function = size.model.partition(".")
    graph = folder / f"{size.name}.graph"
    settings = [word for key, value in size.options.items() for word in ("--set", f"{key}={value}")]
    model = f"{ROOT}/examples/models/{module}.py:{function}"
    subprocess.run([WEFT, "capture", model, "-o", graph, "--python", sys.executable, *settings], check=True)
    return graph


def step_seconds(graph, data, folder, words, steps, variables):
    """The median of one run."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        command = [WEFT, "train", graph, "--data", data, "--parallel", words, "--pin"]
        command += ["--steps", str(steps), "--quiet", "--output", f"{output}/run"]
        environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        lines = pathlib.Path(output, "run", "metrics.jsonl").read_text().splitlines()
        return statistics.median(json.loads(line)["step_seconds"] for line in lines[WARM_UP:])


def compare(graph, data, folder, words, chosen):
    taken = {arm: [] for arm in ARMS}
    for number in range(chosen.pairs):
        for arm in list(ARMS)[:: 1 if number % 2 == 0 else -1]:
            taken[arm].append(step_seconds(graph, data, folder, words, chosen.steps, ARMS[arm]))
    medians = {arm: statistics.median(values) for arm, values in taken.items()}
    cells = [
        f"{arm} {1e3 * medians[arm]:.3f} ms (range {1e3 * min(values):.3f} to {1e3 * max(values):.3f})"
        for arm, values in taken.items()
    ]
    return f"{'; '.join(cells)}: {medians['with'] / medians['without'] - 1:+.2%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sizes", default="overhead")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "words.txt"
        data.write_text("the step of the graph of the plan " * 20_000)
        for size in chosen.sizes.split(","):
            graph = captured(SIZES[size], folder)
            for words in ("data=1", "tensor=2"):
                print(f"{size}, {words}: {compare(graph, data, folder, words, chosen)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
