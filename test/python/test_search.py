# SPDX-License-Identifier: Apache-2.0
"""The search from Python: what it finds is a plan that runs, as large as it says."""

import gpt
import pytest
import weft
from lockstep import Step
from weft import _weft


@pytest.fixture
def cluster(root):
    return root / "examples" / "clusters" / "two_cores.cluster"


def test_what_is_found_is_exact(cluster):
    step = Step(*gpt.tiny())
    found = weft.plan(step.graph, cluster, forbid=["pipeline"])
    assert found["is_simulated"]
    assert found["peak_bytes"] <= found["budget_bytes"]
    worst = step.difference(found["plan"])
    assert worst["loss"] < 1e-6
    assert worst["gradient"] < 1e-5


def test_what_is_not_possible_says_what_is(cluster):
    step = Step(*gpt.tiny())
    with pytest.raises(weft.UserError, match="the least that any plan needs is"):
        weft.plan(step.graph, cluster, max_bytes=1000)
    with pytest.raises(weft.UserError, match="sizes must multiply to one of 1, 2"):
        weft.plan(step.graph, cluster, fix=["tensor=3"])


def test_a_policy_has_a_name():
    step = Step(*gpt.tiny())
    with pytest.raises(weft.UserError, match="no policy is called most"):
        _weft.set_recompute(step.graph, _weft.expand(step.graph, ""), "most")
