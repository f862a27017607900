# SPDX-License-Identifier: Apache-2.0
"""Nets for volumes of MONAI, tiny."""

import torch
from torch import nn
from zoo import Classification, Regression


def volume(count=2, size=16, channels=1):
    return torch.randn(count, channels, size, size, size)


def labels(count=2, size=16, classes=3):
    return torch.randint(classes, (count, size, size, size))


def nets():
    from monai.networks import nets

    return nets


def unet(**options):
    model = nets().UNet(
        spatial_dims=3, in_channels=1, out_channels=3, channels=(4, 8, 16), strides=(2, 2), num_res_units=1, **options
    )
    return Classification(model), (volume(), labels())


def basic_unet():
    model = nets().BasicUNet(spatial_dims=3, in_channels=1, out_channels=3, features=(4, 4, 8, 8, 8, 4))
    return Classification(model), (volume(2, 32), labels(2, 32))


def attention_unet():
    model = nets().AttentionUnet(spatial_dims=3, in_channels=1, out_channels=3, channels=(4, 8, 16), strides=(2, 2))
    return Classification(model), (volume(), labels())


def unetr():
    model = nets().UNETR(
        in_channels=1, out_channels=3, img_size=(16, 16, 16), feature_size=4, hidden_size=24, mlp_dim=48, num_heads=4
    )
    return Classification(model), (volume(), labels())


def swin_unetr():
    model = nets().SwinUNETR(
        in_channels=1, out_channels=3, feature_size=12, depths=(1, 1, 1, 1), num_heads=(2, 2, 4, 4), spatial_dims=2
    )
    return Classification(model), (torch.randn(2, 1, 64, 64), torch.randint(3, (2, 64, 64)))


def segresnet():
    model = nets().SegResNet(
        spatial_dims=3, init_filters=8, in_channels=1, out_channels=3, blocks_down=(1, 1), blocks_up=(1,)
    )
    return Classification(model), (volume(), labels())


def vnet():
    model = nets().VNet(spatial_dims=2, in_channels=1, out_channels=3, dropout_dim=2)
    return Classification(model), (torch.randn(2, 1, 32, 32), torch.randint(3, (2, 32, 32)))


def dynunet():
    model = nets().DynUNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=3,
        kernel_size=(3, 3, 3),
        strides=(1, 2, 2),
        upsample_kernel_size=(2, 2),
        filters=(4, 8, 16),
    )
    return Classification(model), (volume(), labels())


def densenet():
    model = nets().DenseNet(
        spatial_dims=3, in_channels=1, out_channels=3, init_features=8, growth_rate=4, block_config=(2, 2)
    )
    return Classification(model), (volume(), torch.randint(3, (2,)))


def resnet():
    model = nets().ResNet("basic", (1, 1, 1, 1), (4, 8, 8, 16), n_input_channels=1, num_classes=3, spatial_dims=3)
    return Classification(model), (volume(), torch.randint(3, (2,)))


def efficientnet():
    model = nets().EfficientNetBN("efficientnet-b0", spatial_dims=2, in_channels=1, num_classes=3, pretrained=False)
    return Classification(model), (torch.randn(4, 1, 64, 64), torch.randint(3, (4,)))


def vit():
    model = nets().ViT(
        in_channels=1,
        img_size=(16, 16, 16),
        patch_size=(8, 8, 8),
        hidden_size=24,
        mlp_dim=48,
        num_layers=2,
        num_heads=4,
        classification=True,
        num_classes=3,
    )
    return Classification(model, take=lambda output: output[0]), (volume(), torch.randint(3, (2,)))


def autoencoder():
    model = nets().AutoEncoder(spatial_dims=3, in_channels=1, out_channels=1, channels=(4, 8), strides=(2, 2))
    return Regression(model), (volume(), volume())


def highresnet():
    model = nets().HighResNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=3,
        layer_params=(
            {"name": "conv_0", "n_features": 4, "kernel_size": 3},
            {"name": "res_1", "n_features": 4, "kernels": (3, 3), "repeat": 1},
            {"name": "conv_1", "n_features": 8, "kernel_size": 1},
            {"name": "conv_2", "kernel_size": 1},
        ),
    )
    return Classification(model), (volume(2, 8), labels(2, 8))


def diffusion_unet():
    model = nets().DiffusionModelUNet(
        spatial_dims=2,
        in_channels=1,
        out_channels=1,
        num_res_blocks=1,
        channels=(8, 16),
        attention_levels=(False, True),
        norm_num_groups=4,
        num_head_channels=8,
    )
    return Regression(model), (torch.randn(4, 1, 16, 16), torch.randint(1000, (4,)), torch.randn(4, 1, 16, 16))


def autoencoder_kl():
    class Reconstruction(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, image):
            mean, deviation = self.model.encode(image)
            again = self.model.decode(mean)
            return nn.functional.l1_loss(again, image) + 1e-3 * (mean.square() + deviation.square()).mean()

    model = nets().AutoencoderKL(
        spatial_dims=3,
        in_channels=1,
        out_channels=1,
        num_res_blocks=(1, 1),
        channels=(4, 8),
        attention_levels=(False, False),
        latent_channels=3,
        norm_num_groups=4,
    )
    return Reconstruction(model), (volume(),)


def dice_unet():
    from monai.losses import DiceCELoss

    class Dice(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
            self.loss = DiceCELoss(to_onehot_y=True, softmax=True)

        def forward(self, image, label):
            return self.loss(self.model(image), label)

    model = nets().UNet(spatial_dims=2, in_channels=1, out_channels=3, channels=(4, 8, 16), strides=(2, 2))
    return Dice(model), (torch.randn(4, 1, 32, 32), torch.randint(3, (4, 1, 32, 32)))


MODELS = {
    "UNet": unet,
    "UNet_batch_norm": lambda: unet(norm="BATCH"),
    "UNet_dice": dice_unet,
    "BasicUNet": basic_unet,
    "AttentionUnet": attention_unet,
    "UNETR": unetr,
    "SwinUNETR": swin_unetr,
    "SegResNet": segresnet,
    "VNet": vnet,
    "DynUNet": dynunet,
    "DenseNet": densenet,
    "ResNet": resnet,
    "EfficientNetBN": efficientnet,
    "ViT": vit,
    "AutoEncoder": autoencoder,
    "AutoencoderKL": autoencoder_kl,
    "HighResNet": highresnet,
    "DiffusionModelUNet": diffusion_unet,
}
