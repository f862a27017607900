# SPDX-License-Identifier: Apache-2.0
"""How far predicted step times are from measured ones, on runs that others made and published.

`weft simulate --table` with the A100 preset, one set of constants for all rows, beside what two other simulators
report. Calculon's and vTrain's figures are those that vTrain's authors give for their whole set, of which the tables
here are a quarter; nobody gives any for Megatron-LM's table.
"""

import json
import os
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).with_name("data")
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


def percent(share):
    return "-" if share is None else f"{share:.2%}"


def main():
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


if __name__ == "__main__":
    main()
