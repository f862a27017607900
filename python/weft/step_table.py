# SPDX-License-Identifier: Apache-2.0
"""The steps that a trainer has captured, each with what it depends on.

A step runs again without Python as long as the batch has its types and entries and nothing that the capture has read
of the script has changed. Otherwise the step is captured as the script would run it now. All steps are kept, so that
going back to an earlier state captures nothing.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from weft._weft import StateWatch, UserError
from weft.batch import batch_items, batch_structure, batch_tensors, map_batch
from weft.capture import capture_step, in_order
from weft.step_number import is_number, number_tensor

# After so many captures for the same cause, a script is told what they cost it.
_MANY = 8
# After so many, counting that of `parallelize`, a step that changes what it reads itself is told of.
_OFTEN = 3
# So many states are remembered of batches with the same types.
_MOST = 16


@dataclass
class Step:
    """A step that was captured, or is about to be."""

    # Its name to the core.
    state_name: str
    # What it read of Python, once for each path that was captured; empty before.
    states: list[StateWatch] = field(default_factory=list)
    # What of that it changes itself: its Python has to run each time.
    changes: str | None = None
    # The entries of the batch that are part of it.
    fixed: dict = field(default_factory=dict)
    # By key, what it makes of tensors of the batch that it writes into.
    writes: dict = field(default_factory=dict)
    # Which tensors the model had.
    held: int = 0
    # Puts back what the last capture has changed.
    restore: Callable | None = None


class StepTable:
    """`options` are those of the capture; `before_capture()` brings the model up to date.

    `whole_values()` gives the tensors of a batch of which each rank has a part, by key.
    """

    def __init__(self, model, optimizer, options, before_capture, whole_values, gives_parts=False):
        self._model = model
        self._optimizer = optimizer
        self._options = options
        self._before_capture = before_capture
        self._whole_values = whole_values
        self._gives_parts = gives_parts
        # By what can be told of a batch alone, the steps from the one that ran last.
        self._steps = {}
        # Likewise, the keys of numbers whose values are part of the step.
        self._plain_keys = {}
        # The parameters and buffers of the model, as different captures have met them.
        self._held = []
        self._count_of_steps = 0
        self._captures = {}
        self._told = set()
        self._example = None
        # Names of steps that will not run again.
        self.outdated = []

    def inputs(self, batch):
        """The tensors of a batch and its numbers, as the core takes them."""
        return self._parts_of(_in_memory(batch))[2]

    def _parts_of(self, batch):
        """(tensors, what is none by key, inputs), of a batch as `_in_memory` gives it."""
        if self._example is None:
            self._example = batch
            # One order of a dict's keys is as good as another.
            self._order = {key: i for i, (key, _) in enumerate(batch_items(batch))}
        entries = batch_items(batch)
        tensors = [(key, value) for key, value in entries if isinstance(value, torch.Tensor)]
        plain = {key: value for key, value in entries if not isinstance(value, torch.Tensor)}
        numbers = [(key, number_tensor(value)) for key, value in plain.items() if is_number(value)]
        return tensors, plain, in_order(tensors + numbers, self._order)

    def find(self, batch, evaluation=False, is_step=True, sizes=None):
        """(step, inputs) for this batch as the script is now. A step without states has to be captured.

        `sizes` are those of the whole batch by key, where this one is a part of it.
        """
        batch = _in_memory(batch)
        tensors, plain, inputs = self._parts_of(batch)
        # The same on all ranks, also where all rows are those of one: they capture together, and gather the values.
        self._is_part = self._gives_parts and sizes is not None
        key = (
            evaluation,
            self._is_part,
            batch_structure(batch),
            tuple(sorted((key, *_type_of(value, sizes and sizes[key], self._is_part)) for key, value in tensors)),
            tuple(sorted((key, type(value).__qualname__) for key, value in plain.items())),
        )
        step = self._known(key, plain, is_step)
        if step is None:
            step = Step(f"{self._count_of_steps}")
            self._count_of_steps += 1
            self._steps[key].insert(0, step)
            self.outdated += [old.state_name for old in self._steps[key][_MOST:]]
            del self._steps[key][_MOST:]
        self._now = (step, key, batch, is_step)
        return step, inputs

    def _known(self, key, plain, is_step):
        steps = self._steps.setdefault(key, [])
        steps[:] = [step for step in steps if step.states]
        for i, step in enumerate(steps):
            if not _fits(step.fixed, plain) or not all(state.is_same() for state in step.states):
                continue
            steps.pop(i)
            if step.changes is None or not is_step:
                step.restore = None
                steps.insert(0, step)
                return step
            self.outdated.append(step.state_name)
            return None
        if steps:
            self._count(_cause(steps[0], plain))
        return None

    def refresh(self):
        """What has changed by now was changed by the trainer itself."""
        for steps in self._steps.values():
            for step in steps:
                for state in step.states:
                    state.refresh()

    def capture(self, evaluation, sizes):
        """The graph of the step that was found last, for tensors of these sizes by key."""
        step, key, batch, is_step = self._now
        is_whole = all(list(tensor.shape) == sizes[key] for key, tensor in batch_tensors(batch))
        if not is_whole:
            batch = map_batch(batch, lambda key, part: _like(part, sizes[key]))
        if not evaluation and not self._model.training:
            self._tell(
                "training",
                "weft: the model is in evaluation mode; a step trains it in training mode, and leaves the mode as it "
                "is. Call model.train(), and eval() on the modules that shall stay in evaluation mode",
            )
        if step.restore is not None and is_step:
            # The second capture for one step of training: it takes the place of the first.
            step.restore()
        self._before_capture()
        try:
            captured = capture_step(
                self._model,
                batch,
                self._optimizer,
                {**self._options, "evaluation": evaluation},
                training=True,
                is_step=is_step,
                plain_keys=self._plain_keys.setdefault(key, set()),
                order=self._order,
                values=self._whole_values if self._is_part or not is_whole else None,
            )
        except UserError:
            raise
        except Exception as error:
            words = _unlike(self._example, batch)
            if words is None:
                raise
            raise UserError(f"{words}. The model says: {type(error).__name__}: {error}") from error
        _check_writes(captured.writes, step, is_whole)
        step.states.append(captured.state)
        step.writes = captured.writes
        step.changes, step.fixed = step.changes or captured.changes, captured.fixed
        step.held = self._number_of_held()
        step.restore = captured.restore
        # What a first step makes and all others find is no news.
        if step.changes is not None and self._count_up(step.changes) == _OFTEN:
            self._tell(
                step.changes,
                f"weft: {step.changes} changes while a step runs, so that the model's Python runs for every step. "
                "Where the loss does not depend on it, keep it out of forward",
            )
        return captured.graph

    def finish(self):
        """The step that was found last has run: its batch becomes what the step has made of it."""
        step, _, batch, _ = self._now
        step.restore = None
        if step.writes:
            tensors = dict(self.inputs(batch))
            made = {key: make(tensors) for key, make in step.writes.items()}
            with torch.no_grad():
                for key, values in made.items():
                    tensors[key].copy_(values)

    def _number_of_held(self):
        """Equal as long as the model has the same tensors."""
        now = [*self._model.parameters(), *self._model.buffers()]
        for number, held in enumerate(self._held):
            if len(held) == len(now) and all(a is b for a, b in zip(held, now, strict=True)):
                return number
        self._held.append(now)
        return len(self._held) - 1

    def _count_up(self, cause):
        self._captures[cause] = self._captures.get(cause, 0) + 1
        return self._captures[cause]

    def _count(self, cause):
        if cause is not None and self._count_up(f"{cause} between steps") == _MANY:
            self._tell(
                cause,
                f"weft: {cause} was another one in {_MANY} steps, and each time the step was captured again, which "
                "takes longer than a step. A number that only enters arithmetic may change freely as an entry of "
                "the batch, and a tensor as a buffer",
            )

    def _tell(self, cause, words):
        if cause not in self._told:
            self._told.add(cause)
            warnings.warn(words, stacklevel=2)


def _in_memory(batch):
    """The batch with a place for every element of its tensors, also of those that `expand` made."""

    def own(_, tensor):
        is_shared = tensor.layout is torch.strided and any(
            stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        )
        return tensor.contiguous() if is_shared else tensor

    return map_batch(batch, own)


def _check_writes(writes, step, is_whole):
    """Throws UserError where what the step writes into its batch cannot be written into that of the script."""
    for key, make in (writes or step.writes).items():
        if make is None:
            why = "what it writes depends on more than the batch (parameters, buffers, random numbers)"
        elif not is_whole:
            why = "each rank has a part of the batch"
        elif step.states:
            why = "it takes different paths by values"
        else:
            continue
        raise UserError(
            f"the step writes into {key} of its batch, and {why}, so that the script's tensor would not get it: let the "
            "model write into a clone() of it"
        )


def _type_of(tensor, sizes, is_part):
    if sizes is None or list(tensor.shape) == sizes and not is_part:
        return str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.requires_grad
    # Of the whole batch no rank has the tensor: how it lies in memory follows from the part, as in `_like`.
    return str(tensor.dtype), tuple(sizes), tuple(_memory_order(tensor)), tensor.requires_grad


def _memory_order(tensor):
    """The dims from the outermost in memory to the innermost."""
    return sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))


def _like(part, sizes):
    """A tensor of these sizes that lies in memory as the part does. Nobody writes into it, so it takes no memory."""
    whole = torch.empty_permuted(sizes, _memory_order(part), dtype=part.dtype)
    return whole.requires_grad_(part.requires_grad)


def _fits(fixed, plain):
    return all(_is_equal(value, plain[key]) for key, value in fixed.items())


def _is_equal(before, now):
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if type(before) is float:
        return struct.pack("d", before) == struct.pack("d", now) or math.isnan(before) and math.isnan(now)
    try:
        return bool(before == now)
    except Exception:
        return False


def _cause(step, plain):
    """Why the step that ran last cannot run now."""
    for key, value in step.fixed.items():
        if not _is_equal(value, plain[key]):
            return f"{key} of the batch"
    return next(filter(None, (state.difference() for state in step.states)), None)


def _unlike(example, batch):
    """How the batch differs from the example in its structure; None when it does not."""
    expected, given = dict(batch_items(example)), dict(batch_items(batch))
    words = "the batch is not like the example batch: "
    for key in expected:
        if key not in given:
            return f"{words}it has no {key}; it has {', '.join(given) or 'nothing'}"
    for key, value in given.items():
        if key not in expected:
            return f"{words}it has {key}, and the example has {', '.join(expected) or 'nothing'}"
        if isinstance(value, torch.Tensor) != isinstance(expected[key], torch.Tensor):
            return f"{words}{key} is a {type(value).__name__}, and in the example a {type(expected[key]).__name__}"
    return None
