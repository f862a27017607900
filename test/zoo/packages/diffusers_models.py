# SPDX-License-Identifier: Apache-2.0
"""Denoisers and autoencoders of diffusers, tiny: each is trained to give a target of its output's shape."""

import functools

import torch
from torch import nn


class Denoiser(nn.Module):
    """The mean square against the noise; the batch names what the model takes, and `noise`."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, noise, **batch):
        output = self.model(**batch, return_dict=False)[0]
        return nn.functional.mse_loss(output, noise)


class Autoencoder(nn.Module):
    """Reconstruction of the image by the mean of its code, with a small divergence."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        code = self.model.encode(image).latent_dist
        again = self.model.decode(code.mean).sample
        return nn.functional.mse_loss(again, image) + 1e-3 * code.kl().mean()


def images(channels=4, size=16, count=4):
    return torch.randn(count, channels, size, size)


def steps(count=4):
    return torch.randint(1000, (count,))


def unet2d():
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )
    return Denoiser(model), {"sample": images(), "timestep": steps(), "noise": images()}


def unet2d_condition(**options):
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        cross_attention_dim=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8,
        **options,
    )
    return Denoiser(model), {
        "sample": images(),
        "timestep": steps(),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "noise": images(),
    }


def unet1d():
    from diffusers import UNet1DModel

    model = UNet1DModel(
        sample_size=32,
        in_channels=2,
        out_channels=2,
        extra_in_channels=32,
        block_out_channels=(16, 32, 32),
        down_block_types=("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
        up_block_types=("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"),
    )
    return Denoiser(model), {"sample": torch.randn(4, 2, 32), "timestep": steps(), "noise": torch.randn(4, 2, 32)}


def unet3d():
    from diffusers import UNet3DConditionModel

    model = UNet3DConditionModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        cross_attention_dim=16,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        attention_head_dim=8,
    )
    return Denoiser(model), {
        "sample": torch.randn(2, 4, 3, 8, 8),
        "timestep": steps(2),
        "encoder_hidden_states": torch.randn(2, 6, 16),
        "noise": torch.randn(2, 4, 3, 8, 8),
    }


def dit():
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=1000,
        norm_num_groups=2,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "timestep": steps(),
        "class_labels": torch.randint(999, (4,)),
        "noise": images(size=8),
    }


def sd3():
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=16,
        caption_projection_dim=32,
        pooled_projection_dim=24,
        out_channels=4,
        pos_embed_max_size=8,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "pooled_projections": torch.randn(4, 24),
        "timestep": steps(),
        "noise": images(size=8),
    }


def flux():
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )
    return Denoiser(model), {
        "hidden_states": torch.randn(4, 16, 4),
        "encoder_hidden_states": torch.randn(4, 6, 32),
        "pooled_projections": torch.randn(4, 32),
        "timestep": torch.rand(4),
        "img_ids": torch.rand(16, 3),
        "txt_ids": torch.rand(6, 3),
        "noise": torch.randn(4, 16, 4),
    }


def pixart():
    from diffusers import PixArtTransformer2DModel

    model = PixArtTransformer2DModel(
        sample_size=8,
        num_layers=2,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_channels=16,
        in_channels=4,
        cross_attention_dim=32,
        out_channels=8,
        attention_bias=True,
        norm_type="ada_norm_single",
        norm_elementwise_affine=False,
        norm_eps=1e-6,
        use_additional_conditions=False,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": steps(),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        "noise": images(8, 8),
    }


def sana():
    from diffusers import SanaTransformer2DModel

    model = SanaTransformer2DModel(
        sample_size=8,
        patch_size=1,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        num_cross_attention_heads=4,
        cross_attention_head_dim=8,
        cross_attention_dim=32,
        caption_channels=16,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": steps(),
        "noise": images(size=8),
    }


def lumina2():
    from diffusers import Lumina2Transformer2DModel

    model = Lumina2Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        hidden_size=24,
        num_layers=2,
        num_refiner_layers=1,
        num_attention_heads=3,
        num_kv_heads=1,
        multiple_of=2,
        norm_eps=1e-5,
        scaling_factor=1.0,
        axes_dim_rope=(4, 2, 2),
        axes_lens=(64, 64, 64),
        cap_feat_dim=16,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": torch.rand(4),
        "encoder_attention_mask": torch.ones(4, 6, dtype=torch.bool),
        "noise": images(size=8),
    }


