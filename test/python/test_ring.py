# SPDX-License-Identifier: Apache-2.0
"""Attention by blocks of keys that ranks pass round: exact, as much work for every rank, and no more bytes than said.

All ranks run in this process, as in test_layouts.py; test_parallel_training.py runs `context` in real ones.
"""

import importlib
import re

import pytest
import torch
import weft
from lockstep import Step
from weft import _weft

LOSS = 1e-6
GRADIENT = 1e-5


def small(example, sequence=16, **options):
    """A model with dropout everywhere but in attention, where it would run as products of matrices."""
    torch.manual_seed(0)
    options = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 64, "batch_size": 4, "sequence": sequence} | options
    model, batch, optimizer = importlib.import_module(example).tiny(**options)
    for module in model.modules():
        if hasattr(module, "heads") and hasattr(module, "dropout"):
            module.dropout = 0.0
    return model, batch, optimizer


def step_of(example, **options):
    return Step(*small(example, **options))


def llama(**options):
    return weft.capture(*small("llama", hidden=64, kv_heads=2, **options), name="model")


@pytest.fixture(scope="module")
def steps():
    return {
        "gpt": step_of("gpt"),
        "llama": step_of("llama", hidden=64, kv_heads=2),
        "bert": step_of("bert"),
        "t5": step_of("t5", hidden=64, head_width=8, target_sequence=8),
        "gpt of 13": step_of("gpt", sequence=13),
        "bert of 13": step_of("bert", sequence=13),
    }


