# SPDX-License-Identifier: Apache-2.0
"""What Python reads from tensors while a step is captured: numbers are followed, text is only text, the rest is guarded."""

from __future__ import annotations

import contextlib
import math
import sys

import torch

from weft import _weft
from weft.traced_number import Trace, TracedNumber, is_formatting, number_tensor, read, trace_number

# Lists of up to so many elements are followed element by element.
_TRACED_ELEMENTS = 64


@contextlib.contextmanager
def followed_values(taken, follows_numbers=True):
    """While it lasts, values that the step computes can be read, printed and computed with.

    In a capture without values, an element that must be known refuses, which asks for another attempt. Without
    `follows_numbers`, what is read is a plain number and guarded, for code that takes no other.
    """
    trace = Trace()
    readers = _Readers(taken, trace, follows_numbers)
    places = [
        (torch.Tensor, "item", _method(readers.item)),
        (torch.Tensor, "tolist", _method(readers.tolist)),
        (torch.Tensor, "numpy", _method(readers.numpy)),
        (torch.Tensor, "__array__", _method(readers.array)),
        (torch.Tensor, "__int__", lambda tensor: int(readers.item(tensor))),
        (torch.Tensor, "__float__", lambda tensor: readers.to_float(tensor, sys._getframe(1))),
        (torch.Tensor, "__repr__", _method(readers.text)),
        (torch.Tensor, "equal", _method(readers.equal)),
        (torch, "equal", _method(readers.equal)),
        (torch, "tensor", _tensor_of(torch.tensor)),
        (torch, "as_tensor", _tensor_of(torch.as_tensor)),
        (math, "isnan", _test(math.isnan, lambda number: number != number)),
        (math, "isinf", _test(math.isinf, lambda number: abs(number) == math.inf)),
        (math, "isfinite", _test(math.isfinite, lambda number: abs(number) < math.inf)),
        (math, "sqrt", lambda number: number**0.5 if _is_positive(number) else readers.before["sqrt"](read(number))),
    ]
    for owner, name, _ in places:
        readers.before.setdefault(name, getattr(owner, name))
    with contextlib.ExitStack() as stack:
        for owner, name, reader in places:
            stack.callback(_put_back, owner, name, vars(owner).get(name))
            setattr(owner, name, reader)
        try:
            yield trace
        except Exception as error:
            if trace.count > 0:
                error.weft_followed_numbers = True
            raise
        finally:
            trace.is_open = False


def _put_back(owner, name, before):
    if before is None:
        delattr(owner, name)  # it was inherited
    else:
        setattr(owner, name, before)


def _method(reader):
    """As a function, which a class binds to its objects."""
    return lambda tensor, *arguments, **keywords: reader(tensor, *arguments, **keywords)


class _Readers:
    def __init__(self, taken, trace, follows_numbers):
        self.taken = taken
        self.trace = trace
        self.follows_numbers = follows_numbers
        # What torch itself has under these names.
        self.before = {}

    def _known(self, tensor):
        return None if self.taken.real else self.taken.known_elements(tensor)

    def item(self, tensor):
        known = self._known(tensor)
        if known is not None or tensor.numel() != 1 or tensor.is_complex() or not self.follows_numbers:
            return self.before["item"](tensor if known is None else known)
        return trace_number(tensor, self.trace, self.taken.real)

    def to_float(self, tensor, frame):
        number = self.item(tensor)
        if type(number) is TracedNumber and is_formatting(frame):
            return float("nan" if number._value is None else number._value)
        return float(read(number))

    def tolist(self, tensor):
        known = self._known(tensor)
        if known is not None:
            return self.before["tolist"](known)
        if tensor.dim() == 0:
            return self.item(tensor)
        if tensor.numel() <= _TRACED_ELEMENTS and not tensor.is_complex():
            return [self.tolist(row) for row in tensor.detach().unbind()]
        return self.before["tolist"](self._guarded(tensor))

    def numpy(self, tensor, **options):
        known = self._known(tensor)
        return self.before["numpy"](self._guarded(tensor) if known is None else known, **options)

    def array(self, tensor, *options, **keywords):
        known = self._known(tensor)
        return self.before["__array__"](self._guarded(tensor) if known is None else known, *options, **keywords)

    def _guarded(self, tensor):
        """The tensor, of which all elements are read by code that cannot be followed: the step is for these alone."""
        if not self.taken.real:
            # There are none: the model may catch what torch says to that, and must not go on without them.
            self.trace.lacks_values = True
        elif tensor.numel() > 0:
            plain = tensor.detach()
            seen = torch.from_numpy(
                self.before["numpy"](plain.float() if plain.dtype == torch.bfloat16 else plain).copy()
            )
            same = plain == seen
            if plain.is_floating_point():
                same = same | ((plain != plain) & (seen != seen))
            bool(same.all())
        return tensor

    def text(self, tensor, *, tensor_contents=None):
        if not self.taken.real:
            known = self._known(tensor)
            if known is None:
                return f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"
            tensor = known
        with _weft.Pause():
            return self.before["__repr__"](tensor.detach(), tensor_contents=tensor_contents)

    def equal(self, left, right):
        return left.shape == right.shape and bool((left == right).all())


def _is_positive(number):
    return type(number) is TracedNumber and (number._value is None or number._value >= 0)


def _tensor_of(make):
    def made(data, *arguments, **keywords):
        if type(data) is TracedNumber:
            tensor = number_tensor(data, keywords.get("dtype"))
            return tensor.requires_grad_(keywords.get("requires_grad", False))
        return make(data, *arguments, **keywords)

    return made


def _test(of_plain, of_traced):
    return lambda number: of_traced(number) if type(number) is TracedNumber else of_plain(number)
