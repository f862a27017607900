# SPDX-License-Identifier: Apache-2.0
"""Passes on graphs that were captured from models."""

import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
import weft
from torch import nn
from torch.utils.checkpoint import checkpoint

PROGRAM = pathlib.Path(sys.executable).with_name("weft")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.blocks = nn.ModuleList(Block(32) for _ in range(3))
        self.checkpointed = checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x.pow(2).mean()


def optimized(graph, *passes):
    command = [PROGRAM, "opt", f"--pass={','.join(passes)}", "-"]
    return subprocess.run(command, input=str(graph), text=True, capture_output=True, check=True).stdout


def test_a_checkpointed_model_folds_to_the_plain_one():
    plain, checkpointed = (
        weft.capture(model, (torch.randn(4, 8, 32),), torch.optim.AdamW(model.parameters()))
        for model in (Stack(checkpointed=False), Stack(checkpointed=True))
    )
    assert "recompute:" in str(checkpointed)
    tidy = ("dead-code", "strip-releases", "canonical-names")
    assert optimized(checkpointed, "fold-recompute", *tidy) == optimized(plain, *tidy)
