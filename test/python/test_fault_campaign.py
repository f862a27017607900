# SPDX-License-Identifier: Apache-2.0
"""Any fault at any moment under any plan: the rank is named, nothing hangs beyond twice the heartbeat, nothing is left
behind, no checkpoint is half, and the run that goes on has the losses of one that nothing happened to.

WEFT_FAULTS says how many of them a campaign draws (300), WEFT_FAULT_SEED which."""

import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from faults import (
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    NAMED_SECONDS,
    STALL_SECONDS,
    Group,
    WatchedRun,
    last_marks,
    make_eio_shim,
)
from training_runs import GPT, ROOT, WEFT, capture, checkpoints, finish, losses, make_text, metrics

sys.path.insert(0, str(ROOT / "bench"))
from slow_link import NoLink, slow_link  # noqa: E402 - found by the line above

STEPS = 60
SAVE_EVERY = 10
PLANS = {
    "data=2": 2,
    "tensor=2": 2,
    "data=2,zero=3": 2,
    "pipeline=2,micro-batches=4": 2,
    "pipeline=2,schedule=zb-h1,micro-batches=4": 2,
    "pipeline=2,data=2,micro-batches=2": 4,
    "data=4": 4,
}
SIGNALS = ["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGSEGV"]
MOMENTS = ["start-up", "rendezvous", "first step", "save", "publish", "evaluation", "resume", "exit"]
# What a moment may be met with.
KINDS = {
    **{moment: [*SIGNALS, "slow rank"] for moment in MOMENTS},
    "capture": SIGNALS,
}
KINDS["start-up"] = [*KINDS["start-up"], "memory"]
KINDS["first step"] = [*KINDS["first step"], "lost link", "slow link"]
KINDS["resume"] = [*KINDS["resume"], "memory"]
KINDS["save"] = [*KINDS["save"], "full disk", "I/O error"]
KINDS["exit"] = [*KINDS["exit"], "full disk", "I/O error"]
# Lost within this many bytes: less than any rank needs to begin.
TIGHT_BYTES = 24 << 20
END_SECONDS = STALL_SECONDS + HEARTBEAT_SECONDS + LATE_SECONDS


class Bench:
    """What all cases share: a model, data, and the losses of runs that nothing happened to."""

    def __init__(self, folder):
        self.folder = folder
        self.graph = capture(f"{GPT}:tiny", folder / "tiny.graph", "--set", "layers=4")
        self.data = make_text(folder / "data")
        self.shim = make_eio_shim(folder)
        self.known = {}

    def arguments(self, plan, moment):
        python = moment in ("capture", "evaluation")
        model = [f"{GPT}:tiny", "--set", "layers=4"] if python else [self.graph]
        more = ["--evaluate-every", 3] if moment == "evaluation" else []
        return [*model, "--data", self.data, "--parallel", plan, "--steps", STEPS, "--save-every", SAVE_EVERY, *more]

    def undisturbed(self, plan, moment):
        key = plan, moment in ("capture", "evaluation"), moment == "evaluation"
        if key not in self.known:
            output = self.folder / f"undisturbed-{len(self.known)}"
            status, _, err = finish(self.arguments(plan, moment), output)
            assert status == 0, err
            size = sum(path.stat().st_size for path in checkpoints(output)[0].rglob("*"))
            self.known[key] = losses(output), size
        return self.known[key]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    reason = Group.missing()
    if reason:
        pytest.skip(reason)
    return Bench(tmp_path_factory.mktemp("faults"))


