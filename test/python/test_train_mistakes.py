# SPDX-License-Identifier: Apache-2.0
"""What a person can get wrong with `weft train`: exit status 2, one message that
says where, what and what to do, and nothing that was saved is lost."""

import pytest
from training_runs import GPT, capture, checkpoints, errors, finish, losses, make_text, metrics

BAD_STEP = 4
# The loss is no number for a batch with a "~".
BAD_MODEL = f"""
import sys
sys.path.insert(0, {str(GPT.parent)!r})
import gpt
import torch


class BadAtTilde(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens, labels):
        return self.inner(tokens, labels) + (1.0 - 2.0 * (tokens == ord("~"))).log().sum()


def tiny():
    model, batch, _ = gpt.tiny()
    model = BadAtTilde(model)
    return model, batch, gpt.adamw(model, 3e-3)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With data/, tiny.graph, and run/: two checkpoints of ten steps on two ranks."""
    folder = tmp_path_factory.mktemp("mistakes")
    make_text(folder / "data")
    capture(f"{GPT}:tiny", folder / "tiny.graph")
    status, _, err = finish([*arguments(folder, 10), "--save-every", 5], folder / "run")
    assert status == 0, err
    return folder


def arguments(folder, steps, words=("--parallel", "data=2")):
    return [folder / "tiny.graph", "--data", folder / "data", "--nproc", 2, *words, "--steps", steps]


def fails(given, output):
    """The one message of a run that ends with 2."""
    status, _, err = finish(given, output)
    assert status == 2, err
    messages = errors(err)
    assert len(messages) == 1, err
    return messages[0].removeprefix("weft: error: ")


def test_a_checkpoint_of_another_model(folder):
    before = sorted(folder.glob("run/*"))
    settings = (folder / "run" / "run.json").read_text()
    narrow = [f"{GPT}:tiny", "--set", "width=32", *arguments(folder, 20)[1:]]
    message = fails([*narrow, "--resume"], folder / "run")
    assert message.startswith(f"{folder}/run/step-10 is a checkpoint of another model")
    assert "Start from the model that was saved, or give another folder" in message
    assert sorted(folder.glob("run/*")) == before
    assert (folder / "run" / "run.json").read_text() == settings, "it goes on as it was"


def test_a_run_is_not_overwritten(folder):
    message = fails(arguments(folder, 20), folder / "run")
    assert message == (
        f"{folder}/run holds the checkpoint {folder}/run/step-10; go on with --resume, or choose another --output"
    )


def test_another_seed_would_read_other_data(folder):
    message = fails([*arguments(folder, 20), "--resume", "--seed", 5], folder / "run")
    assert message.startswith(
        f"{folder}/run/step-10 cannot go on so: --seed was 0, is 5: the order of the samples follows from it. Go on with"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--field", "0=colours"], 'the data has no field "colours". The model\'s inputs: 0 i64[4, 32]'),
        (["--field", "colours=tokens"], 'the model has no batch input "colours"'),
        (["--schedule", "cosine warmpu=3"], '--schedule:1:8: expected warmup=, steps= or floor=, found "warmpu"'),
        (["--schedule", "sine"], "--schedule:1:1: expected constant, linear or cosine"),
        (["--plan", "no/such.plan"], "cannot read 'no/such.plan'"),
        (["--parallel", "dta=2"], '--parallel: no word is called "dta"; there are data=N, tensor=N'),
        (["--parallel", "data=4"], "plan @tiny: the mesh <data=4> needs 4 ranks, and there are 2; start 4"),
        (["--load", "no/such.safetensors"], "cannot open no/such.safetensors: there is no such file or folder"),
    ],
)
def test_a_word_that_does_not_fit(folder, tmp_path, more, said):
    given = arguments(folder, 3, words=()) if more[0] in ("--plan", "--parallel") else arguments(folder, 3)
    assert fails([*given, *more], tmp_path / "run").startswith(said)
    assert checkpoints(tmp_path / "run") == []


def test_data_that_is_not_there(folder, tmp_path):
    given = [folder / "tiny.graph", "--data", tmp_path / "no.txt", "--parallel", "data=2", "--steps", 3]
    assert fails(given, tmp_path / "run") == f"cannot open {tmp_path}/no.txt: there is no such file or folder"


def test_an_output_that_cannot_be_made(folder, tmp_path):
    (tmp_path / "file").write_text("")
    message = fails(arguments(folder, 3), tmp_path / "file" / "run")
    assert message == f"cannot make the folder {tmp_path}/file/run: Not a directory; choose another --output"


