# SPDX-License-Identifier: Apache-2.0
"""Imports from the folder of a model file.

Files beside FILE.py can be imported by it, as by a script that Python runs. Other than there they never stand in for
what Weft and PyTorch import, now or later: a `json.py` or a `numpy.py` that lies beside a model is not read in place of
the module of that name.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from importlib.machinery import PathFinder

# What Weft runs by, whose own requirements are followed.
OURS = ("weft", "torch")


class SiblingFinder:
    """Finds top-level modules in one folder, ahead of what is installed but for what `is_protected` names."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if path is not None or name in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name, [self.folder])
        # A folder without __init__.py gives way to a package, as Python has it.
        if spec is None or spec.loader is None or is_protected(name, self.folder):
            return None
        return spec


def add_model_folder(folder):
    """Lets the model's file, and processes that it starts, import what lies in its folder."""
    if not any(isinstance(finder, SiblingFinder) and finder.folder == folder for finder in sys.meta_path):
        sys.meta_path.insert(0, SiblingFinder(folder))
    if folder not in sys.path:
        # For those who look at the path themselves. At its end, it hides nothing.
        sys.path.append(folder)


def is_protected(name, folder):
    """Whether a module of that name is one that Python, Weft or PyTorch may import for themselves."""
    if name in sys.stdlib_module_names or normal(name) in needed_by_us():
        return True
    if PathFinder.find_spec(name, [each for each in sys.path if each != folder]) is None:
        return False
    # A module may have another name than its package. To find it takes a while, and names seldom meet.
    packages = {normal(package) for package in importlib.metadata.packages_distributions().get(name, [])}
    return bool(packages & needed_by_us())


@functools.cache
def needed_by_us():
    """The packages that Weft and PyTorch require, and what those require, as normal names."""
    needed, left = set(), list(OURS)
    while left:
        package = normal(left.pop())
        if package in needed:
            continue
        needed.add(package)
        try:
            required = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        left += [re.match(r"[\w.-]+", line)[0] for line in required if "extra ==" not in line]
    # PyTorch converts to and from it, and does not require it.
    return needed | {"numpy"}


def normal(package):
    return re.sub(r"[-_.]+", "-", package).lower()


def module_name(path):
    """The model's own: the file's, but where that is the name of a module that others import."""
    known = sys.modules.get(path.stem)
    if is_protected(path.stem, str(path.parent.resolve())) or (
        known is not None and getattr(known, "__file__", None) != str(path)
    ):
        return f"weft_model_{path.stem}"
    return path.stem


def hint_for(error):
    """What to do where a model imports what lies in the current folder and not in its own; "" for other errors."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name or PathFinder.find_spec(name, [os.getcwd()]) is None:
        return ""
    return f" ({name} lies in the current folder, which is not searched: set PYTHONPATH=. to have it searched)"