class Case:
    def __init__(self, bench, plan, kind, moment, output, rank):
        self.bench, self.plan, self.kind, self.moment = bench, plan, kind, moment
        self.output, self.rank = pathlib.Path(output), rank
        self.arguments = bench.arguments(plan, moment)
        self.wrong = []
        self.before = self.shared_memory()

    def __str__(self):
        return f"{self.kind} at {self.moment} of rank {self.rank}, {self.plan}"

    def check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    @staticmethod
    def shared_memory():
        return {name for name in os.listdir("/dev/shm") if "weft" in name}

    def run(self):
        """What was wrong; empty: nothing."""
        undisturbed, checkpoint_bytes = self.bench.undisturbed(self.plan, self.moment)
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(Group("fault"))
            if self.kind == "full disk":
                stack.enter_context(self.small_disk(int(2.5 * checkpoint_bytes) + (1 << 20)))
            if self.kind in ("lost link", "slow link"):
                self.run_linked(group)
            else:
                self.run_here(group, stack)
            self.judge_left_behind(group)
            if self.kind == "full disk":
                subprocess.run(["mount", "-o", "remount,size=256m", self.output.parent], check=True)
            self.judge_resumed(undisturbed)
        return self.wrong

    @contextlib.contextmanager
    def small_disk(self, size_bytes):
        folder = self.output.parent
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", folder], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", folder], check=True)

    def run_here(self, group, stack):
        arguments = self.arguments
        if self.moment == "resume":
            status, _, err = finish([*self.cut(arguments, 2 * SAVE_EVERY)], self.output)
            assert status == 0, err
            arguments = [*arguments, "--resume"]
        variables = {"WEFT_STALL_SECONDS": STALL_SECONDS}
        if self.kind == "I/O error":
            variables |= {"LD_PRELOAD": self.bench.shim, "WEFT_TEST_EIO": self.output.parent / "eio"}
        command = group.command(WEFT)
        with WatchedRun(arguments, self.output, command=command, **variables) as run:
            self.hurt(run, stack)

    @staticmethod
    def cut(arguments, steps):
        return [steps if before == "--steps" else each for before, each in zip([None, *arguments], arguments)]

    # Moments.

    def is_there(self, run):
        if self.kind == "memory":
            # Later, little more is asked for.
            return self.rank in run.ranks()
        marks = last_marks(self.output, self.rank, 48)
        last_step = (metrics(self.output) or [{"step": 0}])[-1]["step"]
        return {
            "start-up": lambda: self.rank in run.ranks(),
            "rendezvous": lambda: marks[:1] == ["meeting"],
            "first step": lambda: marks[:1] == ["instruction"] and "feeding" in marks,
            "save": lambda: any(self.output.glob("step-*.partial*")),
            "publish": lambda: "publishing" in marks[:4],
            "evaluation": lambda: "evaluating" in marks,
            "resume": lambda: "loading" in marks,
            "exit": lambda: last_step >= STEPS,
            "capture": lambda: self.capturing(run) is not None,
        }[self.moment]()

    @staticmethod
    def capturing(run):
        """The process of Python that captures, once it has begun."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == run.process.pid and "torch" in (entry / "maps").read_text():
                    return int(entry.name)
        return None

    def reach(self, run):
        held = None
        if self.moment == "rendezvous":
            # One that is late keeps the others where they are.
            late = (self.rank + 1) % PLANS[self.plan]
            run.wait_for(lambda: late in run.ranks())
            held = run.ranks()[late]
            os.kill(held, signal.SIGSTOP)
        try:
            run.wait_for(lambda: self.is_there(run))
        except AssertionError:
            # Gone by before it was seen: what there is to judge is the end.
            assert run.process.poll() is not None, "the moment did not come"
        return held

    # Faults.

    def hurt(self, run, stack):
        held = self.reach(run)
        pid = self.capturing(run) if self.moment == "capture" else run.ranks().get(self.rank)
        since = time.monotonic()
        is_over = run.process.poll() is not None or pid is None
        if not is_over:
            try:
                self.do(run, pid, stack)
            except ProcessLookupError:
                is_over = True
        if held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(held, signal.SIGCONT)
        status, _, err = run.end(120)
        seconds = time.monotonic() - since - (1.5 if self.kind == "memory" else 0)
        if is_over or (self.moment == "exit" and status == 0):
            self.check(status == 0, f"it ended with {status} before the fault: {err}")
        else:
            self.judge(run, status, err, seconds, since)

    def do(self, run, pid, stack):
        if self.kind in ("SIGTERM", "SIGINT"):
            run.process.send_signal(signal.Signals[self.kind])
        elif self.kind in SIGNALS:
            os.kill(pid, signal.Signals[self.kind])
        elif self.kind == "memory":
            tight = stack.enter_context(Group("tight", memory_bytes=TIGHT_BYTES))
            # A launcher looks once a second in which group a rank is.
            os.kill(pid, signal.SIGSTOP)
            tight.add(pid)
            time.sleep(1.5)
            os.kill(pid, signal.SIGCONT)
        elif self.kind == "slow rank":
            for _ in range(3):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.6)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.1)
        elif self.kind == "I/O error":
            (self.output.parent / "eio").touch()

    # Outcomes.

    def judge(self, run, status, err, seconds, since):
        name = f"rank {self.rank}"
        if self.moment == "capture":
            name = "the Python process"
        if self.kind in ("SIGKILL", "SIGSEGV", "memory"):
            number = 11 if self.kind == "SIGSEGV" else 9
            # A capture that ends is a mistake of the model, as far as anyone knows.
            is_capture = self.moment == "capture"
            self.check(status == (2 if is_capture else 128 + number), f"exit status {status}")
            how = f" ended with {128 + number}" if is_capture else f" was killed by signal {number}"
            self.check(f"{how}" in err and name in err, f"{name} is not named: {err}")
            self.check(seconds < NAMED_SECONDS, f"it took {seconds:.1f} s")
            if self.kind == "memory":
                self.check("has reached its limit of" in err, f"the memory is not named: {err}")
        elif self.kind == "SIGSTOP":
            named = run.when_said("is stopped") or run.when_said("does not answer")
            self.check(named is not None and named - since < NAMED_SECONDS, f"not named in time: {err}")
            self.check(name in err, f"{name} is not named: {err}")
            self.check(status != 0 and seconds < END_SECONDS, f"status {status} after {seconds:.1f} s")
        elif self.kind in ("SIGTERM", "SIGINT"):
            number = signal.Signals[self.kind]
            self.check(status in (128 + number, -number), f"exit status {status}: {err}")
        elif self.kind == "slow rank":
            self.check(status == 0, f"exit status {status}: {err}")
        elif self.kind in ("full disk", "I/O error"):
            word = "No space left" if self.kind == "full disk" else "Input/output error"
            self.check(status == 2 and word in err, f"exit status {status}: {err}")

    def judge_left_behind(self, group):
        end = time.monotonic() + LATE_SECONDS
        while group.processes() and time.monotonic() < end:
            time.sleep(0.02)
        self.check(not group.processes(), "processes are left")
        self.check(self.shared_memory() <= self.before, "shared memory is left")

    def judge_resumed(self, undisturbed):
        status, _, err = finish([*self.arguments, "--resume"], self.output)
        self.check(status == 0, f"it does not go on: {err}")
        # What was not yet published may be half, and is left out.
        half = re.search(r"left out \S*/step-\d+: ", err)
        self.check(half is None, f"half a checkpoint: {err}")
        self.check(losses(self.output) == undisturbed, "other losses than undisturbed")
        self.check(not list(self.output.glob("*.partial*")), "something partial is left")

    # Two machines, as far as sockets can tell.

    def run_linked(self, group):
        with slow_link() as places:
            runs = []
            try:
                for rank, place in enumerate(places):
                    variables = {
                        **place.environment,
                        "RANK": rank,
                        "WORLD_SIZE": 2,
                        "MASTER_PORT": 29400,
                        "WEFT_STALL_SECONDS": STALL_SECONDS,
                        "WEFT_TIMEOUT_SECONDS": 30,
                    }
                    # Within the namespace the control groups are not seen.
                    command = group.command(*place.command, WEFT)
                    runs.append(WatchedRun(self.arguments, self.output, command=command, **variables))
                runs[0].wait_for(lambda: last_marks(self.output, 0)[:1] == ["instruction"])
                self.hurt_link(places[0])
                since = time.monotonic()
                ends = [run.end(120) for run in runs]
                seconds = time.monotonic() - since
            finally:
                for run in runs:
                    run.__exit__()
        for rank, (status, _, err) in enumerate(ends):
            if self.kind == "slow link":
                self.check(status == 0, f"rank {rank} ended with {status}: {err}")
            else:
                self.check(status == 2, f"rank {rank} ended with {status}: {err}")
                self.check(f"rank {1 - rank}" in err, f"rank {rank} does not name the other: {err}")
                self.check(seconds < END_SECONDS, f"it took {seconds:.1f} s")

    def hurt_link(self, place):
        wire = place.environment["GLOO_SOCKET_IFNAME"]
        slower = ["tc", "qdisc", "replace", "dev", wire, "root", "tbf", "rate", "30mbit", "burst", "64kb"]
        change = ["ip", "link", "set", wire, "down"] if self.kind == "lost link" else [*slower, "latency", "400ms"]
        subprocess.run([*place.command, *change], check=True)


def draw(choice):
    moment = choice.choice(list(KINDS))
    kind = choice.choice(KINDS[moment])
    plan = "data=2" if kind.endswith("link") else choice.choice(list(PLANS))
    return plan, kind, moment, choice.randrange(PLANS[plan])


def table(outcomes):
    """How many right of how many, by kind and moment."""
    moments = list(KINDS)
    lines = [" ".join([f"{'':10}", *(f"{moment:>10}" for moment in moments)])]
    for kind in dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds):
        cells = []
        for moment in moments:
            right = outcomes[kind, moment, True]
            every = right + outcomes[kind, moment, False]
            cells.append(f"{f'{right}/{every}' if every else '':>10}")
        lines.append(" ".join([f"{kind:10}", *cells]))
    right = sum(count for (_, _, is_right), count in outcomes.items() if is_right)
    return "\n".join([*lines, f"{right} of {sum(outcomes.values())} outcomes are right"])


def run_case(bench, folder, drawn):
    plan, kind, moment, rank = drawn
    output = folder / "disk" / "run"
    output.parent.mkdir(parents=True)
    case = Case(bench, plan, kind, moment, output, rank)
    try:
        wrong = case.run()
    except NoLink as reason:
        pytest.skip(str(reason))
    except AssertionError as error:
        wrong = [str(error)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [f"{case}: {each}" for each in wrong]


# One of each that is quick, and was wrong once.
@pytest.mark.parametrize(
    "drawn",
    [
        ("data=2", "SIGKILL", "start-up", 1),
        ("data=2", "SIGSTOP", "start-up", 0),
        ("data=2", "memory", "start-up", 1),
        ("data=2", "SIGKILL", "rendezvous", 0),
        ("data=2", "full disk", "save", 0),
    ],
    ids=lambda drawn: " ".join(map(str, drawn)),
)
def test_a_fault_has_the_right_outcome(bench, tmp_path, drawn):
    assert run_case(bench, tmp_path / "case", drawn) == []


@pytest.mark.campaign
def test_many_faults_have_the_right_outcome(bench, tmp_path, capsys):
    choice = random.Random(int(os.environ.get("WEFT_FAULT_SEED", 1)))
    outcomes, wrong = collections.Counter(), []
    for number in range(int(os.environ.get("WEFT_FAULTS", 300))):
        drawn = draw(choice)
        found = run_case(bench, tmp_path / str(number), drawn)
        outcomes[drawn[1], drawn[2], not found] += 1
        wrong += found
        with capsys.disabled():
            print(f"[{number}] {drawn}: {found or 'right'}", flush=True)
    with capsys.disabled():
        print(table(outcomes), flush=True)
    assert wrong == []
