# SPDX-License-Identifier: Apache-2.0
"""The Python door to capture: runs the user's own step while C++ writes it down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from weft import _weft
from weft._weft import Graph, UserError


@dataclass
class Captured:
    """A graph and how long its making took."""

    graph: Graph
    # Running the user's function, which builds the model.
    build_seconds: float
    # Running and writing down one step.
    capture_seconds: float
    # Values were needed: real tensors were used.
    real: bool
    # What it was made from. Whoever ends soon leaves that to the end of the process: taken apart object by object, a
    # large model takes a while.
    made_from: object = field(default=None, repr=False)


# The element type that the model is converted to, and the one that it is
# autocast to.
PRECISIONS = {
    "f32": (None, None),
    "bf16": (torch.bfloat16, None),
    "bf16-mixed": (None, torch.bfloat16),
    "f16-mixed": (None, torch.float16),
}


# Without values; asking libraries not to look at them; with values.
_ATTEMPTS = (
    {"real": False, "tracing": False},
    {"real": False, "tracing": True},
    {"real": True, "tracing": False},
)


def capture(model, batch, optimizer=None, *, name="model", precision="f32", evaluation=False) -> Graph:
    """The training step of a live model, which is left as it was.

    `precision` is "f32" (the model as it is), "bf16" (after
    model.to(torch.bfloat16), and the batch's floating tensors likewise),
    "bf16-mixed" or "f16-mixed" (under torch.autocast). With `evaluation` the
    step is the loss alone, in eval mode and without gradients.

    Nothing is computed but the conversion, unless the model reads values while
    it runs; then it runs once, and gradients, buffers and the random state are
    put back.
    """
    whole, _ = _precision(precision)
    for attempt in _ATTEMPTS:
        taken = _weft.Capture(name, real=attempt["real"])
        try:
            with (
                _left_as_it_was(model),
                _converted(model, whole),
                in_mode(model, False) if evaluation else contextlib.nullcontext(),
                _says_it_traces() if attempt["tracing"] else contextlib.nullcontext(),
            ):
                own = _told_apart(_cast_batch(batch, whole))
                return _record_step(taken, model, own, optimizer, precision, evaluation)
        except Exception as error:
            if attempt["real"] or not _needs_values(taken, error):
                raise
    raise AssertionError("the last attempt returns or raises")


def _precision(precision):
    if precision not in PRECISIONS:
        raise UserError(f"there is no precision {precision}; there are {', '.join(PRECISIONS)}")
    return PRECISIONS[precision]


@contextlib.contextmanager
def _converted(model, dtype):
    """The model in another element type, and back with the very tensors that it had."""
    if dtype is None:
        yield
        return
    parameters = [(parameter, parameter.data) for parameter in model.parameters()]
    buffers = [(module, dict(module._buffers)) for module in model.modules()]
    try:
        model.to(dtype)
        yield
    finally:
        for parameter, data in parameters:
            parameter.data = data
        for module, before in buffers:
            module._buffers.update(before)


@contextlib.contextmanager
def in_mode(model, training):
    """Every module in that mode, and back to what each one was in.

    Modules that were put into eval mode in a model that trains stay in it.
    """
    if training and model.training:
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def map_batch(batch, change):
    """The batch with `change(key, tensor)` for every tensor, under the keys of the graph's inputs."""

    def walk(key, value):
        if isinstance(value, torch.Tensor):
            return change(key, value)
        if isinstance(value, (tuple, list)):
            items = [walk(f"{key}.{i}", item) for i, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, Mapping):
            return {name: walk(f"{key}.{name}", item) for name, item in value.items()}
        return value

    arguments, keywords = _batch_arguments(batch)
    if keywords:
        return {key: walk(key, value) for key, value in keywords.items()}
    return tuple(walk(str(i), value) for i, value in enumerate(arguments))


def _cast_batch(batch, dtype):
    if dtype is None:
        return batch
    return map_batch(batch, lambda _, tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _told_apart(batch):
    """The batch with memory of its own for every key: what is one tensor here may be two in the next batch."""
    seen = set()

    def change(_, tensor):
        place = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.size(), tensor.stride())
        if place in seen:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        seen.add(place)
        return tensor

    return map_batch(batch, change)


def _retype_batch(batch, types):
    """The batch with tensors of the given types in place of those with their keys."""
    if not types:
        return batch
    known = [key for key, _ in batch_tensors(batch)]
    for key in types:
        if key not in known:
            raise UserError(f"the batch has no tensor {key}; it has {', '.join(known) or 'none'}")

    def change(key, tensor):
        return _weft.zeros(types[key]) if key in types else tensor

    return map_batch(batch, change)


@contextlib.contextmanager
def _left_as_it_was(model):
    gradients = {p: p.grad for p in model.parameters()}
    buffers = {b: b.detach().clone() for b in model.buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            for parameter in gradients:
                parameter.grad = None
            yield
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


def _needs_values(taken, error):
    """Whether another try with real tensors may work."""
    if taken.refusal is None:
        return "weft: no data" in str(error)
    if not taken.refusal[0]:
        raise UserError(taken.refusal[1]) from error
    return True


def capture_function(
    function, options=None, *, name=None, precision="f32", evaluation=False, batch_types=None
) -> Captured:
    """The step of what `function(**options)` returns.

    `precision` and `evaluation` as in `capture`; the conversion becomes part of
    the graph's `init`. `batch_types` gives tensors of the batch other types, by
    their key in the graph: {"0": "i64[4, 128]"}.

    Nothing is allocated and nothing is computed, unless the model reads values
    while it runs; then it runs for real on the batch that it comes with.
    """
    _precision(precision)
    name = name or function.__name__
    for attempt in _ATTEMPTS:
        taken = _weft.Capture(name, real=attempt["real"])
        try:
            return _attempt(taken, function, options or {}, precision, evaluation, batch_types or {}, **attempt)
        except Exception as error:
            if attempt["real"] or not _needs_values(taken, error):
                raise
            last = error
    raise last


def _attempt(taken, function, options, precision, evaluation, batch_types, *, real, tracing):
    start = time.perf_counter()
    whole, _ = _precision(precision)
    with taken.record_init(), _value_readers(taken, real):
        model, batch, optimizer = _parts(function(**options))
        batch = _told_apart(_cast_batch(_retype_batch(batch, batch_types), whole))
        if whole is not None:
            model.to(whole)
    if evaluation:
        model.eval()
    build_seconds = time.perf_counter() - start
    start = time.perf_counter()
    with _says_it_traces() if tracing else contextlib.nullcontext():
        graph = _record_step(taken, model, batch, optimizer, precision, evaluation)
    return Captured(graph, build_seconds, time.perf_counter() - start, real, (taken, model, optimizer))


def _parts(returned):
    """(model, batch, optimizer or None) of what a model function returned."""
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise UserError(
            f"the function must return (model, batch) or (model, batch, optimizer); it returned {_kind(returned)}"
        )
    model, batch, optimizer = (*returned, None)[:3]
    check_parts(model, optimizer, is_optional=True)
    return model, batch, optimizer


def check_parts(model, optimizer, is_optional=False):
    if not isinstance(model, nn.Module):
        raise UserError(f"the model must be an nn.Module; it is {_kind(model)}")
    if not isinstance(optimizer, torch.optim.Optimizer) and not (is_optional and optimizer is None):
        raise UserError(f"not supported: an optimizer that is not a torch.optim.Optimizer; it is {_kind(optimizer)}")


def _kind(thing):
    if isinstance(thing, tuple):
        return f"a tuple of {len(thing)}"
    return f"a {type(thing).__name__}"


def _record_step(taken, model, batch, optimizer, precision="f32", evaluation=False):
    _, mixed = _precision(precision)
    arguments, keywords = _batch_arguments(batch)
    taken.begin_step(
        list(model.named_parameters(remove_duplicate=False)),
        [(key, tensor) for key, tensor in model.named_buffers(remove_duplicate=False) if tensor is not None],
        batch_tensors(batch),
    )
    with (
        taken.record_step(),
        _module_paths(taken, model),
        _value_readers(taken, taken.real),
    ):
        with (
            torch.no_grad() if evaluation else contextlib.nullcontext(),
            torch.autocast("cpu", dtype=mixed) if mixed is not None else contextlib.nullcontext(),
        ):
            loss = _loss(model(*arguments, **keywords), has_gradient=not evaluation)
        if not evaluation:
            taken.begin_backward()
            loss.backward()
    return taken.finish(
        loss,
        _describe(optimizer, model) if optimizer is not None and not evaluation else None,
        [(path, type(module).__name__) for path, module in model.named_modules()],
    )


def _batch_arguments(batch):
    if isinstance(batch, torch.Tensor):
        return (batch,), {}
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    if isinstance(batch, dict) or hasattr(batch, "items"):
        return (), {str(key): value for key, value in batch.items()}
    raise UserError(f"the batch must be a tensor, a tuple or a dict; it is {_kind(batch)}")


def batch_items(batch):
    """What a batch is made of, by key, as a graph names its batch inputs: tensors and other things."""
    items = []

    def walk(key, value):
        if isinstance(value, (tuple, list)):
            for i, item in enumerate(value):
                walk(f"{key}.{i}", item)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                walk(f"{key}.{name}", item)
        else:
            items.append((key, value))

    arguments, keywords = _batch_arguments(batch)
    for i, value in enumerate(arguments):
        walk(str(i), value)
    for key, value in keywords.items():
        walk(key, value)
    return items


def batch_tensors(batch):
    """The tensors of a batch by key."""
    return [(key, value) for key, value in batch_items(batch) if isinstance(value, torch.Tensor)]


def _loss(output, has_gradient=True):
    if hasattr(output, "loss") and output.loss is not None:
        output = output.loss
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    elif isinstance(output, dict) and "loss" in output:
        output = output["loss"]
    if not isinstance(output, torch.Tensor):
        raise UserError(
            "the model must return the loss, a tuple that starts with it, or an "
            f"object with .loss; it returned {_kind(output)}"
        )
    if output.numel() != 1:
        raise UserError(
            f"the loss must be one number; it has the shape {tuple(output.shape)}. Reduce it with .mean() or .sum()"
        )
    if has_gradient and not output.requires_grad:
        raise UserError("the loss does not depend on any parameter that requires a gradient")
    return output


@contextlib.contextmanager
def _module_paths(taken, model):
    """Tells the recorder which module is running.

    nn.Module.__call__ is wrapped rather than hooked: hooks would send every
    call of every module down torch's slow path.
    """
    paths = {module: path for path, module in model.named_modules()}
    push, pop = taken.push_module, taken.pop_module
    call = nn.Module.__call__

    def call_with_path(module, *args, **kwargs):
        path = paths.get(module)
        if path is None:
            return call(module, *args, **kwargs)
        push(path)
        try:
            return call(module, *args, **kwargs)
        finally:
            pop()

    nn.Module.__call__ = call_with_path
    try:
        yield
    finally:
        nn.Module.__call__ = call


@contextlib.contextmanager
def _value_readers(taken, real):
    """Stands in for the Python of torch that looks at elements by itself."""
    if real:
        yield
        return
    tolist = torch.Tensor.tolist
    trunc_normal = nn.init._no_grad_trunc_normal_

    def known_tolist(tensor):
        known = taken.known_elements(tensor)
        return tolist(tensor if known is None else known)

    def recorded_trunc_normal(tensor, mean, std, a, b, generator=None):
        # Draws until all numbers are inside: one node, not a loop.
        taken.fill_trunc_normal(tensor, mean, std, a, b)
        return tensor

    torch.Tensor.tolist = known_tolist
    nn.init._no_grad_trunc_normal_ = recorded_trunc_normal
    try:
        yield
    finally:
        torch.Tensor.tolist = tolist
        nn.init._no_grad_trunc_normal_ = trunc_normal


@contextlib.contextmanager
def _says_it_traces():
    """Libraries that look at values to save work are asked not to.

    transformers skips attention masks that are all ones after looking at them,
    unless it is being compiled; a plan must hold for any batch, so the mask has
    to stay in the step.
    """
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _describe(optimizer, model):
    """(kind, [(options, parameter names)]) of a torch.optim optimizer."""
    names = {}
    for name, parameter in model.named_parameters():
        names.setdefault(parameter, name)
    groups = []
    for group in optimizer.param_groups:
        options = {}
        for key, value in group.items():
            # Schedulers leave notes of their own in groups.
            if key not in optimizer.defaults or value is None:
                continue
            if key == "betas":
                options["beta1"], options["beta2"] = map(float, value)
            elif isinstance(value, (torch.Tensor, bool, int, float)):
                options[key] = float(value)
            elif isinstance(value, (tuple, list)):
                for i, item in enumerate(value):
                    if item is not None:
                        options[f"{key}{i + 1}"] = float(item)
            else:
                raise UserError(f"not supported: the optimizer option {key}={value!r}")
        try:
            parameters = [names[parameter] for parameter in group["params"]]
        except KeyError:
            raise UserError(
                "the optimizer holds a parameter that the model does not have: build it from model.parameters()"
            ) from None
        groups.append((options, parameters))
    kind = type(optimizer).__name__.lower()
    if not type(optimizer).__module__.startswith("torch.optim"):
        raise UserError(
            f"not supported: the optimizer {type(optimizer).__name__} of "
            f"{type(optimizer).__module__}: only those of torch.optim are known. "
            "Return (model, batch) to capture forward and backward alone"
        )
    return kind, groups
