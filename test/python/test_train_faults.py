# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed, stopped or told to leave: nobody hangs, the message
names the rank, and --resume gives the losses of a run that was left alone."""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from faults import NAMED_SECONDS, WatchedRun
from training_runs import GPT, WEFT, Run, capture, checkpoints, errors, finish, is_alive, losses, make_text

STEPS = 400
SAVE_EVERY = 20
END_SECONDS = 30


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Arguments that all runs here share: a captured model saves the time of starting Python."""
    folder = tmp_path_factory.mktemp("faults")
    graph = capture(f"{GPT}:tiny", folder / "tiny.graph")
    return [graph, "--data", make_text(folder / "data"), "--parallel", "data=2", "--steps", STEPS]


@pytest.fixture(scope="module")
def undisturbed(base, tmp_path_factory):
    """The losses of a run that nothing happened to."""
    output = tmp_path_factory.mktemp("undisturbed") / "run"
    status, _, err = finish(base, output)
    assert status == 0, err
    found = losses(output)
    assert list(found) == list(range(1, STEPS + 1))
    assert found[STEPS] < found[1]
    return found


def resume(arguments, output, undisturbed):
    status, out, err = finish([*arguments, "--resume"], output)
    assert status == 0, err
    assert losses(output) == undisturbed
    return out, err


def saved_often(base):
    return [*base, "--save-every", SAVE_EVERY]


def check_lost(run, rank, since):
    """One message, which names the rank; and nobody is left."""
    status, _, err = run.end()
    assert time.monotonic() - since < END_SECONDS
    assert status == 128 + signal.SIGKILL
    assert f"weft: rank {rank} was killed by signal 9" in err
    messages = errors(err)
    assert len(messages) == 1, err
    assert f": rank {rank} is gone (last seen " in messages[0], err


