# SPDX-License-Identifier: Apache-2.0
"""Families of Hugging Face that see or hear."""

from packages.family import families

SOUND = """
    data2vec-audio hubert sew sew-d speecht5 unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm whisper
"""

IMAGES = """
    beit convnext convnextv2 cvt data2vec-vision dinov2 dinov2_with_registers donut-swin focalnet hiera ijepa
    mobilenet_v1 mobilenet_v2 poolformer pvt pvt_v2 regnet resnet segformer swiftformer swin swinv2 vit vit_msn
"""

IMAGES_WITH_TEXT = """
    altclip blip chinese_clip clip clipseg git metaclip_2 siglip tipsv2
"""

MODELS = families(SOUND) | families(IMAGES) | families(IMAGES_WITH_TEXT)
