# SPDX-License-Identifier: Apache-2.0
"""Training of the tiny examples, by eager PyTorch and by Weft, on the same batches."""

import importlib
import os
import pathlib
import subprocess
import sys

import torch
import weft
from weft.capture import map_batch

STEPS = 20
EXAMPLES = ["gpt", "llama", "bert", "t5", "vit", "resnet", "unet3d", "cosmoflow", "moe", "lstm"]
# Small enough that 20 steps of all of them take seconds, and a batch that four ranks can share.
SIZES = {"unet3d": {"channels": (8, 16), "volume": 8, "batch_size": 4}, "cosmoflow": {"volume": 8, "batch_size": 4}}
# Their `tiny` has no dropout to turn off.
WITHOUT_DROPOUT = {"llama", "resnet", "unet3d"}


def make(example, dropout=0.0, momentum=False):
    """(model, batch, optimizer), the same whenever it is called; the optimizer is the example's own, or plain SGD with
    momentum.
    """
    function = importlib.import_module(example).tiny
    options = {} if example in WITHOUT_DROPOUT else {"dropout": dropout}
    torch.manual_seed(0)
    model, batch, own = function(**options, **SIZES.get(example, {}))
    return model, batch, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9) if momentum else own


def batches(example, count=STEPS):
    """Different from step to step; where the model knows padding, samples have different lengths."""
    function = importlib.import_module(example).tiny
    for number in range(count):
        torch.manual_seed(1000 + number)
        yield function(**SIZES.get(example, {}))[1]


def loss_of(model, batch):
    output = model(**batch) if isinstance(batch, dict) else model(*batch)
    return output[0] if isinstance(output, tuple) else output


def in_double(model, batch):
    model.double()
    return map_batch(batch, lambda _, tensor: tensor.double() if tensor.is_floating_point() else tensor)


def tensors_of(model, optimizer):
    """Every parameter, buffer and state by name."""
    found = {f"model/{name}": tensor.detach() for name, tensor in model.state_dict().items()}
    found |= {f"buffer/{name}": tensor.detach() for name, tensor in model.named_buffers()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if torch.is_tensor(value):
                found[f"state/{name}.{key}"] = value
    return {name: tensor.clone() for name, tensor in found.items()}


def train_eager(example, steps=STEPS):
    """The losses, and what is there after the last step."""
    model, _, optimizer = make(example)
    losses = []
    for batch in batches(example, steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, tensors_of(model, optimizer)


def train_weft(example, dropout=0.0, double=False, steps=STEPS, momentum=False):
    model, batch, optimizer = make(example, dropout, momentum)
    if double:
        batch = in_double(model, batch)
    trainer = weft.parallelize(model, optimizer, batch)
    losses = []
    for each in batches(example, steps):
        losses.append(trainer.step(in_double(model, each) if double else each))
    return losses, tensors_of(model, optimizer), trainer


def train_on_ranks(ranks, folder, jobs):
    """train_weft of every (example, options) on that many ranks: the losses and tensors of each."""
    torch.save(jobs, folder / "jobs")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
            *(str(pathlib.Path(__file__)), str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [[torch.load(folder / f"{number}.{rank}") for rank in range(ranks)] for number in range(len(jobs))]


def main(folder):
    torch.set_num_threads(1)
    for number, (example, options) in enumerate(torch.load(folder / "jobs")):
        losses, tensors, trainer = train_weft(example, **options)
        assert trainer.ranks == int(os.environ["WORLD_SIZE"])
        torch.save((losses, tensors), folder / f"{number}.{trainer.rank}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
