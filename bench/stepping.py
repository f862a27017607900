# SPDX-License-Identifier: Apache-2.0
"""Seconds and bytes of a training step, beside what PyTorch has.

    bench/step [--quick] [--repeats 5] [--sizes compute,communication,overhead]

One rank: eager PyTorch, torch.compile, Weft. Two ranks: DistributedDataParallel
over Gloo, Weft. A rank has one core, which it is pinned to, and one thread. The
arms take turns, step by step, in one process a rank; medians. The targets are
those of the project, printed beside what was measured: nothing here fails when
one is missed.

hidden: the share of the time on the communication stream that is not spent in
waits, from steps that were timed one instruction at a time.
predicted: `weft simulate` of the very program that ran, on this machine as `weft cluster measure` finds it.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from slow_link import Place

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_PROGRAM") or pathlib.Path(sys.executable).parent / "weft")
WORKER = pathlib.Path(__file__).with_name("stepping_worker.py")


@dataclasses.dataclass
class Size:
    name: str
    model: str
    options: dict
    # Steps a turn: short ones need more for a steady median.
    steps: int = 1
    one_rank_target: float | None = None
    two_rank_target: float | None = None
    is_timed: bool = True


GPT = {"layers": 6, "width": 384, "heads": 6, "vocabulary": 8192, "dropout": 0.0}
SIZES = {
    "compute": Size(
        "compute-bound", "gpt.gpt2_small", {**GPT, "sequence": 256, "batch_size": 8}, 1, 1.00, 1.00
    ),
    "communication": Size(
        "communication-heavy", "gpt.gpt2_small", {**GPT, "sequence": 64, "batch_size": 4}, 3, 1.00, 0.85
    ),
    "overhead": Size(
        "overhead-bound",
        "gpt.gpt2_small",
        {**GPT, "width": 128, "heads": 2, "sequence": 64, "batch_size": 1},
        10,
        0.60,
    ),
}  # fmt: skip
RESNET = Size("ResNet-50", "resnet.resnet50", {"image": 96, "batch_size": 8}, is_timed=False)
MEMORY_TARGET = 0.80
# A rank that computes all the time should have its core to itself.
UNDISTURBED = 0.95


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(processes):
    """The number of the first that failed, once all have ended; the others are not waited for then."""
    while any(process.poll() is None for process in processes):
        for number, process in enumerate(processes):
            if process.poll():
                for other in processes:
                    other.kill()
                return number
        time.sleep(0.05)
    return next((number for number, process in enumerate(processes) if process.returncode), None)


def work(what, size, ranks=1, places=None, **settings):
    """What rank 0 of a worker found, or the reason why there is nothing. `places` says where each rank runs
    (slow_link.py); without, here."""
    with tempfile.TemporaryDirectory() as folder:
        task = {"what": what, "model": size.model, "options": size.options, "steps": size.steps, **settings}
        task["meeting"] = f"{folder}/meeting"
        shared = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        processes = []
        for rank, place in enumerate(places or [Place()] * ranks):
            with open(f"{folder}/errors.{rank}", "w") as errors:
                processes.append(
                    subprocess.Popen(
                        [*place.command, sys.executable, WORKER, json.dumps(task), f"{folder}/result"],
                        env={
                            **shared,
                            **place.environment,
                            "RANK": str(rank),
                            "LOCAL_RANK": str(rank),
                            "OMP_NUM_THREADS": "1",
                        },
                        stderr=errors,
                    )
                )
        failed = wait_for(processes)
        if failed is not None:
            said = pathlib.Path(f"{folder}/errors.{failed}").read_text().strip().splitlines()
            return {"error": said[-1] if said else "ended without a word"}
        return json.loads(pathlib.Path(f"{folder}/result").read_text())


def add_cluster_option(parser):
    parser.add_argument("--cluster", help="a cluster file, in place of a measurement")


def cluster_of(chosen):
    """The text of the cluster that was chosen; else this machine is measured, with both cores busy."""
    if chosen.cluster:
        return pathlib.Path(chosen.cluster).read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "this.cluster")
        subprocess.run([WEFT, "cluster", "measure", "--ranks", "2", "-o", path], check=True)
        return path.read_text()


def simulated_events(program, cluster):
    """What `weft simulate` says of the program's text on the cluster of that text: rank, stream, seconds of start and
    end, and label of every instruction; none when it cannot tell."""
    with tempfile.TemporaryDirectory() as folder:
        path, timeline = pathlib.Path(folder, "step.program"), pathlib.Path(folder, "step.timeline")
        path.write_text(program)
        machines = pathlib.Path(folder, "machines.cluster")
        machines.write_text(cluster)
        command = [WEFT, "simulate", path, "--cluster", machines, "--timeline", timeline]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return []
        # rank, stream, instruction, start, end, "live", bytes, "label"
        events = [line.split(maxsplit=7) for line in timeline.read_text().splitlines()[1:]]
        return [
            (int(event[0]), event[1], float(event[3]), float(event[4]), event[7].strip('"'))
            for event in events
            if len(event) == 8
        ]


def simulated_seconds(program, cluster):
    """The end of the last of them; None when there is none."""
    return max((end for _, _, _, end, _ in simulated_events(program, cluster)), default=None)


def cell(value, form, width):
    text = value if isinstance(value, str) else "-" if value is None else format(value, form)
    return f"{text:>{width}}"


def ratio(part, whole):
    return part / whole if isinstance(part, float) and isinstance(whole, float) and whole > 0 else None


def predicted_cells(result, cluster):
    seconds = simulated_seconds(result["program"], cluster) if "program" in result else None
    error = ratio(seconds, result.get("weft"))
    return cell(seconds, ".4f", 11) + cell(None if error is None else error - 1, "+.0%", 8)


def step_rows(size, one, two, cluster):
    """One line for each number of ranks that was measured."""
    for ranks, result, base, target in [(1, one, "eager", size.one_rank_target), (2, two, "DDP", size.two_rank_target)]:
        if result is None:
            continue
        if "error" in result:
            yield f"{size.name:<22}{ranks:>5}  {result['error']}"
            continue
        yield (
            f"{size.name:<22}{ranks:>5}"
            + cell(result.get("eager"), ".4f", 9)
            + cell(result.get("torch.compile"), ".4f", 15)
            + cell(result.get("DDP"), ".4f", 9)
            + cell(result["weft"], ".4f", 9)
            + cell(ratio(result["weft"], result[base]), ".2f", 10)
            + cell(None if target is None else f"<= {target:.2f}", "", 9)
            + cell(result.get("hidden"), ".0%", 8)
            + predicted_cells(result, cluster)
        )


def memory_row(size, result):
    if "error" in result:
        return f"{size.name:<22}  {result['error']}"
    mib = 1 << 20
    return (
        f"{size.name:<22}"
        + cell(result["eager_bytes"] / mib, ".1f", 10)
        + cell(result["predicted_bytes"] / mib, ".1f", 12)
        + cell(result["used_bytes"] / mib, ".1f", 10)
        + cell(result["used_bytes"] / result["eager_bytes"], ".2f", 12)
        + cell(f"<= {MEMORY_TARGET:.2f}", "", 9)
    )


def names_of(parser, option, text, known):
    """The names in the text, each of them known; else ends with those that are."""
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{option}: there is no {name!r}; there are {', '.join(known)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, and no torch.compile")
    parser.add_argument("--repeats", type=int, default=0, help="turns of every arm")
    parser.add_argument("--sizes", default=",".join(SIZES))
    add_cluster_option(parser)
    chosen = parser.parse_args()
    repeats = chosen.repeats or (3 if chosen.quick else 7)
    sizes = [SIZES[name] for name in names_of(parser, "--sizes", chosen.sizes, SIZES)]
    settings = {"repeats": repeats, "compile": not chosen.quick}
    cluster = cluster_of(chosen)

    print(f"seconds a step, medians; {os.cpu_count()} cores, one a rank; load {os.getloadavg()[0]:.1f}")
    print(
        f"{'size':<22}{'ranks':>5}{'eager':>9}{'torch.compile':>15}{'DDP':>9}{'weft':>9}"
        f"{'ratio':>10}{'target':>9}{'hidden':>8}{'predicted':>11}{'error':>8}"
    )
    for size in sizes:
        one = work("steps", size, 1, **settings)
        two = work("steps", size, 2, **settings) if size.options["batch_size"] > 1 else None
        for row in step_rows(size, one, two, cluster):
            print(row, flush=True)
        if one.get("core_share", 1) < UNDISTURBED:
            print(f"  do not trust these: others took {1 - one['core_share']:.0%} of the core", flush=True)

    print(f"\n{'peak MiB, one rank':<22}{'eager':>10}{'predicted':>12}{'weft':>10}{'weft/eager':>12}{'target':>9}")
    for size in [*sizes, RESNET]:
        print(memory_row(size, work("memory", size)), flush=True)


if __name__ == "__main__":
    main()
