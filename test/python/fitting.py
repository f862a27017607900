# SPDX-License-Identifier: Apache-2.0
"""Plans that the search found, run on real ranks: how much memory each rank used, and what was predicted."""

import importlib
import os
import pathlib
import subprocess
import sys

import torch
import weft

# By name, arguments of the function `tiny` of the example: a batch that 8 ranks can share, no dropout.
MODELS = {
    "gpt": {"batch_size": 8, "dropout": 0.0},
    "llama": {"batch_size": 8},
    "bert": {"batch_size": 8, "dropout": 0.0},
    "t5": {"batch_size": 8, "dropout": 0.0},
    "vit": {"batch_size": 8, "dropout": 0.0},
}


def make(model):
    torch.manual_seed(0)
    return importlib.import_module(model).tiny(**MODELS[model])


def captured(model):
    """The step as a trainer runs it that keeps gradients and minds no loss: as `run_on_rank` does."""
    module, batch, optimizer = make(model)
    return weft.capture(module, batch, optimizer)


def run_on_rank(model, plan):
    """The loss, and the bytes that were predicted, used, and found elsewhere."""
    module, batch, optimizer = make(model)
    trainer = weft.parallelize(module, optimizer, batch, plan=plan, keep_gradients=True, bad_loss="go-on")
    loss = trainer.step(batch)
    trainer.step(batch)
    predicted, used, overflow, _ = trainer._core.memory(trainer._tensors(batch))
    return loss, predicted, used, overflow


def run_on_ranks(ranks, folder, cells):
    """run_on_rank of every (model, plan) on so many real processes: by cell, a list over ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(cells, folder / "cells")
    paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
            *(str(pathlib.Path(__file__)), str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=1500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [[torch.load(folder / f"{number}.{rank}") for rank in range(ranks)] for number in range(len(cells))]


def main(folder):
    torch.set_num_threads(1)
    for number, (model, plan) in enumerate(torch.load(folder / "cells")):
        print(model, plan, file=sys.stderr, flush=True)
        torch.save(run_on_rank(model, plan), folder / f"{number}.{os.environ['RANK']}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
