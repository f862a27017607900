# SPDX-License-Identifier: Apache-2.0
"""Ranks that give batches of their own: parts of one batch, or a mistake that all of them are told of."""

import pytest
import torch
from local_batches import eager, joined, make, on_ranks, pairs, text

# Rounding of f32 sums in another order.
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def rows_of(*sizes, first=0, make_part=text, **options):
    return [make_part(first + number, rows, **options) for number, rows in enumerate(sizes)]


def unequal(make_part=text, **options):
    """One part has more rows than another, first or last, by one or by many; or has none."""
    sizes = [(4, 4), (5, 4), (4, 5), (1, 6), (0, 3), (4, 4)]
    return [rows_of(*each, first=10 * number, make_part=make_part, **options) for number, each in enumerate(sizes)]


def lengths():
    return [[text(1, 3, length=8), text(2, 3, length=5)], [text(3, 2, length=4), text(4, 4, length=9)]]


TWO = {
    "equal": {"words": "", "steps": [rows_of(4, 4, first=2 * step) for step in range(3)]},
    "padding": {"words": "", "steps": [[text(1, 4, padded=1), text(2, 4, padded=5)]] * 2},
    "unequal": {"words": "data=2", "steps": unequal()},
    "zero": {"words": "data=2,zero=3", "steps": unequal()},
    "accumulated": {"words": "data=2,zero=1", "steps": unequal(), "options": {"accumulate": 2}},
    "lengths": {"words": "", "steps": lengths(), "options": {"pad": {"tokens": 0, "labels": -100}}},
    "pairs": {"words": "", "model": "pairs", "steps": unequal(pairs)[:4]},
    "values": {
        "words": "",
        "model": "pairs",
        "settings": {"reads_values": True},
        "examples": [pairs(1, 4), pairs(2, 4)],
        # All rows of the second step are one rank's, as many as it gave as an example.
        "steps": [[pairs(1, 4), pairs(2, 4)], [pairs(3, 4), pairs(4, 0)]],
    },
    "tensor": {"words": "tensor=2", "steps": [[text(1, 4)], [text(2, 3)]]},
    "whole entry": {
        "words": "",
        "steps": [[{**part, "scale": torch.tensor(0.5)} for part in rows_of(3, 2)]] * 2,
    },
    "micro-batches": {"words": "data=2,micro-batches=2", "steps": unequal()[:3]},
}
FOUR = {
    "tensor": {"words": "data=2,tensor=2", "steps": unequal()},
    "pipeline": {"words": "pipeline=2,data=2,micro-batches=2", "steps": unequal()[:4]},
    "zero": {"words": "data=4,zero=3", "steps": [rows_of(2, 2, 2, 2), rows_of(1, 3, 2, 1), rows_of(3, 0, 1, 1)]},
    # Rows that do not divide are whole on every rank, where the sequence is split too.
    "context": {"words": "data=2,context=2", "steps": [rows_of(4, 4), rows_of(2, 3)]},
    "grid": {"words": "tensor=2x2", "steps": [rows_of(4, 4), rows_of(2, 4)]},
}


def check(case, results):
    expected = eager(case)
    for result in results:
        torch.testing.assert_close(torch.tensor(result["losses"]), torch.tensor(expected["losses"]), **CLOSE)
        torch.testing.assert_close(result["evaluated"], expected["evaluated"], **CLOSE)
        torch.testing.assert_close(result["state"], expected["state"], **CLOSE)
        if "accumulate" not in case.get("options", {}):
            torch.testing.assert_close(result["gradients"], expected["gradients"], **CLOSE)


def check_all(cases, results):
    for name, case in cases.items():
        try:
            check(case, results[name])
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def with_model(cases):
    return {name: {"model": "text", **case} for name, case in cases.items()}


def loader(words):
    # 22 samples on 2 parts in batches of 4: the last of an epoch has 3 rows a part.
    return {"kind": "loader", "model": "text", "words": words, "samples": text(7, 22, padded=2), "batch_size": 4}


def check_loader(case, results):
    """Against eager steps on what the loaders of all parts gave."""
    module, optimizer = make(case["model"])
    parts = {result["given"][0]["tokens"].numpy().tobytes(): result for result in results}
    given = [result["given"] for result in parts.values()]
    rows = [row for batches in given for batch in batches for row in batch["tokens"].tolist()]
    assert {tuple(row) for row in rows} == {tuple(row) for row in case["samples"]["tokens"].tolist()}
    for number, batches in enumerate(zip(*given, strict=True)):
        optimizer.zero_grad()
        loss = module(**joined(batches))
        loss.backward()
        optimizer.step()
        for result in results:
            torch.testing.assert_close(result["losses"][number], loss.item(), **CLOSE)
    for result in results:
        torch.testing.assert_close(result["state"], module.state_dict(), **CLOSE)


def with_one_other(batch):
    """One value is another: one of so many that a look at some of them does not find it."""
    batch["tokens"][0, 1] = (batch["tokens"][0, 1] + 1) % 7
    return batch


DIFFERENT = {
    "kind": "refusals",
    "words": "",
    "example": text(0, 4),
    "calls": [
        ("step", [text(1, 4)]),
        ("step", [text(1, 4), text(1, 3)]),
        ("step", [text(1, 4), text(2, 4)]),
        ("step", [text(1, 6)]),
        (("step", "evaluate"), [text(1, 4)]),
        ("step", [text(1, 20), with_one_other(text(1, 20))]),
        ("step", [text(1, 4), {**text(1, 4), "tokens": text(1, 4)["tokens"].int()}]),
        ("evaluate", [text(1, 4)]),
    ],
}
HINT = 'as with a DistributedSampler, call weft.parallelize(..., batch="local")'


