# SPDX-License-Identifier: Apache-2.0
"""Every plan that is found keeps to its budget when it runs: each rank uses the bytes that were predicted for it, and
no more than it may.
"""

import pytest
import weft
from fitting import MODELS, captured, make, run_on_ranks
from training import loss_of

# Machines whose links favour one way or another, and what the search may use there.
LINKS = {"slow": 1e8, "fast": 1e10}
# Of what the best plan takes with all the memory that it wants.
SHARES = [1.0, 0.9, 0.8, 0.65, 0.5]
# On more ranks the search has more to look at: words narrow it.
WORDS = {
    2: [[], ["pipeline=2"], ["data=2"]],
    4: [["tensor=2", "pipeline=2"], ["data=4"]],
    8: [["data=4", "tensor=2"], ["data=2", "pipeline=4"]],
}
# What must be among the plans that are found for so many ranks.
KINDS = {
    2: {"data", "tensor", "pipeline", "zero", "micro-batches", "recompute"},
    4: {"data", "tensor", "pipeline", "zero", "recompute"},
    8: {"data", "tensor", "pipeline", "zero", "recompute"},
}


def cluster_file(root, folder, ranks, link):
    text = (root / "examples" / "clusters" / "two_cores.cluster").read_text()
    text = text.replace("2 x core", f"{ranks} x core").replace("1.0e9", repr(LINKS[link]))
    path = folder / f"{ranks}_{link}.cluster"
    path.write_text(text)
    return path


def found_plans(graph, cluster, words, shares):
    """Different plans that were simulated, each within its budget; as many as there are."""
    roomy = weft.plan(graph, cluster, fix=words, keep_gradients=True)
    found = {}
    for share in shares:
        budget = int(share * roomy["peak_bytes"])
        try:
            plan = weft.plan(graph, cluster, fix=words, max_bytes=budget, keep_gradients=True)
        except weft.UserError as error:
            assert "no plan fits" in str(error)
            break
        assert plan["is_simulated"]
        assert plan["peak_bytes"] <= plan["budget_bytes"] == budget
        found[plan["plan"]] = plan
    return list(found.values())


def kinds(found):
    """What the plan makes use of."""
    words = found["words"].split(",")
    names = {word.partition("=")[0] for word in words}
    return names | ({"recompute"} if "recompute" in found["plan"] else set())


def check(ranks, folder, cells):
    """Runs (model, found) on that many ranks."""
    results = run_on_ranks(ranks, folder, [(model, found["plan"]) for model, found in cells])
    expected = {}
    for (model, found), on_ranks in zip(cells, results, strict=True):
        if model not in expected:
            module, batch, _ = make(model)
            expected[model] = loss_of(module, batch).item()
        for loss, predicted, used, overflow in on_ranks:
            assert loss == pytest.approx(expected[model], rel=1e-5), (model, found["words"])
            assert overflow == 0, (model, found["words"])
            assert used == predicted, (model, found["words"])
        most = max(predicted for _, predicted, _, _ in on_ranks)
        assert most == found["peak_bytes"], (model, found["words"])
        assert most <= found["budget_bytes"], (model, found["words"])


def test_a_plan_keeps_to_its_budget(root, tmp_path):
    cluster = cluster_file(root, tmp_path, 2, "fast")
    cells = [("gpt", found) for found in found_plans(captured("gpt"), cluster, ["data=2"], [1.0, 0.8])]
    assert len(cells) == 2
    check(2, tmp_path / "runs", cells)


@pytest.mark.campaign
@pytest.mark.parametrize("ranks", WORDS)
def test_every_plan_keeps_to_its_budget(root, tmp_path, ranks):
    cells = []
    for number, model in enumerate(MODELS):
        graph = captured(model)
        cluster = cluster_file(root, tmp_path, ranks, ["slow", "fast"][number % 2])
        for words in WORDS[ranks]:
            cells += [(model, found) for found in found_plans(graph, cluster, words, SHARES)]
    for model, found in cells:
        print(model, found["words"], found["recompute"], found["peak_bytes"], "of", found["budget_bytes"])
    assert len(cells) >= 12
    assert {kind for _, found in cells for kind in kinds(found)} >= KINDS[ranks]
    check(ranks, tmp_path / "runs", cells)
