# SPDX-License-Identifier: Apache-2.0
"""The Python door to training: a script's own loop, with the steps run by Weft."""

from __future__ import annotations

import torch

from weft import _weft
from weft.capture import batch_tensors, capture, replace_tensors


def parallelize(
    model,
    optimizer,
    example_batch,
    *,
    plan="",
    seed=0,
    budget_bytes=0,
    clip_norm=0.0,
    loss_scaler=None,
    bad_loss="stop",
    accumulate=1,
    keep_gradients=False,
    precision="f32",
) -> Trainer:
    """Runs the training steps of `model` on all ranks that torchrun started.

    The batch of a step is the whole batch, on every rank; each rank takes its
    part. The model's parameters and buffers are those that train, in place.
    """
    options = {
        "seed": seed,
        "budget_bytes": budget_bytes,
        "clip_norm": clip_norm,
        "scale_loss": loss_scaler is not None,
        "bad_loss": bad_loss,
        "accumulate": accumulate,
        "keep_gradients": keep_gradients,
    }
    return Trainer(model, optimizer, example_batch, str(plan), options, loss_scaler, precision)


class Trainer:
    """Steps of one model; made by `weft.parallelize`."""

    def __init__(self, model, optimizer, example_batch, plan, options, loss_scaler, precision):
        self.model = model
        self.optimizer = optimizer
        self.steps = 0
        self._example_batch = example_batch
        self._precision = precision
        self._core = _weft.Trainer(self._capture, plan, options)
        self._core.prepare(batch_tensors(example_batch), False)
        self._move_model()

    def step(self, batch) -> float:
        """One training step on the whole batch; gives the loss."""
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        result = self._core.train(batch_tensors(batch), self.steps, rates, 1.0)
        self.steps += 1
        self.optimizer._opt_called = True  # the schedulers of torch ask for it
        self.last = result
        return result.loss

    def evaluate(self, batch) -> float:
        """The loss of the whole batch, the model in evaluation mode."""
        return self._core.evaluate(batch_tensors(batch), self.steps)

    def _capture(self, batch, evaluation):
        whole = replace_tensors(self._example_batch, dict(batch))
        return capture(self.model, whole, None if evaluation else self.optimizer, name="model")

    def _move_model(self):
        """Makes the model's tensors those of the steps, with the model's values."""
        held = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        with torch.no_grad():
            for kind, names, tensor in self._core.residents():
                if kind in ("parameter", "buffer"):
                    mine = held[names[0]]
                    tensor.copy_(mine)
                    mine.data = tensor
