# SPDX-License-Identifier: Apache-2.0
"""Numbers in a batch that may be others in the next one, such as how many labels it has.

While a step is captured, such a number is an object that stands in for it. Where it only enters arithmetic with
tensors it is an input of the step. Whatever else the model does with it reads it, and then its value is part of the
step: another one is captured for another value.
"""

from __future__ import annotations

import operator

import torch

# With these a number and a tensor of 32 or 64 bits give the bits that they give when the number is a tensor of the
# same type, which is what PyTorch converts it to.
_ARITHMETIC = {
    name: getattr(operator, {"div": "truediv", "true_divide": "truediv"}.get(name, name))
    for name in ("add", "sub", "mul", "div", "true_divide")
}
_REVERSED = {"__radd__": "add", "__rsub__": "sub", "__rmul__": "mul", "rsub": "sub"}
_TYPES = (torch.float32, torch.float64)
# Beyond this not every whole number is one of 64 bits.
_LARGEST = 2**53


def is_number(value):
    return type(value) is float or type(value) is int and abs(value) <= _LARGEST


def number_tensor(value):
    """What the step gets for it."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


class StepNumber:
    """Stands in for a number of the batch; `is_read` tells whether its value was asked for."""

    def __init__(self, value, tensor):
        self._value = value
        self._tensor = tensor
        self.is_read = False

    @property
    def __class__(self):
        # isinstance(number, float) is true of it, as of what it stands for.
        return type(self._value)

    def _read(self):
        self.is_read = True
        return self._value

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if len(args) == 2 and not kwargs:
            if name in _ARITHMETIC:
                given = _as_tensors(*args)
                if given is not None:
                    return _ARITHMETIC[name](*given)
            if name in _REVERSED:
                given = _as_tensors(*args)
                if given is not None:
                    return _ARITHMETIC[_REVERSED[name]](*reversed(given))
        return function(*_plain(args), **_plain(kwargs))

    def __format__(self, how):
        # What is only shown does not change the step.
        return format(self._value, how)

    def __str__(self):
        return str(self._value)

    __repr__ = __str__

    def __hash__(self):
        return hash(self._read())

    def __getattr__(self, name):
        if name in ("_value", "_tensor"):
            raise AttributeError(name)
        return getattr(self._read(), name)


def _is_number(value):
    return type(value) is StepNumber


def _as_tensors(left, right):
    """The operands with the number as a tensor of the other's type; None where that is not the same."""
    if _is_number(left) == _is_number(right):
        return None
    tensor = right if _is_number(left) else left
    number = left if _is_number(left) else right
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.dtype not in _TYPES:
        return None
    made = number._tensor.to(tensor.dtype)
    return (made, tensor) if number is left else (tensor, made)


def _plain(value):
    """With the numbers themselves, which are read thereby."""
    if _is_number(value):
        return value._read()
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _reading(name):
    of_value = getattr(operator, name, None)
    of_other = getattr(operator, f"__{name[3:]}", None) if name.startswith("__r") else None

    def method(self, *others):
        if len(others) == 1 and isinstance(others[0], torch.Tensor):
            # The tensor's own method is asked next, which comes back here as a function of torch.
            return NotImplemented
        plain = [_plain(other) for other in others]
        if of_value is not None:
            return of_value(self._read(), *plain)
        if of_other is not None and len(plain) == 1:
            return of_other(plain[0], self._read())
        return getattr(self._read(), name)(*plain)

    return method


for _name in (
    *("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__neg__", "__pos__"),
    *("__abs__", "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__", "__and__", "__or__", "__xor__"),
    *("__lshift__", "__rshift__", "__invert__"),
    *("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rfloordiv__", "__rmod__", "__rpow__", "__divmod__"),
    *("__rdivmod__", "__round__", "__trunc__", "__floor__", "__ceil__", "__int__", "__float__", "__bool__"),
    *("__complex__", "__index__", "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__"),
):
    setattr(StepNumber, _name, _reading(_name))