def check_different(by_rank):
    first, *others = zip(*by_rank, strict=True)
    shapes, values, sixth, calls, new_values, types, last = others
    assert all(isinstance(loss, float) for loss in (*first, *sixth, *last))
    for both in (shapes, values, calls, new_values, types):
        assert both[0] == both[1]
    assert "tokens is i64[4, 8] on rank 0 and i64[3, 8] on rank 1" in shapes[0]
    assert HINT in shapes[0]
    assert "the values of tokens, labels on rank 1 are not those on rank 0" in values[0]
    assert HINT in values[0]
    assert "rank 0 is at a training step and rank 1 at an evaluation" in calls[0]
    assert "the values of tokens on rank 1 are not those on rank 0" in new_values[0]
    assert "tokens is i64[4, 8] on rank 0 and i32[4, 8] on rank 1" in types[0]


LOCAL_MISTAKES = {
    "kind": "refusals",
    "words": "",
    "example": {**text(0, 4), "scale": torch.ones(8, 1)},
    "options": {"batch": "local"},
    "calls": [
        ("step", [{**text(rank, 4), "scale": torch.full((8, 1), 1.0 + rank)} for rank in range(2)]),
        ("step", [{**text(rank, 4, length=8 - rank), "scale": torch.ones(8, 1)} for rank in range(2)]),
        ("step", [{**text(0, 4), "labels": text(0, 3)["labels"], "scale": torch.ones(8, 1)}]),
        ("step", [{**text(rank, 0), "scale": torch.ones(8, 1)} for rank in range(2)]),
        ("step", [{**text(rank, 4), "scale": torch.ones(8, 1)} for rank in range(2)]),
    ],
}


def check_local_mistakes(by_rank):
    wholes, longer, rows, empty, last = zip(*by_rank, strict=True)
    assert wholes[0] == wholes[1]
    assert "the values of scale on rank 1 are not those on rank 0" in wholes[0]
    assert "it is not split, and every rank has to give the same" in wholes[0]
    assert longer[0] == longer[1]
    assert "tokens is i64[4, 8] on rank 0 and i64[4, 7] on rank 1" in longer[0]
    assert 'pad={"tokens": 0}' in longer[0]
    assert "on rank 0, labels is i64[3, 8] and tokens is i64[4, 8]" in rows[0]
    assert "no rank has a row" in empty[0]
    assert all(isinstance(loss, float) for loss in last)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    cases = with_model(
        {
            **TWO,
            "loader": loader(""),
            "loader zero": loader("data=2,zero=3"),
            "different": DIFFERENT,
            "local mistakes": LOCAL_MISTAKES,
            "alike": {"words": "", "steps": [[text(1, 4)] * 2]},
            "dropout": {"words": "", "settings": {"dropout": 0.5}, "steps": unequal()[:3]},
            "dropout global": {
                "words": "",
                "settings": {"dropout": 0.5},
                "steps": [[joined(parts)] for parts in unequal()[:3]],
                "options": {"batch": "global"},
            },
        }
    )
    return on_ranks(2, tmp_path_factory.mktemp("two"), cases)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    wrong = {
        "kind": "refusals",
        "words": "data=2,tensor=2",
        "example": text(0, 4),
        "options": {"batch": "local"},
        "calls": [
            ("step", rows_of(4, 4, 4, 4)),
            ("step", rows_of(4, 3, 4, 4)),
            ("step", [text(1, 4), text(1, 4), text(2, 4), text(2, 4)]),
        ],
    }
    cases = with_model({**FOUR, "wrong": wrong, "loader": loader("data=2,tensor=2")})
    return on_ranks(4, tmp_path_factory.mktemp("four"), cases)


def test_two_parts_are_one_batch(two):
    check_all(with_model(TWO), two[0])


def test_four_ranks_give_parts_of_one_batch(four):
    check_all(with_model(FOUR), four[0])
    assert [result["parts"] for result in four[0]["tensor"]] == [(2, 0), (2, 0), (2, 1), (2, 1)]
    assert [result["parts"] for result in four[0]["pipeline"]] == [(2, 0), (2, 1), (2, 0), (2, 1)]


def test_scripts_with_a_distributed_sampler(two, four):
    for name, words in (("loader", ""), ("loader zero", "data=2,zero=3")):
        check_loader(loader(words), two[0][name])
    check_loader(loader("data=2,tensor=2"), four[0]["loader"])


def test_dropout_is_that_of_the_whole_batch(two):
    for ours, expected in zip(two[0]["dropout"], two[0]["dropout global"], strict=True):
        torch.testing.assert_close(ours["losses"], expected["losses"], **CLOSE)
        torch.testing.assert_close(ours["state"], expected["state"], **CLOSE)


def test_different_batches_are_told_of_on_every_rank(two):
    check_different(two[0]["different"])


def test_parts_that_do_not_go_together_are_told_of(two):
    check_local_mistakes(two[0]["local mistakes"])


def test_the_same_part_on_all_ranks_is_warned_of(two):
    assert two[1].count("all ranks gave the same rows") == 1


def test_a_sampler_by_rank_is_wrong_beside_tensor_parallelism(four):
    by_rank = four[0]["wrong"]
    values, rows, last = zip(*by_rank, strict=True)
    assert len(set(values)) == 1
    assert len(set(rows)) == 1
    assert "the values of tokens, labels on rank 1 are not those on rank 0" in values[0]
    assert "num_replicas=trainer.data_ranks and rank=trainer.data_rank" in values[0]
    assert "tokens is i64[4, 8] on rank 0 and i64[3, 8] on rank 1" in rows[0]
    assert all(isinstance(loss, float) for loss in last)
