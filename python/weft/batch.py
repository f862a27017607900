# SPDX-License-Identifier: Apache-2.0
"""What a batch is made of: tensors by the keys that a graph's inputs have, and entries that are not tensors.

A batch is a tensor, a tuple or a dict, of whatever PyTorch's pytrees know (classes that were registered with
torch.utils._pytree), mappings, named tuples and dataclasses, nested as deep as one likes.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Mapping

import torch
from torch.utils import _pytree

from weft._weft import UserError

# How deep tensors are looked for in an object that cannot be opened.
_LOOK_DEPTH = 4


def batch_arguments(batch):
    """(arguments, keywords) with which the model is called."""
    if isinstance(batch, torch.Tensor):
        return (batch,), {}
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    if isinstance(batch, Mapping) or (hasattr(batch, "items") and not _is_opened(batch)):
        return (), {str(key): value for key, value in batch.items()}
    if _is_opened(batch):
        return (batch,), {}
    place = _tensor_inside(batch)
    if place is not None:
        raise UserError(_cannot_open("the batch", batch, place))
    raise UserError(f"the batch must be a tensor, a tuple or a dict; it is a {type(batch).__name__}")


def batch_items(batch):
    """What a batch is made of, by key, as a graph names its batch inputs: tensors and other things."""
    items = []

    def take(key, value):
        items.append((key, value))
        return value

    _walk_batch(batch, take)
    return items


def batch_tensors(batch):
    """The tensors of a batch by key."""
    return [(key, value) for key, value in batch_items(batch) if isinstance(value, torch.Tensor)]


def batch_structure(batch):
    """Which containers hold what, as something that can be compared."""
    arguments, keywords = batch_arguments(batch)
    return tuple(map(_structure, arguments)), tuple((key, _structure(value)) for key, value in sorted(keywords.items()))


def map_batch(batch, change):
    """The batch with `change(key, tensor)` for every tensor, under the keys of the graph's inputs."""
    return map_entries(batch, lambda key, value: change(key, value) if isinstance(value, torch.Tensor) else value)


def map_entries(batch, change):
    """The batch with `change(key, entry)` for every tensor and every entry that is none."""
    arguments, keywords = _walk_batch(batch, change)
    return keywords if keywords else arguments


def _walk_batch(batch, change):
    arguments, keywords = batch_arguments(batch)
    return (
        tuple(_walk(str(i), value, change) for i, value in enumerate(arguments)),
        {key: _walk(key, value, change) for key, value in keywords.items()},
    )


def _walk(key, value, change):
    """`value` with what `change` makes of its leaves; the very object where nothing was changed."""
    children = _children(value)
    if children is None:
        place = None if isinstance(value, torch.Tensor) else _tensor_inside(value)
        if place is not None:
            raise UserError(_cannot_open(f"{key} of the batch", value, place))
        return change(key, value)
    names, items = children
    changed = [_walk(f"{key}.{name}", item, change) for name, item in zip(names, items, strict=True)]
    if all(now is before for now, before in zip(changed, items, strict=True)):
        return value
    return _rebuild(value, names, changed)


def _is_opened(value):
    return _children(value) is not None


def _is_registered(value):
    return type(value) in _pytree.SUPPORTED_NODES


def _is_data_object(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _children(value):
    """(names, items) of a container; None of a leaf."""
    if isinstance(value, (torch.Tensor, str, bytes)) or value is None:
        return None
    if isinstance(value, (tuple, list)):
        return range(len(value)), list(value)
    if isinstance(value, Mapping):
        return list(value.keys()), list(value.values())
    if _is_registered(value):
        node = _pytree.SUPPORTED_NODES[type(value)]
        items, _ = node.flatten_fn(value)
        names = range(len(items))
        if node.flatten_with_keys_fn is not None:
            names = [_key_name(path) for path, _ in node.flatten_with_keys_fn(value)[0]]
        return names, list(items)
    if _is_data_object(value):
        names = [field.name for field in dataclasses.fields(value)]
        return names, [getattr(value, name) for name in names]
    return None


def _key_name(path):
    for attribute in ("key", "name", "idx"):
        if hasattr(path, attribute):
            return getattr(path, attribute)
    return str(path)


def _rebuild(value, names, items):
    """A container like `value` that holds `items`."""
    if isinstance(value, (tuple, list)):
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if _is_registered(value):
        node = _pytree.SUPPORTED_NODES[type(value)]
        return node.unflatten_fn(items, node.flatten_fn(value)[1])
    if isinstance(value, (dict, collections.UserDict)):
        made = copy.copy(value)
        for name, item in zip(names, items, strict=True):
            made[name] = item
        return made
    if isinstance(value, Mapping):
        return dict(zip(names, items, strict=True))
    made = copy.copy(value)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def _structure(value):
    children = _children(value)
    if children is None:
        return None
    names, items = children
    return type(value), tuple(names), tuple(map(_structure, items))


def _tensor_inside(value, depth=0, path=""):
    """Where an object that cannot be opened has a tensor: ".store.x"; None where there is none."""
    if isinstance(value, torch.Tensor):
        return path
    if depth > _LOOK_DEPTH or isinstance(value, (str, bytes, int, float, complex, type, torch.nn.Module)):
        return None
    children = _children(value)
    if children is None:
        attributes = dict(getattr(value, "__dict__", {}) if not callable(value) else {})
        for kind in type(value).__mro__:
            slots = getattr(kind, "__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                attributes.setdefault(name, getattr(value, name, None))
        children = list(attributes), list(attributes.values())
    for name, item in zip(*children, strict=True):
        found = _tensor_inside(item, depth + 1, f"{path}.{name}")
        if found is not None:
            return found
    return None


def _cannot_open(what, value, place):
    name = type(value).__name__
    return (
        f"{what} is a {name}, which holds tensors ({name}{place}) and cannot be opened: register the class with "
        "torch.utils._pytree.register_pytree_node, make it a dataclass, or give a dict of its tensors"
    )
