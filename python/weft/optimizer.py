# SPDX-License-Identifier: Apache-2.0
"""What a captured step takes of a torch.optim optimizer, and which optimizers cannot be captured."""

from __future__ import annotations

import sys

import torch

from weft._weft import UserError


def check_hooks(optimizer):
    """Throws UserError for an optimizer that calls functions of the script: its steps run without Python."""
    places = (
        (
            "_optimizer_step_pre_hooks",
            "register_step_pre_hook",
            "change gradients with register_hook of the parameters",
        ),
        ("_optimizer_step_post_hooks", "register_step_post_hook", "do it after trainer.step, under torch.no_grad()"),
    )
    for attribute, name, advice in places:
        everywhere = attribute.replace("_optimizer_step", "_global_optimizer")
        if getattr(optimizer, attribute, None) or getattr(sys.modules[torch.optim.Optimizer.__module__], everywhere):
            raise UserError(
                f"not supported: an optimizer with a hook of {name}, which would not be called: remove it, and {advice}"
            )
    step = getattr(optimizer, "__dict__", {}).get("step")
    # The schedulers of torch put one there that only notes that it was called.
    if step is not None and not getattr(step, "_wrapped_by_lr_sched", False):
        raise UserError(
            "not supported: an optimizer whose step was replaced by another function, which would not be called: do what "
            "it adds after trainer.step, under torch.no_grad()"
        )


def check_options(optimizer):
    """Throws UserError for options that are tensors, where torch.optim computes otherwise with them."""
    for number, group in enumerate(optimizer.param_groups):
        for key in optimizer.defaults:
            value = group.get(key)
            if not any(isinstance(item, torch.Tensor) for item in (value if isinstance(value, tuple) else (value,))):
                continue
            # What takes the number itself out of the tensor is as exact as a number of Python's.
            is_taken_out = isinstance(optimizer, torch.optim.SGD) or group.get("fused")
            if key == "lr" and (is_taken_out or value.dtype is torch.float64):
                continue
            raise UserError(
                f"the optimizer's {key} of group {number} is a tensor, and torch.optim rounds what it computes with one "
                "otherwise than with numbers: give numbers, as float() makes them"
            )


def describe_optimizer(optimizer, model):
    """(kind, [(options, parameter names)]) of a torch.optim optimizer."""
    check_options(optimizer)
    names = {}
    for name, parameter in model.named_parameters():
        names.setdefault(parameter, name)
    groups = []
    for group in optimizer.param_groups:
        options = {}
        for key, value in group.items():
            # Schedulers leave notes of their own in groups.
            if key not in optimizer.defaults or value is None:
                continue
            if key == "betas":
                options["beta1"], options["beta2"] = map(float, value)
            elif isinstance(value, (torch.Tensor, bool, int, float)):
                options[key] = float(value)
            elif isinstance(value, (tuple, list)):
                for i, item in enumerate(value):
                    if item is not None:
                        options[f"{key}{i + 1}"] = float(item)
            else:
                raise UserError(f"not supported: the optimizer option {key}={value!r}")
        try:
            parameters = [names[parameter] for parameter in group["params"]]
        except KeyError:
            raise UserError(
                "the optimizer holds a parameter that the model does not have: build it from model.parameters()"
            ) from None
        groups.append((options, parameters))
    kind = type(optimizer).__name__.lower()
    if getattr(torch.optim, type(optimizer).__name__, None) is not type(optimizer):
        raise UserError(
            f"not supported: the optimizer {type(optimizer).__name__} of "
            f"{type(optimizer).__module__}: only those of torch.optim are known. "
            "Return (model, batch) to capture forward and backward alone"
        )
    return kind, groups
