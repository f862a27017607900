# SPDX-License-Identifier: Apache-2.0
"""Models in wrappers that run them in another way: what is inside is captured, under its own names."""

from __future__ import annotations

import contextlib
import sys
import warnings

from torch import nn

from weft._weft import UserError


def unwrap(model):
    """The model that wrappers hold, with a note; wrapped submodules are taken out for good."""
    notes = []
    inner = _inside(model, notes)
    for parent, name, child in _children(inner):
        parent._modules[name] = _inside(child, notes)
    _tell(notes)
    return inner


@contextlib.contextmanager
def unwrapped(model):
    """The same while it lasts."""
    notes = []
    inner = _inside(model, notes)
    before = list(_children(inner))
    try:
        for parent, name, child in before:
            parent._modules[name] = _inside(child, notes)
        _tell(notes)
        yield inner
    finally:
        for parent, name, child in before:
            parent._modules[name] = child


@contextlib.contextmanager
def uncompiled(model):
    """What torch.compile has made runs as it was written, and so is seen by the recorder."""
    compiled = [module for module in model.modules() if getattr(module, "_compiled_call_impl", None) is not None]
    implementations = [module._compiled_call_impl for module in compiled]
    try:
        for module in compiled:
            module._compiled_call_impl = None
        with _eager_functions():
            yield
    finally:
        for module, implementation in zip(compiled, implementations, strict=True):
            module._compiled_call_impl = implementation


def _eager_functions():
    # Nothing is compiled where the compiler was never imported, which takes seconds.
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None:
        return contextlib.nullcontext()
    import torch

    return torch.compiler.set_stance("force_eager")


def _children(model):
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is not None and _wrapper(child):
                yield parent, name, child


def _inside(module, notes):
    while kind := _wrapper(module):
        name, attribute = kind
        if attribute is None:
            raise UserError(
                f"not supported: a model that {name} has sharded: this rank has a part of each parameter. Give Weft the "
                'model before it is wrapped, and say parallel="data=N,zero=3", which shards it in the same way'
            )
        notes.append(name)
        module = getattr(module, attribute)
    return module


def _wrapper(module):
    """(its name, the attribute that holds the model), None where it is no wrapper, None where it cannot be taken out."""
    if not isinstance(module, nn.Module):
        return None
    for kind in type(module).__mro__:
        known = _WRAPPERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if known is not None:
            return (kind.__name__ if known != "_orig_mod" else "torch.compile"), known or None
    return None


# By name, so that nothing is imported for it. "": parameters are sharded.
_WRAPPERS = {
    ("torch", "OptimizedModule"): "_orig_mod",
    ("torch", "DistributedDataParallel"): "module",
    ("torch", "DataParallel"): "module",
    ("torch", "FullyShardedDataParallel"): "",
    ("torch", "FSDPModule"): "",
}


def _tell(notes):
    if notes:
        names = ", ".join(dict.fromkeys(notes))
        warnings.warn(
            f"weft: the model is taken out of {names}: Weft itself compiles the step and shares it among ranks",
            stacklevel=4,
        )
