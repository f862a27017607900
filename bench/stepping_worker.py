# SPDX-License-Identifier: Apache-2.0
"""One rank of a measurement that stepping.py asks for: a task as JSON in, results as JSON out."""

import importlib
import json
import os
import pathlib
import statistics
import sys
import time
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "models"), str(ROOT / "test" / "python")]

import weft  # noqa: E402
from test_profile import measured_peak_bytes  # noqa: E402
from weft.capture import batch_tensors  # noqa: E402

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


def dtensor(task):
    """Megatron's pairs of products by DTensor. A rank's columns of qkv are those of its own heads."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = meet(task)
    model, batch, optimizer = make(task)
    for block in model.blocks:
        block.attention.heads //= RANKS
        parallelize_module(
            block,
            mesh,
            {
                "attention.qkv": ColwiseParallel(),
                "attention.out": RowwiseParallel(),
                "feed_forward.up": ColwiseParallel(),
                "feed_forward.down": RowwiseParallel(),
            },
        )
    return torch_step(model, batch, same_optimizer(model, optimizer))


def by_weft(task):
    model, batch, optimizer = make(task)
    words = {"parallel": task["words"]} if "words" in task else {}
    trainer = weft.parallelize(model, optimizer, batch, **words)
    return trainer, batch


def barrier():
    if RANKS > 1:
        torch.distributed.barrier()


def seconds(step, count):
    """Of each of `count` steps, all ranks starting together."""
    barrier()
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return taken


def covered(intervals):
    """The length of a union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def hidden_share(events):
    """Of the time on the communication stream, what no wait took."""
    talked = covered([(start, end) for stream, start, end, _ in events if stream == "communication"])
    waited = sum(end - start for _, start, end, label in events if label.startswith("wait "))
    return (talked - waited) / talked if talked > 0 else None


def measure_steps(task):
    trainer, batch = by_weft(task)
    arms = {"weft": lambda: trainer.step(batch)}
    if RANKS > 1:
        arms = {"DDP": ddp(task), **arms}
    else:
        arms = {"eager": eager(task), **({"torch.compile": compiled(task)} if task["compile"] else {}), **arms}
    result = {}
    for name, step in list(arms.items()):
        try:
            seconds(step, 2)
        except Exception as error:
            if name != "torch.compile":
                raise
            result[name] = type(error).__name__
            del arms[name]
    taken = {name: [] for name in arms}
    wall, busy = time.perf_counter(), time.process_time()
    for _ in range(task["repeats"]):
        for name, step in arms.items():
            taken[name] += seconds(step, task["steps"])
    result.update({name: statistics.median(values) for name, values in taken.items()})
    if RANKS == 1:
        result["core_share"] = (time.process_time() - busy) / (time.perf_counter() - wall)
    result["program"] = trainer._core.program(batch_tensors(batch))
    if RANKS > 1:
        shares = []
        for number in range(task["repeats"]):
            barrier()
            shares.append(hidden_share(trainer._core.timeline(batch_tensors(batch), number)))
        shares = [share for share in shares if share is not None]
        result["hidden"] = statistics.median(shares) if shares else None
    return result


def measure_sharing(task):
    """One peer and Weft under `words`, by turns."""
    trainer, batch = by_weft(task)
    peer = {"FSDP2": fsdp2, "DTensor": dtensor}[task["peer"]](task)
    arms = {task["peer"]: peer, "weft": lambda: trainer.step(batch)}
    for step in arms.values():
        seconds(step, 2)
    taken = {name: [] for name in arms}
    for _ in range(task["repeats"]):
        for name, step in arms.items():
            taken[name] += seconds(step, task["steps"])
    result = {name: statistics.median(values) for name, values in taken.items()}
    shares = []
    for number in range(task["repeats"]):
        barrier()
        shares.append(hidden_share(trainer._core.timeline(batch_tensors(batch), number)))
    shares = [share for share in shares if share is not None]
    _, used_bytes, overflow_bytes, _ = trainer._core.memory(batch_tensors(batch))
    return {
        **result,
        "hidden": statistics.median(shares) if shares else None,
        "used_bytes": used_bytes + overflow_bytes,
    }


def measure_memory(task):
    eager_bytes = measured_peak_bytes(lambda: make(task))
    trainer, batch = by_weft(task)
    for _ in range(2):
        trainer.step(batch)
    predicted_bytes, used_bytes, overflow_bytes, _ = trainer._core.memory(batch_tensors(batch))
    return {
        "eager_bytes": eager_bytes,
        "predicted_bytes": predicted_bytes,
        "used_bytes": used_bytes + overflow_bytes,
    }


def main():
    task = json.loads(sys.argv[1])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[RANK % len(cores)]})
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    measure = {"steps": measure_steps, "sharing": measure_sharing, "memory": measure_memory}
    result = measure[task["what"]](task)
    if RANK == 0:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
