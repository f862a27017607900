# SPDX-License-Identifier: Apache-2.0
"""x[mask], where what is made of it has a shape that no data can change: as eager PyTorch, up to the order of sums."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import weft
from test_values import check


def batches(count=3):
    """Numbers, class numbers of which some are ignored, and a mask of rows."""
    torch.manual_seed(2)
    return [(torch.randn(8, 6), torch.randint(-1, 5, (8,)), torch.rand(8) > 0.4) for _ in range(count)]


def masked_mean(net, x, target, keep):
    return net.body(x)[keep].mean() + net.body(x).square()[x[:, :5] > 0].sum()


def masked_loss(net, x, target, keep):
    y = net.body(x)
    return F.cross_entropy(y[keep], target.clamp(min=0)[keep]) + F.cross_entropy(
        y[target != -1], target[target != -1], label_smoothing=0.1
    )


def head_of_rows(net, x, target, keep):
    logits = F.gelu(net.body(x[keep])) * 2 - 1
    return F.mse_loss(logits, x[keep][:, :5]) + F.l1_loss(logits, x[keep][:, 1:], reduction="sum")


def weighted(net, x, target, keep):
    loss = F.cross_entropy(net.body(x), target.clamp(min=0), reduction="none")
    weight = x[:, 0].abs()
    return (torch.masked_select(loss, keep) * weight.masked_select(keep)).sum() / weight[keep].sum()


def probabilities(net, x, target, keep):
    chosen = F.log_softmax(net.body(x)[keep], dim=-1)
    picked = chosen.gather(-1, target.clamp(min=0)[keep].unsqueeze(-1)).squeeze(-1)
    return -picked.mean() + F.binary_cross_entropy_with_logits(net.body(x)[keep], torch.sigmoid(x[keep, 1:]))


def written(net, x, target, keep):
    y = net.body(x) * 1
    y[keep] = 0.5
    y[~keep] += net.body.bias
    z = net.body(x) * 1
    z[keep] = y[keep]
    z[keep] *= 3
    z[~keep] = net.body.bias
    return (y + z).square().mean()


def counted(net, x, target, keep):
    rows = net.body(x)[keep]
    return rows.square().sum() / rows.shape[0] + rows.sum() / rows.numel() + rows.sum() / len(x)


def narrowed(net, x, target, keep):
    rows = net.body(x)[keep]
    first = rows[:, 0]
    return first[first > 0].sum() + rows.amax(-1).mean() + rows.max() + rows.view(-1, 5).mean(0).square().sum()


def normed(net, x, target, keep):
    rows = F.layer_norm(net.body(x)[keep], (5,))
    return (rows @ net.body.weight).square().mean() + rows.abs().log().clamp(min=-3).mean()


MASKED = [
    masked_mean,
    masked_loss,
    head_of_rows,
    weighted,
    probabilities,
    written,
    counted,
    narrowed,
    normed,
]


@pytest.mark.parametrize("forward", MASKED)
def test_rows_of_a_mask_are_reduced_and_written_as_eager_does(forward):
    # Sums run over all rows, those that are left out as zeros, so they are added up in another order.
    check(forward, batches(), tolerance=2e-6)


def test_what_the_mask_leaves_out_may_be_anything():
    torch.manual_seed(4)
    x = torch.randn(8, 6)
    x[1], x[5, 2] = float("nan"), float("inf")

    def clean(net, x):
        finite = x.isfinite().all(1)
        kept = net.body(x[finite])
        return kept.square().mean() + ((x[finite] * net.body.weight[0]).exp() - 1).abs().sqrt().mean()

    check(clean, [x, x.flip(0)], tolerance=2e-6)


def test_an_empty_mask_gives_what_eager_gives():
    def forward(net, x):
        return net.body(x)[x[:, 0] > 100].sum() + net.body(x).square().mean()

    check(forward, [torch.randn(8, 6)], tolerance=2e-6)


def test_a_mask_of_known_values_is_an_index():
    def forward(net, x):
        upper = torch.ones(8, 5).triu().bool()
        return net.body(x)[upper].sort().values.square().mean()

    check(forward, [torch.randn(8, 6)])


def sorts(net, x):
    return net.body(x)[net.body(x)[:, 0] > 0].sort(0).values.mean()


def unlike(net, x):
    return (net.body(x)[net.body(x)[:, 0] > 0] + x[x[:, 1] > 0][:, :5]).sum()


def by_number(net, x):
    return net.body(x)[torch.nonzero(net.body(x)[:, 0] > 0).flatten()].sum()


def second(net, x):
    return net.body(x)[:, net.body.bias > 0].sum()


def drawn(net, x):
    return net.body(x)[torch.rand(8) > 0.5].sort(0).values.mean()


def changed(net, x):
    mask = x[:, 0] > 0
    rows = net.body(x)[mask]
    mask[0] = False
    return rows.sum()


@pytest.mark.parametrize(
    "forward, said",
    [
        (sorts, "`sort` needs it"),
        (unlike, "masks that may differ"),
        (by_number, "aten.nonzero"),
        (second, "an index with it needs it"),
        (drawn, "`sort` needs it"),
        (changed, "mask was written to"),
    ],
)
def test_the_rest_is_refused_with_its_line(forward, said):
    from test_values import Net

    with pytest.raises(weft.UserError, match=said) as refusal:
        weft.capture(Net(forward), torch.randn(8, 6))
    assert f"test_masks.py:{forward.__code__.co_firstlineno + 1}" in str(refusal.value) or forward is changed
    assert f"in {forward.__name__}: " in str(refusal.value)
