# SPDX-License-Identifier: Apache-2.0
"""The captured step is the step: replayed, it gives eager PyTorch's bits."""

import importlib

import pytest
import torch
import torch.nn.functional as F
import weft
from replaying import check, check_init
from torch import nn
from torch.utils.checkpoint import checkpoint

EXAMPLES = ["gpt", "llama", "bert", "t5", "vit", "resnet", "unet3d", "cosmoflow", "moe", "lstm"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_replays_bit_equal(example):
    captured = check(importlib.import_module(example).tiny)
    assert not captured.real


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_initialised_as_by_pytorch(example):
    check_init(importlib.import_module(example).tiny)


def step_of(module, *batch, optimizer=None):
    """A model function from what builds a module and a batch."""

    def build():
        model = module()
        tensors = tuple(make() for make in batch)
        return (model, tensors) if optimizer is None else (model, tensors, optimizer(model))

    return build


def numbers(*shape):
    return lambda: torch.randn(*shape)


class Writes(nn.Module):
    """Writes into views, and reads what it wrote through others."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        y = x * self.scale
        out = torch.zeros(4, 6)
        out[1] = y[0]
        out[:, 2:4] += y[:, :2]
        row = out.t()[3]
        row.mul_(3)
        out.view(24)[5] = y[2, 2]
        first, second = out[:2], out[2:]
        second.copy_(first * 2)
        plain = torch.zeros(4, 6)
        upper, lower = plain.split(2)
        plain.add_(x)
        lower.mul_(upper)
        out.unsqueeze(0)[0, 0, 0] = 7.0
        picked = out.select(1, 4)
        picked[1:3] = y[1:3, 4]
        return (out * y).sum() + row.sum() + (second * plain[1:3] * upper).sum()


def test_writes_into_views_become_values():
    check(step_of(Writes, numbers(4, 6)))
    text = str(weft.capture_function(step_of(Writes, numbers(4, 6))).graph)
    assert "_(" not in text.replace("aten.", "")


class HalfWrite(nn.Module):
    """In place, a result is rounded to the type of the tensor."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        low = torch.zeros(8, dtype=torch.bfloat16)
        low += (x * self.weight).detach()
        return (x * self.weight * low.float()).sum()


def test_write_of_another_type_is_rounded():
    check(step_of(HalfWrite, numbers(8)))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 16)) for _ in range(2)
        )

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=self.reentrant)
        return x.square().mean()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_is_recorded_as_recomputation(reentrant):
    build = step_of(lambda: Checkpointed(reentrant), numbers(8, 16))
    text = str(check(build).graph)
    assert text.count("recompute:") >= 2
    # The dropout that runs again draws the same numbers again.
    draws = [line for line in text.split("func @step")[1].splitlines() if "rng=" in line]
    assert len(draws) == 4
    assert len({line.split("rng=")[1].split(")")[0] for line in draws}) == 2


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return Cube.apply(self.inner(x)).sum()


def test_custom_function():
    text = str(check(step_of(Custom, numbers(4, 8))).graph)
    backward = text.split("backward:")[1]
    assert "%inner/mm" in backward, "a backward node has the path of its module"


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.layers(x)
        return F.cross_entropy(logits.float(), y)


def classes(count, *shape):
    return lambda: torch.randint(count, shape)


def test_autocast():
    text = str(check(step_of(Autocast, numbers(6, 16), classes(4, 6))).graph)
    assert "bf16" in text


def test_bfloat16_model():
    def build():
        model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 1)).bfloat16()
        wrapped = Mean(model)
        return wrapped, (torch.randn(4, 16).bfloat16(),)

    check(build)


class Mean(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *batch):
        return self.inner(*batch).float().mean()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.out = nn.Linear(8, 32, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens, labels):
        return F.cross_entropy(self.out(self.embed(tokens)).flatten(0, 1), labels.flatten())


def padded_labels():
    labels = torch.randint(32, (3, 7))
    labels[0, 4:] = -100
    labels[2, 1:] = -100
    return labels


def test_tied_weights_and_padding():
    text = str(check(step_of(Tied, classes(32, 3, 7), padded_labels)).graph)
    assert 'parameter "embed.weight" "out.weight" trained' in text
    assert text.count("return gradient") == 1


def test_a_tensor_that_stands_in_the_batch_twice_is_two_inputs():
    def build():
        torch.manual_seed(0)
        model, tokens = Tied(), torch.randint(32, (3, 7))
        return model, {"tokens": tokens, "labels": tokens}, torch.optim.SGD(model.parameters(), lr=0.1)

    graph = check(build).graph
    assert [key for kind, key in graph.inputs("step") if kind == "batch"] == ["tokens", "labels"]
    model, batch, optimizer = build()
    assert str(weft.capture(model, batch, optimizer, name="build")).count(' = batch "') == 2


