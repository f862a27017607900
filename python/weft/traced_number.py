# SPDX-License-Identifier: Apache-2.0
"""A Python number that a captured step computes: what `.item()` gives while Weft writes a step down.

It stands for an element of a tensor. Arithmetic with numbers and tensors becomes part of the step, with the types that
a Python number would lead to; formatting shows it; every other use (a branch, a size, an index, a function of C) needs
the number itself. Then it is read from its tensor, which leaves a guard in the graph: the step stops where it is another.

It is no subclass of float or int: functions written in C would read those without asking.
"""

from __future__ import annotations

import dis
import math
import numbers
import operator
import sys

import torch

from weft._weft import UserError

# As it was before any capture put its own in its place.
_item = torch.Tensor.item
_tolist = torch.Tensor.tolist


class TracedNumber:
    """`tensor` has no dims and is f64, i64 or bool; `value` is what it holds, or None in a capture without values."""

    __slots__ = ("_is_read", "_tensor", "_trace", "_value")

    def __init__(self, tensor, value, trace):
        self._tensor = tensor
        self._value = value
        self._trace = trace
        self._is_read = False

    @property
    def __class__(self):
        """What isinstance is told: code that asks for a float is given one."""
        return _KINDS[self._tensor.dtype]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return _call(function, arguments, keywords or {})

    def __repr__(self):
        return "?" if self._value is None else repr(self._value)

    __str__ = __repr__

    def __format__(self, spec):
        return "?" if self._value is None else format(self._value, spec)

    def __float__(self):
        if is_formatting(sys._getframe(1)):
            return math.nan if self._value is None else float(self._value)
        return float(read(self))

    def __int__(self):
        return read(self if _is_whole(self) else math.trunc(self))

    def __index__(self):
        if self._tensor.dtype == torch.float64:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(read(self))

    def __bool__(self):
        return bool(read(self if self._tensor.dtype == torch.bool else self != 0))

    def __complex__(self):
        return complex(read(self))

    def __hash__(self):
        return hash(read(self))

    def __getattr__(self, name):
        return getattr(read(self), name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return (_KINDS[self._tensor.dtype], (_known(self),))

    def __trunc__(self):
        return self._rounded(math.trunc, torch.trunc)

    def __floor__(self):
        return self._rounded(math.floor, torch.floor)

    def __ceil__(self):
        return self._rounded(math.ceil, torch.ceil)

    def __round__(self, digits=None):
        return self._rounded(round, torch.round) if digits is None else round(read(self), digits)

    def _rounded(self, of_value, of_tensor):
        value = None if self._value is None else of_value(self._value)
        tensor = self._tensor if _is_whole(self) else of_tensor(self._tensor)
        return TracedNumber(tensor.to(torch.int64), value, self._trace)

    def __pow__(self, other, modulus=None):
        if type(other) in (int, float) and modulus is None and other in (2, 0.5):
            if other == 2:
                return self * self if type(other) is int else self * self * 1.0
            value = None if self._value is None else self._value**0.5
            if not isinstance(value, complex):
                return TracedNumber(torch.sqrt(self._tensor.double()), value, self._trace)
        if isinstance(other, torch.Tensor):
            return read(self) ** other
        return pow(read(self), _plain(other), modulus)

    def __rpow__(self, other):
        return other ** read(self)


class Trace:
    """The capture that numbers belong to. When it is over they are what they were."""

    def __init__(self):
        self.is_open = True
        # How many numbers it has made of tensors.
        self.count = 0
        # Whether elements were asked for that the capture does not have.
        self.lacks_values = False


_KINDS = {torch.float64: float, torch.int64: int, torch.bool: bool}


def trace_number(tensor, trace, is_real):
    """The one element of a tensor of the step as a number."""
    one = tensor.detach().reshape(())
    kind = torch.float64 if one.is_floating_point() else torch.bool if one.dtype == torch.bool else torch.int64
    # A copy: the tensor may be written to before the number is used.
    one = one.to(kind, copy=True)
    trace.count += 1
    # The list is read from memory, past the recorder.
    return TracedNumber(one, _tolist(one) if is_real else None, trace)


def read(number):
    """The number itself. The graph keeps a guard that it is the same."""
    if type(number) is not TracedNumber:
        return number
    if number._is_read or not number._trace.is_open:
        return _known(number)
    value = _item(number._tensor)
    number._value = value
    number._is_read = True
    return value


def _known(number):
    if number._value is None:
        raise UserError("this number was read while a step was captured without values: it is known in a step only")
    return number._value


def _plain(other):
    return read(other) if type(other) is TracedNumber else other


def _is_whole(number):
    return number._tensor.dtype != torch.float64


def is_formatting(frame):
    """Whether the frame's call turns a number into text: "%f" % x, or f"{float(x)}"."""
    here = frame.f_lasti
    following = []
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == here and instruction.opname in ("BINARY_OP", "BINARY_MODULO"):
            # Were it a number on the left, __rmod__ would have been asked.
            return instruction.opname == "BINARY_MODULO" or instruction.argrepr in ("%", "%=")
        if instruction.offset > here and instruction.opname not in ("CACHE", "PRECALL", "CONVERT_VALUE"):
            following.append(instruction)
            if len(following) == 2:
                break
    if not following:
        return False
    if following[0].opname == "LOAD_CONST" and len(following) == 2:
        has_spec = following[1].opname == "FORMAT_VALUE" and following[1].arg & 4
        return bool(has_spec) or following[1].opname == "FORMAT_WITH_SPEC"
    return following[0].opname in ("FORMAT_VALUE", "FORMAT_SIMPLE")


# ---- Arithmetic of two numbers.


def _operand(number, is_real):
    """For an operator on tensors without dims: in f64 where the result is no whole number."""
    if type(number) is TracedNumber:
        tensor = number._tensor
        return tensor.double() if is_real else tensor.long() if tensor.dtype == torch.bool else tensor
    return float(number) if is_real else int(number) if isinstance(number, bool) else number


def _combine(function, left, right, is_division):
    traced = left if type(left) is TracedNumber else right
    for number in (left, right):
        if type(number) is not TracedNumber and not isinstance(number, (int, float)):
            if not isinstance(number, numbers.Real):
                return NotImplemented
    is_real = is_division or any(
        number._tensor.dtype == torch.float64 if type(number) is TracedNumber else not isinstance(number, int)
        for number in (left, right)
    )
    known = [number._value if type(number) is TracedNumber else number for number in (left, right)]
    value = None if None in known else function(*known)
    if not is_real and any(type(number) is int and abs(number) >= 2**63 for number in (left, right)):
        return function(_plain(left), _plain(right))
    tensor = function(_operand(left, is_real), _operand(right, is_real))
    return TracedNumber(tensor, value, traced._trace)


def _numeric(function, whole_only=False, is_division=False):
    """The method of an operator, and the one for the other side."""

    def method(self, other, is_left=True):
        if isinstance(other, torch.Tensor):
            if whole_only:
                return function(read(self), other) if is_left else function(other, read(self))
            return with_tensor(function, other, self, is_left)
        if hasattr(type(other), "__torch_function__") and type(other) is not TracedNumber:
            return NotImplemented
        sides = (self, other) if is_left else (other, self)
        if whole_only and not all(isinstance(side, int) for side in sides):
            return function(*map(_plain, sides))
        return _combine(function, *sides, is_division)

    return method, lambda self, other: method(self, other, is_left=False)


def _add_operators():
    for name, options in (
        ("add", {}),
        ("sub", {}),
        ("mul", {}),
        ("truediv", {"is_division": True}),
        ("floordiv", {"whole_only": True}),
        ("mod", {"whole_only": True}),
    ):
        method, reflected = _numeric(getattr(operator, name), **options)
        setattr(TracedNumber, f"__{name}__", method)
        setattr(TracedNumber, f"__r{name}__", reflected)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(TracedNumber, f"__{name}__", _numeric(getattr(operator, name))[0])
    for name in ("neg", "pos", "abs"):
        setattr(TracedNumber, f"__{name}__", _unary(getattr(operator, name)))


def _unary(of_one):
    def method(self):
        value = None if self._value is None else of_one(self._value)
        return TracedNumber(of_one(_operand(self, False)), value, self._trace)

    return method


_add_operators()


# ---- A number among tensors.


def with_tensor(function, tensor, number, is_right=False):
    """function(tensor, number), with the type that a Python number would lead to.

    An operand without dims that is no Python number would raise the type of another one without dims, and of whole
    numbers.
    """
    number = number._tensor.long() if number._tensor.dtype == torch.bool else number._tensor
    if number.is_floating_point() and not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.to(torch.get_default_dtype())
    elif tensor.dtype == torch.bool:
        tensor = tensor.to(torch.int64)
    one = tensor.reshape(1) if tensor.dim() == 0 else tensor
    made = function(number, one) if is_right else function(one, number)
    return made.reshape(()) if tensor.dim() == 0 else made


# Of torch and of its tensors, by name: operators that compute the same from a tensor in place of the number.
_BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "subtract": operator.sub,
    "mul": operator.mul,
    "multiply": operator.mul,
    "div": operator.truediv,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}
