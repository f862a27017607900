# SPDX-License-Identifier: Apache-2.0
"""Image models of timm, at their smallest."""

import functools

import torch
from zoo import Classification

# Of each family the smallest; sizes that it cannot do with are given with it.
NAMES = {
    "resnet10t": {},
    "resnext26ts": {},
    "convnext_atto": {},
    "convnextv2_atto": {},
    "efficientnet_b0": {},
    "mobilenetv2_035": {},
    "mobilenetv3_small_050": {},
    "mobilenetv4_conv_small_035": {},
    "mnasnet_small": {},
    "ghostnet_050": {},
    "regnetx_002": {},
    "regnety_002": {},
    "densenet121": {"growth_rate": 8, "block_config": (2, 2, 2, 2)},
    "dla46_c": {},
    "hardcorenas_a": {},
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "beit_base_patch16_224": {"img_size": 64, "depth": 2, "embed_dim": 48, "num_heads": 4},
    "cait_xxs24_224": {"img_size": 64, "depth": 2, "embed_dim": 48, "num_heads": 4},
    "swin_tiny_patch4_window7_224": {
        "img_size": 64,
        "embed_dim": 24,
        "depths": (2, 2),
        "num_heads": (2, 4),
        "window_size": 4,
    },
    "swinv2_tiny_window8_256": {
        "img_size": 64,
        "embed_dim": 24,
        "depths": (2, 2),
        "num_heads": (2, 4),
        "window_size": 4,
    },
    "xcit_nano_12_p16_224": {"img_size": 64, "depth": 2},
    "levit_128s": {"img_size": 64},
    "mobilevit_xxs": {"size": 128},
    "mobilevitv2_050": {"size": 128},
    "edgenext_xx_small": {"size": 128},
    "pit_ti_224": {"img_size": 64},
    "twins_svt_small": {"img_size": 64, "embed_dims": (16, 32, 48, 64), "depths": (1, 1, 1, 2)},
    "fastvit_t8": {},
    "repvit_m0_9": {},
    "efficientvit_b0": {},
    "davit_tiny": {"embed_dims": (16, 32, 48, 64), "depths": (1, 1, 1, 1), "num_heads": (2, 4, 4, 4), "size": 64},
    "inception_next_atto": {},
    "starnet_s050": {},
    "eva02_tiny_patch14_224": {"img_size": 56, "depth": 2},
    "visformer_tiny": {"img_size": 64},
    "tnt_s_patch16_224": {"img_size": 64, "depth": 2},
    "rexnet_100": {},
    "ese_vovnet19b_slim_dw": {},
    "gcresnext26ts": {},
    "pvt_v2_b0": {},
    "mambaout_femto": {},
    "shvit_s1": {},
    "swiftformer_xs": {},
}


def image_model(name, size=64, **options):
    import timm

    size = options["img_size"] if isinstance(options.get("img_size"), int) else size
    model = timm.create_model(name, num_classes=10, **options)
    return Classification(model), (torch.randn(4, 3, size, size), torch.randint(10, (4,)))


MODELS = {name: functools.partial(image_model, name, **options) for name, options in NAMES.items()}
