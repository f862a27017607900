# SPDX-License-Identifier: Apache-2.0
"""Models that compute with complex tensors give what eager PyTorch gives, under every plan."""

import os
import pathlib
import subprocess
import sys

import complex_models
import pytest
import torch
import weft
from planned import Planned, gradient_difference
from replaying import assert_bit_equal, eager_step
from torch import nn
from torch.nn import functional

NAMES = list(complex_models.BLOCKS)
# All ranks in this process; those that write into parts of tensors run on real ones.
IN_ONE_PROCESS = ["rotated", "conjugated"]
WORDS = ["data=2", "tensor=2", "micro-batches=2", "data=2,micro-batches=2", "pipeline=2,micro-batches=2"]
REAL_WORDS = ["data=2", "data=2,zero=3", "data=2,micro-batches=2", "pipeline=2,micro-batches=2"]


@pytest.fixture(scope="module")
def steps():
    return {name: Planned(lambda name=name: complex_models.build(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_one_rank_gives_eager_bits(steps, name):
    step = steps[name]
    ours = step.on_one_rank()
    assert_bit_equal("loss", ours[("loss", "")], step.loss)
    for key, gradient in step.gradients.items():
        assert torch.equal(ours[("gradient", key)], gradient), key


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_plans_give_the_step(steps, name, words):
    loss, gradient = steps[name].difference(steps[name].under(words))
    assert loss < 1e-6 and gradient < 1e-5, (loss, gradient)


def test_real_ranks_give_the_step(tmp_path):
    """On two processes, which add up complex gradients and send complex activations."""
    cells = [(name, words) for name in NAMES for words in REAL_WORDS]
    torch.save(cells, tmp_path / "cells")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *(complex_models.__file__, str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for number, (name, words) in enumerate(cells):
        model, batch, _ = complex_models.build(name)
        loss, gradients, _ = eager_step(model, batch)
        got, ours = torch.load(pathlib.Path(tmp_path) / f"{number}")
        assert got == pytest.approx(loss.item(), rel=1e-6), (name, words)
        assert gradient_difference(ours, gradients) < 1e-5, (name, words)


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
    ],
)
def test_optimizers_update_complex_parameters_as_pytorch_does(make):
    trained = []
    for ours in (False, True):
        model, batch, _ = complex_models.build("fourier")
        optimizer = make(model.parameters())
        trainer = weft.parallelize(model, optimizer, batch) if ours else None
        for _ in range(3):
            if ours:
                trainer.step(batch)
            else:
                optimizer.zero_grad()
                model(*batch).backward()
                optimizer.step()
        trained.append({name: p.detach().clone() for name, p in model.named_parameters()})
    for name, theirs in trained[0].items():
        assert (trained[1][name] - theirs).abs().max() <= 1e-6 * theirs.abs().max(), name


class Numbers(nn.Module):
    """Python's complex numbers beside tensors of other types and without dims."""

    def __init__(self, dtype):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, dtype=dtype))

    def forward(self, x):
        y = self.w * 0.1j + (1 - 2j)
        total = (y * x.to(y.dtype)).sum()
        total = total * 0.3j - 1j
        return (total * total.conj()).real


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_complex_numbers_of_python(dtype):
    def build():
        torch.manual_seed(0)
        return Numbers(dtype), (torch.randn(4),)

    step = Planned(build)
    ours = step.on_one_rank()
    assert_bit_equal("loss", ours[("loss", "")], step.loss)
    assert torch.equal(ours[("gradient", "w")], step.gradients["w"])


CALLS = {
    "pow": lambda z: z ** (1 + 1j),
    "reversed sub": lambda z: 2j - z,
    "masked_fill": lambda z: z.masked_fill(z.real > 0, 1j),
    "index_fill": lambda z: z.index_fill(0, torch.tensor([1]), 1j),
    "alpha": lambda z: torch.add(z, z, alpha=2j),
    "filled": lambda z: z * torch.empty_like(z).fill_(1 - 2j),
    # Its gradient multiplies by 1j.
    "angle": lambda z: torch.exp(1j * z.angle()),
    # Which is made of real ones, added with alpha=1j.
    "convolution": lambda z: functional.conv1d(z[:, None], z[:1, None, :3]),
}


class Called(nn.Module):
    def __init__(self, call, dtype):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6, dtype=dtype))
        self.call = call

    def forward(self, x):
        return self.call(self.w * x).abs().square().mean()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", CALLS)
def test_complex_numbers_as_arguments(name, dtype):
    def build():
        torch.manual_seed(0)
        return Called(CALLS[name], dtype), (torch.randn(4, 6),)

    step = Planned(build)
    ours = step.on_one_rank()
    assert_bit_equal("loss", ours[("loss", "")], step.loss)
    assert torch.equal(ours[("gradient", "w")], step.gradients["w"])


class Held(nn.Module):
    """Conjugated views that the model keeps: a buffer, a constant, a part of another."""

    def __init__(self):
        super().__init__()
        base = torch.randn(6, dtype=torch.complex64)
        self.w = nn.Parameter(torch.randn(6))
        self.register_buffer("kept", base.conj())
        other = torch.randn(6, dtype=torch.complex64)
        self.loose = [other[:3].conj(), torch.randn(3, dtype=torch.complex64).conj().imag, other[3:]]

    def forward(self, x):
        y = self.w * x * self.kept
        z = torch.cat([y[:3] * self.loose[0], y[3:] * self.loose[1] + self.loose[2]])
        return (z.real + 2 * z.imag).square().sum()


def test_conjugated_tensors_that_a_model_keeps():
    def build():
        torch.manual_seed(0)
        return Held(), (torch.randn(6).conj(),)

    step = Planned(build)
    ours = step.on_one_rank()
    assert_bit_equal("loss", ours[("loss", "")], step.loss)
    assert torch.equal(ours[("gradient", "w")], step.gradients["w"])
