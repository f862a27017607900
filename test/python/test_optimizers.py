# SPDX-License-Identifier: Apache-2.0
"""Steps of every optimizer, by the kernels of Weft, against torch.optim, bit for bit."""

import pytest
import torch
import weft
from evaluating import Training
from torch import nn

STEPS = 20


class Weights(nn.Module):
    """Its gradients are the batch, so that they are as wild as wanted."""

    def __init__(self, dtype):
        super().__init__()
        # Whole vectors, a rest, one element, several dims.
        shapes = [(64,), (1003,), (37, 19), (1,), (), (3, 5, 7), (2, 40000)]
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(s).to(dtype)) for s in shapes])

    def forward(self, *batch):
        return sum((w * x).sum() for w, x in zip(self.weights, batch, strict=True))


def batch_of(model, generator):
    batch = []
    for weight in model.weights:
        scale = 10.0 ** torch.randint(-6, 2, (), generator=generator)
        batch.append((torch.randn(weight.shape, generator=generator) * scale).to(weight.dtype))
    return tuple(batch)


def compare(make_optimizer, dtype=torch.float32, steps=STEPS):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Weights(dtype)
    optimizer = make_optimizer(model.parameters())
    graph = weft.capture(model, batch_of(model, generator), optimizer)
    training = Training(graph, model)
    for number in range(steps):
        # As a schedule would.
        for group in optimizer.param_groups:
            group["lr"] *= 0.97
        batch = batch_of(model, generator)
        training.step(batch, optimizer)
        optimizer.zero_grad()
        model(*batch).backward()
        optimizer.step()
        for name, parameter in model.named_parameters():
            assert torch.equal(training.values[("parameter", name)], parameter.detach()), (number, name)
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            if torch.is_tensor(value):
                assert torch.equal(training.values[("state", f"{name}.{key}")], value), (name, key)


SGD = [
    {},
    {"weight_decay": 0.1},
    {"maximize": True},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.1, "maximize": True},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"momentum": 0.8, "dampening": 0.3},
    {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1},
]
ADAM = [
    {},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"amsgrad": True, "weight_decay": 0.05, "maximize": True},
    {"betas": (0.3, 0.6), "eps": 1e-3},
    {"maximize": True},
]
ADAGRAD = [
    {},
    {"lr_decay": 0.1, "weight_decay": 0.1},
    {"initial_accumulator_value": 0.5, "eps": 1e-4, "maximize": True},
]
ADAFACTOR = [{}, {"weight_decay": 0.1, "maximize": True}, {"eps": (1e-5, 1e-2), "d": 2.0, "beta2_decay": -0.5}]
CASES = (
    [(torch.optim.SGD, o) for o in SGD]
    + [(torch.optim.Adam, o) for o in ADAM]
    + [(torch.optim.Adam, {"decoupled_weight_decay": True, "weight_decay": 0.1})]
    + [(torch.optim.AdamW, o) for o in ADAM]
    + [(torch.optim.Adagrad, o) for o in ADAGRAD]
    + [(torch.optim.Adafactor, o) for o in ADAFACTOR]
)


def named(case):
    kind, options = case
    return "-".join([kind.__name__, *(f"{key}={value}" for key, value in options.items())])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_f32_is_bit_equal(case):
    kind, options = case
    compare(lambda p: kind(p, lr=0.013, **options))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_bf16_is_bit_equal(case):
    kind, options = case
    compare(lambda p: kind(p, lr=0.013, **options), torch.bfloat16, steps=5)


# An epsilon that f16 can hold: with torch's own, most parameters become NaN.
OTHERS = [
    (torch.optim.SGD, {"momentum": 0.9}),
    (torch.optim.AdamW, {"eps": 1e-3}),
    (torch.optim.Adagrad, {"eps": 1e-3}),
    (torch.optim.Adafactor, {}),
]


@pytest.mark.parametrize("case", OTHERS, ids=named)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_element_types_are_bit_equal(case, dtype):
    kind, options = case
    compare(lambda p: kind(p, lr=0.013, weight_decay=0.01, **options), dtype, steps=5)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_threads_do_not_matter(kind):
    torch.set_num_threads(2)
    compare(lambda p: kind(p, lr=0.013, weight_decay=0.01))


FUSED = [(kind, o) for kind, o in CASES if kind is not torch.optim.Adafactor]


@pytest.mark.parametrize("case", FUSED, ids=named)
def test_fused_is_bit_equal_to_fused(case):
    kind, options = case
    compare(lambda p: kind(p, lr=0.013, fused=True, **options))


def lion_step(weight, gradient, exp_avg, lr, beta1, beta2, weight_decay):
    weight = weight * (1 - lr * weight_decay)
    direction = exp_avg.clone().mul_(beta1).add(gradient, alpha=1 - beta1).sign_()
    return weight.add(direction, alpha=-lr), exp_avg.mul(beta2).add_(gradient, alpha=1 - beta2)


