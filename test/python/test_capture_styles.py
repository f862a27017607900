# SPDX-License-Identifier: Apache-2.0
"""Modules and functions of torch that models use now and then: each gives eager PyTorch's bits, or is refused by name."""

import warnings

import pytest
import torch
import torch.nn.functional as F
import weft
from planned import Planned
from replaying import assert_bit_equal
from torch import nn


class Loss(nn.Module):
    """The square of what a module gives."""

    def __init__(self, *modules):
        super().__init__()
        self.net = nn.Sequential(*modules)

    def forward(self, x):
        return self.net(x).square().mean()


def step(make, *batch):
    def build():
        torch.manual_seed(0)
        return make(), tuple(one() for one in batch)

    return Planned(build)


def numbers(*shape):
    return lambda: torch.randn(*shape)


def check_bits(planned):
    ours = planned.on_one_rank()
    assert_bit_equal("loss", ours[("loss", "")].reshape(planned.loss.shape), planned.loss)
    assert {key for kind, key in ours if kind == "gradient"} == set(planned.gradients)
    for name, gradient in planned.gradients.items():
        assert_bit_equal(name, ours[("gradient", name)], gradient)
    for (kind, name), value in ours.items():
        if kind == "buffer":
            assert_bit_equal(name, value, planned.buffers[name])


def check_plans(planned, *plans):
    for words in plans:
        loss, gradient = planned.difference(planned.under(words))
        assert loss < 1e-6 and gradient < 1e-5, (words, loss, gradient)


def old_spectral_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nn.utils.spectral_norm(nn.Linear(8, 4))


@pytest.mark.parametrize(
    "make", [old_spectral_norm, lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))]
)
def test_spectral_norm(make):
    planned = step(lambda: Loss(make()), numbers(4, 8))
    check_bits(planned)
    assert any(kind == "buffer" for kind, _ in planned.graph.outputs("step"))
    check_plans(planned, "data=2", "micro-batches=2")


