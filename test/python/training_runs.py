# SPDX-License-Identifier: Apache-2.0
"""Runs of `weft train` as real processes, to be watched, hurt and resumed."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = pathlib.Path(os.environ.get("WEFT_PROGRAM") or pathlib.Path(sys.executable).parent / "weft")
GPT = ROOT / "examples" / "models" / "gpt.py"


def make_text(folder, size_bytes=40_000):
    """Words in an order that repeats, so that there is something to learn."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["step", "graph", "plan", "ranks", "read", "in", "order\n", "text", "is", "and", "that"]
    text = " ".join(words[(i * i + i // 7) % len(words)] for i in range(size_bytes // 4))
    (folder / "words.txt").write_text(text[:size_bytes])
    return folder


def capture(model, output, *more):
    """The path of the graph: it saves later runs the time of starting Python."""
    subprocess.run([WEFT, "capture", model, "-o", output, "--python", sys.executable, *more], check=True)
    return output


def environment(**extra):
    """Ours, without what another start of ranks has left in it."""
    kept = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "WEFT_START")}
    return {**kept, "WEFT_PYTHON": sys.executable, **{key: str(value) for key, value in extra.items()}}


def metrics(output):
    """The lines of metrics.jsonl that are whole."""
    path = pathlib.Path(output) / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def losses(output):
    """By step. A step that is there twice fails the test."""
    steps = [line["step"] for line in metrics(output) if "loss" in line]
    assert steps == sorted(set(steps)), f"{output}: steps are there twice or out of order"
    return {line["step"]: line["loss"] for line in metrics(output) if "loss" in line}


def train_tiny(model, data, output, *more, steps):
    """The losses of `weft train` on an example's `tiny`, which must end well."""
    done = subprocess.run(
        [WEFT, "train", f"{ROOT}/examples/models/{model}.py:tiny", "--data", data, "--steps", str(steps), "--seed", "1"]
        + ["--output", output, *more],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return losses(output)


def checkpoints(output):
    """Whole ones by step, with the last first."""
    found = [path for path in pathlib.Path(output).glob("step-*") if path.name[5:].isdigit()]
    return sorted(found, key=lambda path: -int(path.name[5:]))


def children(pid):
    """Of one process: pids by rank where RANK is set, for those that are still alive."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) != pid or state == "Z":
                continue
            variables = dict(text.partition("=")[::2] for text in (entry / "environ").read_bytes().decode().split("\0"))
            if "RANK" in variables:
                found[int(variables["RANK"])] = int(entry.name)
    return found


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Run:
    """`weft train MODEL ...`, started and not waited for."""

    def __init__(self, arguments, output, command=(WEFT,), **variables):
        self.output = pathlib.Path(output)
        self.process = subprocess.Popen(
            [*map(str, command), "train", *map(str, arguments), "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*children(self.process.pid).values(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def wait_for(self, what, seconds=60):
        """Polls until `what()` is true; fails when the run ends before."""
        end = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, f"ended before: {self.process.communicate()}"
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.002)

    def wait_for_step(self, step):
        self.wait_for(lambda: any(line["step"] >= step for line in metrics(self.output)[-1:]))

    def ranks(self):
        return children(self.process.pid)

    def end(self, seconds=60):
        """(exit status, standard output, standard error) once it has ended."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err


def finish(arguments, output, seconds=120, **variables):
    """One whole run: (exit status, standard output, standard error)."""
    with Run(arguments, output, **variables) as run:
        return run.end(seconds)


def errors(text):
    return [line for line in text.splitlines() if line.startswith("weft: error: ")]
