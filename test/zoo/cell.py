# SPDX-License-Identifier: Apache-2.0
"""One model of the zoo under one plan kind on this rank, held against eager PyTorch; run.py starts the ranks.

python cell.py RESULTS CELL...     where a cell is MODEL=KIND
"""

import copy
import functools
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

import torch
import weft
from zoo import buffers_of, build, eager_step, worst

# What a plan kind gives to `weft.parallelize`, and the ranks that it takes.
KINDS = {
    "one rank": ("", 1),
    "data": ("data=2", 2),
    "zero": ("data=2,zero=3", 2),
    "tensor": ("tensor=2", 2),
    "pipeline": ("pipeline=2,micro-batches=2", 2),
    "micro-batches": ("data=2,micro-batches=2", 2),
    "sequence": ("tensor=2,sequence", 2),
    "context": ("context=2", 2),
    "spatial": ("spatial=2", 2),
    "expert": ("expert=2", 2),
    "searched": (None, 2),
}
# Searched plans are for this cluster; they run anywhere.
CLUSTER = pathlib.Path(__file__).parent / "slow_pair.cluster"

# Up to here a plan's rounding is ordinary. Beyond it the step is compared in f64: where that is within, a kink (a ReLU
# whose input is 0 but for rounding) or a division by nearly nothing made more of a rounding of f32.
LOSS = 1e-5
GRADIENT = 1e-4


def options_of(kind, parts):
    words = KINDS[kind][0]
    if words is not None:
        return {"parallel": words}
    found = weft.plan(weft.capture(*parts), CLUSTER, keep_gradients=True)
    return {"plan": found["plan"]}


def steps_of_weft(name, kind, batches, is_double=False):
    """Loss and gradients of a step of every batch, and the buffers after them."""
    model, batch, optimizer = build(name, is_double=is_double)
    trainer = weft.parallelize(
        model, optimizer, batch, keep_gradients=True, **options_of(kind, (model, batch, optimizer))
    )
    found = []
    for each in batches:
        loss = trainer.step(each)
        gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        found.append((loss, gradients))
    trainer.state_dict()
    return found, buffers_of(model)


# The cells of one model follow each other, so its reference is computed once for all of them.
@functools.lru_cache(maxsize=2)
def reference(name, is_double=False):
    """Two batches, the steps that eager PyTorch takes on them, and its buffers after them."""
    # The second batch has other values of the same shapes: what a step read from the first must not stay in it.
    batches = [build(name, is_double=is_double)[1], build(name, seed=1, is_double=is_double)[1]]
    twin, _, _ = build(name, is_double=is_double)
    return batches, [eager_step(twin, copy.deepcopy(batch)) for batch in batches], buffers_of(twin)


def differences(name, kind, is_double=False):
    """By how much the steps of Weft differ from those of eager PyTorch, and where."""
    batches, expected, expected_buffers = reference(name, is_double)
    got, buffers = steps_of_weft(name, kind, copy.deepcopy(batches), is_double)
    each = [worst(mine, theirs) for mine, theirs in zip(got, expected)]
    gradient, whose = max((difference[1:] for difference in each), key=lambda one: one[0])
    buffer, which = buffer_difference(buffers, expected_buffers)
    loss = max(difference[0] for difference in each)
    return {"loss": loss, "gradient": gradient, "whose": whose, "buffer": buffer, "which": which}


def is_rounding(found):
    return found["loss"] <= LOSS and found["gradient"] <= GRADIENT and found["buffer"] <= GRADIENT


def compare(name, kind):
    """An entry of the results."""
    try:
        found = differences(name, kind)
    except weft.UserError as error:
        return {"outcome": "refused", "message": str(error)}
    largest = max(found["loss"], found["gradient"], found["buffer"])
    if largest == 0:
        return {"outcome": "bit-equal"}
    if kind == "one rank":
        return {"outcome": "close" if largest <= 1e-6 else "different", **found}
    if is_rounding(found):
        return {"outcome": "equal", **found}
    try:
        in_double = differences(name, kind, is_double=True)
    except weft.UserError as error:
        return {"outcome": "different", **found, "in f64": str(error)}
    return {"outcome": "equal" if is_rounding(in_double) else "different", **found, "in f64": in_double}


def buffer_difference(got, expected):
    largest, which = 0.0, ""
    # A running mean that is 0 but for rounding is measured by the others.
    scales = {}
    for name, theirs in expected.items():
        if theirs.numel():
            kind = name.rpartition(".")[2]
            scales[kind] = max(scales.get(kind, 1e-30), 1e-3 * theirs.to(torch.float64).abs().nan_to_num().max().item())
    for name, theirs in expected.items():
        # A table that forward makes when it is first needed stays in the step.
        mine = got.get(name, theirs)
        if theirs.numel() == 0 or torch.equal(mine, theirs):
            continue
        mine, theirs = torch.nan_to_num(mine.to(torch.float64)), torch.nan_to_num(theirs.to(torch.float64))
        scale = max(theirs.abs().max().item(), scales[name.rpartition(".")[2]])
        difference = (mine - theirs).abs().max().item() / scale
        if difference > largest:
            largest, which = difference, name
    return largest, which


def main(results, cells):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    is_first = os.environ.get("RANK", "0") == "0"
    for cell in cells:
        name, _, kind = cell.partition("=")
        start = time.monotonic()
        is_over = False
        try:
            entry = compare(name, kind)
            # A step that one rank refuses leaves the others inside of it: run.py starts again after this cell.
            is_over = entry["outcome"] == "refused" and KINDS[kind][1] > 1
        except Exception as error:
            entry = {
                "outcome": "failed",
                "message": f"{type(error).__name__}: {error}",
                "trace": traceback.format_exc(),
            }
            is_over = True
        if is_first or is_over:
            line = {"model": name, "kind": kind, "rank": os.environ.get("RANK", "0"), **entry}
            line["seconds"] = round(time.monotonic() - start, 2)
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if is_over:
            os._exit(3)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
