# SPDX-License-Identifier: Apache-2.0
"""A script's own loop with its model as a pipeline, for torchrun: trains, evaluates, saves, loads, and writes down what
it saw."""

import json
import os
import pathlib
import sys

import gpt
import torch
import weft


def make():
    torch.manual_seed(0)
    model, _, _ = gpt.tiny(layers=4, dropout=0.1)
    # A large eps: a gradient that is nearly nothing gives a step that is nearly nothing, whatever its rounding.
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-2)


def batch(number):
    torch.manual_seed(100 + number)
    return gpt.random_batch(4, 32, 256)


def run(folder, options):
    """Everything that a script may ask for, in the order in which one would: (what it saw, tensors, trainer)."""
    model, optimizer = make()
    seen = {}
    # Those of rank 0 count.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(int(os.environ.get("RANK", "0")))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 4)
    trainer = weft.parallelize(model, optimizer, batch(0), clip_norm=0.5, seed=3, **options)
    losses = []
    for number in range(4):
        losses.append(trainer.step(batch(number)))
        if trainer.last.is_update:
            scheduler.step()
    seen["losses"] = losses
    seen["norm"] = trainer.last.gradient_norm
    seen["evaluation"] = trainer.evaluate(batch(9))
    path = trainer.save(folder / "saved", extra={"scheduler": scheduler.state_dict()})
    seen["step"] = trainer.steps
    # The script's own changes reach the steps.
    kept = {name: tensor.clone() for name, tensor in trainer.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    seen["halved"] = trainer.evaluate(batch(9))
    model.load_state_dict(kept)
    seen["restored"] = trainer.evaluate(batch(9))
    more = [trainer.step(batch(number)) for number in range(4, 6)]
    seen["more"] = more
    if options.get("keep_gradients"):
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    # Back to where it was saved.
    extra = trainer.load(path)
    scheduler.load_state_dict(extra["scheduler"])
    seen["again"] = [trainer.step(batch(number)) for number in range(4, 6)]
    tensors = {f"model/{name}": tensor for name, tensor in trainer.state_dict().items()}
    states = trainer.optimizer_state_dict()["state"]
    for number, state in states.items():
        tensors |= {f"state/{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
    if options.get("keep_gradients"):
        tensors |= {f"gradient/{name}": gradient for name, gradient in gradients.items()}
    # The model is a model: eager code goes on with it.
    model.eval()
    with torch.no_grad():
        seen["eager"] = model(*batch(9)).item()
    return seen, tensors, trainer


def main():
    folder, options = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    seen, tensors, trainer = run(folder, options)
    torch.save((seen, tensors), folder / f"seen.{trainer.rank}")


if __name__ == "__main__":
    main()