def kill_one(base, output, undisturbed, rank, step):
    with Run(saved_often(base), output) as run:
        run.wait_for_step(step)
        since = time.monotonic()
        os.kill(run.ranks()[rank], signal.SIGKILL)
        check_lost(run, rank, since)
    assert checkpoints(output), "nothing was saved before"
    resume(saved_often(base), output, undisturbed)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_is_named_and_the_run_resumes(base, undisturbed, tmp_path, rank):
    kill_one(base, tmp_path / "run", undisturbed, rank, random.randint(SAVE_EVERY * 2, STEPS // 2))


def test_many_ranks_that_lose_one_say_it_once(base, tmp_path):
    four = [{2: 4, "data=2": "data=4"}.get(each, each) for each in base]
    with Run(four, tmp_path / "run") as run:
        run.wait_for_step(10)
        since = time.monotonic()
        os.kill(run.ranks()[2], signal.SIGKILL)
        check_lost(run, 2, since)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(12))
def test_a_killed_rank_at_many_moments(base, undisturbed, tmp_path, seed):
    choice = random.Random(seed)
    rank, step = choice.randrange(2), choice.randint(SAVE_EVERY * 2, STEPS - 100)
    kill_one(base, tmp_path / "run", undisturbed, rank, step)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_a_run_killed_again_and_again(base, undisturbed, tmp_path, seed):
    choice = random.Random(seed)
    done = 0
    for _ in range(4):
        with Run([*saved_often(base), "--resume"], tmp_path / "run") as run:
            done = min(done + choice.randint(30, 90), STEPS - 50)
            run.wait_for_step(done)
            os.kill(run.ranks()[choice.randrange(2)], signal.SIGKILL)
            assert run.end()[0] == 128 + signal.SIGKILL
    resume(saved_often(base), tmp_path / "run", undisturbed)


def test_all_ranks_killed(base, undisturbed, tmp_path):
    with Run(saved_often(base), tmp_path / "run") as run:
        run.wait_for_step(random.randint(SAVE_EVERY * 2, STEPS // 2))
        for pid in run.ranks().values():
            os.kill(pid, signal.SIGKILL)
        status, _, err = run.end(END_SECONDS)
    assert status == 128 + signal.SIGKILL
    assert "was killed by signal 9" in err
    resume(saved_often(base), tmp_path / "run", undisturbed)


def test_a_killed_launcher_leaves_nobody_behind(base, undisturbed, tmp_path):
    with Run(saved_often(base), tmp_path / "run") as run:
        run.wait_for_step(random.randint(SAVE_EVERY * 2, STEPS // 2))
        ranks = list(run.ranks().values())
        os.kill(run.process.pid, signal.SIGKILL)
        run.end(END_SECONDS)
        end = time.monotonic() + END_SECONDS
        while any(map(is_alive, ranks)):
            assert time.monotonic() < end, "ranks outlive their launcher"
            time.sleep(0.05)
    resume(saved_often(base), tmp_path / "run", undisturbed)


def kill_while_saving(base, output, undisturbed, step):
    arguments = [*base, "--save-every", 1]
    with Run(arguments, output) as run:
        run.wait_for_step(step)
        run.wait_for(lambda: any(output.glob("step-*.partial*")))
        for pid in run.ranks().values():
            os.kill(pid, signal.SIGKILL)
        run.end(END_SECONDS)
    # The time of the first run is in saving; that of the second need not be.
    resume(saved_often(base), output, undisturbed)
    assert not list(output.glob("*.partial*"))


def test_killed_while_a_checkpoint_is_written(base, undisturbed, tmp_path):
    kill_while_saving(base, tmp_path / "run", undisturbed, 10)


@pytest.mark.campaign
@pytest.mark.parametrize("step", range(3, 63, 5))
def test_killed_while_many_checkpoints_are_written(base, undisturbed, tmp_path, step):
    kill_while_saving(base, tmp_path / "run", undisturbed, step)


def stop_one(base, output):
    """Stops rank 1 in the midst of a long run; gives the run, and the pid."""
    run = Run([*base, "--steps", 1_000_000, "--save-every", SAVE_EVERY], output, WEFT_STALL_SECONDS=3)
    run.wait_for_step(SAVE_EVERY * 2)
    # Ranks tell what they do about once a second.
    time.sleep(2)
    stopped = run.ranks()[1]
    os.kill(stopped, signal.SIGSTOP)
    return run, stopped


def check_stopped(status, err):
    assert status == 2
    messages = errors(err)
    assert len(messages) == 1, err
    assert "rank 1 does not answer: no sign of life for " in messages[0], err
    assert "(its process is stopped); last doing: step " in messages[0], err
    assert ", instruction " in messages[0].partition("last doing:")[2], err


def test_a_stopped_rank_is_named_with_what_it_did(base, tmp_path):
    output = tmp_path / "run"
    run, stopped = stop_one(base[:-2], output)
    with run:
        since = time.monotonic()
        check_stopped(*run.end()[::2])
        assert time.monotonic() - since < END_SECONDS
        assert not is_alive(stopped), "the launcher did not end it"
    saved = int(checkpoints(output)[0].name[5:])
    status, _, err = finish([*base[:-2], "--steps", saved + 5, "--resume"], output)
    assert status == 0, err
    assert list(losses(output)) == list(range(1, saved + 6))


def test_a_stopped_launcher_is_called_stopped(base, tmp_path):
    """It keeps the store, which the ranks need at the end."""
    output = tmp_path / "run"
    with WatchedRun(base, output, WEFT_STALL_SECONDS=3) as run:
        run.wait_for_step(5)
        ranks = list(run.ranks().values())
        os.kill(run.process.pid, signal.SIGSTOP)
        since = time.monotonic()
        run.wait_for(lambda: run.when_said("the process that started the ranks is stopped"))
        assert run.when_said("the process that started the ranks is stopped") - since < NAMED_SECONDS
        assert f"kill -CONT {run.process.pid} lets it go on" in run.text()
        os.kill(run.process.pid, signal.SIGCONT)
        run.process.send_signal(signal.SIGTERM)
        run.end(END_SECONDS)
        assert not any(map(is_alive, ranks))
        assert "is gone" not in run.text()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_saves_and_leaves(base, undisturbed, tmp_path, name):
    output = tmp_path / "run"
    with Run(base, output) as run:
        run.wait_for_step(random.randint(20, STEPS // 2))
        run.process.send_signal(signal.Signals[name])
        status, out, err = run.end(END_SECONDS)
    assert status == 128 + signal.Signals[name]
    assert errors(err) == []
    assert f"stopped by {name}; go on with --resume" in out, (out, err)
    done = max(losses(output))
    assert done < STEPS
    assert [path.name for path in checkpoints(output)] == [f"step-{done}"], "it did not save where it stopped"
    assert f"checkpoint {output}/step-{done}\n" in out
    out, err = resume(base, output, undisturbed)
    assert f"going on from {output}/step-{done}, after step {done}" in err


def test_a_second_interrupt_leaves_at_once(base, undisturbed, tmp_path):
    with Run(saved_often(base), tmp_path / "run") as run:
        run.wait_for_step(SAVE_EVERY * 3)
        ranks = list(run.ranks().values())
        # A stopped rank can neither finish its step nor save.
        os.kill(ranks[1], signal.SIGSTOP)
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        since = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        status, _, _ = run.end(END_SECONDS)
        assert time.monotonic() - since < 5
        assert not any(map(is_alive, ranks))
    assert status in (130, 137)
    resume(saved_often(base), tmp_path / "run", undisturbed)


def test_one_rank_without_a_launcher_saves_on_a_signal(base, tmp_path):
    one = ["data=1" if each == "data=2" else each for each in base]
    whole, output = tmp_path / "whole", tmp_path / "run"
    assert finish(one, whole)[0] == 0
    with Run(one, output) as run:
        run.wait_for_step(50)
        run.process.send_signal(signal.SIGTERM)
        status, out, err = run.end(END_SECONDS)
    assert status == 128 + signal.SIGTERM, err
    assert "stopped by SIGTERM; go on with --resume" in out
    resume(one, output, losses(whole))


def test_what_the_ranks_did_last_is_there(base, tmp_path):
    output = tmp_path / "run"
    with Run(saved_often(base), output) as run:
        run.wait_for_step(SAVE_EVERY)
        os.kill(run.ranks()[1], signal.SIGKILL)
        status, _, err = run.end()
    assert status == 128 + signal.SIGKILL
    assert f"weft explain --fault {output}" in err
    text = explain(output)
    assert re.search(r"rank 1 (never came to|ended in) meeting \d+ of .*: rank 0 waited for it for \d", text), text
    told = json.loads(explain(output, "--json"))
    assert told["at_fault"] == [1]
    first, second = told["ranks"]
    assert (first["how_it_ended"], second["how_it_ended"]) == ("left with a message", "ended without a word")
    assert first["waits_for"] == [1]
    assert "rank 1 is gone" in first["message"]
    assert len(second["marks"]) > 100
    assert second["planned_bytes"] > 0
    # The next start puts it aside, and a good end is one.
    status, _, err = finish([*saved_often(base), "--resume"], output)
    assert status == 0, err
    assert "no rank held up the others" in explain(output)
    assert re.search(r"rank 1 (never came to|ended in) meeting", explain(output / "flight.before"))


def explain(run, *more):
    done = subprocess.run([WEFT, "explain", "--fault", run, *more], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_run_without_flight_records_says_so(tmp_path):
    done = subprocess.run([WEFT, "explain", "--fault", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"weft: error: {tmp_path} has no flight records: give the --output of a run" in done.stderr


@pytest.mark.parametrize("files", [6, 10, 16, 40])
def test_few_open_files_are_told_of_at_the_start(base, tmp_path, files):
    """A hard limit, which the run cannot raise."""
    limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", WEFT]
    since = time.monotonic()
    with Run(base, tmp_path / "run", command=limited) as run:
        status, _, err = run.end(END_SECONDS)
    assert time.monotonic() - since < END_SECONDS
    assert status == 2
    assert f"weft: error: this process may open {files} files at a time (RLIMIT_NOFILE" in err
    assert "ulimit -n 4096" in err


def test_what_a_killed_launcher_leaves_is_removed(base, tmp_path):
    folders = tmp_path / "temporary"
    folders.mkdir()
    (folders / "weft.abcdef").mkdir()
    with Run(base, tmp_path / "run", TMPDIR=folders) as run:
        run.wait_for_step(2)
        os.kill(run.process.pid, signal.SIGKILL)
        run.end(END_SECONDS)
    left = {path.name for path in folders.iterdir()} - {"weft.abcdef"}
    assert len(left) == 1
    with Run([*base[:-2], "--steps", 1_000_000], tmp_path / "other", TMPDIR=folders) as run:
        run.wait_for_step(2)
        now = {path.name for path in folders.iterdir()}
        assert not left & now, "it is still there"
        assert "weft.abcdef" in now, "that one has no owner that is surely gone"
        # Of one that is alive nothing is taken.
        assert finish(base, tmp_path / "third", TMPDIR=folders)[0] == 0
        assert now <= {path.name for path in folders.iterdir()}
