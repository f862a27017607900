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
        # How many Masked there are.
        self.made = 0

    def number(self, tensor):
        return trace_number(tensor, self.trace, self.taken.real)

    def rows(self, tensor, mask):
        return Masked(tensor.reshape(-1, *tensor.shape[mask.dim() :]), mask.reshape(-1), self, mask)

    def places(self, mask):
        """Where the mask is true, one tensor of numbers a dim: the step is for this mask alone. None where it cannot be."""
        elements = self.taken.read_elements(mask)
        if elements is None:
            return None
        with _weft.Pause():
            return tuple(one.clone() for one in elements.nonzero(as_tuple=True))

    def is_same(self, one, other):
        return one is other or self.taken.is_same_value(one, other)


@contextlib.contextmanager
def masked_rows(taken, trace, reads_masks=False):
    """While it lasts, x[mask] is a Masked, and x[mask] = ... is written where the mask is.

    With `reads_masks` x[mask] is a tensor, and the step is for this mask alone: for code that takes no Masked. So it is
    where a mask is not the first index.
    """
    follow = Following(taken, trace)
    get, put = torch.Tensor.__getitem__, torch.Tensor.__setitem__
    select = torch.masked_select

    def getitem(tensor, index):
        mask, rest = _mask_of(tensor, index)
        if mask is None or reads_masks:
            return get(tensor, _with_places(follow, index))
        if not taken.real and taken.known_elements(mask) is not None:
            return get(tensor, (*follow.places(mask), *rest))
        rows = follow.rows(tensor, mask)
        return rows[(slice(None), *rest)] if rest else rows

    def setitem(tensor, index, value):
        mask, rest = _mask_of(tensor, index)
        if type(value) is Masked and (mask is None or rest):
            raise mask_refusal("writing it to another place than its mask's")
        if mask is None or rest or not _write(follow, tensor, mask, value):
            put(tensor, index, value)

    def masked_select(tensor, mask):
        if reads_masks:
            return getitem(*torch.broadcast_tensors(tensor, mask))
        return follow.rows(*((tensor, mask) if tensor.shape == mask.shape else torch.broadcast_tensors(tensor, mask)))

    torch.Tensor.__getitem__, torch.Tensor.__setitem__ = getitem, setitem
    torch.Tensor.masked_select, torch.masked_select = masked_select, masked_select
    try:
        yield
    except Exception as error:
        if follow.made > 0:
            error.weft_masked_rows = True
        raise
    finally:
        del torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.masked_select
        torch.masked_select = select


def _with_places(follow, index):
    """The index with numbers in place of masks."""
    parts = index if type(index) is tuple else (index,)
    if not any(isinstance(one, torch.Tensor) and one.dtype == torch.bool and one.dim() > 0 for one in parts):
        return index
    plain = []
    for one in parts:
        if not isinstance(one, torch.Tensor) or one.dtype != torch.bool or one.dim() == 0:
            plain.append(one)
            continue
        places = follow.places(one)
        if places is None:
            raise mask_refusal("an index with it")
        plain.extend(places)
    return tuple(plain)


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