class Norms(nn.Module):
    def __init__(self, momentum=0.1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8, momentum=momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 4, 3, stride=2),
            nn.BatchNorm2d(4, track_running_stats=False),
            nn.GroupNorm(2, 4),
        )

    def forward(self, x):
        return self.body(x).square().mean()


def test_batch_norm_updates_its_buffers():
    graph = check(step_of(Norms, numbers(4, 3, 8, 8))).graph
    kept = {key for kind, key in graph.outputs("step") if kind == "buffer"}
    assert kept == {
        "body.1.running_mean",
        "body.1.running_var",
        "body.1.num_batches_tracked",
    }


class Plain(nn.Module):
    """Holds a tensor that is neither a parameter nor a registered buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))
        self.table = torch.arange(6).float().cos()
        self.data = torch.tensor([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])

    def forward(self, x):
        return (x * self.weight * self.table + self.data).sum()


def test_tensors_that_nobody_registered():
    text = str(check(step_of(Plain, numbers(6))).graph)
    assert 'buffer "unnamed.' in text
    assert "constant %constant.0 : f32[6]" in text


class Branches(nn.Module):
    """Reads a value: captured with real tensors, and guarded."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x):
        y = x * self.weight
        if x.abs().max().item() > 0:
            y = y * 2
        return y.sum()


def test_a_value_that_is_read_is_guarded():
    captured = weft.capture_function(step_of(Branches, lambda: torch.ones(6)))
    assert captured.real
    assert "weft.guard" in str(captured.graph)
    check(step_of(Branches, lambda: torch.ones(6)))


def test_a_guard_that_fails_says_so():
    graph = weft.capture_function(step_of(Branches, lambda: torch.ones(6))).graph
    from weft import _weft

    inputs = [torch.zeros(6) if kind == "batch" else torch.randn(6) for kind, _ in graph.inputs("step")]
    said = r"\[guard\] .*test_capture.py:\d+ in forward: if x.abs.*read True .* now it is False"
    with pytest.raises(weft.UserError, match=said):
        _weft.replay(graph, "step", inputs)


class Mask(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x):
        y = x * self.weight
        if self.how == "mask":
            return y[y > 0].sort().values.sum()
        if self.how == "nonzero":
            return y[torch.nonzero(y > 0).flatten()].sum()
        return torch.unique(y).sum()


@pytest.mark.parametrize(
    "how, said",
    [("mask", "boolean mask"), ("nonzero", "aten.nonzero"), ("unique", "unique")],
)
def test_shapes_that_depend_on_data_are_refused_by_name(how, said):
    with pytest.raises(weft.UserError, match=said) as refusal:
        weft.capture_function(step_of(lambda: Mask(how), numbers(6)))
    assert "depends on data" in str(refusal.value)
    assert "torch.where" in str(refusal.value)


def test_capture_is_deterministic():
    gpt = importlib.import_module("gpt")
    first = str(weft.capture_function(gpt.tiny).graph)
    assert first == str(weft.capture_function(gpt.tiny).graph)


@pytest.mark.parametrize(
    "model, batch",
    [
        (Tied, (torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long))),
        (Norms, (torch.randn(4, 3, 8, 8),)),
        (Branches, (torch.ones(6),)),
    ],
)
def test_a_live_model_is_captured_and_left_alone(model, batch):
    model = model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    graph = weft.capture(model, batch)
    graph.verify()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    "make, node",
    [
        (lambda p: torch.optim.SGD(p, 0.1), "weft.sgd"),
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), "weft.sgd"),
        (lambda p: torch.optim.Adam(p, 0.1, amsgrad=True), "weft.adam"),
        (lambda p: torch.optim.AdamW(p, 0.1), "weft.adamw"),
        (lambda p: torch.optim.Adagrad(p, 0.1), "weft.adagrad"),
        (lambda p: torch.optim.Adafactor(p, 0.1), "weft.adafactor"),
    ],
)
def test_optimizers_become_typed_nodes(make, node):
    build = step_of(Tied, classes(32, 3, 7), padded_labels, optimizer=lambda m: make(m.parameters()))
    captured = weft.capture_function(build)
    captured.graph.verify()
    assert f"{node}(" in str(captured.graph).split("optimizer:")[1]


def test_an_optimizer_that_is_not_known_is_named():
    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.1})

    for make, said in ((Lion, "Lion"), (lambda p: torch.optim.LBFGS(p), "lbfgs")):
        build = step_of(Tied, classes(32, 3, 7), padded_labels, optimizer=lambda m, make=make: make(m.parameters()))
        with pytest.raises(weft.UserError, match=f"not supported: .*{said}"):
            weft.capture_function(build)


def test_live_model_with_views_of_one_storage():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            both = torch.randn(2, 6)
            self.a = nn.Parameter(both[0])
            self.b = nn.Parameter(both[1])

        def forward(self, x):
            return (x * self.a * self.b).sum()

    check(step_of(Packed, numbers(6)))
