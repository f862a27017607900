# SPDX-License-Identifier: Apache-2.0
"""Image and video models of torchvision."""

import functools

import torch
from zoo import Classification


def image_model(name, size=64, **options):
    import torchvision

    model = torchvision.models.get_model(name, weights=None, num_classes=10, **options)
    return Classification(model), (torch.randn(4, 3, size, size), torch.randint(10, (4,)))


def segmentation(name):
    import torchvision

    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    batch = (torch.randn(4, 3, 32, 32), torch.randint(5, (4, 32, 32)))
    return Classification(model, take=lambda output: output["out"]), batch


def vision_transformer():
    import torchvision

    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=10
    )
    return Classification(model), (torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))


def swin(version):
    import torchvision

    block = {1: None, 2: torchvision.models.swin_transformer.SwinTransformerBlockV2}[version]
    more = {"downsample_layer": torchvision.models.swin_transformer.PatchMergingV2} if version == 2 else {}
    model = torchvision.models.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=24,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=[4, 4],
        num_classes=10,
        stochastic_depth_prob=0.0,
        **({"block": block} | more if block else {}),
    )
    return Classification(model), (torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))


MODELS = {
    "resnet18": functools.partial(image_model, "resnet18"),
    "squeezenet1_1": functools.partial(image_model, "squeezenet1_1"),
    "mobilenet_v2": functools.partial(image_model, "mobilenet_v2"),
    "mobilenet_v3_small": functools.partial(image_model, "mobilenet_v3_small"),
    "shufflenet_v2_x0_5": functools.partial(image_model, "shufflenet_v2_x0_5"),
    "googlenet": functools.partial(image_model, "googlenet", aux_logits=False, init_weights=False),
    "vit": vision_transformer,
    "swin": functools.partial(swin, 1),
    "swin_v2": functools.partial(swin, 2),
    "lraspp_mobilenet_v3_large": functools.partial(segmentation, "lraspp_mobilenet_v3_large"),
}
