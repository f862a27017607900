# SPDX-License-Identifier: Apache-2.0
"""Shapes that the batch decides: its elements are read, and the step is for these; other elements capture another."""

import os

import pytest
import torch
import torch.nn.functional as F
import weft
from planned import Planned
from test_capture_styles import check_bits, check_plans
from test_values import Net, check
from torch import nn

PLANS = ["data=2", "micro-batches=2", "data=2,zero=3", "pipeline=2,micro-batches=2", "tensor=2"]


class Convolution(nn.Module):
    """Of a graph: what comes along the edges, with every node's loop to itself once, weighted by degrees."""

    def __init__(self, width, out):
        super().__init__()
        self.project = nn.Linear(width, out)

    def forward(self, x, edges):
        edges = edges[:, edges[0] != edges[1]]
        loops = torch.arange(x.size(0))
        edges = torch.cat([edges, torch.stack([loops, loops])], 1)
        degrees = torch.zeros(x.size(0)).scatter_add(0, edges[1], torch.ones(edges.size(1)))
        weights = (degrees[edges[0]] * degrees[edges[1]]).rsqrt()
        h = self.project(x)
        return torch.zeros_like(h).index_add(0, edges[1], h[edges[0]] * weights[:, None])


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Convolution(6, 8)
        self.second = Convolution(8, 4)

    def forward(self, x, edges, labels, trained):
        os.write(1, b"ran\n")
        h = self.second(self.first(x, edges).relu(), edges)
        return F.cross_entropy(h[trained], labels[trained])


def graph_batch(loops=3):
    edges = torch.randint(0, 8, (2, 20))
    edges[:, :loops] = 2
    return torch.randn(8, 6), edges, torch.randint(0, 4, (8,)), torch.tensor([1, 0, 1, 1, 1, 0, 0, 1]) > 0


def graph_net():
    torch.manual_seed(0)
    return GraphNet(), graph_batch()


def test_a_graph_convolution_is_eager_s_on_one_rank_and_under_plans():
    planned = Planned(graph_net)
    check_bits(planned)
    check_plans(planned, *PLANS)


def test_a_graph_that_stays_is_captured_once(capfd):
    (eager, batch), (ours, _) = graph_net(), graph_net()
    theirs = torch.optim.Adam(eager.parameters(), 0.01)
    trainer = weft.parallelize(ours, torch.optim.Adam(ours.parameters(), 0.01), batch)
    trainer.step(batch)
    loss = eager(*batch)
    loss.backward()
    theirs.step()
    capfd.readouterr()
    for _ in range(5):
        theirs.zero_grad()
        loss = eager(*batch)
        loss.backward()
        theirs.step()
        assert trainer.step(batch) == loss.item()
    told = capfd.readouterr()
    # Eager's own.
    assert told.out.count("ran\n") == 5
    assert told.err == ""


def test_labels_and_features_may_change_where_the_graph_stays(capfd):
    (eager, batch), (ours, _) = graph_net(), graph_net()
    trainer = weft.parallelize(ours, torch.optim.SGD(ours.parameters(), 0.0), batch)
    for _ in range(3):
        x, _, labels, _ = graph_batch()
        other = (x, batch[1], labels, torch.rand(8) > 0.3)
        assert trainer.step(other) == pytest.approx(eager(*other).item(), rel=1e-6)
    assert "captured again" not in capfd.readouterr().err


def test_another_graph_is_captured_once_and_kept(capfd):
    (eager, one), (ours, _) = graph_net(), graph_net()
    other = graph_batch(loops=5)
    trainer = weft.parallelize(ours, torch.optim.SGD(ours.parameters(), 0.0), one)
    for batch in (one, other, one, other):
        assert trainer.step(batch) == eager(*batch).item()
    told = capfd.readouterr().err
    assert told.count("captured again") == 1
    assert "edges[:, edges[0] != edges[1]]: the elements of this tensor decide a shape" in told


