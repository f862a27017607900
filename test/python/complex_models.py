# SPDX-License-Identifier: Apache-2.0
"""Small models that compute with complex tensors, each with a batch; and steps of them on real ranks."""

import os
import pathlib
import sys

import torch
import torch.nn.functional as F
import weft
from torch import nn


class Rotated(nn.Module):
    """Attention whose queries and keys are turned as complex numbers."""

    def __init__(self, width=16, heads=2, length=6):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        per_head = width // heads
        angles = torch.outer(torch.arange(length), 1.0 / 100 ** (torch.arange(0, per_head, 2) / per_head))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def turn(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[None, :, None]).flatten(3).type_as(x)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).unbind(2)
        q, k = self.turn(q), self.turn(k)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


class Conjugated(nn.Module):
    """Conjugates that are multiplied, reshaped, read in part and added."""

    def __init__(self, width=16):
        super().__init__()
        self.into = nn.Linear(width, 2 * width)
        self.turn = nn.Parameter(torch.randn(width, dtype=torch.complex64))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        z = torch.view_as_complex(self.into(x).unflatten(-1, (-1, 2))) * self.turn.conj()
        power = z * z.conj()
        turned = z.conj().transpose(1, 2)[..., ::2].transpose(1, 2).reshape(x.shape[0], -1, x.shape[-1])
        # imag of a conjugate is a negated view.
        parts = self.out(power.real + z.conj().imag) + turned.imag.mean(1, keepdim=True)
        return x + parts + (1j * z).real + (2 - 0.5j) * x.abs().mean()


class Written(nn.Module):
    """Writes through conjugated and negated views, and into parts of complex tensors."""

    def __init__(self, width=16):
        super().__init__()
        self.into = nn.Linear(width, 2 * width)

    def forward(self, x):
        z = torch.view_as_complex(self.into(x).unflatten(-1, (-1, 2)))
        z = z + 0
        conjugate = z.conj()
        conjugate.mul_(2 + 1j)
        conjugate[:, 0] = x[:, 1] * 1j
        z.imag[..., 1:3] += 3
        conjugate.imag.mul_(0.5)
        torch.view_as_real(z)[..., 4, 0] = x[..., 0]
        turned = z.mT
        turned.add_(conjugate.mT)
        buffer = torch.zeros(*x.shape, 2)
        torch.view_as_complex(buffer).copy_(turned.mH)
        return x + buffer.sum(-1) + z.abs().mean((1, 2), keepdim=True)


class Fourier(nn.Module):
    """A Fourier layer: the low frequencies are mixed by complex weights."""

    def __init__(self, width=16, modes=3):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.complex64) / width)
        self.skip = nn.Linear(width, width)

    def forward(self, x):
        waves = torch.fft.rfft(x, dim=1)
        mixed = torch.zeros_like(waves)
        mixed[:, : self.modes] = torch.einsum("bmi,iom->bmo", waves[:, : self.modes], self.weight)
        return F.gelu(torch.fft.irfft(mixed, n=x.shape[1], dim=1) + self.skip(x))


class Net(nn.Module):
    def __init__(self, block, width=16):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.blocks = nn.ModuleList([block(), block()])
        self.head = nn.Linear(width, 8)

    def forward(self, x, y):
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        h = self.head(h)
        return F.mse_loss(torch.view_as_real(h) if h.is_complex() else h, y)


class Real(nn.Module):
    """The real part of what a block gives."""

    def __init__(self, block):
        super().__init__()
        self.block = block()

    def forward(self, x):
        y = self.block(x)
        return y.real + y.imag if y.is_complex() else y


BLOCKS = {"rotated": Rotated, "conjugated": Conjugated, "written": Written, "fourier": Fourier}


def build(name):
    torch.manual_seed(0)
    model = Net(lambda: Real(BLOCKS[name]))
    return model, (torch.randn(4, 6, 8), torch.randn(4, 6, 8)), torch.optim.SGD(model.parameters(), lr=0.1)


def main(folder):
    torch.set_num_threads(1)
    for number, (name, words) in enumerate(torch.load(folder / "cells")):
        print(name, words, file=sys.stderr, flush=True)
        model, batch, optimizer = build(name)
        trainer = weft.parallelize(model, optimizer, batch, parallel=words, keep_gradients=True)
        loss = trainer.step(batch)
        if os.environ["RANK"] == "0":
            torch.save((loss, {n: p.grad for n, p in model.named_parameters()}), folder / f"{number}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
