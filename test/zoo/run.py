# SPDX-License-Identifier: Apache-2.0
"""Runs models of the zoo under plan kinds on real processes, many in one start.

    .venv/bin/python test/zoo/run.py                                      # everything
    .venv/bin/python test/zoo/run.py --models timm_images/* --kinds data,tensor

Writes one line of JSON a cell to build/zoo/results.jsonl; table.py makes docs/models.md of it. A cell that is already
there is run again only with --again.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import psutil
from cell import KINDS
from zoo import ROOT, names

HERE = pathlib.Path(__file__).parent
RESULTS = ROOT / "build" / "zoo" / "results.jsonl"
# Ranks that compute nothing for so long will never go on.
IDLE_SECONDS = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(ranks, results, cells, log):
    """The processes of one start, each a group of its own so that all of it can be ended."""
    port = str(free_port())
    processes = []
    for rank in range(ranks):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        if ranks > 1:
            environment |= {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
        processes.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "cell.py"), str(results), *cells],
                stdout=subprocess.DEVNULL,
                stderr=log.open("wb") if rank == 0 else subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        )
    return processes


def end(processes):
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def newest_commit():
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def entries(results):
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def cpu_seconds(processes):
    """What the processes have computed so far."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(process.pid).cpu_times()
            total += times.user + times.system
    return total


def watch(processes, part, seconds):
    """Waits until all cells are done, a process ends early, or a cell does not end; says which. What counts is what a
    cell computes, and whether it computes at all: on a busy machine the clock tells little."""
    done, since = 0, 0.0
    moved, moved_at = 0.0, time.monotonic()
    while True:
        used = cpu_seconds(processes)
        now = len(entries(part))
        if now > done:
            done, since = now, used
        if abs(used - moved) > 0.2:
            moved, moved_at = used, time.monotonic()
        codes = [process.poll() for process in processes]
        if all(code == 0 for code in codes):
            return ""
        if any(code not in (None, 0) for code in codes):
            time.sleep(1.0)
            return f"a process ended with {next(code for code in codes if code)}"
        if used - since > seconds * len(processes) + (60 if done == 0 else 0):
            return f"no end after {seconds:g} s of computing"
        if time.monotonic() - moved_at > IDLE_SECONDS:
            return f"the ranks wait for each other: none has computed for {IDLE_SECONDS} s"
        time.sleep(0.1)


def run_cells(ranks, cells, results, seconds, told=print):
    """Every (model, kind) of as many ranks, in as few starts as may be."""
    left = list(cells)
    commit = newest_commit()
    part = results.with_suffix(f".{os.getpid()}.part")
    log = results.with_suffix(f".{os.getpid()}.log")
    while left:
        now = left[:40]
        part.unlink(missing_ok=True)
        processes = start(ranks, part, [f"{model}={kind}" for model, kind in now], log)
        try:
            ending = watch(processes, part, seconds)
        finally:
            end(processes)
        found = {}
        for entry in entries(part):
            found.setdefault((entry["model"], entry["kind"]), entry)
        # A cell that was refused or has failed ends its ranks by itself, and what ended them is not the next cell's.
        last = ("failed", "refused") if ranks > 1 else ("failed",)
        is_told = any(entry["outcome"] in last for entry in found.values())
        if ending and len(found) < len(now) and not is_told:
            model, kind = next(cell for cell in now if cell not in found)
            tail = log.read_text(errors="replace")[-2000:]
            found[(model, kind)] = {"model": model, "kind": kind, "outcome": "failed", "message": ending, "trace": tail}
        with results.open("a") as file:
            for entry in found.values():
                file.write(json.dumps({**entry, "commit": commit}) + "\n")
                told(
                    f"{entry['outcome']:10} {entry['model']} {entry['kind']} {entry.get('message', '')[:160]}",
                    flush=True,
                )
        left = [cell for cell in left if cell not in found]
    part.unlink(missing_ok=True)
    log.unlink(missing_ok=True)


def suits(model, kind):
    """Whether a plan kind says anything of such a model: experts are split where there are some, space where there is."""
    package = model.partition("/")[0]
    if kind == "expert":
        return package == "hugging_face_experts" or "moe" in model
    if kind == "spatial":
        return package in (
            "timm_images",
            "torchvision_images",
            "diffusers_models",
            "monai_volumes",
            "segmentation_models",
        )
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="*", help="patterns of models, with commas")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=120, help="the most that one cell may take")
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    known = set() if arguments.again else {(entry["model"], entry["kind"]) for entry in entries(arguments.results)}
    chosen = [
        name for name in names() if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.models.split(","))
    ]
    for ranks in (1, 2):
        cells = [
            (name, kind)
            for name in chosen
            for kind in arguments.kinds.split(",")
            if KINDS[kind][1] == ranks and suits(name, kind) and (name, kind) not in known
        ]
        run_cells(ranks, cells, arguments.results, arguments.seconds)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "test" / "zoo"))
    main()