class Out(nn.Module):
    """Writes into what it has, by `out`: a part, another element type, another order of dims."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("seen", torch.zeros(4, 6))

    def forward(self, x):
        with torch.no_grad():
            torch.mul(x, 2, out=self.seen)
            torch.add(x[:2], 1.0, out=self.seen[2:])
            torch.mm(x, x.t(), out=(scratch := torch.empty(4, 4)))
            wide = torch.zeros(6, 4, dtype=torch.float64).t()
            torch.sub(x, 0.5, out=wide)
            values, order = torch.empty(4), torch.empty(4, dtype=torch.int64)
            torch.max(x, 1, out=(values, order))
        return (
            (self.w * self.seen).sum() + (self.w * wide.float()).sum() + (scratch.sum() + values.sum()) * self.w.sum()
        )


def test_results_written_into_out():
    check_bits(step(Out, numbers(4, 6)))


def test_out_of_another_shape_is_refused():
    class Wrong(Out):
        def forward(self, x):
            with torch.no_grad():
                torch.mul(x, 2, out=(y := torch.empty(3)))
            return (self.w * y.sum()).sum()

    with pytest.raises(weft.UserError, match="`out` is f32\\[3\\] and the result f32\\[4, 6\\]"):
        step(Wrong, numbers(4, 6))


IN_PLACE = [
    lambda x, y: x.pow_(2),
    lambda x, y: x.abs_().pow_(y),
    lambda x, y: x.pow_(torch.tensor(3.0)),
    lambda x, y: x.div_(y, rounding_mode="floor"),
    lambda x, y: x.remainder_(0.5),
    lambda x, y: x.gt_(0.1),
    lambda x, y: x.eq_(y),
    lambda x, y: x.logical_not_(),
    lambda x, y: x.lerp_(y, 0.25),
    lambda x, y: x.atan2_(y),
    lambda x, y: x.t().cumsum_(0),
    lambda x, y: x.bernoulli_(0.0),
    lambda x, y: x.squeeze_().unsqueeze_(0).clamp_(max=0.5),
    lambda x, y: x.transpose_(0, 1).sub_(1.5),
    lambda x, y: torch._foreach_mul_([x[0], x[1]], 3.0),
    lambda x, y: x.nan_to_num_().relu_(),
    lambda x, y: x.floor_divide_(0.3),
    lambda x, y: x.fill_diagonal_(2.0),
    lambda x, y: x.index_fill_(0, torch.tensor([1]), 0.5),
    lambda x, y: x.masked_scatter_(torch.ones(4, 6, dtype=torch.bool), y),
    lambda x, y: x.put_(torch.tensor([3, 4]), torch.tensor([1.0, 2.0])),
    lambda x, y: x.swapaxes_(0, 1).mul_(2),
    lambda x, y: x.data.add_(1),
    lambda x, y: x.addmm_(y, torch.ones(6, 6)),
]


@pytest.mark.parametrize("write", IN_PLACE)
def test_writes_in_place_under_no_grad(write):
    class Changed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 6))

        def forward(self, x, y):
            with torch.no_grad():
                changed = x.clone()
                write(changed, y)
            return (self.w * changed.reshape(-1)[:24].reshape(4, 6)).sum()

    check_bits(step(Changed, numbers(4, 6), lambda: torch.rand(4, 6) + 0.5))


class Empty(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        total = (x * self.w).sum()
        for row in (x * self.w)[:0]:
            total = total + row.sum()
        for part in (x * self.w)[:0].split(2):
            total = total + part.sum()
        return total


def test_a_loop_over_nothing():
    check_bits(step(Empty, numbers(4, 6)))


@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.InstanceNorm2d(4),
        lambda: nn.InstanceNorm2d(4, affine=True),
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        lambda: nn.GroupNorm(2, 4),
    ],
)
def test_norms_of_samples(norm):
    planned = step(
        lambda: Loss(nn.Conv2d(3, 4, 3, bias=False), norm(), nn.ReLU(), nn.Conv2d(4, 4, 3)), numbers(4, 3, 8, 8)
    )
    check_bits(planned)
    check_plans(planned, "data=2", "data=4", "micro-batches=2", "spatial=2")


class TurnedNorm(nn.Module):
    """A group norm of channels that lie last in memory, on pieces of any dim."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(6, 8)
        self.norm = nn.GroupNorm(2, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        h = self.norm(self.into(x).transpose(1, 2))
        return self.out(h.transpose(1, 2)[:, ::2]).square().mean()


def test_a_group_norm_of_what_is_not_contiguous():
    planned = step(TurnedNorm, numbers(4, 8, 6))
    check_bits(planned)
    check_plans(planned, "data=2", "micro-batches=2", "data=2,micro-batches=2", "context=2")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_weights_and_smoothing(smoothing, reduction):
    class Classes(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 5)
            self.register_buffer("weight", torch.rand(5) + 0.5)

        def forward(self, x, y):
            loss = F.cross_entropy(self.head(x), y, self.weight, label_smoothing=smoothing, reduction=reduction)
            return loss.mean()

    check_bits(step(Classes, numbers(8, 6), lambda: torch.tensor([0, 4, 1, 2, 3, 1, 2, 0])))
    planned = step(Classes, numbers(8, 6), lambda: torch.tensor([0, 4, -100, 2, 3, 1, -100, 0]))
    # Eager PyTorch leaves out the weights of labels that are passed over before it adds up the others.
    loss, gradient = planned.difference(planned.on_one_rank())
    assert loss < 1e-6 and gradient < 1e-6
    check_plans(planned, "data=2", "data=4", "micro-batches=2")


class Quantized(nn.Module):
    def __init__(self, learned):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.scale = nn.Parameter(torch.full((4,), 0.1), requires_grad=learned)
        self.register_buffer("zero", torch.zeros(4) if learned else torch.zeros(4, dtype=torch.int32))
        self.learned = learned

    def forward(self, x):
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
        if self.learned:
            w = torch._fake_quantize_learnable_per_channel_affine(self.w, self.scale, self.zero, 0, -128, 127, 1.0)
        else:
            w = torch.fake_quantize_per_channel_affine(self.w, self.scale, self.zero, 0, -128, 127)
        return (x @ w.t()).square().mean()


@pytest.mark.parametrize("learned", [False, True])
def test_fake_quantize(learned):
    planned = step(lambda: Quantized(learned), numbers(4, 6))
    check_bits(planned)
    check_plans(planned, "data=2", "micro-batches=2")


def test_quantization_aware_training():
    from torch.ao.quantization import FakeQuantize

    planned = step(lambda: Loss(nn.Linear(6, 4), FakeQuantize(), nn.Linear(4, 4)), numbers(4, 6))
    check_bits(planned)


def test_a_lazy_module_after_its_first_forward():
    def lazy():
        model = Loss(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(3))
        model(torch.randn(2, 6))
        return model

    check_bits(step(lazy, numbers(4, 6)))


def test_a_lazy_module_before_its_first_forward_is_refused():
    with pytest.raises(weft.UserError, match="lazy"):
        weft.capture(Loss(nn.LazyLinear(4)), (torch.randn(4, 6),))


def test_a_model_on_the_meta_device_is_refused():
    with torch.device("meta"):
        model = Loss(nn.Linear(6, 4))
    with pytest.raises(weft.UserError, match="on the meta device and has no values.*weft.capture_function"):
        weft.capture(model, (torch.randn(4, 6),))


def test_a_function_that_builds_on_the_meta_device_is_captured():
    def build():
        with torch.device("meta"):
            return Loss(nn.Linear(6, 4)), (torch.randn(4, 6),)

    graph = weft.capture_function(build).graph
    assert "aten.addmm" in str(graph)


class Words(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(10, 4, **options)

    def forward(self, x):
        return self.table(x).square().mean()


def test_sparse_gradients_are_refused():
    with pytest.raises(
        weft.UserError, match="aten.embedding in module table: its gradient is to be sparse.*sparse=False"
    ):
        weft.capture(Words(sparse=True), (torch.tensor([1, 2, 3]),))


def test_sparse_tensors_are_refused():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 6))
            self.register_buffer("near", torch.eye(4).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.near, x * self.w).sum()

    with pytest.raises(weft.UserError, match="layout Sparse.*to_dense"):
        weft.capture(Graph(), (torch.randn(4, 6),))


