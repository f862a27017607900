# SPDX-License-Identifier: Apache-2.0
"""Fails when a key of a profile's JSON is not in the document: documented.py JSON PAGE."""

import json
import pathlib
import sys


def keys(value):
    """All names in the JSON, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


profile = json.loads(pathlib.Path(sys.argv[1]).read_text())
page = pathlib.Path(sys.argv[2]).read_text()
missing = sorted({key for key in keys(profile) if f"`{key}`" not in page})
if missing:
    sys.exit(f"{sys.argv[2]} does not define: {', '.join(missing)}")
