# SPDX-License-Identifier: Apache-2.0
"""`weft train` on several ranks, where nobody says how they share a step: a plan is found first."""

import pathlib
import socket

import pytest
from training_runs import GPT, capture, errors, finish, losses, make_text

STEPS = 6


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    graph = capture(f"{GPT}:tiny", folder / "tiny.graph")
    return [graph, "--data", make_text(folder / "data"), "--steps", STEPS]


def train(given, output, **variables):
    """The losses, and what was said."""
    status, _, err = finish(given, output, **variables)
    assert status == 0, err
    return list(losses(output).values()), err


def keep(root, cache, ranks=2):
    """Machines as if they had been measured, in the place where those are kept."""
    text = (root / "examples" / "clusters" / "two_cores.cluster").read_text()
    path = pathlib.Path(cache) / "weft" / socket.gethostname() / f"{ranks}_ranks_1_threads.cluster"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("2 x core", f"{ranks} x core"))
    return path


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--keep-last"],
        ["--clip-norm", "1.0", "--accumulate", "2"],
    ],
)
def test_the_plan_that_is_found_trains_as_any_other(root, given, tmp_path, more):
    keep(root, tmp_path)
    expected, err = train([*given, *more, "--parallel", "data=2,zero=1"], tmp_path / "words", XDG_CACHE_HOME=tmp_path)
    assert "weft: plan " not in err, "words say what the plan is"
    got, err = train([*given, *more, "--nproc", 2], tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    assert err.count("weft: plan ") == 1, "it is found once, before ranks begin"
    assert "measuring" not in err
    assert got == pytest.approx(expected, rel=1e-5)


def test_a_machine_is_measured_once(given, tmp_path):
    first, err = train([*given, "--nproc", 2], tmp_path / "first", XDG_CACHE_HOME=tmp_path)
    [kept] = tmp_path.glob("weft/*/*.cluster")
    assert f"weft: measuring this machine with 2 ranks, once, into {kept}" in err
    measured = kept.read_bytes()
    second, err = train([*given, "--nproc", 2], tmp_path / "second", XDG_CACHE_HOME=tmp_path)
    assert "measuring" not in err
    assert kept.read_bytes() == measured
    assert second == first


def test_a_resumed_run_keeps_its_plan(root, given, tmp_path):
    kept = keep(root, tmp_path)
    more = [*given, "--nproc", 2, "--save-every", 3]
    whole, _ = train(more, tmp_path / "whole", XDG_CACHE_HOME=tmp_path)
    half = [3 if each == STEPS else each for each in more]
    train(half, tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    found = (tmp_path / "run" / "found.plan").read_text()
    kept.write_text("no cluster at all")
    resumed, err = train([*more, "--resume"], tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    assert "weft: plan " not in err, "nothing is looked for"
    assert (tmp_path / "run" / "found.plan").read_text() == found
    assert resumed == whole


def test_nothing_fits(root, given, tmp_path):
    keep(root, tmp_path)
    little = [*given, "--nproc", 2, "--budget-bytes", 50_000]
    status, _, err = finish(little, tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    assert status == 2
    [message] = errors(err)
    assert message.startswith(
        "weft: error: no plan fits 48.8 KiB a rank on @two_cores: the least that any plan needs is"
    )


def test_a_kept_file_for_other_ranks(root, given, tmp_path):
    path = keep(root, tmp_path)
    path.write_text(path.read_text().replace("2 x core", "4 x core"))
    status, _, err = finish([*given, "--nproc", 2], tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    assert status == 2
    assert errors(err) == [
        f"weft: error: {path}: it has 4 devices, and should have 2; remove it, and it is measured again"
    ]


def test_one_rank_is_as_it_was(given, tmp_path):
    status, _, err = finish(given, tmp_path / "run", XDG_CACHE_HOME=tmp_path)
    assert status == 0, err
    assert "weft: plan " not in err
    assert not list(tmp_path.glob("weft/*"))
