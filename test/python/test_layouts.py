# SPDX-License-Identifier: Apache-2.0
"""Every kind of layout computes the loss and gradients of the undivided step, whatever the model.

All ranks run in this process (`_weft.run_lockstep`): the program of every rank, without wires. That the wires carry
what they should is tested in test_transfers.py and test_parallel_training.py.
"""

import importlib
import os

import pytest
import torch
import weft
from lockstep import Step, random_plan
from weft import UserError, _weft
from weft.capture import map_batch

LOSS = 1e-6
GRADIENT = 1e-5

MEGATRON = """
  %tokens.weight [tensor, -]
  %*qkv.weight [(3 tensor), -]
  %*qkv.bias [(3 tensor)]
  %*out.weight [-, tensor]
  %*up.weight [tensor, -]
  %*up.bias [tensor]
  %*down.weight [-, tensor]
"""
SEQUENCE = """
  %*out/view.1 [{data}, tensor, -]
  %*down/view.1 [{data}, tensor, -]
  %tokens/embedding [{data}, tensor, -]
"""
STORED = """
  %*.weight [data, -] compute [-, -]
  %*norm.weight [data] compute [-]
  %*.bias [data] compute [-]
"""
TWO_DIMS = """
  %tokens.weight [x, y]
  %positions.weight [-, y]
  %*norm.weight [y]
  %*norm.bias [y]
  %*qkv.weight [(3 x), y]
  %*qkv.bias [(3 x)]
  %*out.weight [y, x]
  %*out.bias [y]
  %*up.weight [x, y]
  %*up.bias [x]
  %*down.weight [y, x]
  %*down.bias [y]
"""
GPT_PLANS = {
    "data": ("<data=2>", "%batch.* [data, -]"),
    "data that does not divide": ("<data=3>", "%batch.* [data, -]"),
    "tensor": ("<tensor=2>", MEGATRON),
    "tensor over heads that do not divide": (
        "<tensor=3>",
        "%*qkv.weight [(3 tensor:4 8), -]\n%*qkv.bias [(3 tensor:4 8)]\n%*out.weight [-, (tensor:4 8)]",
    ),
    "vocabulary that does not divide": ("<tensor=3>", "%tokens.weight [tensor, -]"),
    "tensor and sequence": ("<tensor=2>", MEGATRON + SEQUENCE.format(data="-")),
    "data, tensor and sequence": (
        "<data=2, tensor=2>",
        "%batch.* [data, -]" + MEGATRON + SEQUENCE.format(data="data"),
    ),
    "context": ("<context=2>", "%batch.* [-, context]"),
    "data and context that do not divide": ("<data=2, context=3>", "%batch.* [data, context]"),
    "two dims": ("<x=2, y=2>", TWO_DIMS),
    "two dims and data": ("<data=2, x=2, y=2>", "%batch.* [data, -]" + TWO_DIMS),
    "three dims": (
        "<x=2, y=2, z=2>",
        TWO_DIMS + "%batch.* [z, -]\n%*up.weight [x, y*z]\n%*down.weight [y*z, x]",
    ),
    "hidden": (
        "<x=2>",
        "%tokens.weight [-, x]\n%positions.weight [-, x]\n%*norm.weight [x]\n%*norm.bias [x]",
    ),
    "states split": (
        "<data=2>",
        "%batch.* [data, -]\n%*.weight.exp_avg* [data, -]\n%*norm.weight.exp_avg* [data]",
    ),
    "parameters stored split": ("<data=2>", "%batch.* [data, -]" + STORED),
    "parameters stored split that do not divide": ("<data=3>", "%batch.* [data, -]" + STORED),
    "stored split within, copied across": (
        "<replica=2, data=2>",
        "%batch.* [replica*data, -]" + STORED,
    ),
    "all at once": (
        "<data=2, tensor=2>",
        "%batch.* [data, -]"
        + MEGATRON
        + SEQUENCE.format(data="data")
        + "%*qkv.weight [(3 tensor), data] compute [(3 tensor), -]\n"
        + "%*out.weight [data, tensor] compute [-, tensor]\n"
        + "%*up.weight [tensor*data, -] compute [tensor, -]\n"
        + "%*down.weight [data, tensor] compute [-, tensor]",
    ),
}


def tiny(example, **options):
    torch.manual_seed(0)
    return importlib.import_module(example).tiny(**options)


@pytest.fixture(scope="module")
def gpt():
    module = importlib.import_module("gpt")
    torch.manual_seed(0)
    options = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 64, "sequence": 16, "batch_size": 4}
    return Step(*module.gpt2_small(**options, dropout=0.1))


@pytest.mark.parametrize("kind", GPT_PLANS)
def test_gpt(gpt, kind):
    mesh, decisions = GPT_PLANS[kind]
    worst = gpt.difference(f"plan @model on {mesh} {{\n{decisions}\n}}")
    assert worst["loss"] < LOSS
    assert worst["gradient"] < GRADIENT


