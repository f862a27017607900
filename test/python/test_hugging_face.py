# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody wrote for Weft, from their configurations."""

import pytest
from replaying import check

pytest.importorskip("transformers")

FAMILIES = [
    "gpt2",
    "gpt_neox",
    "opt",
    "bloom",
    "llama",
    "mistral",
    "qwen2",
    "gemma",
    "phi",
    "falcon",
    "mixtral",
    "bert",
    "roberta",
    "distilbert",
    "electra",
    "albert",
    "deberta-v2",
    "t5",
    "bart",
    "vit",
    "convnext",
    "resnet",
    "swin",
    "whisper",
    "mamba",
    "clip",
]


@pytest.mark.parametrize("architecture", FAMILIES)
def test_family_replays_bit_equal(architecture):
    from hugging_face import build

    check(build, architecture=architecture)
