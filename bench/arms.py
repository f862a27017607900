# SPDX-License-Identifier: Apache-2.0
"""The arms of a measurement: one model, its batch and its optimizer as steps of PyTorch, its peers, and Weft."""

import importlib
import os
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "models"), str(ROOT / "test" / "python")]

import weft  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def make(task):
    """(model, batch, optimizer), with the same numbers each time."""
    torch.manual_seed(0)
    module, _, function = task["model"].partition(".")
    return getattr(importlib.import_module(module), function)(**task["options"])


def my_part(tensor):
    rows = tensor.shape[0] // RANKS
    return tensor[RANK * rows : (RANK + 1) * rows]


def torch_step(model, batch, optimizer):
    def step():
        optimizer.zero_grad(set_to_none=True)
        model(*batch).backward()
        optimizer.step()

    return step


def eager(task):
    return torch_step(*make(task))


def compiled(task):
    model, batch, optimizer = make(task)
    return torch_step(torch.compile(model, dynamic=False), batch, optimizer)


def ddp(task):
    model, batch, optimizer = make(task)
    torch.distributed.init_process_group("gloo", init_method=f"file://{task['meeting']}", rank=RANK, world_size=RANKS)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return torch_step(wrapped, tuple(map(my_part, batch)), optimizer)


def meet(task):
    torch.distributed.init_process_group("gloo", init_method=f"file://{task['meeting']}", rank=RANK, world_size=RANKS)
    return torch.distributed.device_mesh.init_device_mesh("cpu", (RANKS,))


def same_optimizer(model, optimizer):
    """Of the model's parameters as they are now, in the groups that they had."""
    parameters = list(model.parameters())
    matrices = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    groups = [{**group, "params": part} for group, part in zip(optimizer.param_groups, [matrices, vectors])]
    return type(optimizer)(groups)


def fsdp2(task):
    """FSDP2 as its tutorials have it: each block by itself, then the rest."""
    from torch.distributed.fsdp import fully_shard

    mesh = meet(task)
    model, batch, optimizer = make(task)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return torch_step(model, tuple(map(my_part, batch)), same_optimizer(model, optimizer))


def tensor_parallel(task, of_block, of_model):
    """Megatron's pairs of products by DTensor. A rank's columns of qkv are those of its own heads."""
    from torch.distributed.tensor.parallel import parallelize_module

    mesh = meet(task)
    model, batch, optimizer = make(task)
    for block in model.blocks:
        block.attention.heads //= RANKS
        parallelize_module(block, mesh, of_block)
    parallelize_module(model, mesh, of_model)
    return torch_step(model, batch, same_optimizer(model, optimizer))


def dtensor(task):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    pairs = {
        "attention.qkv": ColwiseParallel(),
        "attention.out": RowwiseParallel(),
        "feed_forward.up": ColwiseParallel(),
        "feed_forward.down": RowwiseParallel(),
    }
    return tensor_parallel(task, pairs, {})


def dtensor_sequence(task):
    """The same with sequence parallelism: what lies between the pairs is split along the sequence."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        PrepareModuleOutput,
        RowwiseParallel,
        SequenceParallel,
    )

    part, whole = Shard(1), Replicate()

    def gathered():
        return PrepareModuleInput(input_layouts=(part,), desired_input_layouts=(whole,), use_local_output=True)

    def split(name):
        return {name: RowwiseParallel(output_layouts=part)}

    of_block = {
        "attention_norm": SequenceParallel(),
        "attention": gathered(),
        "attention.qkv": ColwiseParallel(),
        **split("attention.out"),
        "feed_forward_norm": SequenceParallel(),
        "feed_forward": gathered(),
        "feed_forward.up": ColwiseParallel(),
        **split("feed_forward.down"),
    }
    of_model = {
        "dropout": PrepareModuleOutput(output_layouts=(whole,), desired_output_layouts=(part,), use_local_output=True),
        "norm": SequenceParallel(),
        "head": gathered(),
    }
    return tensor_parallel(task, of_block, of_model)


def deepspeed(task, stage):
    """DeepSpeed's ZeRO with PyTorch's optimizer, as its engine has it by default."""
    try:
        import deepspeed as peer
    except ImportError as error:
        raise RuntimeError(f"not installed here (pip install deepspeed): {error}") from None

    meet(task)  # DeepSpeed takes the group that there is
    peer.init_distributed(dist_backend="gloo", verbose=False)
    model, batch, optimizer = make(task)
    batch = tuple(map(my_part, batch))
    settings = {
        "train_micro_batch_size_per_gpu": batch[0].shape[0],
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    engine, *_ = peer.initialize(model=model, optimizer=optimizer, config=settings)

    def step():
        engine.backward(engine(*batch))
        engine.step()

    return step


PEERS = {
    "FSDP2": fsdp2,
    "DTensor": dtensor,
    "DTensor+SP": dtensor_sequence,
    "DeepSpeed-2": lambda task: deepspeed(task, 2),
    "DeepSpeed-3": lambda task: deepspeed(task, 3),
}


def by_weft(task):
    model, batch, optimizer = make(task)
    words = {"parallel": task["words"]} if "words" in task else {}
    trainer = weft.parallelize(model, optimizer, batch, **words)
    return trainer, batch
