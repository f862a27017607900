# SPDX-License-Identifier: Apache-2.0
"""Ranks that are to be started: never more than there is room for, and none left when a signal comes."""

import os
import re
import resource
import signal
import subprocess
import time

import pytest
from bounded import PidsGroup
from training_runs import GPT, WEFT, capture, children, environment, make_text

# Of processes and threads: some launchers fit, and what a bomb leaves the machine.
MOST = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make_text(folder / "data")
    capture(f"{GPT}:tiny", folder / "tiny.graph")
    (folder / "bomb.plan").write_text("plan @tiny on <data=1000000000> { %batch.* [data, -] }")
    (folder / "large.plan").write_text("plan @tiny on <data=1000000> {\n  %batch.* [data, -]\n}")
    (folder / "wrong.plan").write_text("plan @tiny on <data=2> {\n  %batch.* [data, -]\n  %no_such [data]\n}")
    return folder


def refused(words, most=MOST):
    """The one line that the command says; it must end by itself, with nobody left."""
    with PidsGroup(most) as group:
        process = group.start([WEFT, *words])
        out, err = process.communicate(timeout=120)
        assert group.pids() == []
    assert process.returncode == 2, (out, err)
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("weft: error: "), err
    return lines[0].removeprefix("weft: error: ")


def train(folder, *words):
    return ["train", folder / "tiny.graph", "--data", folder / "data", "--steps", 3, *words]


def run(folder, *words):
    return ["run", folder / "tiny.graph", "--inputs", folder / "no.safetensors", *words]


def test_a_plan_for_more_ranks_than_any_machine(folder):
    plan = folder / "bomb.plan"
    for words in (train(folder, "--plan", plan), run(folder, "--plan", plan)):
        assert refused(words) == (
            f"{plan}:1:21: the size of axis data must be a whole number, from 1 to 1,000,000, found 1000000000"
        )


@pytest.mark.parametrize("flag", [(), ("--oversubscribe",)])
def test_more_ranks_than_there_is_room_for(folder, flag):
    plan = folder / "large.plan"
    for words, asked_by, ranks in (
        (train(folder, "--plan", plan), plan, 1_000_000),
        (train(folder, "--nproc", 100_000), "--nproc", 100_000),
        (train(folder, "--parallel", "data=100000"), "--parallel", 100_000),
        (run(folder, "--plan", plan), plan, 1_000_000),
        (run(folder, "--parallel", "data=100000"), "--parallel", 100_000),
        (["cluster", "measure", "--ranks", 100_000], "--ranks", 100_000),
    ):
        said = refused([*words, *flag])
        assert re.fullmatch(
            rf"{re.escape(str(asked_by))} asks for {ranks} ranks on this machine, which has room for \d+: "
            rf"the control group may have {MOST} processes and threads \(.*pids.max\) and has \d+, and a rank takes "
            r"\d+ processes and threads at the least; ask for fewer ranks, or raise that",
            said,
        ), said


def test_more_ranks_than_the_cores_take(folder):
    many = 4 * 1024 + 1
    said = refused(train(folder, "--nproc", many), most="max")
    # Memory may be the narrower bound.
    assert said.startswith(f"--nproc asks for {many} ranks on this machine, ")
    said = refused(["cluster", "measure", "--ranks", 4 * len(os.sched_getaffinity(0)) + 1], most="max")
    assert said.endswith("(4 each) unless you say otherwise; ask for fewer ranks, or give --oversubscribe"), said


def as_nobody(words, most):
    """Of a user for whom RLIMIT_NPROC holds, as it does not for root."""

    def become():
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    return subprocess.run(
        [str(word) for word in [WEFT, *words]],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment(),
        preexec_fn=become,
        timeout=60,
    )


def test_the_limit_of_a_user():
    if os.getuid() != 0:
        pytest.skip("only root may become another user")
    try:
        as_nobody(["--version"], 40).check_returncode()
    except (OSError, subprocess.SubprocessError):
        pytest.skip("another user cannot run this program")
    done = as_nobody(["cluster", "measure", "--ranks", 4096, "--oversubscribe"], 40)
    assert done.returncode == 2
    assert re.fullmatch(
        r"weft: error: --ranks asks for 4096 ranks on this machine, which has room for \d: this user may have 40 processes "
        r"and threads \(RLIMIT_NPROC\) and has \d+, and a rank takes .*; ask for fewer ranks, or raise it with ulimit -u\n",
        done.stderr,
    ), done.stderr


def test_a_plan_is_checked_before_anything_starts(folder):
    plan = folder / "wrong.plan"
    with PidsGroup(MOST) as group:
        process = group.start([WEFT, *train(folder, "--plan", plan)])
        seen = set()
        while process.poll() is None:
            seen.update(children(process.pid))
            time.sleep(0.002)
        _, err = process.communicate()
    assert process.returncode == 2
    assert seen == set(), "ranks were started"
    assert err.startswith(f"weft: error: {plan}:3: %no_such [data]: no value of the step has such a name"), err
    # And for as many ranks as are asked for.
    said = refused([*train(folder, "--plan", plan), "--nproc", 4])
    assert said.startswith(f"{plan}:1: the mesh <data=2> needs 2 ranks, and there are 4"), said


# When so many ranks are there, or as soon as the launcher is.
@pytest.mark.parametrize("ranks", [None, 1, 3, 6])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_while_ranks_are_started(folder, name, ranks):
    with PidsGroup(MOST) as group:
        words = ["train", folder / "tiny.graph", "--data", folder / "data", "--parallel", "data=6", "--oversubscribe"]
        process = group.start([WEFT, *words, "--steps", 1_000_000])
        end = time.monotonic() + 60
        while ranks is not None and len(group.pids()) <= ranks:
            assert process.poll() is None and time.monotonic() < end
        process.send_signal(signal.Signals[name])
        out, err = process.communicate(timeout=60)
        assert group.wait_until_empty(5), "ranks outlive their launcher"
    number = signal.Signals[name]
    # The launcher alone ends as any program does.
    assert process.returncode in ((128 + number,) if ranks else (128 + number, -number)), (out, err)
    if ranks:
        assert (
            f"weft: stopped by {name} when " in err
            or f"was killed by signal {number}" in err
            or f"ended with exit status {128 + number}" in err
        ), err
