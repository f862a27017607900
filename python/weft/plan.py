# SPDX-License-Identifier: Apache-2.0
"""The Python door to the search."""

import json

from weft import _weft


def plan(
    graph,
    cluster,
    *,
    fix=(),
    forbid=(),
    max_bytes=None,
    time_limit_seconds=None,
    price=None,
    what_if=(),
    keep_gradients=False,
):
    """The fastest plan for the graph's batch on a cluster (its name or file) that fits, as the dictionary that
    `weft plan --json` prints: its text is under "plan".

    `fix` and `forbid` are lists of words, as in ["tensor=8"] and ["pipeline"]. With `price`, what an hour of one device
    costs, it has what tokens cost; with `what_if`, a list of changes as in ["bandwidth=2x", "memory=0.5x,nodes=2x"],
    what would be best on machines changed so. `keep_gradients` as for `parallelize`: the plan is for steps after which
    every rank has them.
    """
    found = _weft.search(
        graph,
        str(cluster),
        list(fix),
        list(forbid),
        max_bytes,
        time_limit_seconds,
        price,
        [what_if] if isinstance(what_if, str) else list(what_if),
        keep_gradients,
    )
    return json.loads(found)
