"""T5: an encoder and a decoder with relative positions and one embedding for both and for the output.

Letters: B batch, S words of the source, T words of the target, W width, H heads, D width of a head, V vocabulary;
Q and K stand for S or T on the query's and on the key's side of attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, dict[str, Tensor], torch.optim.Optimizer]


class RelativePositions(nn.Module):
    """A learned attention bias for each distance between query and key; far distances share a bucket."""

    def __init__(self, heads: int, sequence: int, causal: bool, buckets: int = 32, furthest: int = 128):
        super().__init__()
        self.bias = nn.Embedding(buckets, heads)
        position = torch.arange(sequence)
        distance = position[:, None] - position[None, :]  # how far the key is behind the query
        sides = 1 if causal else 2
        buckets //= sides
        exact = buckets // 2
        near = distance.clamp(min=0) if causal else distance.abs()
        growth = torch.log(near.clamp(min=exact) / exact) / math.log(furthest / exact)  # 0 at `exact`, 1 at `furthest`
        far = (exact + growth * (buckets - exact)).long().clamp(max=buckets - 1)
        bucket = torch.where(near < exact, near, far)
        if not causal:
            bucket = bucket + buckets * (distance < 0)
        self.register_buffer("bucket", bucket, persistent=False)

    def forward(self) -> Tensor:
        """-> [1, H, Q, K]"""
        return self.bias(self.bucket).permute(2, 0, 1)[None]


class Attention(nn.Module):
    """Attention from one sequence to another, unscaled, with a bias added to its logits."""

    def __init__(self, width: int, heads: int, head_width: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, heads * head_width, bias=False)
        self.key = nn.Linear(width, heads * head_width, bias=False)
        self.value = nn.Linear(width, heads * head_width, bias=False)
        self.out = nn.Linear(heads * head_width, width, bias=False)
        nn.init.normal_(self.query.weight, std=(width * head_width) ** -0.5)
        nn.init.normal_(self.key.weight, std=width**-0.5)
        nn.init.normal_(self.value.weight, std=width**-0.5)
        nn.init.normal_(self.out.weight, std=(heads * head_width) ** -0.5)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        """[B, Q, W], [B, K, W], [B or 1, H or 1, Q or 1, K] -> [B, Q, W]"""
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k = self.key(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        v = self.value(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=1.0)
        return self.out(x.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers around a ReLU."""

    def __init__(self, width: int, hidden: int, dropout: float):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(hidden, width, bias=False)
        nn.init.normal_(self.up.weight, std=width**-0.5)
        nn.init.normal_(self.down.weight, std=hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[B, Q, W] -> [B, Q, W]"""
        return self.down(self.dropout(F.relu(self.up(x))))


class EncoderBlock(nn.Module):
    """Attention within the source, then feed-forward."""

    def __init__(self, width: int, hidden: int, heads: int, head_width: int, dropout: float):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads, head_width, dropout)
        self.feed_forward_norm = nn.RMSNorm(width, eps=1e-6)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """[B, S, W], [B, H, S, S] -> [B, S, W]"""
        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, bias))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class DecoderBlock(nn.Module):
    """Attention within the target, attention to the source, then feed-forward."""

    def __init__(self, width: int, hidden: int, heads: int, head_width: int, dropout: float):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads, head_width, dropout)
        self.cross_norm = nn.RMSNorm(width, eps=1e-6)
        self.cross = Attention(width, heads, head_width, dropout)
        self.feed_forward_norm = nn.RMSNorm(width, eps=1e-6)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, source: Tensor, bias: Tensor, source_bias: Tensor) -> Tensor:
        """[B, T, W], [B, S, W], [1, H, T, T], [B, 1, 1, S] -> [B, T, W]"""
        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, bias))
        x = x + self.dropout(self.cross(self.cross_norm(x), source, source_bias))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class T5(nn.Module):
    """Text to text: returns the mean loss over the words of the target, and the logits."""

    def __init__(
        self,
        layers: int,
        width: int,
        hidden: int,
        heads: int,
        head_width: int,
        vocabulary: int,
        source_sequence: int,
        target_sequence: int,
        dropout: float,
    ):
        super().__init__()
        sizes = (width, hidden, heads, head_width, dropout)
        self.tokens = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.source_positions = RelativePositions(heads, source_sequence, causal=False)
        self.encoder = nn.ModuleList(EncoderBlock(*sizes) for _ in range(layers))
        self.encoder_norm = nn.RMSNorm(width, eps=1e-6)
        self.target_positions = RelativePositions(heads, target_sequence, causal=True)
        self.decoder = nn.ModuleList(DecoderBlock(*sizes) for _ in range(layers))
        self.decoder_norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        future = torch.full((target_sequence, target_sequence), -math.inf).triu(diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, source: Tensor, mask: Tensor, target: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S], [B, S], [B, T], [B, T] -> the loss, [B, T, V]. The mask is true on words."""
        x = self.dropout(self.tokens(source))
        source_bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -math.inf)[:, None, None, :]
        bias = self.source_positions() + source_bias
        for block in self.encoder:
            x = block(x, bias)
        memory = self.dropout(self.encoder_norm(x))

        x = self.dropout(self.tokens(target))
        bias = self.target_positions() + self.future
        for block in self.decoder:
            x = block(x, memory, bias, source_bias)
        x = self.dropout(self.decoder_norm(x))
        logits = self.head(x * x.shape[-1] ** -0.5)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


