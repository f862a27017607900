# SPDX-License-Identifier: Apache-2.0
"""The Python door to capture: runs the user's own step while C++ writes it down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from weft import _weft
from weft._weft import Graph, StateWatch, UserError
from weft.batch import batch_arguments, batch_items, batch_tensors, map_batch, map_entries
from weft.devices import check_devices, check_whole, optimizer_tensors
from weft.find_loss import find_loss
from weft.fingerprint import StateReader
from weft.left_behind import attributes_of, buffers_of, check_buffers, name_of_storage, settle, take_buffers
from weft.mask_index import masked_rows
from weft.optimizer import check_hooks, describe_optimizer
from weft.running_line import running_line
from weft.step_number import StepNumber, is_number, number_tensor
from weft.value_readers import followed_values
from weft.wrapped_model import uncompiled, unwrap, unwrapped


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


# Without values; asking libraries not to look at them; with values; with plain numbers where `.item()` is called; with
# plain tensors where a mask selects rows.
_ATTEMPTS = (
    {"real": False, "tracing": ""},
    {"real": False, "tracing": "jit"},
    {"real": False, "tracing": "compile"},
    {"real": True, "tracing": ""},
    {"real": True, "tracing": "", "follows_numbers": False},
    {"real": True, "tracing": "", "reads_masks": True},
    {"real": True, "tracing": "", "follows_numbers": False, "reads_masks": True},
)


def capture(model, batch, optimizer=None, *, name="model", precision="f32", evaluation=False, loss=None) -> Graph:
    """The training step of a live model, which is left as it was.

    `precision` is "f32" (the model as it is), "bf16" (after
    model.to(torch.bfloat16), and the batch's floating tensors likewise),
    "bf16-mixed" or "f16-mixed" (under torch.autocast). With `evaluation` the
    step is the loss alone, in eval mode and without gradients. `loss` says which
    part of what the model returns is the loss: a place in a tuple, a key, or a
    function of the output; without, it is the output, its `.loss`, or its first
    element.

    Nothing is computed but the conversion, unless the model reads values while
    it runs; then it runs once, and gradients, buffers and the random state are
    put back.
    """
    _precision(precision)
    with unwrapped(model) as inner:
        check_places(inner, batch, optimizer)
        captured = capture_step(
            inner,
            batch,
            optimizer,
            {"name": name, "precision": precision, "evaluation": evaluation, "loss": loss},
            training=None,
            is_step=False,
        )
        return captured.graph


@dataclass
class CapturedStep:
    """A graph, and what it holds of the script."""

    graph: Graph
    # What it has read of Python, as that was before.
    state: StateWatch
    # What of that the step itself changes, by name: its Python has to run for every step. None: nothing.
    changes: str | None
    # The entries of the batch that are part of the step.
    fixed: dict
    # Puts back what the capture has changed of it.
    restore: Callable
    # By key, what the step makes of tensors of the batch that it writes into, as a function of the batch; None where
    # that takes more than the batch.
    writes: dict = field(default_factory=dict)


def capture_step(
    model, batch, optimizer, options, *, training, is_step, plain_keys=None, order=None, values=None
) -> CapturedStep:
    """The step as `capture` gives it with its `options` (name, precision, evaluation, loss), and all it depends on.

    With `is_step` it is the step that trains: what its Python changes stays changed. Numbers of the batch become
    inputs where `plain_keys` is a set: the keys of those that do not only enter arithmetic are added to it. `training`
    is the mode that the model is put into; None leaves it. The inputs of the batch come in the `order` of their keys.
    Where the tensors of the batch only have the shapes, `values` is a function from keys to tensors that have values.
    """
    check_buffers(model)
    entries = dict(batch_items(batch))
    tensors = {}
    if plain_keys is not None:
        tensors = {key: number_tensor(value) for key, value in entries.items() if is_number(value)}
    while True:
        numbers = {key: StepNumber(entries[key], tensors[key]) for key in tensors if key not in plain_keys}
        given = map_entries(batch, lambda key, value, by_key=numbers: by_key.get(key, value)) if numbers else batch
        try:
            captured = _capture_live(
                model, given, optimizer, options, tensors, order, numbers, training, is_step, _with(values, given)
            )
        except Exception:
            if not numbers:
                raise
            # Perhaps the model cannot do with what stands in for a number.
            plain_keys.update(numbers)
            continue
        read = {key for key, number in numbers.items() if number.is_read}
        if not read:
            captured.fixed = {
                key: value
                for key, value in entries.items()
                if key not in numbers and not isinstance(value, torch.Tensor)
            }
            return captured
        plain_keys.update(read)
        captured.restore()


def _with(values, batch):
    """A function that gives the batch with the values; None without them."""
    if values is None:
        return None

    def with_values():
        by_key = values()
        return map_batch(batch, lambda key, tensor: by_key.get(key, tensor))

    return with_values


def in_order(inputs, order):
    """Pairs with a key, sorted by where `order` has the key; what it does not have comes last."""
    return sorted(inputs, key=lambda item: order.get(item[0], len(order)))


def _capture_live(model, batch, optimizer, options, tensors, order, numbers, training, is_step, values, earlier=None):
    """`earlier` is what recorded the same step just before, and found generators of random numbers that outlive it."""
    name, precision, evaluation, loss = (options[key] for key in ("name", "precision", "evaluation", "loss"))
    whole, _ = _precision(precision)
    for attempt in _ATTEMPTS:
        taken = _weft.Capture(name, real=attempt["real"], earlier=earlier)
        reader = StateReader(model, numbers.values(), _objects_of(batch))
        try:
            with (
                reader,
                _left_as_it_was(model),
                _converted(model, whole),
                in_mode(model, not evaluation) if evaluation or training is not None else contextlib.nullcontext(),
                _says_it_traces(attempt["tracing"]) if attempt["tracing"] else contextlib.nullcontext(),
            ):
                given = values() if attempt["real"] and values is not None else batch
                own = _told_apart(_cast_batch(given, whole))
                inputs = in_order([*batch_tensors(own), *tensors.items()], order or {})
                with _unwritten(own) if taken.real else contextlib.nullcontext():
                    graph = _record_step(
                        taken, model, own, optimizer, precision, evaluation, loss, _manner(attempt), inputs
                    )
            changes = reader.finish(evaluation)
        except BaseException as error:
            reader.restore()
            if not isinstance(error, Exception) or not _may_go_on(attempt, taken, error, model):
                raise
            continue
        if earlier is None and taken.has_lasting_generators():
            reader.restore()
            return _capture_live(
                model, batch, optimizer, options, tensors, order, numbers, training, is_step, values, taken
            )
        if not is_step:
            reader.restore()
        # What was converted is a copy, which the script does not see.
        converted = [key for key, tensor in batch_tensors(batch) if whole is not None and tensor.is_floating_point()]
        writes = {key: make for key, make in taken.written_batch.items() if key not in converted}
        return CapturedStep(graph, reader.watch, changes, {}, reader.restore, writes)
    raise AssertionError("the last attempt returns or raises")


def _objects_of(batch):
    """The entries of a batch that are neither tensors nor plain values."""
    plain = (torch.Tensor, str, bytes, int, float, complex, type(None))
    return [(key, value) for key, value in batch_items(batch) if not isinstance(value, plain)]


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


@contextlib.contextmanager
def _unwritten(batch):
    """The tensors of the batch have their elements afterwards: a capture with values runs what writes into them."""
    tensors = [tensor for _, tensor in batch_tensors(batch) if not tensor.is_inference()]
    before = [(tensor, tensor._version, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, version, elements in before:
                if tensor._version != version:
                    tensor.copy_(elements)


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
    # A buffer may have a gradient too: one that a loss starts from, and that requires_grad_ was called on.
    gradients = {tensor: tensor.grad for tensor in (*model.parameters(), *model.buffers()) if tensor.is_leaf}
    storages = [(p, p.data) for p in model.parameters()]
    buffers = {b: b.detach().clone() for b in model.buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            for leaf in gradients:
                leaf.grad = None
            yield
    finally:
        for parameter, data in storages:
            if parameter.data.untyped_storage()._cdata != data.untyped_storage()._cdata:
                parameter.data = data
        for leaf, gradient in gradients.items():
            leaf.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


def _may_go_on(attempt, taken, error, model=None):
    """Whether the next attempt may work."""
    if attempt is _ATTEMPTS[-1]:
        return False
    if not isinstance(error, UserError):
        # What the model cannot take may be what stands for an element of a tensor, or for the rows of a mask.
        if getattr(error, "weft_followed_numbers", False) or getattr(error, "weft_masked_rows", False):
            return True
    return _needs_values(taken, error, model) and not attempt["real"]


def _manner(attempt):
    """What of an attempt says how values are read."""
    return {key: value for key, value in attempt.items() if key in ("follows_numbers", "reads_masks")}


def _needs_values(taken, error, model=None):
    """Whether another try with real tensors may work."""
    if taken.refusal is None:
        return "weft: no data" in str(error)
    needs_values, message = taken.refusal
    if not needs_values:
        place = name_of_storage(model, taken.refused_storage) if model is not None and taken.refused_storage else None
        if place is not None:
            words, end, line = message.partition("\n")
            message = f"{words}. The tensor is {place}{end}{line}"
        raise UserError(message) from error
    return True


def capture_function(
    function, options=None, *, name=None, precision="f32", evaluation=False, batch_types=None, loss=None
) -> Captured:
    """The step of what `function(**options)` returns.

    `precision`, `evaluation` and `loss` as in `capture`; the conversion becomes part of
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
            return _attempt(taken, function, options or {}, precision, evaluation, batch_types or {}, loss, attempt)
        except Exception as error:
            if not _may_go_on(attempt, taken, error):
                raise
            last = error
    raise last


def _attempt(taken, function, options, precision, evaluation, batch_types, loss, attempt):
    start = time.perf_counter()
    whole, _ = _precision(precision)
    with taken.record_init(), _value_readers(taken, attempt["real"]):
        model, batch, optimizer = _parts(function(**options))
        batch = _told_apart(_cast_batch(_retype_batch(batch, batch_types), whole))
        if whole is not None:
            model.to(whole)
    if evaluation:
        model.eval()
    build_seconds = time.perf_counter() - start
    start = time.perf_counter()
    with _says_it_traces(attempt["tracing"]) if attempt["tracing"] else contextlib.nullcontext():
        graph = _record_step(taken, model, batch, optimizer, precision, evaluation, loss, _manner(attempt))
    if taken.has_lasting_generators():
        # The next attempt would build another one, so that no state of it tells.
        raise UserError(
            "[capture] the step draws random numbers from a torch.Generator that outlives it, and whether each step "
            "seeds it anew is not known before a second one: make the generator in forward, or draw without one"
        )
    return Captured(graph, build_seconds, time.perf_counter() - start, attempt["real"], (taken, model, optimizer))


def _parts(returned):
    """(model, batch, optimizer or None) of what a model function returned."""
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise UserError(
            f"the function must return (model, batch) or (model, batch, optimizer); it returned {_kind(returned)}"
        )
    model, batch, optimizer = (*returned, None)[:3]
    check_parts(model, optimizer, is_optional=True)
    model = unwrap(model)
    check_places(model, batch, optimizer)
    return model, batch, optimizer


def check_places(model, batch, optimizer=None):
    """Throws UserError for a tensor that lives on a device which Weft does not run on."""
    check_whole(model.named_parameters())
    check_devices("the model's", [*model.named_parameters(), *model.named_buffers()], ("cpu", "meta"))
    check_devices("the batch's", batch_tensors(batch))
    if optimizer is not None:
        check_devices("the optimizer's", optimizer_tensors(optimizer))


def check_parts(model, optimizer, is_optional=False):
    if not isinstance(model, nn.Module):
        raise UserError(f"the model must be an nn.Module; it is {_kind(model)}")
    if not isinstance(optimizer, torch.optim.Optimizer) and not (is_optional and optimizer is None):
        raise UserError(f"not supported: an optimizer that is not a torch.optim.Optimizer; it is {_kind(optimizer)}")
    check_hooks(optimizer)


def _kind(thing):
    if isinstance(thing, tuple):
        return f"a tuple of {len(thing)}"
    return f"a {type(thing).__name__}"


def _record_step(
    taken,
    model,
    batch,
    optimizer,
    precision="f32",
    evaluation=False,
    loss=None,
    manner=None,
    inputs=None,
):
    """`manner` says how values are read (`_manner`). `inputs` are what the step takes of the batch; the tensors that are in it when None."""
    _, mixed = _precision(precision)
    manner = manner or {}
    taken.set_place(running_line)
    arguments, keywords = batch_arguments(batch)
    _check_lazy(model)
    buffers, attributes = buffers_of(model), attributes_of(model)
    taken.begin_step(
        list(model.named_parameters(remove_duplicate=False)),
        [(key, tensor) for key, tensor in model.named_buffers(remove_duplicate=False) if tensor is not None],
        batch_tensors(batch) if inputs is None else inputs,
        _saved(model),
    )
    with (
        uncompiled(model),
        _no_cached_casts(),
        taken.record_step(),
        _module_paths(taken, model),
        _value_readers(taken, taken.real),
        followed_values(taken, manner.get("follows_numbers", True)) as trace,
        masked_rows(taken, trace, manner.get("reads_masks", False)),
    ):
        with (
            torch.no_grad() if evaluation else contextlib.nullcontext(),
            torch.autocast("cpu", dtype=mixed) if mixed is not None else contextlib.nullcontext(),
        ):
            loss = find_loss(model(*arguments, **keywords), loss, has_gradient=not evaluation)
        if not evaluation:
            taken.begin_backward()
            # As PyTorch asks of a loop: only the forward is under autocast, also where a script has it around all.
            with torch.autocast("cpu", enabled=False):
                loss.backward()
    # The model may have caught a refusal, and have gone on in another way than it would without Weft.
    if taken.refusal is not None:
        raise UserError(taken.refusal[1])
    if trace.lacks_values:
        raise RuntimeError("weft: no data")
    take_buffers(taken, model, buffers)
    settle(taken, model, attributes, buffers)
    return taken.finish(
        loss,
        describe_optimizer(optimizer, model) if optimizer is not None and not evaluation else None,
        [(path, type(module).__name__) for path, module in model.named_modules()],
    )


def _check_lazy(model):
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise UserError(f"{name} of a lazy module has no shape yet: call the model once on a batch before")


def _saved(model):
    """The tensors of the model's state_dict, which has tied ones under all their names, and no transient buffers."""
    try:
        entries = model.state_dict(keep_vars=True).items()
    except Exception:
        # A hook of the model's that needs values, which are not there while it is captured.
        own = {
            f"{path}.{name}" if path else name
            for path, module in model.named_modules(remove_duplicate=False)
            for name in module._non_persistent_buffers_set
        }
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        entries = [(key, tensor) for key, tensor in tensors if key not in own]
    return [(key, value) for key, value in entries if isinstance(value, torch.Tensor)]


@contextlib.contextmanager
def _no_cached_casts():
    """Weights that autocast has converted before are converted again: the casts are part of the step."""
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()


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
def _says_it_traces(by):
    """Libraries that look at values to save work are asked not to.

    transformers skips attention masks that are all ones after looking at them,
    unless it is being traced; a plan must hold for any batch, so the mask has to
    stay in the step. "jit" says that torch.jit traces, "compile" that
    torch.compile does: for the latter transformers leaves PyTorch's grouped
    matmul for a loop of its own, which looks at values in backward.
    """
    is_compiling, is_tracing = torch.compiler._is_compiling_flag, torch.jit.is_tracing
    if by == "jit":
        torch.jit.is_tracing = lambda: True
    else:
        torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = is_compiling
        torch.jit.is_tracing = is_tracing
