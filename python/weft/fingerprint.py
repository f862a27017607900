# SPDX-License-Identifier: Apache-2.0
"""What a step reads of Python besides its batch: found while it is captured, compared before it runs again.

Found are the attributes of the model's modules and of the objects behind them, the globals and variables of closures
that functions outside of PyTorch and Python's library name, attributes of classes, and PyTorch's modes. Of attributes,
those count whose names occur in code that ran. The comparison is in C++ (state_watch.h).
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import gc
import pathlib
import random
import sys
import sysconfig
import types

import torch
from torch import nn
from torch.nn.modules import module as module_hooks

from weft import _weft
from weft.traced_number import TracedNumber

# Objects of these are what they are called; what is in them does not reach a step.
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, torch.Generator)
# Of these, what they take along when they are called may be changed.
_CALLABLE = (types.FunctionType, types.MethodType, functools.partial)
_PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format, enum.Enum, range, slice, pathlib.PurePath)
# Values that stay what they are, or whose changes are seen by other ways.
_UNCHANGING = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    nn.Module,
    torch.Tensor,
    types.FunctionType,
    *_OPAQUE,
    *_PLAIN,
)
_LIBRARY = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"])
_PACKAGES = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])
_OURS = str(pathlib.Path(__file__).parent)
_TORCH = str(pathlib.Path(torch.__file__).parent)


class StateReader:
    """The state that one capture of `model` starts from, and what it did to it."""

    def __init__(self, model, numbers=(), entries=()):
        self.numbers = list(numbers)
        self.watch = _weft.StateWatch(_kind_of)
        self.model = model
        self._random = _random_states()
        self._free = {}
        # Functions inside of those that have run: their closures are the step's own.
        self._inner = set()
        # By code, objects that its closures hold, and watches of them as they were before it ran.
        self._held = {}
        # What the capture is known to have changed, whatever it was before.
        self._changed = None
        self._seen = set()
        for path, module in model.named_modules():
            self.watch.add_module(f"model.{path}" if path else "model", module, True)
        for name in vars(module_hooks):
            # Hooks of all modules at once, which torch keeps in variables of its own.
            if name.startswith("_global_"):
                self.watch.add_item(f"torch.nn.modules.module.{name}", vars(module_hooks), name)
        for key, value in entries:
            # An object in the batch may be filled again.
            self.watch.add_item(f"{key} of the batch", {key: value}, key)
        for kind in {type(module) for module in model.modules()}:
            own = [each for each in kind.__mro__ if not _is_foreign(each.__module__)]
            # A class may get what it now has of another.
            names = {"forward", *(name for each in own for name in vars(each))}
            for each in own:
                self._add_class(each, names)
        self._codes = _weft.ExecutedCode(self._entered)

    def __enter__(self):
        self._codes.start()
        return self

    def __exit__(self, *_):
        self._codes.stop()

    def finish(self, evaluation=False):
        """Ends the reading: what the capture changed of what it may read, by name; None when nothing."""
        self._add_cells()
        names = set()
        for code in self._codes.codes:
            names.update(_names_of(code))
        if evaluation:
            # Which is set for the time of an evaluation.
            names.discard("training")
        self.watch.keep_names(names)
        for name, before in self._random.items():
            if not _is_equal_state(before, _random_states()[name]):
                return name
        return self._changed or self.watch.difference()

    def restore(self):
        """Puts back what the capture has changed."""
        self.watch.restore()
        for known in self._held.values():
            for _, watch in known.values():
                watch.restore()
        _set_random_states(self._random)

    def _add_class(self, kind, names=()):
        for name in {*vars(kind), *names}:
            if not name.startswith("__") and (kind, name) not in self._seen:
                self._seen.add((kind, name))
                self.watch.add_class_attribute(f"{kind.__qualname__}.{name}", kind, name)

    def _entered(self, frame):
        """Of a function that is about to run: what it may read of its globals and its closure.

        Called at its first call, and at every call when it answers True.
        """
        code, scope = frame.f_code, frame.f_globals
        if _is_library(code.co_filename):
            return False
        if code in self._held:
            return self._hold(code, frame.f_locals)
        self._inner.update(each for each in code.co_consts if isinstance(each, types.CodeType))
        if self.numbers and "type" in code.co_names:
            self._read_numbers(frame.f_locals)
        where = scope.get("__name__", "")
        for name in code.co_names:
            if name in scope:
                self._add_global(where, scope, name, code.co_names)
        if code.co_freevars:
            local = frame.f_locals
            free = {name: local[name] for name in code.co_freevars if name in local and not _is_opaque(local[name])}
            if free and _rebinds(code):
                # When it has run, the values do not tell any more which of several closures of one function it was.
                self._add_holders(code, free)
            elif free:
                self._free[code] = free
            return code not in self._inner and self._hold(code, local)
        return False

    def _hold(self, code, local):
        """Remembers objects that a closure holds, as they are now; returns whether it holds any.

        When it has run, they do not tell any more which of several closures of one function it was.
        """
        held = {name: local[name] for name in code.co_freevars if name in local}
        held = {name: value for name, value in held.items() if not isinstance(value, _UNCHANGING)}
        if held:
            known = self._held.setdefault(code, {})
            for name, value in held.items():
                if id(value) not in known:
                    watch = _weft.StateWatch(_kind_of)
                    watch.add_item(f"{code.co_name}.{name}", {name: value}, name)
                    known[id(value)] = (value, watch)
        return bool(held)

    def _read_numbers(self, local):
        """A function that may ask for the type of a number gets the number itself, in the next try."""
        for value in local.values():
            for item in value.values() if type(value) is dict else (value,):
                if any(item is number for number in self.numbers):
                    item.is_read = True

    def _add_global(self, where, scope, name, names):
        if (id(scope), name) in self._seen:
            return
        self._seen.add((id(scope), name))
        value = scope[name]
        if isinstance(value, types.ModuleType):
            if not _is_foreign(value.__name__) and not _is_library(getattr(value, "__file__", None) or ""):
                for inner in names:
                    if inner in vars(value):
                        self._add_global(value.__name__, vars(value), inner, ())
            return
        if isinstance(value, type):
            if not _is_foreign(value.__module__):
                self._add_class(value)
            return
        self.watch.add_item(f"{where}.{name}", scope, name)

    def _add_holders(self, code, names):
        """The cells of all closures of a function that is about to run."""
        for function in gc.get_referrers(code):
            if isinstance(function, types.FunctionType):
                for name, cell in _cells_of(function, names).items():
                    self.watch.add_cell(f"{function.__qualname__}.{name}", cell, cell.cell_contents)

    def _add_cells(self):
        """The cells of closures are found by who holds the code that ran: a frame does not tell."""
        holders = {}
        codes = {*self._free, *self._held}
        for holder in gc.get_referrers(*codes) if codes else ():
            if isinstance(holder, types.FunctionType) and holder.__code__ in codes:
                holders.setdefault(holder.__code__, []).append(holder)
        for code, known in self._held.items():
            values = {id(value) for function in holders.get(code, ()) for value in _values_of_cells(function)}
            for value, watch in known.values():
                # Others were made by the step and ended with it.
                if id(value) in values:
                    self._changed = self._changed or watch.difference()
        for code, functions in holders.items():
            if code not in self._free:
                continue
            seen = self._free[code]
            cells = [_cells_of(function, seen) for function in functions]
            # Which of several closures of one function ran is told by the values alone: none has them any more if
            # the one that ran has changed its variables.
            is_known = len(functions) == 1
            if not is_known and not any(all(cell[name].cell_contents is seen[name] for name in cell) for cell in cells):
                self._changed = f"a variable of {functions[0].__qualname__}"
            for function, by_name in zip(functions, cells, strict=True):
                for name, cell in by_name.items():
                    value = seen[name] if is_known else cell.cell_contents
                    self.watch.add_cell(f"{function.__qualname__}.{name}", cell, value)


def _values_of_cells(function):
    return [cell.cell_contents for cell in _cells_of(function, function.__code__.co_freevars).values()]


def _cells_of(function, names):
    """Those of its cells that have a value, by name."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            cell.cell_contents  # noqa: B018
        except ValueError:
            continue
        if name in names:
            cells[name] = cell
    return cells


