# SPDX-License-Identifier: Apache-2.0
"""Models of other packages take the steps of eager PyTorch, or are refused by name: a few here, all in a campaign.

The packages of `requirements/zoo.txt` are needed by the campaign alone.
"""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "test" / "zoo"))
pytest.importorskip("transformers")

import zoo  # noqa: E402
from cell import KINDS  # noqa: E402
from run import entries, run_cells  # noqa: E402

# Each on one rank, and under one kind of plan on two.
SAMPLE = {
    "hugging_face_text/llama": "tensor",
    "hugging_face_text/t5": "pipeline",
    "hugging_face_text/bert": "micro-batches",
    "hugging_face_text/mamba": "data",
    "hugging_face_text/mobilebert": "data",
    "hugging_face_media/vit": "zero",
}
SECONDS = 120


def outcomes(folder, ranks, cells):
    results = folder / f"{ranks}.jsonl"
    run_cells(ranks, cells, results, SECONDS, told=lambda *_, **__: None)
    return {(entry["model"], entry["kind"]): entry for entry in entries(results)}


def wrong(found):
    return {cell: entry for cell, entry in found.items() if entry["outcome"] in ("failed", "different")}


def test_a_sample_on_one_rank(tmp_path):
    found = outcomes(tmp_path, 1, [(model, "one rank") for model in SAMPLE])
    assert {cell: entry["outcome"] for cell, entry in found.items()} == {
        (model, "one rank"): "bit-equal" for model in SAMPLE
    }


def test_a_sample_on_two_ranks(tmp_path):
    found = outcomes(tmp_path, 2, list(SAMPLE.items()))
    assert {cell: entry["outcome"] for cell, entry in found.items()} == {cell: "equal" for cell in SAMPLE.items()}


def test_a_step_that_differs_is_found(tmp_path, monkeypatch):
    """The comparison itself: a model whose second build has other weights is different."""
    import cell

    # The packages of the zoo stay out of what later tests import.
    monkeypatch.setattr(sys, "path", [*sys.path])
    builds = iter(range(100))

    def changed(name, seed=0, is_double=False):
        model, batch, optimizer = zoo.build(name, seed, is_double)
        if next(builds) > 2:
            next(model.parameters()).data.mul_(1.001)
        return model, batch, optimizer

    monkeypatch.setattr(cell, "build", changed)
    assert cell.compare("hugging_face_text/bert", "one rank")["outcome"] == "different"


@pytest.mark.campaign
@pytest.mark.parametrize("model", zoo.names())
def test_every_kind_of_plan(tmp_path, model):
    if not (ROOT / ".venv" / "zoo").exists():
        pytest.fail("the packages of the zoo are not installed: make zoo")
    found = outcomes(tmp_path, 1, [(model, "one rank")])
    found |= outcomes(tmp_path, 2, [(model, kind) for kind, (_, ranks) in KINDS.items() if ranks == 2])
    assert not wrong(found)
