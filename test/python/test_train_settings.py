# SPDX-License-Identifier: Apache-2.0
"""What a run keeps of its settings: a run that goes on has them, what is different is said, and what must not be is
refused; and one run at a time in a folder."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import warnings

import pytest
import torch
import weft
from training_runs import GPT, WEFT, Run, capture, checkpoints, environment, errors, finish, losses, make_text, metrics

STEPS = 4
# Those of the run that others are compared with.
SETTINGS = ["--evaluation-fraction", 0.25, "--clip-norm", 0.5, "--accumulate", 2]
SETTINGS += ["--learning-rate", 1e-3, "--schedule", "linear warmup=1 steps=20", "--save-every", 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With data/, tiny.graph, run/ (four steps with SETTINGS) and whole/ (eight of them)."""
    folder = tmp_path_factory.mktemp("settings")
    # 126 samples, of which 32 are held out below.
    make_text(folder / "data", 4040)
    capture(f"{GPT}:tiny", folder / "tiny.graph")
    for name, steps in [("run", STEPS), ("whole", 2 * STEPS)]:
        status, _, err = finish([*given(folder, steps), *SETTINGS], folder / name)
        assert status == 0, err
    return folder


def given(folder, steps):
    return [folder / "tiny.graph", "--data", folder / "data", "--steps", steps]


@pytest.fixture
def run(folder, tmp_path):
    return shutil.copytree(folder / "run", tmp_path / "run")


def resume(run, *more):
    """The standard error of a run that goes on, without anything but what is said here."""
    status, _, err = finish(["--resume", *more], run)
    assert status == 0, err
    return err


def refused(run, *more):
    """The one message, and that nothing has changed."""
    before = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    status, _, err = finish(["--resume", *more], run)
    assert status == 2, err
    [message] = errors(err)
    assert {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()} == before
    return message


def test_a_run_goes_on_with_its_settings(folder, run):
    err = resume(run, "--steps", 2 * STEPS)
    assert "--steps was 4, is 8: the run ends there" in err
    assert " was " not in err.replace("--steps was", "")
    assert metrics_without_times(run) == metrics_without_times(folder / "whole")
    settings = json.loads((run / "run.json").read_text())["settings"]
    assert settings["clip-norm"] == 0.5 and settings["evaluation-fraction"] == 0.25
    assert settings["data"] == [str(folder / "data")] and settings["precision"] == "f32"
    assert set(settings) >= {"MODEL", "batch-size", "accumulate", "seed", "bad-loss", "optimizer", "weft", "samples"}


def metrics_without_times(output):
    names = ("step", "loss", "learning_rate", "position", "gradient_norm", "evaluation_loss")
    return [{name: line[name] for name in names if name in line} for line in metrics(output)]


REFUSED = [
    (["--precision", "bf16-mixed"], "--precision was f32, is bf16-mixed: "),
    (["--evaluation-fraction", 0.5], "--evaluation-fraction was 0.25, is 0.5: samples that were held out would be"),
    (["--seed", 5], "--seed was 0, is 5: the order of the samples follows from it"),
    (["--in-order"], "--in-order was off, is on: "),
    (["--load", "some.safetensors"], "--load was none, is "),
    (["--optimizer", "sgd"], "--optimizer was none, is sgd: "),
    (["--loss-scale", 4], "--loss-scale was 0.0, is 4.0: "),
]


def test_what_must_stay_is_refused_and_all_of_it_is_named(run):
    message = refused(run, "--steps", 8, "--evaluation-fraction", 0.5)
    assert message.startswith(f"weft: error: {run}/step-4 cannot go on so: --evaluation-fraction was 0.25"), message
    assert message.endswith(f"begin another run from these parameters: --load {run}/step-4 with another --output")
    message = refused(run, "--steps", 8, *[word for flags, _ in REFUSED for word in flags])
    assert [said for _, said in REFUSED if said not in message] == []


def test_what_may_change_is_said_and_kept(run):
    err = resume(run, "--steps", 6, "--clip-norm", 2, "--bad-loss", "skip", "--schedule", "constant")
    assert "--clip-norm was 0.5, is 2.0: it counts from the next step on" in err
    assert "--bad-loss was stop, is skip: " in err
    assert "--schedule was linear warmup=1 steps=20, is constant: it counts from the next step on" in err
    record = json.loads((run / "run.json").read_text())
    assert record["settings"]["clip-norm"] == 2.0
    assert {"after_step": 4, "setting": "clip-norm", "was": 0.5, "is": 2.0} in record["changes"]
    # It goes on so.
    err = resume(run, "--steps", 7)
    assert "clip-norm" not in err
    assert len(json.loads((run / "run.json").read_text())["changes"]) == len(record["changes"]) + 1