_IN_PLACE = {"add_", "sub_", "mul_", "div_", "true_divide_"}


def _call(function, arguments, keywords):
    name = getattr(function, "__name__", "")
    is_plain = not keywords and all(type(one) is TracedNumber or isinstance(one, torch.Tensor) for one in arguments)
    if is_plain and len(arguments) == 2:
        left, right = arguments
        if name in _BINARY and isinstance(left, torch.Tensor):
            return with_tensor(_BINARY[name], left, right)
        if name in _BINARY and isinstance(right, torch.Tensor):
            return with_tensor(_BINARY[name], right, left, is_right=True)
        if name in _IN_PLACE and isinstance(left, torch.Tensor) and left.is_floating_point():
            function(left.reshape(1) if left.dim() == 0 else left, right._tensor)
            return left
        if name == "fill_":
            return function(left, right._tensor)
    if name in ("masked_fill", "masked_fill_") and is_plain and len(arguments) == 3:
        tensor, mask, number = arguments
        if isinstance(mask, torch.Tensor) and isinstance(tensor, torch.Tensor):
            return function(tensor, mask, number._tensor.to(tensor.dtype))
    return function(*_read_all(arguments), **_read_all(keywords))


def _read_all(things):
    if isinstance(things, dict):
        return {key: _read_all(value) for key, value in things.items()}
    if type(things) in (tuple, list):
        return type(things)(_read_all(one) for one in things)
    if type(things) is slice:
        return slice(*(_read_all(one) for one in (things.start, things.stop, things.step)))
    return read(things)


def number_tensor(number, dtype=None):
    """torch.tensor(number): what a Python number of its kind becomes."""
    kind = number._tensor.dtype
    return number._tensor.to(dtype or (torch.get_default_dtype() if kind == torch.float64 else kind), copy=True)
