# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that were damaged, disks that are full, and other numbers of ranks."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from training_runs import GPT, WEFT, Run, checkpoints, errors, finish, losses, make_text, metrics

STEPS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With data/, tiny.graph, and run/: a whole run of two ranks, saved every 20 steps."""
    folder = tmp_path_factory.mktemp("resume")
    make_text(folder / "data")
    subprocess.run(
        [WEFT, "capture", f"{GPT}:tiny", "-o", folder / "tiny.graph", "--python", sys.executable], check=True
    )
    status, _, err = finish([*arguments(folder), "--save-every", 20], folder / "run")
    assert status == 0, err
    assert [path.name for path in checkpoints(folder / "run")] == ["step-60", "step-40", "step-20"]
    return folder


def arguments(folder, ranks=2, steps=STEPS):
    return [folder / "tiny.graph", "--data", folder / "data", "--parallel", f"data={ranks}", "--steps", steps]


def test_a_truncated_shard_falls_back_to_the_checkpoint_before(folder, tmp_path):
    output = shutil.copytree(folder / "run", tmp_path / "run")
    shard = output / "step-60" / "rank-1.safetensors"
    os.truncate(shard, shard.stat().st_size - 100)
    status, out, err = finish([*arguments(folder), "--resume"], output)
    assert status == 0, err
    assert f"left out {output}/step-60: {shard} is cut short or altered" in err
    assert f"going on from {output}/step-40, after step 40" in err
    assert losses(output) == losses(folder / "run")
    assert f"checkpoint {output}/step-60" in out


def test_an_altered_shard_is_named_and_can_be_left_out(folder, tmp_path):
    output = shutil.copytree(folder / "run", tmp_path / "run")
    shard = output / "step-60" / "rank-0.safetensors"
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    longer = arguments(folder, steps=STEPS + 1)
    status, _, err = finish([*longer, "--resume"], output)
    assert status == 2
    [message] = errors(err)
    assert message.startswith(f"weft: error: {shard} was altered: the checksum of ")
    assert 'of tensor "' in message
    assert message.endswith(f"differs. Remove {output}/step-60 to go on from the checkpoint before it")
    assert losses(output) == losses(folder / "run"), "what was there must stay"
    shutil.rmtree(output / "step-60")
    status, _, err = finish([*arguments(folder), "--resume"], output)
    assert status == 0, err
    assert losses(output) == losses(folder / "run")


def test_other_numbers_of_ranks_go_on_with_the_same_samples(folder, tmp_path):
    output = tmp_path / "run"
    for ranks, steps in [(2, 20), (1, 40), (4, STEPS)]:
        status, _, err = finish([*arguments(folder, ranks, steps), "--resume"], output)
        assert status == 0, err
    whole = metrics(folder / "run")
    assert [line["position"] for line in metrics(output)] == [line["position"] for line in whole]
    assert [line["loss"] for line in metrics(output)] == pytest.approx([line["loss"] for line in whole], rel=1e-5)


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for two checkpoints and a half."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3700k", "tmpfs", place]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_loses_nothing(folder, small_disk):
    output = small_disk / "run"
    status, _, err = finish([*arguments(folder), "--save-every", 20], output)
    assert status == 2, err
    [message] = errors(err)
    assert "the last state is not saved: " in message and "No space left on device" in message
    assert str(output) in message
    assert [path.name for path in checkpoints(output)] == ["step-40", "step-20"]
    assert not list(output.glob("*.partial*")), "what is useless takes up room"
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    status, _, err = finish([*arguments(folder), "--resume"], output)
    assert status == 0, err
    assert f"going on from {output}/step-40" in err
    assert losses(output) == losses(folder / "run")


def test_torchrun_starts_a_lost_rank_again(folder, tmp_path):
    output = tmp_path / "run"
    torchrun = pathlib.Path(sys.executable).parent / "torchrun"
    command = [torchrun, "--standalone", "--nproc-per-node", 2, "--max-restarts", 2, "--no-python", WEFT]
    given = [folder / "tiny.graph", "--data", folder / "data", "--steps", 400, "--save-every", 20, "--resume"]
    with Run(given, output, command=command) as run:
        run.wait_for_step(100)
        os.kill(run.ranks()[1], signal.SIGKILL)
        status, out, err = run.end(120)
    assert status == 0, err
    assert "rank 1 is gone" in err
    assert "going on from" in err
    assert f"checkpoint {output}/step-400" in out
    found = losses(output)
    assert list(found) == list(range(1, 401))
    first = losses(folder / "run")
    assert {step: found[step] for step in first} == first