def test_held_out_samples_stay_held_out(folder, run, tmp_path):
    """A run that begins to evaluate, and leaves it again, trains on the same samples."""
    err = resume_model(f"{GPT}:tiny", run, "--steps", 6, "--evaluate-every", 2)
    assert "--evaluate-every was 0, is 2: the samples that are held out stay so" in err
    assert "step 6: evaluation loss " in err
    status, _, err = finish([folder / "tiny.graph", "--resume", "--steps", 2 * STEPS, "--evaluate-every", 0], run)
    assert status == 0, err
    assert losses(run) == losses(folder / "whole")


def resume_model(model, run, *more):
    status, _, err = finish([model, "--resume", *more], run)
    assert status == 0, err
    return err


def test_samples_that_were_learnt_are_not_evaluated_on(folder, tmp_path):
    status, _, err = finish(given(folder, 2), tmp_path / "run")
    assert status == 0, err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["evaluation-fraction"] == 0
    status, _, err = finish([f"{GPT}:tiny", "--resume", "--steps", 4, "--evaluate-every", 2], tmp_path / "run")
    assert status == 2, err
    assert "the run began without evaluation and has trained on all samples" in errors(err)[0]


def test_a_captured_training_step_is_not_evaluated_with(folder, tmp_path):
    """It would train on what is held out."""
    status, _, err = finish([*given(folder, 2), "--evaluate-every", 1], tmp_path / "run")
    assert status == 2, err
    assert "tiny.graph is a training step, and to evaluate is another" in errors(err)[0]
    status, _, err = finish([*given(folder, 400), "--keep-last"], tmp_path / "run")
    assert status == 2, err
    assert "tiny.graph: its batch has i64[4, 32] as " in errors(err)[0]


def refused_late(run, *more):
    status, _, err = finish(["--resume", *more], run)
    assert status == 2, err
    [message] = errors(err)
    return message


def test_other_data_is_refused_and_moved_data_is_not(folder, run, tmp_path):
    moved = shutil.copytree(folder / "data", tmp_path / "moved")
    err = resume(run, "--steps", 5, "--data", moved)
    assert f"--data was {folder}/data, is {moved}: the samples are the same" in err
    (moved / "more.txt").write_text("one more file, which makes the data longer" * 10)
    message = refused_late(run, "--steps", 6)
    assert "samples was " in message and "their order and what is held out of them follow" in message
    (moved / "more.txt").unlink()
    words = moved / "words.txt"
    words.write_text(words.read_text().replace("s", "z"))
    assert "samples was " in refused_late(run, "--steps", 6), "of equal size, with other letters"


def test_a_schedule_that_has_ended_is_not_outrun(folder, tmp_path):
    run = tmp_path / "run"
    status, _, err = finish([*given(folder, 3), "--schedule", "cosine"], run)
    assert status == 0, err
    message = refused_late(run, "--steps", 6)
    assert 'the schedule of the run, "cosine steps=3", ends at step 3 with the learning rate 0' in message
    assert 'as in --schedule "cosine steps=6"' in message
    err = resume(run, "--steps", 6, "--schedule", "cosine steps=6")
    assert "--schedule was cosine steps=3, is cosine steps=6" in err


def test_another_step_of_the_same_tensors_is_said(folder, run, tmp_path):
    text = (folder / "tiny.graph").read_text()
    changed = re.sub(r"(aten\.native_layer_norm\(.*?)1e-05", r"\g<1>0.001", text)
    assert changed != text
    (tmp_path / "other.graph").write_text(changed)
    err = resume(run, "--steps", 5, "--parallel", "data=1")
    assert "step was" not in err
    status, _, err = finish([tmp_path / "other.graph", "--resume", "--steps", 6], run)
    assert status == 0, err
    assert "MODEL was " in err and "\nstep was " in err


def test_a_run_of_an_earlier_version_goes_on_with_a_word(folder, run):
    (run / "run.json").unlink()
    status, _, err = finish(["--resume", "--steps", 6], run)
    assert status == 2 and "MODEL is required" in err
    status, _, err = finish([*given(folder, 6), *SETTINGS, "--resume"], run)
    assert status == 0, err
    assert f"{run} has no run.json, as those of earlier versions: " in err
    assert (run / "run.json").exists()


