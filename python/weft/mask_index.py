# SPDX-License-Identifier: Apache-2.0
"""Indexing with a boolean mask while a step is captured: x[mask] becomes a Masked, x[mask] = ... is written in place."""

from __future__ import annotations

import contextlib

import torch

from weft import _weft
from weft.masked import Masked, mask_refusal
from weft.traced_number import trace_number


class Following:
    def __init__(self, taken, trace):
        self.taken = taken
        self.trace = trace

    def number(self, tensor):
        return trace_number(tensor, self.trace, self.taken.real)

    def rows(self, tensor, mask):
        return Masked(tensor.reshape(-1, *tensor.shape[mask.dim() :]), mask.reshape(-1), self, mask)

    def is_same(self, one, other):
        return one is other or self.taken.is_same_value(one, other)


@contextlib.contextmanager
def masked_rows(taken, trace):
    """While it lasts, x[mask] is a Masked, and x[mask] = ... is written where the mask is."""
    follow = Following(taken, trace)
    get, put = torch.Tensor.__getitem__, torch.Tensor.__setitem__
    select = torch.masked_select

    def getitem(tensor, index):
        mask, rest = _mask_of(tensor, index)
        if mask is None:
            return get(tensor, index)
        known = None if taken.real else taken.known_elements(mask)
        if known is not None:
            with _weft.Pause():
                numbers = [one.clone() for one in known.nonzero(as_tuple=True)]
            return get(tensor, (*numbers, *rest))
        rows = follow.rows(tensor, mask)
        return rows[(slice(None), *rest)] if rest else rows

    def setitem(tensor, index, value):
        mask, rest = _mask_of(tensor, index)
        if type(value) is Masked and (mask is None or rest):
            raise mask_refusal("writing it to another place than its mask's")
        if mask is None or rest or not _write(follow, tensor, mask, value):
            put(tensor, index, value)

    def masked_select(tensor, mask):
        return follow.rows(*((tensor, mask) if tensor.shape == mask.shape else torch.broadcast_tensors(tensor, mask)))

    torch.Tensor.__getitem__, torch.Tensor.__setitem__ = getitem, setitem
    torch.Tensor.masked_select, torch.masked_select = masked_select, masked_select
    try:
        yield
    finally:
        del torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.masked_select
        torch.masked_select = select


def _mask_of(tensor, index):
    """The mask that an index begins with, and the rest of the index; or (None, ())."""
    mask, rest = (index[0], index[1:]) if type(index) is tuple and index else (index, ())
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or not 0 < mask.dim() <= tensor.dim():
        return None, ()
    is_plain = all(isinstance(one, (int, slice, type(None), type(Ellipsis))) for one in rest)
    return (mask, rest) if is_plain and mask.shape == tensor.shape[: mask.dim()] else (None, ())


def _write(follow, tensor, mask, value):
    """tensor[mask] = value, if that can be done with all rows."""
    inner = tensor.dim() - mask.dim()
    beside = mask.reshape(*mask.shape, *[1] * inner)
    if type(value) is Masked:
        if not follow.is_same(mask.reshape(-1), value._mask):
            raise mask_refusal("writing it to another place than its mask's")
        rows = value._values.reshape(*mask.shape, *tensor.shape[mask.dim() :]).to(tensor.dtype)
        tensor.copy_(torch.where(beside, rows, tensor))
        return True
    if isinstance(value, (int, float)) and (tensor.is_floating_point() or type(value) is int):
        tensor.masked_fill_(beside, value)
        return True
    if not isinstance(value, torch.Tensor):
        return False
    if value.dim() > inner and value.shape[0] == 1:
        value = value.squeeze(0)
    if value.dim() <= inner:
        tensor.copy_(torch.where(beside, value.to(tensor.dtype), tensor))
        return True
    if value.requires_grad and value.shape[1:] == tensor.shape[mask.dim() :]:
        tensor.masked_scatter_(beside, value.to(tensor.dtype))
        return True
    return False
