# SPDX-License-Identifier: Apache-2.0
"""One rank of a measurement that stepping.py asks for: a task as JSON in, results as JSON out."""

import gc
import json
import os
import pathlib
import statistics
import sys
import time
import warnings

import torch
import weft
from arms import PEERS, RANK, RANKS, by_weft, compiled, ddp, eager, make, meet
from piping_arms import torch_pipeline, weft_pipeline
from test_profile import measured_peak_bytes
from weft import _weft
from weft.capture import batch_tensors


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
        result["hidden"] = hidden_of(trainer, batch, task["repeats"])
    return result


def hidden_of(trainer, batch, count):
    """The median over timed steps."""
    shares = []
    for number in range(count):
        barrier()
        shares.append(hidden_share(trainer._core.timeline(batch_tensors(batch), number)))
    shares = [share for share in shares if share is not None]
    return statistics.median(shares) if shares else None


def measure_sharing(task):
    """One peer and Weft under `words`, by turns."""
    trainer, batch = by_weft(task)
    arms = {task["peer"]: PEERS[task["peer"]](task), "weft": lambda: trainer.step(batch)}
    result = by_turns(arms, task)
    result["program"] = trainer._core.program(batch_tensors(batch))
    result["hidden"] = hidden_of(trainer, batch, task["repeats"])
    return result


def by_turns(arms, task):
    """The median of every arm's steps."""
    for step in arms.values():
        seconds(step, 2)
    taken = {name: [] for name in arms}
    for _ in range(task["repeats"]):
        for name, step in arms.items():
            taken[name] += seconds(step, task["steps"])
    return {name: statistics.median(values) for name, values in taken.items()}


def stepper(trainer, batch):
    return lambda: trainer.step(batch)


def measure_piping(task):
    """Pipelines by torch and by Weft, with the same cut and with Weft's own, by turns."""
    meet(task)
    count = task["micro_batches"]
    arms, trainers = {}, {}
    for schedule, cuts in task["cuts"].items():
        arms[f"torch {schedule}"] = torch_pipeline(task, schedule, cuts)
        words = f"pipeline={RANKS},schedule={schedule},micro-batches={count}"
        trainers[f"layers {schedule}"] = weft_pipeline(task, words, cuts)
    for schedule in task["others"]:
        words = f"pipeline={RANKS},schedule={schedule},micro-batches={count}"
        trainers[f"weft {schedule}"] = weft_pipeline(task, words)
    arms |= {name: stepper(*made) for name, made in trainers.items()}
    return {"seconds": by_turns(arms, task), "programs": programs_of(trainers)}


def programs_of(trainers):
    return {name: trainer._core.program(batch_tensors(batch)) for name, (trainer, batch) in trainers.items()}


def measure_slicing(task):
    """Pipelines by Weft under words, by turns. An arm whose words are refused is left out, with the reason."""
    meet(task)
    trainers, refused = {}, {}
    for name, words in task["arms"].items():
        try:
            trainers[name] = weft_pipeline(task, words)
        except weft.UserError as error:
            refused[name] = str(error)
    arms = {name: stepper(*made) for name, made in trainers.items()}
    return {"seconds": by_turns(arms, task), "programs": programs_of(trainers), "refused": refused}


def measure_plans(task):
    """Weft under plans, by turns."""
    meet(task)
    trainers = {}
    for name, plan in task["plans"].items():
        model, batch, optimizer = make(task)
        trainers[name] = weft.parallelize(model, optimizer, batch, plan=plan), batch
    arms = {name: stepper(*made) for name, made in trainers.items()}
    return {"seconds": by_turns(arms, task), "programs": programs_of(trainers)}


def measure_calls(task):
    """Every instruction of a rank under plans: label, stream and the median of its seconds."""
    meet(task)
    found = {}
    for name, words in task["arms"].items():
        trainer, batch = weft_pipeline(task, words)
        tensors = batch_tensors(batch)
        seconds(stepper(trainer, batch), 2)
        steps = []
        for number in range(task["repeats"]):
            barrier()
            steps.append(trainer._core.timeline(tensors, number))
        events = zip(*steps, strict=True)
        found[name] = {
            "program": trainer._core.program(tensors),
            "events": [
                (each[0][3], each[0][0], statistics.median(end - start for _, start, end, _ in each)) for each in events
            ],
        }
    return found


def measure_sharing_memory(task):
    """The most bytes of one rank in a step: what the CPU allocator gives and, for Weft, its arena, which does not come
    from there. The model that Weft was shown is not counted: the processes of `weft train` have none."""
    if task["arm"] == "weft":
        trainer, batch = by_weft(task)
        watch = _weft.AllocationWatch()
        peak_bytes = peak_of(watch, lambda: trainer.step(batch))
        _, used_bytes, overflow_bytes, _ = trainer._core.memory(batch_tensors(batch))
        return {"bytes": peak_bytes + used_bytes + overflow_bytes}
    watch = _weft.AllocationWatch()
    return {"bytes": peak_of(watch, PEERS[task["arm"]](task))}


def peak_of(watch, step):
    # The first makes the optimizer's state.
    for _ in range(2):
        step()
    gc.collect()
    watch.reset_peak()
    step()
    peak_bytes = watch.peak_bytes
    watch.close()
    return peak_bytes


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
    measure = {
        "steps": measure_steps,
        "sharing": measure_sharing,
        "sharing_memory": measure_sharing_memory,
        "memory": measure_memory,
        "piping": measure_piping,
        "slicing": measure_slicing,
        "plans": measure_plans,
        "calls": measure_calls,
    }
    result = measure[task["what"]](task)
    if RANK == 0:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