@pytest.mark.parametrize("words", PLANS)
@pytest.mark.parametrize("edge", [0, 19])
def test_another_graph_stops_a_step_under_every_plan(words, edge):
    planned = Planned(graph_net)
    at = planned.graph.inputs("step").index(("batch", "1"))
    edges = planned.inputs[at].clone()
    edges[1, edge] = (edges[0, edge] + 1) % 8 if edges[0, edge] == edges[1, edge] else edges[0, edge]
    planned.inputs[at] = edges
    with pytest.raises(weft.UserError, match="the elements of this tensor decide a shape"):
        planned.under(words)


class Selecting(nn.Module):
    def __init__(self, select):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8))
        self.select = select

    def forward(self, x, mask):
        return self.select(self.body(x), mask)


def sorted_rows(h, mask):
    return (h[mask].sort(0).values * torch.arange(5.0)[:, None]).sum()


def by_places(h, mask):
    return h[mask.nonzero()[:, 0]].cumsum(0).square().mean()


def by_where(h, mask):
    (places,) = torch.where(mask)
    return h[places].cumsum(0).square().mean()


def by_unique(h, mask):
    values, counts = (torch.arange(8) * mask).unique(return_counts=True)
    return (h[values] * counts[:, None]).cumsum(0).square().mean()


def by_repeats(h, mask):
    return h.repeat_interleave(mask.long() + 1, 0).cumsum(0).square().mean()


def selected_elements(h, mask):
    return h.masked_select(mask[:, None]).reshape(-1, 4).cumsum(0).square().mean()


def joined(h, mask):
    return torch.cat([h[mask], h[:2]]).cumsum(0).square().mean()


def written_into(h, mask):
    rows = h[mask]
    rows[1:3] = rows[0]
    rows.mul_(2)
    return rows.cumsum(0).square().mean()


def in_a_loop(h, mask):
    return sum((i + 1) * row.square().mean() for i, row in enumerate(h[mask]))


def only_tensors(h, mask):
    rows = h[mask]
    if not isinstance(rows, torch.Tensor):
        raise RuntimeError(f"unknown: {type(rows)}")
    return rows.square().mean()


def both_masks(h, mask):
    return h[mask, :][:, torch.arange(8) < 3].softmax(0).square().sum()


SELECTIONS = [
    sorted_rows,
    by_places,
    by_where,
    by_unique,
    by_repeats,
    selected_elements,
    joined,
    written_into,
    in_a_loop,
    only_tensors,
    both_masks,
]


@pytest.mark.parametrize("select", SELECTIONS)
def test_what_needs_the_rows_reads_the_mask(select):
    def build():
        torch.manual_seed(0)
        return Selecting(select), (torch.randn(8, 6), torch.tensor([1, 0, 1, 1, 0, 0, 1, 1]) > 0)

    planned = Planned(build)
    check_bits(planned)
    for words in PLANS:
        loss, gradient = planned.difference(planned.under(words))
        # The last bias has no gradient under a softmax, but for rounding.
        assert loss < 1e-6 and gradient < (1e-3 if select is both_masks else 1e-5), words


def sorted_by_mask(net, x):
    return net.body(x)[x[:, 0] > 0].sort(0).values.square().mean()


def test_masks_that_change_are_followed_for_some_steps():
    data = [torch.randn(8, 6) for _ in range(4)]
    check(sorted_by_mask, [*data, *data])


def test_masks_that_are_new_every_time_are_refused_after_some():
    torch.manual_seed(0)
    data = [torch.randn(32, 6) for _ in range(20)]
    net = Net(sorted_by_mask)
    trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), data[0])
    with pytest.raises(weft.UserError, match=r"test_read_shapes.py:\d+ in sorted_by_mask[\s\S]*captured 16 times"):
        for batch in data:
            trainer.step(batch)


def test_a_buffer_decides_too():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 8)
            self.register_buffer("kept", torch.tensor([1, 0, 1, 1, 0, 0, 1, 1]) > 0)

        def forward(self, x):
            return self.body(x)[:, self.kept].sort(0).values.square().mean()

    def build():
        torch.manual_seed(0)
        return Kept(), torch.randn(8, 6)

    check_bits(Planned(build))
