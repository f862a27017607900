# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of Hugging Face under plans: the loss and the gradients of eager PyTorch."""

import functools

import pytest
import torch
import weft
from evaluating import first_state
from weft import _weft

pytest.importorskip("transformers")

import experts  # noqa: E402

# In f32, with sums in other orders.
CLOSE = 2e-5
WORDS = [
    "data=2",
    "expert=2",
    "tensor=2",
    "data=2,expert=2,zero=3",
    "expert=4",
    "expert=2,tensor=2",
    "data=2,micro-batches=2,expert=2",
    "expert=4,seats=4",
]


@functools.cache
def captured(family, implementation="grouped_mm", statistics=True):
    """The step as a graph, values for its inputs, and what eager PyTorch gives."""
    options = (family, implementation, statistics)
    model, batch, optimizer = experts.build(*options)
    graph = weft.capture(model, batch, optimizer)
    known = {("batch", key): value for key, value in batch.items()}
    known |= {("parameter", name): p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    known |= {("buffer", name): b.detach() for name, b in model.named_buffers()}
    known[("scalar", "lr.0")] = torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64)
    inputs = []
    for kind, key in graph.inputs("step"):
        if kind == "constant":
            inputs.append(_weft.constant(graph, key))
        elif kind == "state":
            inputs.append(first_state(graph, key, optimizer))
        else:
            inputs.append(known[(kind, key)])
    return graph, inputs, experts.eager(*options)


def difference(family, words, *options):
    """Of all ranks in this process from eager PyTorch."""
    graph, inputs, expected = captured(family, *options)
    outputs = _weft.run_lockstep(graph, _weft.expand(graph, words), inputs, seed=3)
    named = dict(zip(graph.outputs("step"), outputs, strict=True))
    gradients = {key: value for (kind, key), value in named.items() if kind == "gradient"}
    return experts.worst((named[("loss", "")], gradients), expected)


@pytest.mark.parametrize("words", WORDS)
def test_sorted_rows_are_shared(words):
    assert max(difference("mixtral", words)) < CLOSE


@pytest.mark.parametrize("words", ["data=2,expert=2", "expert=4,seats=4"])
def test_biases_of_experts_are_shared(words):
    assert max(difference("gpt_oss", words)) < CLOSE


def test_matrices_that_tokens_look_up_are_shared():
    assert max(difference("mixtral", "expert=2", "batched_mm")) < CLOSE


def test_each_rank_multiplies_with_its_own_experts():
    graph, _, _ = captured("mixtral")
    program = str(_weft.lower(graph, _weft.expand(graph, "data=2,expert=2")))
    assert "aten._grouped_mm" not in program and "aten.sort" not in program
    # Two samples come to a rank from both ranks that share the experts, with 32 choices each, and two experts stay.
    assert "weft.grouped_mm" in program
    assert "f32[64, 32], f32[2, 32, 96]" in program or "f32[2, 96, 32]" in program


def test_more_choices_than_seats_stop_the_step():
    graph, inputs, _ = captured("mixtral")
    with pytest.raises(weft.UserError, match=r"choices of one sample fall to the experts of one rank.*seats for 16"):
        _weft.run_lockstep(graph, _weft.expand(graph, "expert=2,seats=1"), inputs, seed=3)


def test_real_ranks_give_the_gradients_of_eager(tmp_path):
    cells = [(("mixtral", "grouped_mm", True), "expert=2"), (("gpt_oss", "grouped_mm", False), "expert=2")]
    for (options, words), got in zip(cells, experts.on_ranks(2, tmp_path, cells), strict=True):
        assert max(experts.worst(got, experts.eager(*options))) < CLOSE, (options, words)


@pytest.mark.campaign
@pytest.mark.parametrize("family", list(experts.FAMILIES))
@pytest.mark.parametrize("implementation", ["grouped_mm", "batched_mm"])
def test_families_on_real_ranks(family, implementation, tmp_path):
    options = (family, implementation, True)
    # PhiMoE's router draws random numbers, which are not PyTorch's: there one rank is what others are held against.
    is_random = family == "phimoe"
    expected = experts.on_ranks(1, tmp_path / "1", [(options, None)])[0] if is_random else experts.eager(*options)
    for ranks, words in ((2, ["expert=2", "tensor=2", "data=2"]), (4, ["data=2,expert=2"])):
        cells = [(options, each) for each in words]
        for (_, each), got in zip(cells, experts.on_ranks(ranks, tmp_path / f"{ranks}", cells), strict=True):
            assert max(experts.worst(got, expected)) < CLOSE, (family, implementation, each)