def random_batch(batch_size: int, source_sequence: int, target_sequence: int, vocabulary: int) -> dict[str, Tensor]:
    """Pairs of texts of different lengths. Word 0 is padding, and starts the target."""
    source = torch.randint(2, vocabulary, (batch_size, source_sequence))
    source_length = torch.randint(source_sequence // 2, source_sequence + 1, (batch_size, 1))
    mask = torch.arange(source_sequence) < source_length
    words = torch.randint(2, vocabulary, (batch_size, target_sequence))
    target_length = torch.randint(target_sequence // 2, target_sequence + 1, (batch_size, 1))
    padding = torch.arange(target_sequence) >= target_length
    return {
        "source": source.masked_fill(~mask, 0),
        "mask": mask,
        "target": F.pad(words.masked_fill(padding, 0)[:, :-1], (1, 0)),
        "labels": words.masked_fill(padding, -100),
    }


def t5_small(
    layers: int = 6,
    width: int = 512,
    hidden: int = 2048,
    heads: int = 8,
    head_width: int = 64,
    vocabulary: int = 32128,
    sequence: int = 512,
    target_sequence: int = 128,
    batch_size: int = 16,
    dropout: float = 0.1,
    learning_rate: float = 0.01,
) -> Step:
    """T5 small, 60,506,624 parameters. Every size below takes these options."""
    model = T5(layers, width, hidden, heads, head_width, vocabulary, sequence, target_sequence, dropout)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=learning_rate)
    return model, random_batch(batch_size, sequence, target_sequence, vocabulary), optimizer


def t5_base(layers: int = 12, width: int = 768, hidden: int = 3072, heads: int = 12, **options) -> Step:
    """T5 base, 222,903,552 parameters."""
    return t5_small(layers, width, hidden, heads, **options)


def t5_large(layers: int = 24, width: int = 1024, hidden: int = 4096, heads: int = 16, **options) -> Step:
    """T5 large, 737,668,096 parameters."""
    return t5_small(layers, width, hidden, heads, **options)


def t5_11b(
    layers: int = 24, width: int = 1024, hidden: int = 65536, heads: int = 128, head_width: int = 128, **options
) -> Step:
    """T5 11B, 11,307,321,344 parameters."""
    return t5_small(layers, width, hidden, heads, head_width, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    hidden: int = 128,
    heads: int = 4,
    head_width: int = 16,
    vocabulary: int = 256,
    sequence: int = 32,
    target_sequence: int = 16,
    batch_size: int = 4,
    learning_rate: float = 0.1,
    **options,
) -> Step:
    """181,248 parameters: a second or two of training on a CPU shows the loss fall."""
    options.update(sequence=sequence, target_sequence=target_sequence, learning_rate=learning_rate)
    return t5_small(layers, width, hidden, heads, head_width, vocabulary, batch_size=batch_size, **options)
