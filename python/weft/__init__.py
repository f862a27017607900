# SPDX-License-Identifier: Apache-2.0
"""Weft: one ordinary PyTorch training step, planned and run on many machines."""

from weft._weft import Graph, UserError, __version__
from weft.capture import capture, capture_function
from weft.plan import plan
from weft.profile import profile
from weft.trainer import Trainer, parallelize

__all__ = [
    "Graph",
    "Trainer",
    "UserError",
    "__version__",
    "capture",
    "capture_function",
    "parallelize",
    "plan",
    "profile",
]