# In f64, where rounding cannot hide a mistake.
@pytest.mark.parametrize(
    "example", ["bert", "cosmoflow", "gpt", "llama", "lstm", "moe", "resnet", "signals", "t5", "unet3d", "vit"]
)
def test_random_plans(example, campaign_size):
    model, batch, optimizer = tiny(example)
    model = model.double()
    batch = map_batch(batch, lambda _, tensor: tensor.double() if tensor.is_floating_point() else tensor)
    step = Step(model, batch, type(optimizer)(model.parameters(), lr=0.1))
    # Others by another first seed.
    first = int(os.environ.get("WEFT_CAMPAIGN_SEED", "0"))
    for seed in range(first, first + campaign_size(3, 60)):
        plan = random_plan(step, seed)
        worst = step.difference(plan)
        assert max(worst.values()) < 1e-9, f"{worst} under\n{plan}"


def collectives(gpt, kind):
    """The kind of each, and how many values travel in it."""
    mesh, decisions = GPT_PLANS[kind]
    program = _weft.lower(gpt.graph, f"plan @model on {mesh} {{\n{decisions}\n}}")
    block = program.split("\nblock ")[1]
    starts = [line.split(" = ") for line in block.splitlines() if line.lstrip().startswith("start ")]
    return [(words.split("(")[0], results.count(",") + 1) for results, words in starts]


def test_a_layer_of_megatron_takes_four_sums(gpt):
    found = [kind for kind, _ in collectives(gpt, "tensor")]
    # Two layers; the embedding, and the gradient of what the output layer read; the loss: the largest
    # logit, the sum of exponentials, the loss itself, and one sum in its gradient.
    assert found.count("all_reduce") == 2 * 4 + 2 + 3
    assert found.count("all_gather") == 1
    assert len(found) == 14


def test_what_is_stored_split_is_gathered_twice_and_its_gradient_is_scattered(gpt):
    found = collectives(gpt, "parameters stored split")
    stored = sum(1 for kind, _ in gpt.graph.inputs("step") if kind == "parameter")
    assert sum(count for kind, count in found if kind == "reduce_scatter") == stored
    # Forward and backward; biases of linear layers are not read in backward.
    gathered = [count for kind, count in found if kind == "all_gather"]
    assert stored < sum(gathered) <= 2 * stored
    # Tables, two layers and the last norm; in backward the norm with the output layer's table.
    assert len(gathered) == 7


def bytes_of_a_layer(mesh, decisions, **options):
    """What one more layer of a GPT takes from other ranks, by kind; and the sizes of the GPT."""
    sizes = {"width": 32, "heads": 4, "vocabulary": 64, "sequence": 16, "batch_size": 4, "dropout": 0.0, **options}
    taken = []
    for layers in (1, 2):
        torch.manual_seed(0)
        model, batch, optimizer = importlib.import_module("gpt").gpt2_small(layers=layers, **sizes)
        graph = _weft.drop_gradient_outputs(weft.capture(model, batch, optimizer, name="model"))
        taken.append(_weft.wire_bytes(graph, f"plan @model on {mesh} {{\n{decisions}\n}}"))
    layer = {kind: taken[1].get(kind, 0) - taken[0].get(kind, 0) for kind in taken[1]}
    return {kind: count for kind, count in layer.items() if count != 0}


ACTIVATION = 4 * 4 * 16 * 32  # bytes of [batch, sequence, width] in f32
LAYER = 4 * (12 * 32 * 32 + 13 * 32)  # of the parameters of a layer


def test_bytes_of_megatron():
    ways = 4
    got = bytes_of_a_layer(f"<tensor={ways}>", MEGATRON)
    # Two sums in forward and two in backward.
    assert got == {"all_reduce": 4 * 2 * ACTIVATION * (ways - 1) // ways}


def test_bytes_of_megatron_with_sequence():
    ways = 4
    got = bytes_of_a_layer(f"<tensor={ways}>", MEGATRON + SEQUENCE.format(data="-"))
    piece = ACTIVATION * (ways - 1) // ways
    # The gradients of two norms are summed over the parts of the sequence.
    small = 4 * 4 * 32 * 2 * (ways - 1) // ways
    # Forward gathers and scatters twice; backward too, and gathers again what products read in forward.
    assert got == {"all_gather": 6 * piece, "reduce_scatter": 4 * piece, "all_reduce": small}


def test_bytes_of_data_and_zero():
    ways = 2
    piece = LAYER * (ways - 1) // ways
    data = "%batch.* [data, -]"
    assert bytes_of_a_layer("<data=2>", data) == {"all_reduce": 2 * piece}
    states = "\n%*.weight.exp_avg* [data, -]\n%*norm.weight.exp_avg* [data]\n%*.bias.exp_avg* [data]"
    # zero 1 and 2: gradients are scattered, what was updated is gathered.
    assert bytes_of_a_layer("<data=2>", data + states) == {"reduce_scatter": piece, "all_gather": piece}
    got = bytes_of_a_layer("<data=2>", data + STORED)
    # zero 3: gathered in forward, and in backward but for biases of products, which that does not read.
    biases = 4 * 9 * 32 * (ways - 1) // ways
    assert got == {"reduce_scatter": piece, "all_gather": 2 * piece - biases}


def test_messages_name_the_value(gpt):
    with pytest.raises(UserError, match="no partial sum over data"):
        _weft.lower(
            gpt.graph, "plan @model on <data=2> { %batch.* [data, -]\n %norm/native_layer_norm [-, -, -] +{data} }"
        )
