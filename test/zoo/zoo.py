# SPDX-License-Identifier: Apache-2.0
"""Models of packages that nobody wrote for Weft: which there are, how one is built, what eager PyTorch makes of it."""

import importlib
import pathlib
import random
import sys

import numpy
import torch
from torch import nn
from torch.utils._pytree import tree_map

ROOT = pathlib.Path(__file__).resolve().parents[2]

# One file of `packages` each, with a table MODELS of name -> function. The function takes nothing and returns (model,
# batch); it draws weights and batch from torch's random numbers.
PACKAGES = (
    "hugging_face_text",
    "hugging_face_experts",
    "hugging_face_media",
    "timm_images",
    "torchvision_images",
    "diffusers_models",
    "monai_volumes",
    "segmentation_models",
    "x_transformers_models",
    "vit_pytorch_images",
    "torch_geometric_graphs",
    "peft_adapters",
    "small_packages",
)


_TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")


def use_packages():
    """The zoo's packages lie apart, after everything else: nothing of theirs takes the place of a package of .venv."""
    folder = str(ROOT / ".venv" / "zoo")
    if folder not in sys.path:
        sys.path.append(folder)
        sys.path.append(str(ROOT / "examples" / "models"))
        _declare_operators_of_torchvision()


def _declare_operators_of_torchvision():
    """Its wheel is built for CUDA, and its library does not load beside a CPU build of torch. Importing it only needs
    to know that there are such operators; no model here calls one."""
    for name in ("nms", "qnms"):
        _TORCHVISION.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def names(packages=PACKAGES):
    """All models, as "package/name". The packages themselves are imported when a model is built."""
    found = []
    for package in packages:
        found += [f"{package}/{name}" for name in importlib.import_module(f"packages.{package}").MODELS]
    return found


def build(name, seed=0, is_double=False):
    """(model, batch, optimizer) of a model of the zoo, the same for the same seed; all of it in f64 if asked for."""
    use_packages()
    package, _, model_name = name.partition("/")
    function = importlib.import_module(f"packages.{package}").MODELS[model_name]
    seed_everything(seed)
    model, batch = function()
    without_dropout(model)
    if is_double:
        model = model.double()
        for module in model.modules():
            # Tensors that are no buffers, which double() leaves as they are.
            for key, value in vars(module).items():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    setattr(module, key, value.double())
        batch = tree_map(lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, batch)
    # Its steps change no parameter, so that every step has the gradients of the same ones.
    return model, batch, torch.optim.SGD(model.parameters(), lr=0.0)


def seed_everything(seed):
    """Some packages choose initial values by Python's or NumPy's random numbers."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def without_dropout(model):
    """Weft draws other random numbers than eager PyTorch, so nothing here may draw any."""
    for module in model.modules():
        holders = [module, *(value for key, value in vars(module).items() if key.endswith("config"))]
        for holder in holders:
            for key, value in list(getattr(holder, "__dict__", {}).items()):
                is_rate = any(word in key for word in ("drop", "mask_time_prob", "mask_feature_prob", "jitter"))
                if isinstance(value, float) and (is_rate or (key == "p" and "Drop" in type(module).__name__)):
                    setattr(holder, key, 0.0)


def loss_of(output):
    if hasattr(output, "loss") and output.loss is not None:
        return output.loss
    if isinstance(output, dict):
        return output["loss"]
    return output[0] if isinstance(output, (tuple, list)) else output


def eager_step(model, batch):
    """The loss and the gradients of PyTorch itself; buffers of the model change as they do."""
    model.zero_grad(set_to_none=True)
    arguments, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
    loss = loss_of(model(*arguments, **keywords))
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def buffers_of(model):
    return {name: buffer.clone() for name, buffer in model.named_buffers() if buffer is not None}


def worst(got, expected):
    """The largest relative differences of the loss and of a gradient, and whose it is."""
    loss = abs(got[0] - expected[0]) / max(abs(expected[0]), 1e-30)
    if got[0] != got[0] or expected[0] != expected[0]:
        loss = 0.0 if got[0] != got[0] and expected[0] != expected[0] else float("inf")
    largest = max((gradient.abs().max().item() for gradient in expected[1].values() if gradient.numel()), default=0.0)
    worst_difference, whose = 0.0, ""
    for name, gradient in expected[1].items():
        if gradient.numel() == 0:
            continue
        mine = got[1].get(name)
        if mine is None:
            return loss, float("inf"), f"{name} has no gradient"
        # One that is 0 but for rounding (of a key's bias) is measured by the others.
        scale = max(gradient.abs().max().item(), 1e-3 * largest, 1e-30)
        difference = (mine - gradient).abs().max().item() / scale
        if not difference <= worst_difference:
            worst_difference, whose = difference, name
    return loss, worst_difference, whose


class Regression(nn.Module):
    """The mean square of a model's output against a target, which is the last entry of the batch."""

    def __init__(self, model, take=lambda output: output):
        super().__init__()
        self.model = model
        self._take = take

    def forward(self, *batch):
        return nn.functional.mse_loss(self._take(self.model(*batch[:-1])), batch[-1])


class Classification(nn.Module):
    """Cross-entropy of a model's logits [N, classes, ...] against labels, which are the last entry of the batch."""

    def __init__(self, model, take=lambda output: output):
        super().__init__()
        self.model = model
        self._take = take

    def forward(self, *batch):
        return nn.functional.cross_entropy(self._take(self.model(*batch[:-1])), batch[-1])


class NextToken(nn.Module):
    """Cross-entropy of logits [N, tokens, vocabulary] against the token after each."""

    def __init__(self, model, take=lambda output: output):
        super().__init__()
        self.model = model
        self._take = take

    def forward(self, tokens):
        logits = self._take(self.model(tokens[:, :-1]))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