STRIPED = "%batch.* [{batch}, ({rows} context:{ways})]"
NEIGHBOURS = "%batch.* [{batch}, context]"
LLAMA_TENSOR = """
  %*query.weight [tensor, -]
  %*key.weight [tensor, -]
  %*value.weight [tensor, -]
  %*out.weight [-, tensor]
  %*gate.weight [tensor, -]
  %*up.weight [tensor, -]
  %*down.weight [-, tensor]
"""
STORED = """
  %*.weight [data, -] compute [-, -]
  %*norm.weight [data] compute [-]
"""
CASES = [
    *[("gpt", f"<context={n}>", STRIPED.format(batch="-", rows=16 // n, ways=n)) for n in (2, 4, 8)],
    *[("llama", f"<context={n}>", STRIPED.format(batch="-", rows=16 // n, ways=n)) for n in (2, 8)],
    ("gpt", "<context=4>", NEIGHBOURS.format(batch="-")),
    ("llama", "<context=3>", NEIGHBOURS.format(batch="-")),
    ("gpt of 13", "<context=4>", NEIGHBOURS.format(batch="-")),
    ("gpt", "<x=2, y=3>", "%batch.* [-, y*x]"),
    ("gpt of 13", "<x=3, y=2>", "%batch.* [-, y*x]"),
    ("llama", "<data=2, context=2>", STRIPED.format(batch="data", rows=8, ways=2)),
    ("llama", "<data=2, context=4>", STRIPED.format(batch="data", rows=4, ways=4) + STORED),
    ("llama", "<context=2, tensor=2>", STRIPED.format(batch="-", rows=8, ways=2) + LLAMA_TENSOR),
    ("llama", "<data=2, context=2, tensor=2>", NEIGHBOURS.format(batch="data") + LLAMA_TENSOR),
    ("bert", "<context=2>", NEIGHBOURS.format(batch="-")),
    ("bert", "<context=8>", NEIGHBOURS.format(batch="-")),
    ("bert", "<context=4>", STRIPED.format(batch="-", rows=4, ways=4)),
    ("bert", "<data=2, context=2>", NEIGHBOURS.format(batch="data")),
    ("bert of 13", "<context=4>", NEIGHBOURS.format(batch="-")),
    ("t5", "<context=4>", NEIGHBOURS.format(batch="-")),
]


@pytest.mark.parametrize(("model", "mesh", "decisions"), CASES)
def test_exact(steps, model, mesh, decisions):
    plan = f"plan @model on {mesh} {{\n{decisions}\n}}"
    assert "receive" in _weft.wire_bytes(steps[model].graph, plan, rank=1)
    worst = steps[model].difference(plan)
    assert worst["loss"] < LOSS
    assert worst["gradient"] < GRADIENT


def test_attention_with_dropout_is_gathered():
    torch.manual_seed(0)
    step = Step(*importlib.import_module("gpt").tiny(layers=1, width=32, sequence=16, dropout=0.1))
    plan = "plan @model on <context=2> { %batch.* [-, context] }"
    assert "receive" not in _weft.wire_bytes(step.graph, plan)
    worst = step.difference(plan)
    assert worst["loss"] < LOSS
    assert worst["gradient"] < GRADIENT


def layer_bytes(mesh, decisions, rank=0):
    """What a rank receives for one layer more of a Llama."""
    taken = []
    for layers in (1, 2):
        plan = f"plan @model on {mesh} {{\n{decisions}\n}}"
        taken.append(_weft.wire_bytes(llama(layers=layers), plan, rank).get("receive", 0))
    return taken[1] - taken[0]


KEYS = 4 * 4 * 2 * 16 * 8  # bytes of [batch, heads of keys, sequence, width of a head] in f32; values are as large


@pytest.mark.parametrize("ways", [2, 4, 8])
def test_bytes(ways):
    decisions = STRIPED.format(batch="-", rows=16 // ways, ways=ways)
    # Keys and values in forward; in backward those again, and their gradients.
    assert layer_bytes(f"<context={ways}>", decisions) == (ways - 1) * 6 * KEYS // ways


def test_what_a_causal_mask_hides_does_not_travel():
    ways, piece = 4, KEYS // 4
    for rank in range(ways):
        # Keys and values of those before it, twice; gradients from those behind it come added up, but for the ranks
        # on the way: each but the first two takes one for every block that it did not see first.
        on_the_way = max(rank - 1, 0)
        home = 1 if rank < ways - 1 else 0
        expected = 2 * piece * (2 * rank + on_the_way + home)
        assert layer_bytes(f"<context={ways}>", NEIGHBOURS.format(batch="-"), rank) == expected


class Block:
    """One rank's part of a program."""

    def __init__(self, text):
        self.lines = [line.strip() for line in text.splitlines()]
        self.sizes = {}
        for line in self.lines:
            made = re.match(r"(?:input |start )?(%\S+?(?:, %\S+?)*) (?:=.*?)?: (\w+\[.*)", line)
            if made:
                sizes = re.findall(r"\b[a-z]+\d*\[([\d, ]*)\]", made[2])
                names = made[1].split(", ")
                for name, each in zip(names, sizes, strict=False):
                    self.sizes[name] = [int(n) for n in each.split(",") if n.strip()]

    def attention(self):
        """Of every call: how many queries, how many keys, causal or not, and whether it is backward."""
        for line in self.lines:
            call = re.search(r"flash_attention_for_cpu(_backward)?\((.*?)\) :", line)
            if call:
                arguments = call[2].split(", ")
                first = 1 if call[1] else 0
                query, key = (self.sizes[arguments[first + i]] for i in (0, 1))
                yield query[2], key[2], arguments[7 if call[1] else 4] == "true", bool(call[1])


def blocks(graph, mesh, decisions):
    text = _weft.lower(graph, f"plan @model on {mesh} {{\n{decisions}\n}}")
    return [Block(part) for part in text.split("\nblock ")[1:]]


def scores(block):
    """Pairs of a query and a key that it sees, over all calls."""
    total = 0
    for queries, keys, causal, is_backward in block.attention():
        seen = sum(min(i + 1, keys) for i in range(queries)) if causal else queries * keys
        total += seen * (5 if is_backward else 2)  # products of matrices
    return total


@pytest.fixture(scope="module")
def long():
    return llama(sequence=1024, layers=1, batch_size=1)


@pytest.mark.parametrize("ways", [2, 4, 8])
def test_every_rank_does_as_much(long, ways):
    striped = STRIPED.format(batch="-", rows=1024 // ways, ways=ways)
    work = [scores(b) for b in blocks(long, f"<context={ways}>", striped)]
    assert len(work) == ways
    assert max(work) - min(work) < 0.02 * max(work)
    assert sum(work) == 7 * 1024 * 1025 // 2
    # Neighbours: none does what the mask hides, but the last has most to do.
    unequal = [scores(b) for b in blocks(long, f"<context={ways}>", NEIGHBOURS.format(batch="-"))]
    assert sum(unequal) == sum(work)
    assert unequal[-1] > 1.4 * max(work)


def test_nobody_holds_all_keys(steps):
    for block in blocks(steps["llama"].graph, "<context=4>", STRIPED.format(batch="-", rows=4, ways=4)):
        assert max(sizes[2] for sizes in block.sizes.values() if len(sizes) == 4 and sizes[3] == 8) == 4


def test_blocks_travel_while_attention_is_computed(long):
    """Each block leaves, and the next one is on its way, before attention is computed; it is waited for after that."""
    for block in blocks(long, "<context=4>", STRIPED.format(batch="-", rows=256, ways=4)):
        on_the_way, hidden, calls = set(), 0, 0
        for line in block.lines:
            if started := re.match(r"start (%\S+) = receive", line):
                on_the_way.add(started[1])
            elif waited := re.match(r"wait (%\S+)", line):
                on_the_way.discard(waited[1])
            elif "flash_attention_for_cpu" in line and "= aten._scaled" in line:
                calls += 1
                hidden += len(on_the_way) >= 2
        # All but the last of the four of forward and of backward.
        assert (calls, hidden) == (8, 6 + 1)
