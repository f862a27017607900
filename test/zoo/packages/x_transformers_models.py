# SPDX-License-Identifier: Apache-2.0
"""Variants of transformers of x-transformers: each option is another graph."""

import functools

import torch
from torch import nn
from zoo import NextToken


def tokens(length=17):
    return torch.randint(64, (4, length))


def decoder(**options):
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=64, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    )
    return NextToken(model), (tokens(),)


def autoregressive():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=64, max_seq_len=17, attn_layers=Decoder(dim=32, depth=2, heads=4))
    return AutoregressiveWrapper(model, ignore_index=-100), (tokens(),)


class Masked(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, mask, labels):
        logits = self.model(tokens, mask=mask)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def encoder(**options):
    from x_transformers import Encoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=Encoder(dim=32, depth=2, heads=4, **options))
    mask = torch.arange(16) < torch.randint(8, 17, (4, 1))
    return Masked(model), (tokens(16), mask, tokens(16).masked_fill(~mask, -100))


def encoder_decoder():
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32,
        enc_num_tokens=64,
        enc_depth=1,
        enc_heads=4,
        enc_max_seq_len=16,
        dec_num_tokens=64,
        dec_depth=1,
        dec_heads=4,
        dec_max_seq_len=16,
    )
    return model, (tokens(16), tokens(16))


def image_classifier():
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(
        image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(dim=32, depth=2, heads=4)
    )
    from zoo import Classification

    return Classification(model), (torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))


def continuous():
    from x_transformers import ContinuousTransformerWrapper, Decoder
    from zoo import Regression

    model = ContinuousTransformerWrapper(
        dim_in=8, dim_out=8, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4)
    )
    return Regression(model), (torch.randn(4, 16, 8), torch.randn(4, 16, 8))


OPTIONS = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "relative_bias": {"rel_pos_bias": True},
    "dynamic_bias": {"dynamic_pos_bias": True},
    "rmsnorm_swish_glu": {"use_rmsnorm": True, "ff_swish": True, "ff_glu": True},
    "grouped_keys": {"attn_kv_heads": 2},
    "query_key_norm": {"attn_qk_norm": True},
    "talking_heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "memory_keys": {"attn_num_mem_kv": 4},
    "gated_values": {"attn_gate_values": True},
    "residual_gates": {"gate_residual": True},
    "sandwich_norm": {"sandwich_norm": True},
    "shifted_tokens": {"shift_tokens": 1},
    "macaron": {"macaron": True},
    "topk_attention": {"attn_sparse_topk": 4},
    "relu_squared": {"ff_relu_squared": True},
    "flash": {"attn_flash": True},
    "hyper_connections": {"num_residual_streams": 2},
    "value_residual": {"add_value_residual": True},
    "softclamp": {"attn_softclamp_logits": True},
}
MODELS = {f"decoder_{name}": functools.partial(decoder, **options) for name, options in OPTIONS.items()} | {
    "autoregressive": autoregressive,
    "encoder": encoder,
    "encoder_rotary_xpos": functools.partial(encoder, rotary_pos_emb=True, use_scalenorm=True),
    "encoder_decoder": encoder_decoder,
    "image_classifier": image_classifier,
    "continuous": continuous,
}