def cogvideo():
    from diffusers import CogVideoXTransformer3DModel

    model = CogVideoXTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=4,
        time_embed_dim=4,
        text_embed_dim=16,
        num_layers=2,
        sample_width=8,
        sample_height=8,
        sample_frames=8,
        patch_size=2,
        temporal_compression_ratio=4,
        max_text_seq_length=6,
    )
    return Denoiser(model), {
        "hidden_states": torch.randn(4, 2, 4, 8, 8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": steps(),
        "noise": torch.randn(4, 2, 4, 8, 8),
    }


def wan():
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=32,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    return Denoiser(model), {
        "hidden_states": torch.randn(4, 4, 2, 8, 8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": steps(),
        "noise": torch.randn(4, 4, 2, 8, 8),
    }


def ltx():
    from diffusers import LTXVideoTransformer3DModel

    model = LTXVideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=4,
        attention_head_dim=8,
        cross_attention_dim=32,
        num_layers=1,
        caption_channels=16,
    )
    return Denoiser(model), {
        "hidden_states": torch.randn(4, 32, 4),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": steps(),
        "encoder_attention_mask": torch.ones(4, 6),
        "num_frames": 2,
        "height": 4,
        "width": 4,
        "noise": torch.randn(4, 32, 4),
    }


def hunyuan_dit():
    from diffusers import HunyuanDiT2DModel

    model = HunyuanDiT2DModel(
        sample_size=8,
        num_layers=2,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=3,
        in_channels=4,
        cross_attention_dim=16,
        cross_attention_dim_t5=16,
        pooled_projection_dim=4,
        hidden_size=24,
        text_len=4,
        text_len_t5=4,
        activation_fn="gelu-approximate",
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 4, 16),
        "timestep": steps().float(),
        "text_embedding_mask": torch.ones(4, 4),
        "encoder_hidden_states_t5": torch.randn(4, 4, 16),
        "text_embedding_mask_t5": torch.ones(4, 4),
        "image_meta_size": torch.rand(4, 6),
        "style": torch.zeros(4, dtype=torch.int64),
        "image_rotary_emb": [torch.randn(16, 8), torch.randn(16, 8)],
        "noise": images(8, 8),
    }


def auraflow():
    from diffusers import AuraFlowTransformer2DModel

    model = AuraFlowTransformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_projection_dim=32,
        joint_attention_dim=16,
        out_channels=4,
        pos_embed_max_size=64,
    )
    return Denoiser(model), {
        "hidden_states": images(size=8),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "timestep": torch.rand(4),
        "noise": images(size=8),
    }


def autoencoder_kl():
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(16, 32),
        latent_channels=4,
        norm_num_groups=8,
        sample_size=32,
    )
    return Autoencoder(model), {"image": images(3, 32)}


def vq_model():
    from diffusers import VQModel

    class Reconstruction(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, image):
            again, commitment = self.model(image, return_dict=False)
            return nn.functional.mse_loss(again, image) + commitment.mean()

    model = VQModel(
        block_out_channels=(16, 32),
        norm_num_groups=8,
        num_vq_embeddings=24,
        latent_channels=3,
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
    )
    return Reconstruction(model), {"image": images(3, 32)}


def controlnet():
    from diffusers import ControlNetModel

    model = ControlNetModel(
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=16,
        attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        conditioning_embedding_out_channels=(8, 16),
    )

    class Control(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, **batch):
            down, middle = self.model(**batch, return_dict=False)
            return sum(each.square().mean() for each in [*down, middle]) + sum(each.mean() for each in down)

    return Control(), {
        "sample": images(),
        "timestep": steps(),
        "encoder_hidden_states": torch.randn(4, 6, 16),
        "controlnet_cond": torch.rand(4, 3, 32, 32),
    }


def prior():
    from diffusers import PriorTransformer

    model = PriorTransformer(
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=2,
        embedding_dim=16,
        num_embeddings=7,
        additional_embeddings=4,
    )
    return Denoiser(model), {
        "hidden_states": torch.randn(4, 16),
        "timestep": steps(),
        "proj_embedding": torch.randn(4, 16),
        "encoder_hidden_states": torch.randn(4, 7, 16),
        "attention_mask": torch.arange(7) < torch.tensor([[3], [5], [7], [6]]),
        "noise": torch.randn(4, 16),
    }


MODELS = {
    "UNet2DModel": unet2d,
    "UNet2DConditionModel": unet2d_condition,
    "UNet2DConditionModel_classes": functools.partial(
        unet2d_condition, use_linear_projection=True, only_cross_attention=True
    ),
    "UNet1DModel": unet1d,
    "UNet3DConditionModel": unet3d,
    "DiTTransformer2DModel": dit,
    "SD3Transformer2DModel": sd3,
    "FluxTransformer2DModel": flux,
    "PixArtTransformer2DModel": pixart,
    "SanaTransformer2DModel": sana,
    "Lumina2Transformer2DModel": lumina2,
    "CogVideoXTransformer3DModel": cogvideo,
    "WanTransformer3DModel": wan,
    "LTXVideoTransformer3DModel": ltx,
    "HunyuanDiT2DModel": hunyuan_dit,
    "AuraFlowTransformer2DModel": auraflow,
    "AutoencoderKL": autoencoder_kl,
    "VQModel": vq_model,
    "ControlNetModel": controlnet,
    "PriorTransformer": prior,
}
