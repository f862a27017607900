# SPDX-License-Identifier: Apache-2.0
"""How a tiny model of any Hugging Face family is built, by examples/models/hugging_face.py."""

import functools


def family(architecture, **options):
    from hugging_face import build

    model, batch, _ = build(
        architecture, batch_size=4, **{"vocabulary": 96, "width": 32, "hidden": 64, "image": 32} | options
    )
    return model, batch


def families(names, **options):
    return {name: functools.partial(family, name, **options) for name in names.split()}
