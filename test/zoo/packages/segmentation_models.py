# SPDX-License-Identifier: Apache-2.0
"""Decoders of segmentation-models-pytorch on small encoders, with its own losses."""

import functools

import torch
from torch import nn


class Segmentation(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, image, label):
        return self.loss(self.model(image), label)


def segmentation(architecture, encoder="mobilenet_v2", loss="cross_entropy", **options):
    import segmentation_models_pytorch as smp

    model = smp.create_model(architecture, encoder_name=encoder, encoder_weights=None, classes=3, **options)
    losses = {
        "cross_entropy": nn.CrossEntropyLoss,
        "dice": functools.partial(smp.losses.DiceLoss, mode="multiclass"),
        "focal": functools.partial(smp.losses.FocalLoss, mode="multiclass"),
        "jaccard": functools.partial(smp.losses.JaccardLoss, mode="multiclass"),
    }
    return Segmentation(model, losses[loss]()), (torch.randn(4, 3, 64, 64), torch.randint(3, (4, 64, 64)))


MODELS = {
    "unet": functools.partial(segmentation, "unet", decoder_channels=(32, 16, 16, 8, 8)),
    "unet_dice": functools.partial(segmentation, "unet", loss="dice", decoder_channels=(32, 16, 16, 8, 8)),
    "unetplusplus": functools.partial(segmentation, "unetplusplus", decoder_channels=(32, 16, 16, 8, 8)),
    "fpn": functools.partial(segmentation, "fpn", decoder_pyramid_channels=32, decoder_segmentation_channels=32),
    "linknet_focal": functools.partial(segmentation, "linknet", loss="focal"),
    "pspnet": functools.partial(segmentation, "pspnet", psp_out_channels=32),
    "deeplabv3": functools.partial(segmentation, "deeplabv3", decoder_channels=16),
    "deeplabv3plus": functools.partial(segmentation, "deeplabv3plus", decoder_channels=16, loss="jaccard"),
    "upernet": functools.partial(segmentation, "upernet", decoder_channels=16),
    "segformer": functools.partial(segmentation, "segformer", encoder="mit_b0", decoder_segmentation_channels=16),
    "unet_efficientnet": functools.partial(
        segmentation, "unet", encoder="efficientnet-b0", decoder_channels=(32, 16, 16, 8, 8)
    ),
}
