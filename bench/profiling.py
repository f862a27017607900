# SPDX-License-Identifier: Apache-2.0
"""Time and error of the profile, beside what PyTorch has for the same question.

    bench/profile [--models gpt.gpt2_small,...] [--repeats 3]

Time: one step captured and profiled by Weft; forward and backward of the same
model on the meta device; the same under FakeTensorMode with
torch.distributed._tools.MemTracker; and the joint graph traced by AOTAutograd.
All in one process, one thread, the arms taking turns; medians.

Memory: the peak of a real eager step by the CPU allocator's own count, and how
far Weft's and MemTracker's figures are from it, at small sizes.
"""

import argparse
import importlib
import pathlib
import statistics
import sys
import time
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "models"), str(ROOT / "test" / "python")]

import weft  # noqa: E402
from replaying import eager_step  # noqa: E402
from test_profile import measured_peak_bytes  # noqa: E402
from torch._functorch.aot_autograd import aot_export_module  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402
from weft.batch import batch_arguments  # noqa: E402
from weft.find_loss import find_loss  # noqa: E402

TIMED = "gpt.gpt2_small gpt.gpt2_xl llama.llama_7b t5.t5_base vit.vit_base resnet.resnet50"
MEASURED = "gpt llama bert t5 vit resnet unet3d cosmoflow moe lstm"


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def by_weft(function):
    captured = weft.capture_function(function)
    start = time.perf_counter()
    figures = weft.profile(captured.graph)
    return captured.capture_seconds + time.perf_counter() - start, figures["peak_bytes"]


def by_meta(function):
    with torch.device("meta"):
        model, batch = function()[:2]
    return seconds(lambda: eager_step(model, batch)), None


def by_mem_tracker(function):
    with FakeTensorMode():
        model, batch, optimizer = (*function(), None)[:3]
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *batch_arguments(batch)[0])

        def step():
            eager_step(model, batch)
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        with tracker:
            step()
            # The state of the optimizer is there from the second step on.
            tracker.reset_mod_stats()
            taken = seconds(step)
        peak = tracker.get_tracker_snapshot("peak")
    return taken, max(sum_of(figures) for figures in peak.values())


def sum_of(figures):
    return next(value for key, value in figures.items() if str(key).endswith("Total"))


class LossFirst(torch.nn.Module):
    def __init__(self, model, keys):
        super().__init__()
        self.model, self.keys = model, keys

    def forward(self, *tensors):
        count = len(tensors) - len(self.keys)
        keywords = dict(zip(self.keys, tensors[count:], strict=True))
        return (find_loss(self.model(*tensors[:count], **keywords)),)


def by_aot_autograd(function):
    with FakeTensorMode():
        model, batch = function()[:2]
        arguments, keywords = batch_arguments(batch)
        wrapped = LossFirst(model, list(keywords))
        tensors = (*arguments, *keywords.values())
        return (
            seconds(lambda: aot_export_module(wrapped, tensors, trace_joint=True, output_loss_index=0)),
            None,
        )


ARMS = {
    "weft": by_weft,
    "meta": by_meta,
    "MemTracker": by_mem_tracker,
    "AOTAutograd": by_aot_autograd,
}


def attempt(arm, function):
    """The arm's result, or why it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return arm(function)
    except Exception as error:
        return f"{type(error).__name__}"


def time_table(models, repeats):
    print(f"{'seconds':<18}" + "".join(f"{arm:>13}" for arm in ARMS) + f"{'weft/meta':>12}")
    for name in models:
        module, _, function_name = name.partition(".")
        function = getattr(importlib.import_module(module), function_name)
        taken = {arm: [] for arm in ARMS}
        for repeat in range(repeats):
            for arm, run in ARMS.items():
                if repeat and isinstance(taken[arm], str):
                    continue
                result = attempt(run, function)
                if isinstance(result, str):
                    taken[arm] = result
                else:
                    taken[arm].append(result[0])
        cells = {arm: values if isinstance(values, str) else statistics.median(values) for arm, values in taken.items()}
        row = "".join(f"{cell:>13}" if isinstance(cell, str) else f"{cell:>13.3f}" for cell in cells.values())
        print(f"{name:<18}{row}{cells['weft'] / cells['meta']:>11.2f}x", flush=True)


def memory_table(models):
    print()
    print(f"{'peak bytes':<18}{'eager':>14}{'weft':>10}{'MemTracker':>12}")
    for name in models:
        function = importlib.import_module(name).tiny
        measured = measured_peak_bytes(function)
        cells = []
        for arm in (by_weft, by_mem_tracker):
            result = attempt(arm, function)
            cells.append(result if isinstance(result, str) else f"{result[1] / measured - 1:+.2%}")
        print(f"{name:<18}{measured:>14,}{cells[0]:>10}{cells[1]:>12}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=TIMED.replace(" ", ","))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    memory = MEASURED.split()
    time_table([name for name in arguments.models.split(",") if name], arguments.repeats)
    memory_table(memory)


if __name__ == "__main__":
    main()