def spoil(run):
    for path in checkpoints(run):
        shard = path / "rank-0.safetensors"
        os.truncate(shard, shard.stat().st_size - 100)


def test_checkpoints_none_of_which_is_whole(folder, run):
    spoil(run)
    message = refused(run, "--steps", 8)
    assert f"{run} holds checkpoints and none of them is whole, so there is nothing to go on from: " in message
    for step in (4, 2):
        assert f"{run}/step-{step}: {run}/step-{step}/rank-0.safetensors is cut short or altered" in message
    status, _, err = finish(given(folder, 8), run)
    assert status == 2, "it would be written over"
    assert "go on with --resume, or choose another --output" in err


def test_a_first_save_that_was_killed_is_no_checkpoint(folder, tmp_path):
    (tmp_path / "run" / "step-2.partial").mkdir(parents=True)
    status, _, err = finish([*given(folder, 2), "--resume"], tmp_path / "run")
    assert status == 0, err
    assert f"no checkpoint in {tmp_path}/run: starting anew" in err


def test_a_model_is_not_written_over(folder, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.safetensors").write_text("something")
    status, _, err = finish(given(folder, 2), tmp_path / "run")
    assert status == 2 and "holds a model, " in err
    assert (tmp_path / "run" / "model.safetensors").read_text() == "something"


def test_one_run_at_a_time_in_a_folder(folder, tmp_path):
    output = tmp_path / "run"
    long = [*given(folder, 1_000_000), "--save-every", 5]
    with Run(long, output) as first:
        first.wait_for_step(6)
        status, _, err = finish([*long, "--resume"], output)
        assert status == 2, err
        [message] = errors(err)
        who = f"process {first.process.pid} on {socket.gethostname()}, since 20"
        assert f"another run is at work in {output}: {who}" in message
        assert "End it first, or choose another --output" in message
        os.kill(first.process.pid, signal.SIGKILL)
        first.end()
    last = int(checkpoints(output)[0].name[5:])
    err = resume(output, "--steps", last + 1)
    assert f"before this one did not end by itself: {who}" in err
    assert "did not end by itself" not in resume(output, "--steps", last + 2)


def test_a_run_of_several_ranks_holds_its_folder(folder, tmp_path):
    output = tmp_path / "run"
    with Run([*given(folder, 1_000_000), "--parallel", "data=2"], output) as first:
        first.wait_for_step(3)
        status, _, err = finish([*given(folder, 9), "--parallel", "data=2"], output)
        assert status == 2 and f"process {first.process.pid} on" in err


def test_without_output_nothing_is_kept_and_said_so(folder, tmp_path):
    words = [str(word) for word in given(folder, 2)]
    done = subprocess.run([WEFT, "train", *words], capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    assert "nothing of this run is kept: without --output there are no checkpoints" in done.stderr


def test_every_setting_is_documented():
    root = pathlib.Path(__file__).resolve().parents[2]
    source = (root / "src/train/run_settings.cpp").read_text()
    table = source[source.index("run_settings() {") : source.index("script_settings() {")]
    names = re.findall(r'^ *\{"([\w-]+)",', table, re.MULTILINE)
    page = (root / "docs/training.md").read_text()
    assert len(names) > 30
    assert [name for name in names if f"`--{name}`" not in page and f"`{name}`" not in page] == []


def trainer(**options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Flatten(0), torch.nn.Softmax(0))

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x).square().sum()

    outer = WithLoss()
    return weft.parallelize(outer, torch.optim.SGD(outer.parameters(), lr=0.1), torch.ones(2, 4), **options)


def test_a_script_is_told_what_is_different(tmp_path):
    first = trainer(clip_norm=1.0)
    first.step(torch.ones(2, 4))
    first.save(tmp_path)
    with pytest.raises(weft.UserError, match="precision was f32, is bf16-mixed: steps and parameters would be of"):
        trainer(precision="bf16-mixed", clip_norm=1.0).load(tmp_path)
    with pytest.warns(UserWarning, match="clip_norm was 1.0, is 0.0: it counts from the next step on"):
        trainer().load(tmp_path)
    with pytest.warns(UserWarning, match="seed was 0, is 3: dropout draws other numbers"):
        trainer(clip_norm=1.0, seed=3).load(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer(clip_norm=1.0).load(tmp_path)


def test_a_script_does_not_begin_anew_where_no_checkpoint_is_whole(tmp_path):
    first = trainer()
    first.step(torch.ones(2, 4))
    first.save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(weft.UserError, match="none of them is whole"):
        trainer().load(tmp_path)