def test_a_write_into_one_place_under_several_indices_is_refused():
    class Expanded(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(6))

        def forward(self, x):
            rows = torch.zeros(6).expand(4, 6)
            rows.masked_fill_(torch.ones(4, 6, dtype=torch.bool), 1.0)
            return (x * rows * self.w).sum()

    with pytest.raises(weft.UserError, match="several elements are one place in memory.*clone"):
        weft.capture(Expanded(), (torch.randn(4, 6),))


class Counted(nn.Module):
    """Statistics of a router: their shapes do not depend on the data."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        scores = (x @ self.w).softmax(-1)
        best = scores.argmax(-1)
        counts = torch.bincount(best, minlength=4)
        weighted = torch.bincount(best, weights=scores.detach().amax(-1), minlength=4)
        share = F.one_hot(best, num_classes=4).float().mean(0)
        return (share * scores.mean(0)).sum() * 4 + (counts * scores.mean(0)).sum() + (weighted * scores.sum(0)).sum()


def test_counts_of_a_stated_size():
    planned = step(Counted, numbers(8, 6))
    check_bits(planned)
    assert "weft.guard" not in str(planned.graph)
    check_plans(planned, "data=2", "micro-batches=2")


@pytest.mark.parametrize("write", ["index_add", "scatter_add"])
def test_what_a_batch_adds_up_by_index_is_of_the_whole_batch(write):
    """Micro-batches wait for each other where a product follows."""

    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(6, 4))

        def forward(self, x):
            scores = (x @ self.w).softmax(-1)
            best, where = scores.max(-1)
            return (getattr(torch.zeros(4), write)(0, where, best) * scores.mean(0)).sum()

    planned = step(Shares, numbers(8, 6))
    check_bits(planned)
    check_plans(planned, "data=2", "micro-batches=2", "micro-batches=4", "data=2,micro-batches=2")


class Grouped(nn.Module):
    """A mixture of experts by grouped matmul."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.up = nn.Parameter(torch.randn(4, 16, 32) / 4)
        self.down = nn.Parameter(torch.randn(4, 16, 32) / 4)

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        weight, expert = scores.max(-1)
        order = expert.argsort(stable=True)
        ends = torch.cumsum(F.one_hot(expert, 4).sum(0), 0, dtype=torch.int32)
        h = torch._grouped_mm(x[order], self.up, offs=ends)
        y = torch._grouped_mm(h.relu(), self.down.transpose(1, 2), offs=ends)
        return (torch.zeros_like(x).index_copy(0, order, y) * weight[:, None]).square().mean()


def test_grouped_matmul():
    planned = step(Grouped, numbers(8, 16))
    check_bits(planned)
    check_plans(planned, "data=2", "data=2,zero=3", "data=2,micro-batches=3")


FACTORIES = [
    lambda out: torch.eye(6, 6, out=out),
    lambda out: torch.eye(6, out=out),
    lambda out: torch.zeros(6, 6, out=out),
    lambda out: torch.ones(6, 6, out=out),
    lambda out: torch.full((6, 6), 2.0, out=out),
    lambda out: torch.arange(6, out=out[0].clone()),
    lambda out: torch.arange(1, 4, 0.5, out=out[0].clone()),
    lambda out: torch.linspace(0, 1, 6, out=out[0].clone()),
    lambda out: torch.logspace(0, 1, 6, out=out[0].clone()),
    lambda out: torch.zeros(6, out=out[0]) + out,
    lambda out: torch.ones(6, 6, out=out.t())[:, :1] * out,
]


