# SPDX-License-Identifier: Apache-2.0
"""Pieces of parameters and buffers are those of the whole, for everything that the examples make."""

import random
import subprocess

import pytest
import torch
from training_runs import ROOT, WEFT, environment
from weft import _weft

EXAMPLES = ["bert", "cosmoflow", "gpt", "llama", "lstm", "moe", "resnet", "t5", "unet3d", "vit"]


@pytest.mark.parametrize(
    "example", [e if e in ("gpt", "resnet", "t5") else pytest.param(e, marks=pytest.mark.campaign) for e in EXAMPLES]
)
def test_pieces_are_those_of_the_whole(example, tmp_path):
    command = [WEFT, "capture", f"{ROOT}/examples/models/{example}.py:tiny", "-o", tmp_path / "graph"]
    subprocess.run(command, check=True, env=environment(), timeout=120)
    graph = _weft.Graph.parse((tmp_path / "graph").read_text())
    draw = random.Random(0)
    for (kind, key), whole in zip(graph.outputs("init"), _weft.initialise(graph, 5), strict=True):
        start = [draw.randrange(size) for size in whole.shape]
        piece = whole
        for dim, first in enumerate(start):
            piece = piece.narrow(dim, first, draw.randint(1, whole.shape[dim] - first))
        made = torch.empty(piece.shape, dtype=piece.dtype)
        _weft.initialise_piece(graph, 5, kind == "buffer", key, start, list(whole.shape), made)
        assert torch.equal(made, piece), key
