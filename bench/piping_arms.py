# SPDX-License-Identifier: Apache-2.0
"""Steps of one GPT as a pipeline: by torch.distributed.pipelining, and by Weft with the same cut or one of its own."""

import re

import gpt
import torch
import torch.nn.functional as F
import weft
from arms import RANK, RANKS, make
from torch import nn
from weft import _weft


def untied_gpt(**options):
    """Its head has a weight of its own: torch's pipelines have no tied weights, and all arms do the same work."""
    model, batch, _ = gpt.gpt2_small(**options)
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model, batch, gpt.adamw(model, 6e-4)


class Layers(nn.Module):
    """Blocks `first` to `last` of the model; the first stage embeds, the last one gives logits."""

    def __init__(self, model, first, last):
        super().__init__()
        self.blocks = model.blocks[first:last]
        if first == 0:
            self.tokens, self.positions, self.dropout = model.tokens, model.positions, model.dropout
        self.is_first, self.is_last = first == 0, last == len(model.blocks)
        if self.is_last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x):
        if self.is_first:
            x = self.dropout(self.tokens(x) + self.positions(torch.arange(x.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.is_last else x


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def torch_pipeline(task, schedule, cuts):
    """`cuts` are the layers at which stages begin, but for the first; stages go round the ranks."""
    from torch.distributed import pipelining

    model, (tokens, labels), _ = make(task)
    ends = [0, *cuts, len(model.blocks)]
    count = len(ends) - 1
    mine = [
        pipelining.PipelineStage(Layers(model, ends[stage], ends[stage + 1]), stage, count, torch.device("cpu"))
        for stage in range(RANK, count, RANKS)
    ]
    kind = {
        "gpipe": pipelining.ScheduleGPipe,
        "1f1b": pipelining.Schedule1F1B,
        "interleaved": pipelining.ScheduleInterleaved1F1B,
    }[schedule]
    stages = mine if schedule == "interleaved" else mine[0]
    pipeline = kind(stages, n_microbatches=task["micro_batches"], loss_fn=loss_of)
    optimizer = gpt.adamw(nn.ModuleList(stage.submod for stage in mine), 6e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        has_first, has_last = mine[0].is_first, mine[-1].is_last
        given = {"target": labels} if has_last else {}
        pipeline.step(*([tokens] if has_first else []), return_outputs=False, **given)
        optimizer.step()

    return step


def with_cuts(plan, cuts):
    """The plan with stages that begin at those layers."""
    lines = "".join(f"  stage %blocks.{layer}.*\n" for layer in cuts)
    return re.sub(r"(  stage %\S+\n)+", lambda _: lines, plan)


def weft_pipeline(task, words, cuts=None):
    """(trainer, batch). With `cuts`, the stages begin at those layers, and else where Weft puts them."""
    model, batch, optimizer = make(task)
    plan = _weft.expand(weft.capture(model, batch, optimizer), words)
    trainer = weft.parallelize(model, optimizer, batch, plan=with_cuts(plan, cuts) if cuts else plan)
    return trainer, batch
