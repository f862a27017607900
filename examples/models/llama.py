"""Llama: a pre-norm decoder with rotary positions, grouped-query attention, SwiGLU and RMS norm.

Letters: B batch, S sequence, W width, H heads, G key and value heads, D width of a head, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class RotaryPositions(nn.Module):
    """Rotates each pair of channels of a head by an angle that grows with the position."""

    def __init__(self, head_width: int, sequence: int, base: float = 10000.0):
        super().__init__()
        frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
        angle = torch.outer(torch.arange(sequence, dtype=torch.float32), frequency).repeat(1, 2)  # [S, D]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, S, D] -> [B, H, S, D]"""
        left, right = x.chunk(2, dim=-1)
        sequence = x.shape[-2]
        return x * self.cos[:sequence] + torch.cat((-right, left), dim=-1) * self.sin[:sequence]


class Attention(nn.Module):
    """Causal self-attention in which H / G query heads share a key and value head."""

    def __init__(self, width: int, heads: int, kv_heads: int):
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, heads * self.head_width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(heads * self.head_width, width, bias=False)

    def forward(self, x: Tensor, rotate: RotaryPositions) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        q = self.query(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # [B, H, S, D]
        k = self.key(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # [B, G, S, D]
        v = self.value(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
        x = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return self.out(x.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU: one linear layer gates the other."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each added to the residual stream."""

    def __init__(self, width: int, hidden: int, heads: int, kv_heads: int):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, kv_heads)
        self.feed_forward_norm = nn.RMSNorm(width, eps=1e-5)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x: Tensor, rotate: RotaryPositions) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        x = x + self.attention(self.attention_norm(x), rotate)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """A language model that returns the mean loss over the tokens that have a label."""

    def __init__(self, layers: int, width: int, hidden: int, heads: int, kv_heads: int, vocabulary: int, sequence: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.rotate = RotaryPositions(width // heads, sequence)
        self.blocks = nn.ModuleList(Block(width, hidden, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[B, S], [B, S] -> the loss. A label of -100 marks padding."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.rotate)
        logits = self.head(self.norm(x))  # [B, S, V]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def random_batch(batch_size: int, sequence: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Texts of different lengths, padded at the end: tokens and next tokens, both [B, S]."""
    text = torch.randint(vocabulary, (batch_size, sequence + 1))
    length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
    padding = torch.arange(sequence) >= length
    return text[:, :-1].masked_fill(padding, 0), text[:, 1:].masked_fill(padding, -100)


def llama_7b(
    layers: int = 32,
    width: int = 4096,
    hidden: int = 11008,
    heads: int = 32,
    kv_heads: int = 32,
    vocabulary: int = 32000,
    sequence: int = 4096,
    batch_size: int = 4,
    learning_rate: float = 3e-4,
) -> Step:
    """Llama 2 7B, 6,738,415,616 parameters. Every size below takes these options."""
    model = Llama(layers, width, hidden, heads, kv_heads, vocabulary, sequence)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    return model, random_batch(batch_size, sequence, vocabulary), optimizer


def llama_70b(
    layers: int = 80, width: int = 8192, hidden: int = 28672, heads: int = 64, kv_heads: int = 8, **options
) -> Step:
    """Llama 2 70B, 68,976,648,192 parameters."""
    return llama_7b(layers, width, hidden, heads, kv_heads, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    hidden: int = 160,
    heads: int = 4,
    kv_heads: int = 2,
    vocabulary: int = 256,
    sequence: int = 32,
    batch_size: int = 4,
    learning_rate: float = 3e-3,
) -> Step:
    """119,104 parameters: a second or two of training on a CPU shows the loss fall."""
    return llama_7b(layers, width, hidden, heads, kv_heads, vocabulary, sequence, batch_size, learning_rate)
