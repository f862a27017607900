# SPDX-License-Identifier: Apache-2.0
"""`weft train --parallel` in real processes: the losses of one rank, whatever the words."""

import numpy
import pytest
from training_runs import make_text, train_tiny

WORDS = [
    ("gpt", "data=2,zero=1"),
    ("gpt", "data=2,zero=2"),
    ("gpt", "data=2,zero=3"),
    ("gpt", "tensor=2"),
    ("gpt", "tensor=2,sequence"),
    ("gpt", "ulysses=2"),
    ("gpt", "context=2"),
    ("gpt", "data=2,tensor=2,sequence,zero=3"),
    ("gpt", "data=2,shard=2,zero=3"),
    ("gpt", "data=2,tensor=2,context=2,zero=3"),
    ("llama", "context=2"),
    ("llama", "data=2,context=2,zero=3"),
    ("llama", "tensor=2,sequence"),
    ("llama", "data=2,tensor=2,zero=3"),
    ("moe", "expert=2"),
    ("moe", "data=2,expert=2,zero=1"),
    ("resnet", "spatial=2"),
    ("resnet", "data=2,spatial=2"),
    ("unet3d", "spatial=2x2"),
]

# Few voxels: one rank adds up their losses one by one, and many of them not to six digits.
OPTIONS = {"unet3d": ["--set", "volume=8"]}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """With folders of images beside it, for the models that want them."""
    folder = tmp_path_factory.mktemp("data")
    draw = numpy.random.default_rng(0)
    images = {
        "resnet": (draw.standard_normal((32, 3, 32, 32), dtype=numpy.float32), draw.integers(0, 10, 32)),
        "unet3d": (draw.standard_normal((8, 1, 8, 8, 8), dtype=numpy.float32), draw.integers(0, 3, (8, 8, 8, 8))),
    }
    for model, arrays in images.items():
        (folder / model).mkdir()
        for field, array in enumerate(arrays):
            numpy.save(folder / model / f"{field}.npy", array)
    return make_text(folder / "text")


def train(model, text, output, *more, steps=4):
    data = text.parent / model if (text.parent / model).exists() else text
    return train_tiny(model, data, output, *OPTIONS.get(model, []), *more, steps=steps)


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    return {
        model: train(model, text, tmp_path_factory.mktemp(model) / "one") for model in sorted({m for m, _ in WORDS})
    }


@pytest.mark.parametrize(("model", "words"), WORDS)
def test_losses_are_those_of_one_rank(text, alone, tmp_path, model, words):
    got = train(model, text, tmp_path / "run", "--parallel", words)
    assert got.keys() == alone[model].keys()
    for step, loss in got.items():
        assert loss == pytest.approx(alone[model][step], rel=2e-6 if step > 1 else 1e-6)


def test_a_run_goes_on_under_another_plan(text, alone, tmp_path):
    train("gpt", text, tmp_path / "run", "--parallel", "data=2,tensor=2,zero=3", "--save-every", "2")
    got = train("gpt", text, tmp_path / "run", "--resume", "--parallel", "tensor=2", steps=6)
    assert sorted(got) == [1, 2, 3, 4, 5, 6]
    expected = train("gpt", text, tmp_path / "one", steps=6)
    for step, loss in got.items():
        assert loss == pytest.approx(expected[step], rel=1e-5)


@pytest.mark.parametrize("words", ["tensor=2", "data=2,zero=1", "data=2,zero=3"])
def test_accumulated_and_clipped_gradients_are_those_of_one_rank(text, tmp_path, words):
    more = ["--accumulate", "2", "--clip-norm", "0.5"]
    expected = train("gpt", text, tmp_path / "one", *more, steps=3)
    got = train("gpt", text, tmp_path / "run", *more, "--parallel", words, steps=3)
    assert list(got.values()) == pytest.approx(list(expected.values()), rel=2e-6)
