# SPDX-License-Identifier: Apache-2.0
"""What Hugging Face's `from_pretrained` reads beside the weights of a model."""

from __future__ import annotations

import copy
import json
import sys

import torch


def describe(model) -> str:
    """As JSON: which module of `model` is one of Hugging Face, and its files; "" where there is none.

    None that `from_pretrained` would not read back is given: it would begin with new tensors in place of those.
    """
    library = sys.modules.get("transformers")
    if library is None:
        return ""
    # The root comes first.
    for path, module in model.named_modules():
        if isinstance(module, library.PreTrainedModel):
            return json.dumps({"module": path, "files": _files(module)}) if _is_as_configured(module) else ""
    return ""


def _is_as_configured(module):
    """Whether `from_pretrained`, which builds it from its configuration, finds its tensors: not with adapters in it."""
    try:
        with torch.device("meta"):
            fresh = type(module)(copy.deepcopy(module.config))
    except Exception:
        return False
    return fresh.state_dict().keys() == module.state_dict().keys()


def _files(module):
    files = {"config.json": _config(module).to_json_string()}
    generation = getattr(module, "generation_config", None)
    if generation is not None:
        files["generation_config.json"] = generation.to_json_string()
    return files


def _config(module):
    """As `save_pretrained` would write it."""
    config = copy.deepcopy(module.config)
    config.architectures = [type(module).__name__]
    types = [parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()]
    if types:
        config.dtype = types[0]
    return config