def test_lion_follows_its_formula():
    graph = weft.Graph.parse(
        """graph @lion func @step {
        input %w : f32[1003] = parameter "w" trained
        input %g : f32[1003] = batch "0"
        input %m : f32[1003] = state "w.exp_avg"
        input %lr : f64[] = scalar "lr.0"
        optimizer:
        %w1, %m1 = weft.lion(%w, %g, %m, %lr, beta1=0.9, beta2=0.99, weight_decay=0.1) : f32[1003], f32[1003]
        return parameter "w" = %w1
        return state "w.exp_avg" = %m1
        }"""
    )
    torch.manual_seed(0)
    weight, exp_avg = torch.randn(1003), torch.zeros(1003)
    ours = weight, exp_avg
    for _ in range(STEPS):
        gradient = torch.randn(1003)
        ours = weft._weft.evaluate(graph, "step", [ours[0], gradient, ours[1], torch.tensor(0.01, dtype=torch.float64)])
        weight, exp_avg = lion_step(weight, gradient, exp_avg, 0.01, 0.9, 0.99, 0.1)
        assert torch.equal(ours[0], weight) and torch.equal(ours[1], exp_avg)


SKIP = """graph @skip func @step {
  input %w : f32[8, 4] = parameter "w" trained
  input %g : f32[8, 4]{1, 8} = batch "0"
  input %m : f32[8, 4] = state "w.exp_avg"
  input %v : f32[8, 4] = state "w.exp_avg_sq"
  input %n : f32[] = state "w.step"
  input %lr : f64[] = scalar "lr.0"
  input %bad : f32[] = scalar "bad"
  optimizer:
  %w1, %m1, %v1, %n1 = weft.adamw(%w, %g, %m, %v, %n, %lr, skip=%bad) : f32[8, 4], f32[8, 4], f32[8, 4], f32[]
  return parameter "w" = %w1
  return state "w.exp_avg" = %m1
  return state "w.exp_avg_sq" = %v1
  return state "w.step" = %n1
}"""


def test_a_skipped_step_changes_nothing_and_a_gradient_may_lie_otherwise():
    graph = weft.Graph.parse(SKIP)
    graph.verify()
    torch.manual_seed(0)
    weight, gradient = torch.randn(8, 4), torch.randn(4, 8).t()
    state = [torch.randn(8, 4), torch.rand(8, 4), torch.tensor(3.0)]
    lr = torch.tensor(0.01, dtype=torch.float64)

    def run(skip):
        return weft._weft.evaluate(graph, "step", [weight, gradient, *state, lr, torch.tensor(skip)])

    for before, after in zip([weight, *state], run(1.0), strict=True):
        assert torch.equal(before, after)
    parameter = nn.Parameter(weight.clone())
    parameter.grad = gradient.contiguous()
    optimizer = torch.optim.AdamW([parameter], lr=0.01, weight_decay=0.0)
    names = ("exp_avg", "exp_avg_sq", "step")
    optimizer.state[parameter] = {name: s.clone() for name, s in zip(names, state, strict=True)}
    optimizer.step()
    ours = run(0.0)
    assert torch.equal(ours[0], parameter.detach())
    assert all(torch.equal(a, optimizer.state[parameter][n]) for a, n in zip(ours[1:], names, strict=True))


def train(make_optimizer, change=lambda optimizer, step: None, steps=4):
    """The parameters after some steps of Weft, and of torch.optim."""
    found = []
    for is_ours in (True, False):
        torch.manual_seed(0)
        model = nn.Linear(6, 1)
        optimizer = make_optimizer(model.parameters())
        batch = torch.randn(8, 6)
        if is_ours:
            trainer = weft.parallelize(model, optimizer, (batch,), loss=lambda output: output.pow(2).mean())
        for step in range(steps):
            change(optimizer, step)
            if is_ours:
                trainer.step((batch,))
                continue
            optimizer.zero_grad()
            model(batch).pow(2).mean().backward()
            optimizer.step()
        found.append(model.weight.detach().clone())
    return found


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.Adafactor])
def test_a_rate_that_is_a_tensor(kind):
    """By f32 tensors torch.optim rounds otherwise than by numbers; by f64 ones it does not."""
    ours, theirs = train(lambda parameters: kind(parameters, lr=torch.tensor(0.01, dtype=torch.float64)))
    assert torch.equal(ours, theirs)
    with pytest.raises(weft.UserError, match="lr of group 0 is a tensor, and torch.optim rounds"):
        train(lambda parameters: kind(parameters, lr=torch.tensor(0.01)))


def test_a_rate_that_becomes_a_tensor():
    def change(optimizer, step):
        if step == 2:
            optimizer.param_groups[0]["lr"] = torch.tensor(0.03)

    ours, theirs = train(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), change)
    assert torch.equal(ours, theirs)
    with pytest.raises(weft.UserError, match="lr of group 0 is a tensor"):
        train(lambda parameters: torch.optim.Adam(parameters), change)


def test_betas_that_are_tensors_are_refused():
    betas = (torch.tensor(0.5), torch.tensor(0.9))
    with pytest.raises(weft.UserError, match="betas of group 0 is a tensor"):
        train(lambda parameters: torch.optim.Adam(parameters, betas=betas, foreach=False))
