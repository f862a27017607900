# SPDX-License-Identifier: Apache-2.0
"""The Python door to profile."""

import json

from weft import _weft


def profile(graph):
    """What the step costs, as the dictionary that `weft profile --json` prints."""
    return json.loads(_weft.profile_json(graph))
