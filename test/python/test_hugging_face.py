# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody wrote for Weft, from their configurations."""

import functools

import pytest
import torch
from lockstep import Step
from replaying import check
from weft import _weft

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


# With windows that overlap in memory (chunks of a sequence, written in place), a loss over pairs of the batch, a table
# that a mask looks up.
IN_PARTS = {
    "longformer": {"layers": 1, "width": 32, "hidden": 32, "attention_window": 4},
    "led": {"layers": 1, "width": 32, "hidden": 32, "attention_window": 4},
    "clip": {"layers": 1, "width": 32, "hidden": 32},
    "whisper": {"layers": 1, "width": 32, "hidden": 32},
}


@functools.cache
def step_in_parts(architecture):
    from hugging_face import build

    torch.manual_seed(0)
    model, batch, *optimizer = build(architecture=architecture, batch_size=4, **IN_PARTS[architecture])
    if architecture == "clip":
        # In f32 its gradients differ by 1e-5 from rounding alone.
        model.double()
        batch = {key: value.double() if value.is_floating_point() else value for key, value in batch.items()}
    return Step(model, batch, *optimizer)


@pytest.mark.parametrize("words", ["micro-batches=2", "pipeline=2,micro-batches=2", "data=2,micro-batches=2", "data=2"])
@pytest.mark.parametrize("architecture", IN_PARTS)
def test_family_in_parts_is_eager(architecture, words):
    step = step_in_parts(architecture)
    difference = step.difference(_weft.expand(step.graph, words))
    assert difference["loss"] < 1e-6
    assert difference["gradient"] < 1e-5


# Mixtures of experts by grouped matmul, the first two with complex numbers too.
EXPERTS = {
    "llama4_text": {"intermediate_size_mlp": 64},
    "deepseek_v2": {
        **{"moe_intermediate_size": 32, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8},
        **{"qk_rope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
    },
    "mixtral": {},
    "qwen3_moe": {},
    "olmoe": {},
}


@pytest.mark.parametrize("architecture", EXPERTS)
def test_experts_are_captured_without_values(architecture):
    from hugging_face import build

    assert not check(build, architecture=architecture, **EXPERTS[architecture]).real
