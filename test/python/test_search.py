# SPDX-License-Identifier: Apache-2.0
"""The search from Python: what it finds is a plan that runs, as large as it says."""

import json
import pathlib
import subprocess
import sys

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


def test_other_machines_and_their_price(cluster):
    step = Step(*gpt.tiny())
    changes = ["flops=8x,bandwidth=8x", "memory=0.00001x"]
    found = weft.plan(step.graph, cluster, forbid=["pipeline"], price=3.0, what_if=changes)
    assert found["price_per_hour"] == 2 * 3.0
    assert found["cost_per_step"] == pytest.approx(6.0 * found["step_seconds"] / 3600)
    tokens = found["tokens_per_second"] * found["step_seconds"]
    assert found["cost_per_million_tokens"] == pytest.approx(found["cost_per_step"] / tokens * 1e6)
    faster, smaller = found["what_if"]
    assert faster["change"] == "flops=8x,bandwidth=8x"
    assert faster["times_as_fast"] == pytest.approx(found["step_seconds"] / faster["step_seconds"])
    assert faster["times_as_fast"] > 1
    assert faster["cost_per_million_tokens"] < found["cost_per_million_tokens"]
    assert smaller["reason"].startswith("no plan fits 83.9 KiB a rank on @two_cores")
    assert "cost_per_step" not in weft.plan(step.graph, cluster, fix=["data=2", "zero=0", "recompute=none"])
    with pytest.raises(weft.UserError, match='a cluster has no "speed" to change; there are bandwidth'):
        weft.plan(step.graph, cluster, what_if="speed=2x")


def test_the_memory_of_a_rank_is_made_of_parts(cluster):
    found = weft.plan(Step(*gpt.tiny()).graph, cluster, fix=["pipeline=2", "micro-batches=2"])
    assert sum(found["memory"].values()) == found["peak_bytes"]
    ranks = [(each["first_rank"], each["last_rank"]) for each in found["rank_memory"]]
    assert ranks[0][0] == 0 and ranks[-1][1] == 1
    assert max(each["peak_bytes"] for each in found["rank_memory"]) == found["peak_bytes"]


def test_both_doors_give_the_same(cluster, tmp_path):
    step = Step(*gpt.tiny(), name="tiny")
    (tmp_path / "tiny.graph").write_text(str(step.graph))
    command = [pathlib.Path(sys.executable).parent / "weft", "plan", tmp_path / "tiny.graph", "--cluster", cluster]
    more = ["--json", "--price", "2.5", "--what-if", "bandwidth=2x", "--fix", "tensor=2", "--forbid", "pipeline"]
    done = subprocess.run([*command, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    given = {"price": 2.5, "what_if": ["bandwidth=2x"], "fix": ["tensor=2"], "forbid": ["pipeline"]}
    found = weft.plan(step.graph, cluster, **given)
    told = json.loads(done.stdout)
    for each in (found, told):
        del each["search_seconds"], each["seconds_by_stage"]
    assert told == found


def test_a_policy_has_a_name():
    step = Step(*gpt.tiny())
    with pytest.raises(weft.UserError, match="no policy is called most"):
        _weft.set_recompute(step.graph, _weft.expand(step.graph, ""), "most")
