# SPDX-License-Identifier: Apache-2.0
"""Stages that are killed or stopped, or never come: nobody hangs, one message names the stage and its rank, and
--resume goes on with the same losses, with other stages too."""

import os
import random
import signal
import socket
import subprocess
import time

import pytest
from training_runs import GPT, WEFT, Run, capture, checkpoints, environment, errors, finish, is_alive, losses, make_text

STEPS = 120
SAVE_EVERY = 10
# With half of it rounding stays rounding; with 0.001 two plans are 1e-3 apart after a hundred steps.
LEARNING_RATE = 0.0005
END_SECONDS = 30


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    graph = capture(f"{GPT}:tiny", folder / "tiny.graph", "--set", "layers=4")
    return [graph, "--data", make_text(folder / "data"), "--save-every", SAVE_EVERY]


@pytest.fixture(scope="module")
def undisturbed(base, tmp_path_factory):
    """The losses of one rank that nothing happened to."""
    output = tmp_path_factory.mktemp("undisturbed") / "run"
    status, _, err = finish([*base, *words("")], output)
    assert status == 0, err
    return losses(output)


def words(text, steps=STEPS):
    return ["--steps", steps, "--learning-rate", LEARNING_RATE, *(["--parallel", text] if text else [])]


def check_same(output, undisturbed):
    got = losses(output)
    assert list(got) == list(range(1, STEPS + 1))
    assert list(got.values()) == pytest.approx(list(undisturbed.values()), rel=1e-6)


def kill_one(base, output, how, rank, name, step):
    with Run([*base, *words(how)], output) as run:
        run.wait_for_step(step)
        time.sleep(random.random() / 20)
        since = time.monotonic()
        os.kill(run.ranks()[rank], signal.SIGKILL)
        status, _, err = run.end()
        assert time.monotonic() - since < END_SECONDS
    assert status == 128 + signal.SIGKILL
    assert f"weft: {name} (rank {rank}) was killed by signal 9" in err
    messages = errors(err)
    assert len(messages) == 1, err
    assert f": {name} (rank {rank}) is gone (last seen " in messages[0], err


@pytest.mark.parametrize(
    ("how", "rank", "name", "then"),
    [
        ("pipeline=2,micro-batches=4", 0, "stage 0", "pipeline=2,micro-batches=4"),
        ("pipeline=4,schedule=zb-h1,micro-batches=4", 2, "stage 2", "pipeline=2,micro-batches=2"),
        ("pipeline=2,schedule=interleaved,micro-batches=4", 1, "stages 1 and 3", ""),
        ("pipeline=2,data=2,micro-batches=2", 3, "stage 1", "data=2"),
    ],
)
def test_a_killed_stage_is_named_and_the_run_resumes(base, undisturbed, tmp_path, how, rank, name, then):
    """The same way, with other stages, and without any."""
    output = tmp_path / "run"
    kill_one(base, output, how, rank, name, random.randint(SAVE_EVERY + 2, STEPS // 2))
    assert checkpoints(output), "nothing was saved before"
    status, _, err = finish([*base, "--resume", *words(then)], output)
    assert status == 0, err
    check_same(output, undisturbed)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(24))
def test_stages_killed_at_many_moments(base, undisturbed, tmp_path, seed):
    choice = random.Random(seed)
    stages = choice.choice([2, 4])
    schedule = choice.choice(["gpipe", "1f1b", "zb-h1", "zb-h2"])
    how, rank = f"pipeline={stages},schedule={schedule},micro-batches=4", choice.randrange(stages)
    output = tmp_path / "run"
    kill_one(base, output, how, rank, f"stage {rank}", choice.randint(SAVE_EVERY + 2, STEPS - 20))
    then = choice.choice([how, f"pipeline={6 - stages},micro-batches=2", "data=2", ""])
    status, _, err = finish([*base, "--resume", *words(then)], output)
    assert status == 0, err
    check_same(output, undisturbed)


def test_a_stopped_stage_is_named_with_what_it_did(base, tmp_path):
    arguments = [*base, *words("pipeline=4,micro-batches=4", steps=1_000_000)]
    with Run(arguments, tmp_path / "run", WEFT_STALL_SECONDS=3) as run:
        run.wait_for_step(SAVE_EVERY)
        # Ranks tell what they do about once a second.
        time.sleep(2)
        stopped = run.ranks()[2]
        others = [pid for rank, pid in run.ranks().items() if rank != 2]
        os.kill(stopped, signal.SIGSTOP)
        since = time.monotonic()
        status, _, err = run.end()
        assert time.monotonic() - since < END_SECONDS
        assert not any(map(is_alive, [stopped, *others]))
    assert status == 2, err
    messages = errors(err)
    assert len(messages) == 1, err
    assert "stage 2 (rank 2) does not answer: no sign of life for " in messages[0], err
    assert "(its process is stopped); last doing: step " in messages[0], err


def test_a_slow_stage_holds_the_others_up_and_no_more(base, undisturbed, tmp_path):
    """Stopped for a while and let go on: the run is as it would have been."""
    output = tmp_path / "run"
    with Run([*base, *words("pipeline=2,micro-batches=4")], output) as run:
        run.wait_for_step(SAVE_EVERY)
        os.kill(run.ranks()[1], signal.SIGSTOP)
        time.sleep(4)
        os.kill(run.ranks()[1], signal.SIGCONT)
        status, _, err = run.end()
    assert status == 0, err
    check_same(output, undisturbed)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_stage_that_never_comes_is_named(base, tmp_path):
    """As where machines are started one by one: each rank by itself, and one is forgotten."""
    where = {"WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WEFT_TIMEOUT_SECONDS": 3}
    since = time.monotonic()
    said = set()
    processes = [
        subprocess.Popen(
            [*map(str, [WEFT, "train", *base, *words("pipeline=4,micro-batches=4"), "--output", tmp_path / "run"])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(RANK=rank, **where),
        )
        for rank in (0, 1, 3)
    ]
    for process in processes:
        _, err = process.communicate(timeout=END_SECONDS)
        assert process.returncode == 2, err
        assert "stage 2 (rank 2) did not come to 127.0.0.1:" in err
        said.add(err)
    assert len(said) == 1, "ranks say different things"
    assert time.monotonic() - since < END_SECONDS
