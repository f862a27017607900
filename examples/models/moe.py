"""Mixture of experts: a Llama whose feed-forward layers are many, of which each token visits a few.

An expert takes at most a fixed number of tokens of each sequence, its capacity, so that every shape is known before
the model runs; a token that finds its expert full skips it and keeps the residual stream.

Letters: B batch, S sequence, W width, H heads, D width of a head, V vocabulary;
E experts, C capacity, N experts a token visits, F width inside an expert.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class RotaryPositions(nn.Module):
    """Rotates each pair of channels of a head by an angle that grows with the position."""

    def __init__(self, head_width: int, sequence: int, base: float = 1e6):
        super().__init__()
        frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
        angle = torch.outer(torch.arange(sequence, dtype=torch.float32), frequency).repeat(1, 2)  # [S, D]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, S, D] -> [B, H, S, D]"""
        left, right = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-right, left), dim=-1) * self.sin


class Attention(nn.Module):
    """Causal self-attention in which several query heads share a key and value head."""

    def __init__(self, width: int, heads: int, kv_heads: int):
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, heads * self.head_width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(heads * self.head_width, width, bias=False)

    def forward(self, x: Tensor, rotate: RotaryPositions) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        x = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return self.out(x.transpose(1, 2).flatten(2))


class Router(nn.Module):
    """Chooses N experts for each token, and a seat among the C of each expert."""

    def __init__(self, width: int, experts: int, choices: int, capacity: int):
        super().__init__()
        self.choices = choices
        self.score = nn.Linear(width, experts, bias=False)
        self.register_buffer("expert", torch.arange(experts), persistent=False)
        self.register_buffer("seat", torch.arange(capacity), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, W] -> the weight of each token in each seat [B, S, E, C], and the balancing loss"""
        probability = self.score(x).softmax(dim=-1)  # [B, S, E]
        weight, choice = probability.topk(self.choices, dim=-1)  # [B, S, N]
        weight = weight / weight.sum(dim=-1, keepdim=True)
        chosen = (choice[..., None] == self.expert).to(x.dtype)  # [B, S, N, E]

        # First come, first seated: a token's seat is how many tokens before it chose the same expert.
        taken = chosen.sum(dim=2)  # [B, S, E], 0 or 1
        seat = taken.cumsum(dim=1) - 1
        seated = taken[..., None] * (seat[..., None] == self.seat)  # [B, S, E, C]
        weight = torch.einsum("bsn,bsne->bse", weight, chosen)[..., None] * seated

        # Least when the router spreads tokens evenly: the share of tokens times the mean probability of each expert.
        share = taken.mean(dim=(0, 1)) / self.choices
        balance = len(self.expert) * (share * probability.mean(dim=(0, 1))).sum()
        return weight, balance


class Experts(nn.Module):
    """E feed-forward networks (SwiGLU) side by side, behind a router."""

    def __init__(self, width: int, hidden: int, experts: int, choices: int, capacity: int):
        super().__init__()
        self.router = Router(width, experts, choices, capacity)
        self.gate = nn.Parameter(torch.empty(experts, width, hidden))
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, W] -> [B, S, W], and the balancing loss"""
        weight, balance = self.router(x)
        x = torch.einsum("bsec,bsw->ebcw", (weight > 0).to(x.dtype), x)  # each expert's seats
        x = F.silu(torch.einsum("ebcw,ewf->ebcf", x, self.gate)) * torch.einsum("ebcw,ewf->ebcf", x, self.up)
        x = torch.einsum("ebcf,efw->ebcw", x, self.down)
        return torch.einsum("bsec,ebcw->bsw", weight, x), balance


class Block(nn.Module):
    """One layer: attention, then experts, each added to the residual stream."""

    def __init__(self, width: int, heads: int, kv_heads: int, experts: Experts, dropout: float):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, kv_heads)
        self.experts_norm = nn.RMSNorm(width, eps=1e-5)
        self.experts = experts
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, rotate: RotaryPositions) -> tuple[Tensor, Tensor]:
        """[B, S, W] -> [B, S, W], and the balancing loss"""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotate))
        y, balance = self.experts(self.experts_norm(x))
        return x + self.dropout(y), balance


class MixtureOfExperts(nn.Module):
    """A language model that returns the loss to minimise, and its balancing part."""

    def __init__(
        self,
        layers: int,
        width: int,
        hidden: int,
        heads: int,
        kv_heads: int,
        experts: int,
        choices: int,
        capacity_factor: float,
        vocabulary: int,
        sequence: int,
        dropout: float,
        balance: float,
    ):
        super().__init__()
        capacity = min(sequence, math.ceil(capacity_factor * choices * sequence / experts))
        self.balance = balance
        self.tokens = nn.Embedding(vocabulary, width)
        self.rotate = RotaryPositions(width // heads, sequence)
        self.blocks = nn.ModuleList(
            Block(width, heads, kv_heads, Experts(width, hidden, experts, choices, capacity), dropout)
            for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S], [B, S] -> the loss, its balancing part. A label of -100 marks padding."""
        x = self.tokens(tokens)
        balances = []
        for block in self.blocks:
            x, balance = block(x, self.rotate)
            balances.append(balance)
        logits = self.head(self.norm(x))  # [B, S, V]
        balance = self.balance * torch.stack(balances).mean()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + balance, balance


def random_batch(batch_size: int, sequence: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Texts of different lengths, padded at the end: tokens and next tokens, both [B, S]."""
    text = torch.randint(vocabulary, (batch_size, sequence + 1))
    length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
    padding = torch.arange(sequence) >= length
    return text[:, :-1].masked_fill(padding, 0), text[:, 1:].masked_fill(padding, -100)


def mixtral_8x7b(
    layers: int = 32,
    width: int = 4096,
    hidden: int = 14336,
    heads: int = 32,
    kv_heads: int = 8,
    experts: int = 8,
    choices: int = 2,
    capacity_factor: float = 1.25,
    vocabulary: int = 32000,
    sequence: int = 4096,
    batch_size: int = 4,
    dropout: float = 0.0,
    balance: float = 0.01,
    learning_rate: float = 3e-4,
) -> Step:
    """The sizes of Mixtral 8x7B, 46,702,792,704 parameters. Every size below takes these options."""
    model = MixtureOfExperts(
        layers,
        width,
        hidden,
        heads,
        kv_heads,
        experts,
        choices,
        capacity_factor,
        vocabulary,
        sequence,
        dropout,
        balance,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    return model, random_batch(batch_size, sequence, vocabulary), optimizer


def mixtral_8x22b(
    layers: int = 56, width: int = 6144, hidden: int = 16384, heads: int = 48, kv_heads: int = 8, **options
) -> Step:
    """The sizes of Mixtral 8x22B, 140,620,634,112 parameters."""
    return mixtral_8x7b(layers, width, hidden, heads, kv_heads, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    hidden: int = 96,
    heads: int = 4,
    kv_heads: int = 2,
    experts: int = 4,
    vocabulary: int = 256,
    sequence: int = 32,
    batch_size: int = 4,
    dropout: float = 0.1,
    learning_rate: float = 3e-3,
    **options,
) -> Step:
    """205,632 parameters: a second or two of training on a CPU shows the loss fall."""
    options.update(vocabulary=vocabulary, sequence=sequence, batch_size=batch_size)
    options.update(dropout=dropout, learning_rate=learning_rate)
    return mixtral_8x7b(layers, width, hidden, heads, kv_heads, experts, **options)