def _is_opaque(value):
    return isinstance(value, (*_OPAQUE, types.FunctionType))


def _kind_of(kind):
    """How objects of a class are remembered (StateWatch)."""
    if issubclass(kind, _OPAQUE):
        return "identity"
    if issubclass(kind, _CALLABLE):
        return "callable"
    if issubclass(kind, _PLAIN):
        return "plain"
    if issubclass(kind, nn.Module):
        return "module"
    if kind is TracedNumber:
        return "left"
    if issubclass(kind, collections.deque):
        return "sequence"
    if issubclass(kind, random.Random):
        return "random"
    if kind.__module__.partition(".")[0] == "numpy":
        return _kind_of_numpy(kind)
    if issubclass(kind, (collections.UserDict, collections.UserList)):
        return "record"
    if kind.__module__ in ("types", "argparse") and kind.__name__ in ("SimpleNamespace", "Namespace"):
        return "object"
    return "identity" if _is_foreign(kind.__module__) else "object"


def _kind_of_numpy(kind):
    numpy = sys.modules["numpy"]
    if issubclass(kind, numpy.generic):
        return "plain"
    if issubclass(kind, numpy.ndarray):
        return "array"
    # NumPy imports it when it is first asked for, and what that runs would be looked at here in turn.
    generator = getattr(sys.modules.get("numpy.random"), "Generator", None)
    if generator is not None and issubclass(kind, generator):
        return "random"
    return "identity"


@functools.cache
def _is_foreign(module):
    """Of Python's library, of PyTorch, of NumPy, or ours: what is in there does not change between steps."""
    root = (module or "").partition(".")[0]
    return root in sys.stdlib_module_names and root != "__main__" or root in ("torch", "numpy", "weft", "builtins")


@functools.cache
def _is_library(file):
    if file.startswith((_TORCH, _OURS, "<frozen")):
        return True
    return file.startswith(_LIBRARY) and not file.startswith(_PACKAGES)


@functools.cache
def _rebinds(code):
    """Whether the function gives variables of its closure other values (`nonlocal`)."""
    return any(
        step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars
        for step in dis.get_instructions(code)
    )


@functools.cache
def _names_of(code):
    """Every name by which the code may read an attribute, also by getattr with a text."""
    if code.co_filename.startswith(_LIBRARY) and not code.co_filename.startswith(_PACKAGES):
        return frozenset()
    return frozenset(code.co_names) | {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}


def _random_states():
    states = {"random": random.getstate()}
    if "numpy.random" in sys.modules:
        states["numpy.random"] = sys.modules["numpy.random"].get_state()
    return states


def _set_random_states(states):
    random.setstate(states["random"])
    if "numpy.random" in states:
        sys.modules["numpy.random"].set_state(states["numpy.random"])


def _is_equal_state(before, now):
    return repr(before) == repr(now) if isinstance(before, dict) else _flat(before) == _flat(now)


def _flat(state):
    return [item.tobytes() if hasattr(item, "tobytes") else item for item in state]
