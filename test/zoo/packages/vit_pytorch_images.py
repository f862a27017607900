# SPDX-License-Identifier: Apache-2.0
"""Vision transformers of vit-pytorch, tiny."""

import importlib

import torch
from zoo import Classification

COMMON = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}


def without(*names):
    return {key: value for key, value in COMMON.items() if key not in names}


MODELS_AND_OPTIONS = {
    "vit.ViT": COMMON,
    "simple_vit.SimpleViT": COMMON,
    "deepvit.DeepViT": COMMON,
    "cait.CaiT": COMMON | {"cls_depth": 1},
    "t2t.T2TViT": {
        "dim": 32,
        "image_size": 32,
        "depth": 2,
        "heads": 4,
        "mlp_dim": 64,
        "num_classes": 10,
        "t2t_layers": ((7, 4), (3, 2)),
    },
    "cct.CCT": {
        "img_size": (32, 32),
        "embedding_dim": 32,
        "n_conv_layers": 1,
        "kernel_size": 7,
        "stride": 2,
        "padding": 3,
        "pooling_kernel_size": 3,
        "pooling_stride": 2,
        "pooling_padding": 1,
        "num_layers": 2,
        "num_heads": 4,
        "mlp_ratio": 2.0,
        "num_classes": 10,
        "positional_embedding": "learnable",
    },
    "cross_vit.CrossViT": {
        "image_size": 32,
        "num_classes": 10,
        "depth": 1,
        "sm_dim": 16,
        "sm_patch_size": 8,
        "sm_enc_depth": 1,
        "sm_enc_heads": 2,
        "sm_enc_mlp_dim": 32,
        "lg_dim": 32,
        "lg_patch_size": 16,
        "lg_enc_depth": 1,
        "lg_enc_heads": 2,
        "lg_enc_mlp_dim": 32,
        "cross_attn_depth": 1,
        "cross_attn_heads": 2,
    },
    "pit.PiT": {
        "image_size": 32,
        "patch_size": 8,
        "dim": 32,
        "num_classes": 10,
        "depth": (1, 1),
        "heads": 2,
        "mlp_dim": 32,
    },
    "levit.LeViT": {
        "image_size": 64,
        "num_classes": 10,
        "stages": 2,
        "dim": (32, 48),
        "depth": 1,
        "heads": (2, 3),
        "mlp_mult": 2,
    },
    "cvt.CvT": {
        "num_classes": 10,
        "s1_emb_dim": 16,
        "s1_heads": 1,
        "s1_depth": 1,
        "s2_emb_dim": 24,
        "s2_heads": 2,
        "s2_depth": 1,
        "s3_emb_dim": 32,
        "s3_heads": 2,
        "s3_depth": 1,
    },
    "twins_svt.TwinsSVT": {
        "num_classes": 10,
        "s1_emb_dim": 16,
        "s1_local_patch_size": 4,
        "s1_global_k": 4,
        "s1_depth": 1,
        "s2_emb_dim": 16,
        "s2_local_patch_size": 4,
        "s2_global_k": 4,
        "s2_depth": 1,
        "s3_emb_dim": 16,
        "s3_local_patch_size": 2,
        "s3_global_k": 2,
        "s3_depth": 1,
        "s4_emb_dim": 16,
        "s4_local_patch_size": 1,
        "s4_global_k": 1,
        "s4_depth": 1,
    },
    "regionvit.RegionViT": {
        "dim": (16, 16, 24, 32),
        "depth": (1, 1, 1, 1),
        "window_size": 2,
        "num_classes": 10,
        "tokenize_local_3_conv": False,
    },
    "nest.NesT": {
        "image_size": 32,
        "patch_size": 4,
        "dim": 16,
        "heads": 2,
        "num_hierarchies": 2,
        "block_repeats": (1, 1),
        "num_classes": 10,
    },
    "mobile_vit.MobileViT": {
        "image_size": (64, 64),
        "dims": [16, 24, 32],
        "channels": [8, 8, 16, 16, 24, 24, 32, 32, 48, 48, 64],
        "num_classes": 10,
    },
    "xcit.XCiT": COMMON | {"cls_depth": 1},
    "max_vit.MaxViT": {
        "num_classes": 10,
        "dim_conv_stem": 16,
        "dim": 16,
        "dim_head": 8,
        "depth": (1, 1),
        "window_size": 4,
    },
    "parallel_vit.ViT": COMMON,
    "vit_for_small_dataset.ViT": COMMON,
    "learnable_memory_vit.ViT": COMMON,
    "vit_with_patch_merger.ViT": COMMON | {"patch_merge_layer": 1, "patch_merge_num_tokens": 4},
    "scalable_vit.ScalableViT": {
        "num_classes": 10,
        "dim": 16,
        "heads": (2, 2),
        "depth": (1, 1),
        "ssa_dim_key": (8, 8),
        "reduction_factor": (2, 1),
        "window_size": (4, 4),
    },
    "rvt.RvT": COMMON,
    "simple_vit_with_register_tokens.SimpleViT": COMMON,
    "simple_vit_with_qk_norm.SimpleViT": COMMON,
    "vit_with_decorr.ViT": COMMON,
    "normalized_vit.nViT": COMMON,
    "simple_vit_with_fft.SimpleViT": COMMON | {"freq_patch_size": 8},
    "vit_3d.ViT": without("patch_size") | {"frames": 4, "frame_patch_size": 2, "image_patch_size": 8},
    "vit_1d.ViT": {"seq_len": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64},
}


def image_model(name):
    module, _, kind = name.partition(".")
    options = MODELS_AND_OPTIONS[name]
    model = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(**options)
    size = options.get("image_size", options.get("img_size", 64))
    size = size[0] if isinstance(size, tuple) else size
    shape = {"vit_3d.ViT": (4, 3, 4, 32, 32), "vit_1d.ViT": (4, 3, 32)}.get(name, (4, 3, size, size))
    take = (lambda output: output[0]) if name == "vit_with_decorr.ViT" else (lambda output: output)
    return Classification(model, take), (torch.randn(shape), torch.randint(10, (4,)))


MODELS = {name: (lambda name=name: image_model(name)) for name in MODELS_AND_OPTIONS}