class Written(nn.Module):
    """Has a tensor filled that it has made itself."""

    def __init__(self, fill):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.fill = fill

    def forward(self, x):
        return (self.linear(x) @ (self.fill(torch.full((6, 6), 0.5)) + torch.eye(6))).square().mean()


@pytest.mark.parametrize("fill", FACTORIES)
def test_new_values_may_be_written_into_a_tensor_that_is_there(fill):
    planned = step(lambda: Written(fill), numbers(4, 6))
    check_bits(planned)
    check_plans(planned, "micro-batches=2", "data=2")


class MadeLike(nn.Module):
    """Makes tensors of another one's element type, as DeepSeek's attention makes its queries and keys."""

    def __init__(self, make):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)
        self.make = make

    def forward(self, x):
        h = self.first(x).relu()
        made = self.make(h, h.shape)
        made[:, :3] = h[:, :3]
        made[:, 3:] = h[:, 3:].sigmoid()
        return self.last(made).square().mean()


MADE_LIKE = {
    "new_empty": lambda h, sizes: h.new_empty(sizes),
    "new_zeros": lambda h, sizes: h.new_zeros(sizes),
    "new_ones": lambda h, sizes: h.new_ones(sizes, dtype=torch.float32),
    "new_full": lambda h, sizes: h.new_full(sizes, 0.5),
    "new_empty_strided": lambda h, sizes: h.new_empty_strided(sizes, h.stride()),
}


@pytest.mark.parametrize("make", MADE_LIKE.values(), ids=MADE_LIKE)
def test_no_rank_gathers_a_tensor_for_its_element_type(make):
    planned = step(lambda: MadeLike(make), numbers(4, 5, 6))
    assert "aten.new_" not in str(planned.graph)
    check_bits(planned)
    check_plans(planned, "data=2", "tensor=2", "micro-batches=2")
    program = weft._weft.lower(planned.graph, weft._weft.expand(planned.graph, "data=2"))
    assert "all_gather" not in str(program)


def test_random_numbers_may_be_written_into_a_tensor_that_is_there():
    check_bits(step(lambda: Written(lambda out: torch.rand(6, 6, out=out) * 0), numbers(4, 6)))
    check_bits(step(lambda: Written(lambda out: torch.normal(0.0, 1.0, (6, 6), out=out) * 0), numbers(4, 6)))


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.cache = torch.zeros(4, 6)

    def forward(self, x):
        torch.add(self.cache, x, out=self.cache)
        return (self.linear(x) * self.cache).square().mean()


def test_out_is_a_write_as_any_other():
    with pytest.raises(weft.UserError, match=r"neither a parameter nor a buffer.*The tensor is model.cache"):
        weft.capture(Cache(), (torch.randn(4, 6),))


class Power(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return (torch.complex(self.linear(x), x) * torch.full((6,), 1 + 2j)).abs().mean()


def test_what_a_call_refuses_is_a_mistake_of_the_script_and_has_its_line():
    with pytest.raises(weft.UserError, match=r"(?s)complex numbers as arguments are not supported.*in forward: return"):
        weft.capture(Power(), (torch.randn(4, 6),))


def test_observers_that_are_fused_with_what_they_observe():
    check_bits(step(lambda: Loss(nn.Linear(6, 6), torch.ao.quantization.default_fused_act_fake_quant()), numbers(4, 6)))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return self.linear(torch.sparse.mm(x.to_sparse(), torch.eye(6))).square().mean()


def test_a_sparse_tensor_that_a_model_makes_is_refused_by_name():
    with pytest.raises(weft.UserError, match=r"(?s)a tensor of layout Sparse.*to_dense.*in forward: return"):
        weft.capture(Sparse(), (torch.randn(4, 6),))


class WeightedBags(nn.Module):
    """Bags of rows with a weight each, of which PyTorch's kernels give an empty list of indices."""

    def __init__(self):
        super().__init__()
        self.rows = nn.EmbeddingBag(20, 8, mode="sum")
        self.weights = nn.Parameter(torch.randn(6, 4))

    def forward(self, indices):
        return self.rows(indices, per_sample_weights=self.weights).sin().sum()


def test_bags_with_a_weight_for_each_row():
    planned = step(WeightedBags, lambda: torch.randint(0, 20, (6, 4)))
    check_bits(planned)
    check_plans(planned, "data=2", "data=2,zero=3", "data=2,micro-batches=3")