def test_an_output_in_the_data(folder):
    message = fails(arguments(folder, 3), folder / "data" / "run")
    assert message.startswith(f"the output {folder}/data/run lies in the data {folder}/data, which would grow")


def test_a_budget_says_what_is_needed(folder, tmp_path):
    message = fails([*arguments(folder, 3), "--budget-bytes", 100_000], tmp_path / "run")
    assert message.startswith("plan @tiny: a rank needs ")
    assert "its budget is 100000; keep pieces of parameters and states (zero=3, tensor=N)" in message
    needed = int(message.split()[5])
    short = fails([*arguments(folder, 3), "--budget-bytes", needed - 1], tmp_path / "run")
    assert short.startswith(f"plan @tiny: a rank needs {needed} bytes")
    status, _, err = finish([*arguments(folder, 3), "--budget-bytes", needed], tmp_path / "run")
    assert status == 0, err


@pytest.fixture(scope="module")
def bad_batch(tmp_path_factory):
    """A model and data whose loss at one step is no number."""
    folder = tmp_path_factory.mktemp("bad_batch")
    (folder / "bad.py").write_text(BAD_MODEL)
    capture(f"{folder}/bad.py:tiny", folder / "bad.graph")
    words = make_text(folder / "data") / "words.txt"
    text = words.read_text()
    place = (BAD_STEP - 1) * 4 * 32 + 70
    words.write_text(text[:place] + "~" + text[place + 1 :])
    return [folder / "bad.graph", "--data", words, "--in-order", "--parallel", "data=2", "--steps", 12]


def test_a_bad_loss_is_skipped_or_stops_with_all_saved(bad_batch, tmp_path):
    skipped, stopped = tmp_path / "skipped", tmp_path / "stopped"
    status, _, err = finish([*bad_batch, "--bad-loss", "skip"], skipped)
    assert status == 0, err
    assert f"the loss of step {BAD_STEP} is not a number; the step is left out" in err
    assert [step for step, loss in losses(skipped).items() if loss is None] == [BAD_STEP]
    assert [line["step"] for line in metrics(skipped) if "skipped" in line] == [BAD_STEP]

    message = fails(bad_batch, stopped)
    assert message == (
        f"the loss of step {BAD_STEP} is not a number. Parameters from before it are in {stopped}/step-{BAD_STEP - 1};"
        " try a smaller learning rate, --clip-norm, or --bad-loss skip"
    )
    assert list(losses(stopped)) == list(range(1, BAD_STEP))
    # Nothing is lost: going on meets the same batch again.
    status, _, err = finish([*bad_batch, "--resume", "--bad-loss", "skip"], stopped)
    assert status == 0, err
    assert losses(stopped) == losses(skipped)


def test_steps_are_not_skipped_for_ever(bad_batch, tmp_path):
    graph, words = bad_batch[0], tmp_path / "words.txt"
    good = bad_batch[2].read_text()[: (BAD_STEP - 1) * 4 * 32]
    words.write_text(good + "~" * (4 * 32 * 80))
    more = ["--data", words, "--in-order", "--bad-loss", "skip", "--steps", 70]
    message = fails([graph, *more, "--parallel", "data=2"], tmp_path / "run")
    last = BAD_STEP - 1 + 50
    assert message == (
        "the last 50 steps were left out, since their loss or gradients were not finite: no batch will help these"
        f" parameters. They are in {tmp_path}/run/step-{last}; go on from an earlier checkpoint with a smaller learning"
        " rate or --clip-norm"
    )
    assert list(losses(tmp_path / "run")) == list(range(1, last + 1))


def test_a_bad_loss_can_be_borne(bad_batch, tmp_path):
    status, _, err = finish([*bad_batch, "--bad-loss", "go-on"], tmp_path / "run")
    assert status == 0, err
    assert f"the loss of step {BAD_STEP} is not a number; going on" in err
    assert [step for step, loss in losses(tmp_path / "run").items() if loss is None] == [BAD_STEP]
    assert [line["step"] for line in metrics(tmp_path / "run") if "skipped" in line] == []


def test_a_huge_learning_rate_is_named_as_a_reason(folder, tmp_path):
    message = fails([*arguments(folder, 9), "--learning-rate", "1e30"], tmp_path / "run")
    assert message.startswith("the loss of step 2 is ") and "try a smaller learning rate" in message


def test_a_schedule_ends_with_the_training(folder, tmp_path):
    given = [*arguments(folder, 11), "--learning-rate", 1e-3, "--schedule"]
    status, _, err = finish([*given, "linear warmup=1"], tmp_path / "run")
    assert status == 0, err
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run")]
    assert rates == pytest.approx([0.0, *(1e-3 * (1 - i / 10) for i in range(10))])
