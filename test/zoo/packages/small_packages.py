# SPDX-License-Identifier: Apache-2.0
"""Packages of one or a few architectures each: text, tables, molecules, operators, sound and more."""

import torch
from torch import nn
from zoo import Classification, NextToken, Regression


def tokens(count=4, length=17):
    return torch.randint(64, (count, length))


class Given(nn.Module):
    """A model whose forward gives the loss, or the loss first."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *batch):
        output = self.model(*batch)
        return output[0] if isinstance(output, tuple) else output


class ByName(nn.Module):
    """A loss made by a function of the model and the batch."""

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *batch):
        return self._loss(self.model, *batch)


# Text.


def performer():
    from performer_pytorch import PerformerLM

    model = PerformerLM(
        num_tokens=64, max_seq_len=16, dim=32, depth=2, heads=4, dim_head=8, causal=False, nb_features=16
    )
    return NextToken(model), (tokens(),)


def linformer():
    from linformer import LinformerLM

    model = LinformerLM(num_tokens=64, dim=32, seq_len=16, depth=2, heads=4, dim_head=8, k=8)
    return NextToken(model), (tokens(),)


def nystrom():
    from nystrom_attention import Nystromformer

    model = Nystromformer(dim=32, depth=2, heads=4, dim_head=8, num_landmarks=4)
    return Regression(model), (torch.randn(4, 16, 32), torch.randn(4, 16, 32))


def g_mlp():
    from g_mlp_pytorch import gMLP

    model = gMLP(num_tokens=64, dim=32, depth=2, seq_len=16, causal=True)
    return NextToken(model), (tokens(),)


def mega():
    from mega_pytorch import Mega

    model = Mega(num_tokens=64, dim=32, depth=2, ema_heads=4, attn_dim_qk=16, attn_dim_value=32, laplacian_attn_fn=True)
    return NextToken(model), (tokens(),)


def mamba():
    from mambapy.mamba import Mamba, MambaConfig

    model = Mamba(MambaConfig(d_model=32, n_layers=2, d_state=4, pscan=True))
    return Regression(model), (torch.randn(4, 16, 32), torch.randn(4, 16, 32))


def local_attention():
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=16, causal=True, local_attn_window_size=8, heads=4
    )
    return NextToken(model), (tokens(),)


def reformer():
    from reformer_pytorch import ReformerLM

    model = ReformerLM(
        num_tokens=64,
        dim=32,
        depth=1,
        max_seq_len=16,
        heads=4,
        bucket_size=8,
        n_hashes=1,
        causal=True,
        use_full_attn=True,
    )
    return NextToken(model), (tokens(),)


def coca():
    from coca_pytorch import CoCa
    from vit_pytorch.extractor import Extractor
    from vit_pytorch.simple_vit import SimpleViT

    encoder = Extractor(
        SimpleViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=1, heads=2, mlp_dim=32),
        return_embeddings_only=True,
        detach=False,
    )
    model = CoCa(
        dim=32,
        img_encoder=encoder,
        image_dim=32,
        num_tokens=64,
        unimodal_depth=1,
        multimodal_depth=1,
        dim_head=8,
        heads=2,
        caption_loss_weight=1.0,
        contrastive_loss_weight=1.0,
    )
    return ByName(model, lambda model, text, image: model(text=text, images=image, return_loss=True)), (
        tokens(4, 12),
        torch.randn(4, 3, 32, 32),
    )


def x_clip():
    from x_clip import CLIP

    model = CLIP(
        dim_text=32,
        dim_image=32,
        dim_latent=16,
        num_text_tokens=80,
        text_enc_depth=1,
        text_seq_len=16,
        text_heads=2,
        visual_patch_dropout=0.0,
        visual_enc_depth=1,
        visual_image_size=32,
        visual_patch_size=8,
        visual_heads=2,
    )
    return ByName(model, lambda model, text, image: model(text, image, return_loss=True, freeze_image_encoder=False)), (
        tokens(4, 16) + 1,
        torch.randn(4, 3, 32, 32),
    )


# Any modality.


def perceiver():
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        input_channels=3,
        input_axis=2,
        num_freq_bands=2,
        max_freq=4.0,
        depth=1,
        num_latents=8,
        latent_dim=16,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
        num_classes=10,
    )
    return Classification(model), (torch.randn(4, 8, 8, 3), torch.randint(10, (4,)))


def perceiver_io():
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=16,
        queries_dim=16,
        logits_dim=8,
        depth=1,
        num_latents=8,
        latent_dim=16,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
    )
    return ByName(model, lambda model, x, queries, y: nn.functional.mse_loss(model(x, queries=queries), y)), (
        torch.randn(4, 12, 16),
        torch.randn(5, 16),
        torch.randn(4, 5, 8),
    )


def mlp_mixer():
    from mlp_mixer_pytorch import MLPMixer

    model = MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10)
    return Classification(model), (torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))


def diffusion():
    from denoising_diffusion_pytorch import Unet

    model = Unet(dim=16, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2)
    return Regression(model), (torch.randn(4, 3, 16, 16), torch.randint(1000, (4,)), torch.randn(4, 3, 16, 16))


def diffusion_1d():
    from denoising_diffusion_pytorch import Unet1D

    model = Unet1D(dim=16, dim_mults=(1, 2), channels=2, attn_dim_head=8, attn_heads=2)
    return Regression(model), (torch.randn(4, 2, 16), torch.randint(1000, (4,)), torch.randn(4, 2, 16))


# Codes.


def quantizer(kind, **options):
    import vector_quantize_pytorch

    class Quantized(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Linear(8, 16)
            self.quantize = getattr(vector_quantize_pytorch, kind)(**options)
            self.decode = nn.Linear(16, 8)

        def forward(self, x):
            output = self.quantize(self.encode(x))
            loss = nn.functional.mse_loss(self.decode(output[0]), x)
            return loss + output[2].mean() if len(output) > 2 else loss

    return Quantized(), (torch.randn(4, 6, 8),)


# Experts.


def soft_moe():
    from soft_moe_pytorch import SoftMoE

    model = SoftMoE(dim=32, seq_len=16, num_experts=4)
    return Regression(model), (torch.randn(4, 16, 32), torch.randn(4, 16, 32))


def st_moe():
    from st_moe_pytorch import MoE, SparseMoEBlock

    model = SparseMoEBlock(
        MoE(dim=32, num_experts=4, gating_top_n=2, threshold_train=0.0, threshold_eval=0.0),
        add_ff_before=True,
        add_ff_after=True,
    )
    return ByName(model, lambda model, x, y: nn.functional.mse_loss(model(x)[0], y)), (
        torch.randn(4, 16, 32),
        torch.randn(4, 16, 32),
    )


def mixture_of_experts():
    from mixture_of_experts import MoE

    model = MoE(dim=32, num_experts=4, second_policy_train="all")
    return ByName(model, lambda model, x, y: nn.functional.mse_loss((o := model(x))[0], y) + o[1]), (
        torch.randn(4, 16, 32),
        torch.randn(4, 16, 32),
    )


# Tables.


def tabnet():
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(
        input_dim=12, output_dim=4, n_d=8, n_a=8, n_steps=2, virtual_batch_size=16, group_attention_matrix=torch.eye(12)
    )
    return ByName(model, lambda model, x, y: nn.functional.cross_entropy((o := model(x))[0], y) - 1e-3 * o[1]), (
        torch.randn(16, 12),
        torch.randint(4, (16,)),
    )


def ft_transformer():
    from rtdl_revisiting_models import FTTransformer

    model = FTTransformer(
        n_cont_features=5,
        cat_cardinalities=[4, 6],
        d_out=3,
        n_blocks=2,
        d_block=32,
        attention_n_heads=4,
        attention_dropout=0.0,
        ffn_d_hidden=48,
        ffn_d_hidden_multiplier=None,
        ffn_dropout=0.0,
        residual_dropout=0.0,
    )
    return Classification(model), (torch.randn(8, 5), torch.randint(4, (8, 2)), torch.randint(3, (8,)))


def tabular_resnet():
    from rtdl_revisiting_models import ResNet

    model = ResNet(
        d_in=12, d_out=3, n_blocks=2, d_block=16, d_hidden=32, d_hidden_multiplier=None, dropout1=0.0, dropout2=0.0
    )
    return Classification(model), (torch.randn(8, 12), torch.randint(3, (8,)))


def numbers_embedded():
    from rtdl_num_embeddings import PeriodicEmbeddings

    model = nn.Sequential(PeriodicEmbeddings(5, 8, lite=False), nn.Flatten(), nn.Linear(40, 3))
    return Classification(model), (torch.randn(8, 5), torch.randint(3, (8,)))


# Molecules and physics.


def egnn():
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(num_tokens=12, num_positions=8, dim=16, depth=2, num_nearest_neighbors=0)
    return ByName(
        model,
        lambda model, atoms, places, y: nn.functional.mse_loss(sum(each.mean() for each in model(atoms, places)), y),
    ), (torch.randint(12, (4, 8)), torch.randn(4, 8, 3), torch.randn(()))


def e3nn_product():
    from e3nn import o3
    from e3nn.nn import Gate

    class Equivariant(nn.Module):
        def __init__(self):
            super().__init__()
            gate = Gate("8x0e", [torch.tanh], "4x0e", [torch.sigmoid], "4x1o")
            self.product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", gate.irreps_in)
            self.gate = gate
            self.last = o3.Linear(gate.irreps_out, "1x0e + 1x1o")

        def forward(self, x, directions, y):
            edges = o3.spherical_harmonics("1x0e + 1x1o", directions, normalize=True)
            return nn.functional.mse_loss(self.last(self.gate(self.product(x, edges))), y)

    return Equivariant(), (torch.randn(6, 10), torch.randn(6, 3), torch.randn(6, 4))


def fourier_operator():
    from neuralop.models import FNO

    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    return Regression(model), (torch.randn(4, 1, 16, 16), torch.randn(4, 1, 16, 16))


def fourier_operator_1d():
    from neuralop.models import FNO

    model = FNO(n_modes=(4,), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    return Regression(model), (torch.randn(4, 1, 32), torch.randn(4, 1, 32))


# Sound and sequences.


def conformer():
    from conformer import Conformer

    model = Conformer(dim=32, depth=2, dim_head=8, heads=4, ff_mult=2, conv_expansion_factor=2, conv_kernel_size=7)
    return Regression(model), (torch.randn(4, 16, 32), torch.randn(4, 16, 32))


def temporal_convolutions():
    from pytorch_tcn import TCN

    model = TCN(num_inputs=4, num_channels=[8, 8], kernel_size=3, dropout=0.0)
    return Regression(model), (torch.randn(4, 4, 16), torch.randn(4, 8, 16))


# Images.


def open_clip():
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(
        embed_dim=16,
        vision_cfg=CLIPVisionCfg(layers=2, width=32, head_width=8, patch_size=8, image_size=32),
        text_cfg=CLIPTextCfg(context_length=16, vocab_size=64, width=32, heads=4, layers=2),
    )
    loss = ClipLoss()
    return ByName(model, lambda model, image, text: loss(*model(image, text))), (
        torch.randn(4, 3, 32, 32),
        tokens(4, 16),
    )


def open_clip_coca():
    from open_clip.coca_model import CoCa, MultimodalCfg
    from open_clip.loss import CoCaLoss
    from open_clip.model import CLIPTextCfg, CLIPVisionCfg

    model = CoCa(
        embed_dim=16,
        multimodal_cfg=MultimodalCfg(context_length=16, vocab_size=64, width=16, heads=2, layers=1),
        text_cfg=CLIPTextCfg(
            context_length=16, vocab_size=64, width=16, heads=2, layers=1, embed_cls=True, output_tokens=True
        ),
        vision_cfg=CLIPVisionCfg(
            layers=1,
            width=32,
            head_width=8,
            patch_size=8,
            image_size=32,
            attentional_pool=True,
            attn_pooler_heads=2,
            output_tokens=True,
        ),
    )
    # The package leaves some parameters as the memory was, for a checkpoint to fill.
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    loss = CoCaLoss(caption_loss_weight=1.0, clip_loss_weight=1.0, pad_id=0)

    def total(model, image, text):
        output = model(image, text)
        return sum(
            loss(
                output["image_features"],
                output["text_features"],
                output["logits"],
                text[:, 1:][:, : output["logits"].shape[1]],
                output["logit_scale"],
            )
        )

    return ByName(model, total), (torch.randn(4, 3, 32, 32), tokens(4, 16))


def efficientnet():
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", num_classes=10, drop_connect_rate=0.0)
    return Classification(model), (torch.randn(4, 3, 64, 64), torch.randint(10, (4,)))


def kornia_filters():
    import kornia

    class Filters(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, image, target):
            image = self.net(image)
            image = kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0))
            edges = kornia.filters.sobel(image)
            return kornia.losses.ssim_loss(image.sigmoid(), target, 5) + edges.mean()

    return Filters(), (torch.rand(4, 3, 16, 16), torch.rand(4, 3, 16, 16))


def segment_anything():
    from segment_anything.modeling import ImageEncoderViT

    model = ImageEncoderViT(
        img_size=64,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        out_chans=16,
        use_rel_pos=True,
        window_size=4,
        global_attn_indexes=(1,),
    )
    return Regression(model), (torch.randn(4, 3, 64, 64), torch.randn(4, 16, 8, 8))


MODELS = {
    "performer-pytorch": performer,
    "linformer": linformer,
    "nystrom-attention": nystrom,
    "g-mlp-pytorch": g_mlp,
    "mega-pytorch": mega,
    "mambapy": mamba,
    "local-attention": local_attention,
    "reformer-pytorch": reformer,
    "coca-pytorch": coca,
    "x-clip": x_clip,
    "perceiver-pytorch": perceiver,
    "perceiver-pytorch_io": perceiver_io,
    "mlp-mixer-pytorch": mlp_mixer,
    "denoising-diffusion-pytorch": diffusion,
    "denoising-diffusion-pytorch_1d": diffusion_1d,
    "vector-quantize-pytorch": lambda: quantizer("VectorQuantize", dim=16, codebook_size=32),
    "vector-quantize-pytorch_residual": lambda: quantizer("ResidualVQ", dim=16, num_quantizers=2, codebook_size=16),
    "vector-quantize-pytorch_fsq": lambda: quantizer("FSQ", levels=[4, 4, 3], dim=16),
    "vector-quantize-pytorch_lfq": lambda: quantizer("LFQ", codebook_size=16, dim=16),
    "soft-moe-pytorch": soft_moe,
    "st-moe-pytorch": st_moe,
    "mixture-of-experts": mixture_of_experts,
    "pytorch-tabnet": tabnet,
    "rtdl_revisiting_models": ft_transformer,
    "rtdl_revisiting_models_resnet": tabular_resnet,
    "rtdl_num_embeddings": numbers_embedded,
    "egnn-pytorch": egnn,
    "e3nn": e3nn_product,
    "neuraloperator": fourier_operator,
    "neuraloperator_1d": fourier_operator_1d,
    "conformer": conformer,
    "pytorch-tcn": temporal_convolutions,
    "open_clip_torch": open_clip,
    "open_clip_torch_coca": open_clip_coca,
    "efficientnet_pytorch": efficientnet,
    "kornia_filters": kornia_filters,
    "segment-anything": segment_anything,
}
