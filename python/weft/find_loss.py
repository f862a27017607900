# SPDX-License-Identifier: Apache-2.0
"""Which part of what a model returns is the loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from weft._weft import UserError


def find_loss(output, choice=None, has_gradient=True):
    """The scalar that backward starts from.

    `choice` says where it is: a place, a key, or a function of the output. Without, it is the output itself, its
    `.loss`, the first element, or what is under "loss".
    """
    found = _usual(output) if choice is None else _chosen(output, choice)
    if not isinstance(found, torch.Tensor):
        raise UserError(
            "the model must return the loss, a tuple that starts with it, or an "
            f"object with .loss; it returned {_kind(found)}" + _advice(output, choice)
        )
    if found.numel() != 1:
        raise UserError(
            f"the loss must be one number; it has the shape {tuple(found.shape)}. "
            + (_advice(output, choice).lstrip(". ") or "Reduce it with .mean() or .sum()")
        )
    if has_gradient and not found.requires_grad:
        raise UserError("the loss does not depend on any parameter that requires a gradient" + _advice(output, choice))
    return found


def _usual(output):
    if getattr(output, "loss", None) is not None:
        return output.loss
    if isinstance(output, (tuple, list)) and output:
        return output[0]
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    return output


def _chosen(output, choice):
    if callable(choice):
        return choice(output)
    try:
        if isinstance(choice, str) and not isinstance(output, Mapping):
            return getattr(output, choice)
        return output[choice]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise UserError(f"loss={choice!r}: the model returned {_kind(output)}, which has none") from None


def _advice(output, choice):
    """Where a scalar is that could be the loss."""
    if choice is not None:
        return ""
    if isinstance(output, (tuple, list)):
        parts = list(enumerate(output))
    elif isinstance(output, Mapping):
        parts = list(output.items())
    else:
        return ""
    scalars = [key for key, part in parts if isinstance(part, torch.Tensor) and part.numel() == 1]
    trained = [key for key in scalars if output[key].requires_grad] or scalars
    if len(trained) != 1:
        return "" if not trained else f". Say which part is the loss, as in loss={trained[0]!r}"
    if isinstance(output, Mapping):
        return f". {trained[0]!r} is the scalar loss: say loss={trained[0]!r}"
    return f". Element {trained[0]} is the scalar loss: return it first, or say loss={trained[0]}"


def _kind(thing):
    return f"a tuple of {len(thing)}" if isinstance(thing, tuple) else f"a {type(thing).__name__}"
