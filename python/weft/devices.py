# SPDX-License-Identifier: Apache-2.0
"""Weft runs on the CPU and shares models itself: tensors that live elsewhere, or in parts, are refused."""

from __future__ import annotations

from weft._weft import UserError


def check_whole(named):
    """UserError names the first parameter of which this rank has only a part."""
    for name, tensor in named:
        if hasattr(tensor, "device_mesh"):
            raise UserError(
                f"not supported: the model's {name} is a DTensor, which ranks share already. Give Weft the model before "
                'parallelize_module or fully_shard, and say how to share it, as in parallel="tensor=2"'
            )


def check_devices(what, named, allowed=("cpu",)):
    """`named` gives (name, tensor); UserError names the first that lives on another device."""
    for name, tensor in named:
        device = getattr(tensor, "device", None)
        if device is not None and device.type not in allowed:
            raise UserError(
                f"not supported: {what} {name} lives on {device}, and Weft runs on the CPU only. "
                "Move it first, as with .to('cpu')"
            )


def optimizer_tensors(optimizer):
    """The states of an optimizer as ("0.exp_avg", tensor), parameters by their number."""
    for group in optimizer.param_groups:
        for number, parameter in enumerate(group["params"]):
            for key, value in optimizer.state.get(parameter, {}).items():
                if hasattr(value, "device"):
                    yield f"{key} of parameter {number}", value
