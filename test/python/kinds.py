# SPDX-License-Identifier: Apache-2.0
"""Every kind of parallelism on every model, as words: one table for all ranks in one process, and for real ones."""

import importlib
import os
import pathlib
import subprocess
import sys

import torch
import weft
from eager import EagerStep

# Small, with dropout where the model has it. Sizes that do not divide: vocabularies, classes, rows of the batch. The
# volume has few voxels because PyTorch adds up their losses one by one: at 16 x 16 x 16 that alone is 2.3e-6 off on one
# rank, and less on several, which add up shorter sums.
MODELS = {
    "gpt": {"vocabulary": 251},
    "llama": {},
    "bert": {"vocabulary": 253},
    "t5": {"batch_size": 6},
    "vit": {"batch_size": 6},
    "resnet": {"layers": (1, 1, 1, 1), "image": 16, "classes": 7},
    "unet3d": {"channels": (8, 16), "volume": 8},
    "moe": {},
    "signals": {},
    "windows": {},
}

ANY = [
    "data=2",
    "data=3",
    "data=2,zero=1",
    "data=2,zero=2",
    "data=2,zero=3",
    "data=3,zero=3",
    "data=8,zero=3",
    "data=4,zero=3,shard=2",
    "tensor=2",
    "tensor=3",
    "tensor=2x2",
    "tensor=2x2x2",
    "data=2,tensor=2,zero=1",
    "data=2,tensor=2,zero=3",
    "data=4,tensor=2,zero=2",
    "data=2,tensor=2x2,zero=3",
]
TEXT = [
    "tensor=2,sequence",
    "tensor=4,sequence",
    "context=2",
    "context=3",
    "context=4",
    "context=8",
    "ulysses=2",
    "ulysses=4",
    "data=2,tensor=2,sequence,zero=3",
    "data=2,tensor=2,ulysses=2,zero=2",
    "data=2,tensor=2,context=2,zero=3",
    "data=2,context=2,zero=1",
    "tensor=2,sequence,context=2",
]
SIGNALS = ["spatial=2", "spatial=3", "spatial=4", "spatial=8", "data=2,spatial=2,zero=3"]
IMAGES = [*SIGNALS, "spatial=2,tensor=2", "spatial=2x2", "spatial=2x2x2", "data=2,spatial=2x2,zero=1"]
EXPERTS = [
    "expert=2",
    "expert=4",
    "data=2,expert=2,zero=3",
    "expert=2,tensor=2",
    "data=2,expert=2,tensor=2,zero=1",
    "expert=2,context=2",
]
KINDS = {
    "gpt": TEXT,
    "llama": TEXT,
    "bert": TEXT,
    "t5": TEXT,
    "vit": ["spatial=2", "data=2,spatial=2x2,zero=3"],
    "resnet": IMAGES,
    "unet3d": IMAGES,
    "moe": TEXT + EXPERTS,
    "signals": SIGNALS,
    "windows": ["micro-batches=2", "micro-batches=3", "data=2,micro-batches=3", "data=3,zero=3,micro-batches=2"],
}

# What the model has no room for: two heads of keys and values; 2 x 2 x 2 spatial dims of an image; pairs of products
# in a net without any.
NOT = {
    *((model, words) for model in ("signals", "windows") for words in ANY if "tensor" in words),
    ("windows", "data=8,zero=3"),
    ("windows", "data=4,zero=3,shard=2"),
    ("llama", "ulysses=4"),
    ("moe", "ulysses=4"),
    ("llama", "data=2,tensor=2,ulysses=2,zero=2"),
    ("moe", "data=2,tensor=2,ulysses=2,zero=2"),
    ("resnet", "spatial=2x2x2"),
}


def words_for(model):
    return [words for words in ANY + KINDS[model] if (model, words) not in NOT]


def rank_count(words):
    count = 1
    for word in words.split(","):
        key, _, value = word.partition("=")
        if key not in ("zero", "shard", "sequence", "micro-batches"):
            for size in value.split("x"):
                count *= int(size)
    return count


def worst(got, expected):
    """The largest relative differences of the loss and of a gradient."""
    loss = abs(got[0] - expected[0]) / abs(expected[0])
    largest = max(gradient.abs().max().item() for gradient in expected[1].values())
    differences = [0.0]
    for name, gradient in expected[1].items():
        # One that is 0 but for rounding (of a key's bias) is measured by the others.
        scale = max(gradient.abs().max().item(), 1e-3 * largest)
        differences.append((got[1][name] - gradient).abs().max().item() / scale)
    return loss, max(differences)


def make(model):
    torch.manual_seed(0)
    return importlib.import_module(model).tiny(**MODELS[model])


def eager_step(model):
    """What step_on_rank is held against: the loss and the gradients of eager PyTorch."""
    module, batch, optimizer = make(model)
    step = EagerStep(module, batch, weft.capture(module, batch, optimizer), seed=3)
    return step.loss.item(), step.gradients


def step_on_rank(model, words):
    """The loss and the gradients of one step, whole on every rank."""
    module, batch, optimizer = make(model)
    trainer = weft.parallelize(module, optimizer, batch, parallel=words, keep_gradients=True, seed=3)
    loss = trainer.step(batch)
    return loss, {name: parameter.grad for name, parameter in module.named_parameters()}


def steps_on_ranks(ranks, folder, cells):
    """step_on_rank of every (model, words), as many as there are in one start of real processes."""
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
        timeout=3000,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {cell: torch.load(folder / f"{number}") for number, cell in enumerate(cells)}


def main(folder):
    torch.set_num_threads(1)
    for number, (model, words) in enumerate(torch.load(folder / "cells")):
        print(model, words, file=sys.stderr, flush=True)
        result = step_on_rank(model, words)
        if os.environ["RANK"] == "0":
            torch.save(result, folder / f"{number}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
