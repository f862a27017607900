# SPDX-License-Identifier: Apache-2.0
"""The Python door to the search."""

import json

from weft import _weft


def plan(graph, cluster, *, fix=(), forbid=(), max_bytes=None, time_limit_seconds=None):
    """The fastest plan for the graph's batch on a cluster (its name or file) that fits, as the dictionary that
    `weft plan --json` prints: its text is under "plan".
    """
    found = _weft.search(graph, str(cluster), list(fix), list(forbid), max_bytes, time_limit_seconds)
    return json.loads(found)
