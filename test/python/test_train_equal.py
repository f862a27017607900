# SPDX-License-Identifier: Apache-2.0
"""20 steps by Weft are 20 steps by eager PyTorch: every loss, parameter, buffer and optimizer state.

One rank: the same bits, with one thread and without dropout (whose random
numbers are others). Several ranks: the step of one rank on the full batch up to
the order of sums. How far apart two tensors are is the norm of their difference
over the norm of the one rank's, for each tensor by itself.
"""

import pytest
import torch
from training import EXAMPLES, train_eager, train_on_ranks, train_weft

TOLERANCE = 1e-6
# In f32 the parameters of these are further apart than that after 20 steps: up to 5e-6 was seen. It is rounding
# that the steps amplify, not another step: test_the_difference_is_rounding holds for them too.
AMPLIFIED = {"gpt": 1e-5, "llama": 1e-5, "resnet": 1e-5, "moe": 1e-5}


@pytest.mark.parametrize("example", EXAMPLES)
def test_one_rank_has_the_bits_of_eager(example):
    losses, expected = train_eager(example)
    ours, tensors, _ = train_weft(example)
    assert ours == losses
    assert tensors.keys() == expected.keys()
    different = [name for name in expected if not torch.equal(tensors[name], expected[name])]
    assert not different


# Splitting the batch is not lowered yet for mse_loss_backward (cosmoflow) and mkldnn_rnn_layer (lstm).
SPLIT = [example for example in EXAMPLES if example not in ("cosmoflow", "lstm")]


def splits(example, ranks):
    # One sample a rank gives T5's attention bias strides that the program does not expect.
    return example != "t5" or ranks == 2


def distance(ours, theirs):
    if torch.equal(ours, theirs):
        return 0.0
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


def comparable(tensors):
    """Parameters and buffers, without the biases of keys.

    Attention does not depend on them, so their gradient is rounding alone, of
    which Adam makes steps of full size.
    """
    kept = {}
    for name, tensor in tensors.items():
        if name.startswith("state/") or name.endswith("key.bias"):
            continue
        if name.endswith("qkv.bias"):
            query, _, value = tensor.chunk(3)
            tensor = torch.cat([query, value])
        kept[name] = tensor
    return kept


def worst(ours, theirs):
    """How far apart the two are at most, and where."""
    ours, theirs = comparable(ours), comparable(theirs)
    assert ours.keys() == theirs.keys()
    return max((distance(ours[name], theirs[name]), name) for name in theirs)


@pytest.fixture(scope="module", params=[2, 4])
def on_ranks(request, tmp_path_factory):
    """What one and several ranks come to, by (example, options)."""
    jobs = [(example, {"double": double}) for example in SPLIT for double in (False, True)]
    jobs.append(("gpt", {"dropout": 0.1}))
    jobs = [job for job in jobs if splits(job[0], request.param)]
    torch.set_num_threads(1)
    several = train_on_ranks(request.param, tmp_path_factory.mktemp("ranks"), jobs)
    return request.param, {str(job): (several[i], train_weft(job[0], **job[1])[:2]) for i, job in enumerate(jobs)}


def compare(on_ranks, example, tolerance, **options):
    ranks, results = on_ranks
    if not splits(example, ranks):
        pytest.skip("not lowered yet for one sample a rank")
    several, (losses, tensors) = results[str((example, options))]
    for other in several[1:]:
        assert other[0] == several[0][0]
        assert all(torch.equal(tensor, several[0][1][name]) for name, tensor in other[1].items())
    furthest, where = worst(several[0][1], tensors)
    print(f"{example} on {ranks} ranks: {furthest:.1e} at {where}")
    assert several[0][0] == pytest.approx(losses, rel=min(tolerance, TOLERANCE))
    assert furthest < tolerance, where


@pytest.mark.parametrize("example", SPLIT)
def test_ranks_equal_one(on_ranks, example):
    compare(on_ranks, example, AMPLIFIED.get(example, TOLERANCE), double=False)


@pytest.mark.parametrize("example", SPLIT)
def test_the_difference_is_rounding(on_ranks, example):
    """In f64 it falls by as much as rounding does."""
    compare(on_ranks, example, 1e-12, double=True)


def test_dropout_is_the_same_on_any_number_of_ranks(on_ranks):
    compare(on_ranks, "gpt", AMPLIFIED["gpt"], dropout=0.1)
