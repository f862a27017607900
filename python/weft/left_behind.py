# SPDX-License-Identifier: Apache-2.0
"""What a step that was captured leaves in the script's objects: buffers that it replaced, tensors in attributes.

While a step is captured, most tensors have no values. One that stays behind is made whole where it follows from
constants alone (a table of positions, made once); otherwise a placeholder takes its place, and who reads it is told so.
"""

from __future__ import annotations

import torch

from weft import _weft
from weft._weft import UserError
from weft.traced_number import TracedNumber

_PARTS = ("_parameters", "_buffers", "_modules")
# How deep containers in attributes are looked through.
_DEPTH = 4


def attributes_of(model):
    """The attributes of every module, as they are."""
    return {module: dict(vars(module)) for module in model.modules()}


def buffers_of(model):
    return {module: dict(module._buffers) for module in model.modules()}


def take_buffers(taken, model, before):
    """A tensor that the step has put in the place of a buffer is the buffer's next value."""
    for path, module in model.named_modules():
        for name, old in before.get(module, {}).items():
            now = module._buffers.get(name)
            if now is old or now is None or old is None:
                continue
            full = f"{path}.{name}" if path else name
            if now.shape != old.shape or now.dtype != old.dtype:
                raise UserError(
                    f"the step makes a {now.dtype} of shape {tuple(now.shape)} of the buffer {full}, which is a "
                    f"{old.dtype} of shape {tuple(old.shape)}: a buffer must stay what it is. Where it is a table that grows, "
                    "call the model once on the largest batch before"
                )
            taken.replace_buffer(full, now)
            module._buffers[name] = old


def check_buffers(model):
    """Throws UserError for a buffer without values, which a step has registered."""
    for name, buffer in model.named_buffers():
        if buffer.numel() > 0 and _weft.is_hollow(buffer):
            raise UserError(
                f"the buffer {name} was registered while a training step ran, with values that are not constant, and "
                "those are not kept. Register it before the first step and write into it with copy_"
            )


def settle(taken, model, before, buffers):
    """Puts values, or placeholders, where the step has left tensors of its own in attributes and in new buffers.

    `before` and `buffers` are what `attributes_of` and `buffers_of` gave before the step.
    """
    for path, module in model.named_modules():
        for name, value in module._buffers.items():
            if value is not None and buffers.get(module, {}).get(name) is None:
                full = f"model.{path}.{name}" if path else f"model.{name}"
                module._buffers[name] = _settled(taken, full, value, None, 0)
        attributes = vars(module)
        for name in list(attributes):
            if name in _PARTS:
                continue
            value = attributes[name]
            old = before.get(module, {}).get(name)
            now = _settled(taken, f"model.{path}.{name}" if path else f"model.{name}", value, old, 0)
            if now is not value:
                attributes[name] = now


def _settled(taken, path, value, old, depth):
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value
        is_made, elements = taken.left(value)
        if not is_made:
            if value.grad_fn is not None and taken.is_constant(value):
                raise UserError(
                    f"the step reads {path}, which was computed outside of it and which gradients would flow through: "
                    "compute it in forward, or call detach() on it"
                )
            return value
        if elements is None:
            return _weft.placeholder(value, _not_kept(path))
        is_old = isinstance(old, torch.Tensor) and old.dtype == elements.dtype and not _weft.is_hollow(old)
        return old if is_old and torch.equal(old, elements) else elements
    if type(value) is TracedNumber:
        # What .item() gave: nobody may take it for a number of another step.
        value._tensor = _weft.placeholder(value._tensor, _not_kept(path))
        value._value, value._is_read = None, False
        return value
    if depth == _DEPTH:
        return value
    if isinstance(value, list):
        for i, item in enumerate(value):
            inner = old[i] if isinstance(old, list) and i < len(old) else None
            value[i] = _settled(taken, f"{path}[{i}]", item, inner, depth + 1)
    elif type(value) is tuple:
        inner = old if isinstance(old, tuple) and len(old) == len(value) else [None] * len(value)
        items = [
            _settled(taken, f"{path}[{i}]", *both, depth + 1) for i, both in enumerate(zip(value, inner, strict=True))
        ]
        if any(now is not item for now, item in zip(items, value, strict=True)):
            return tuple(items)
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = old.get(key) if isinstance(old, dict) else None
            value[key] = _settled(taken, f"{path}[{key!r}]", item, inner, depth + 1)
    return value


def _not_kept(path):
    return (
        f"{path} was set while a training step ran, and its values are not kept: return what you want to see from the "
        "model, or keep it in a buffer"
    )


def name_of_storage(model, storage):
    """The attribute whose tensor lies in that storage; None when no module has one."""

    def holds(value, depth):
        if isinstance(value, torch.Tensor):
            return value.layout is torch.strided and value.untyped_storage()._cdata == storage
        if depth < _DEPTH and isinstance(value, (list, tuple, dict)):
            items = value.values() if isinstance(value, dict) else value
            return any(holds(item, depth + 1) for item in items)
        return False

    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _PARTS and holds(value, 0):
                return f"model.{path}.{name}" if path else f"model.{name}"
    return None
