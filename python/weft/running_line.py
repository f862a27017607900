# SPDX-License-Identifier: Apache-2.0
"""Which line of a model is running: what messages about it name."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig

import torch

_WEFT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PACKAGES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib", "stdlib")})


def running_line():
    """ "model.py:7 in forward: y = x[mask]", or "" where no model runs.

    The innermost line outside of torch, and in another package also the line of the user's own that led there.
    """
    inner = None
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_WEFT):
            if frame.f_code.co_name == "_record_step":
                break
        elif not file.startswith((_TORCH, "<frozen")):
            if not file.startswith(_PACKAGES):
                return f"{_line(frame)}\n  by {inner}" if inner else _line(frame)
            inner = inner or _line(frame)
        frame = frame.f_back
    return inner or ""


def _line(frame):
    file = frame.f_code.co_filename
    text = linecache.getline(file, frame.f_lineno, frame.f_globals).strip().rstrip(":")
    return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}" + (f": {text}" if text else "")
