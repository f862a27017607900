"""GPT-2 and GPT-3: a pre-norm decoder with learned positions and tied embeddings.

Letters: B batch, S sequence, W width, H heads, D width of a head, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class Attention(nn.Module):
    """Causal self-attention, with one projection for query, key and value."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)  # [B, H, S, D]
        return self.out(x.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers around a GELU."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each added to the residual stream."""

    def __init__(self, width: int, heads: int, dropout: float, attention_dropout: float):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, attention_dropout)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class GPT(nn.Module):
    """A language model that returns the mean loss over the tokens that have a label."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        sequence: int,
        dropout: float,
        attention_dropout: float | None = None,
    ):
        super().__init__()
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout, attention_dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._initialise)
        for block in self.blocks:  # so that the residual stream keeps its size however deep the model is
            nn.init.normal_(block.attention.out.weight, std=0.02 / (2 * layers) ** 0.5)
            nn.init.normal_(block.feed_forward.down.weight, std=0.02 / (2 * layers) ** 0.5)
        self.head.weight = self.tokens.weight

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        """Small normal weights, zero biases."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def logits(self, tokens: Tensor) -> Tensor:
        """[B, S] -> [B, S, V]: at each place, what the next token may be."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[B, S], [B, S] -> the loss. A label of -100 marks padding."""
        return F.cross_entropy(self.logits(tokens).flatten(0, 1), labels.flatten())


def random_batch(batch_size: int, sequence: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Texts of different lengths, padded at the end: tokens and next tokens, both [B, S]."""
    text = torch.randint(vocabulary, (batch_size, sequence + 1))
    length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
    padding = torch.arange(sequence) >= length
    return text[:, :-1].masked_fill(padding, 0), text[:, 1:].masked_fill(padding, -100)


def adamw(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW that decays matrices, but neither biases nor norms."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))


def gpt2_small(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    sequence: int = 1024,
    batch_size: int = 8,
    dropout: float = 0.1,
    learning_rate: float = 6e-4,
    attention_dropout: float | None = None,
) -> Step:
    """GPT-2 small, 124,439,808 parameters. Every size below takes these options."""
    model = GPT(layers, width, heads, vocabulary, sequence, dropout, attention_dropout)
    return model, random_batch(batch_size, sequence, vocabulary), adamw(model, learning_rate)


def gpt2_medium(layers: int = 24, width: int = 1024, heads: int = 16, **options) -> Step:
    """GPT-2 medium, 354,823,168 parameters."""
    return gpt2_small(layers, width, heads, **options)


def gpt2_large(layers: int = 36, width: int = 1280, heads: int = 20, **options) -> Step:
    """GPT-2 large, 774,030,080 parameters."""
    return gpt2_small(layers, width, heads, **options)


def gpt2_xl(layers: int = 48, width: int = 1600, heads: int = 25, **options) -> Step:
    """GPT-2 XL, 1,557,611,200 parameters."""
    return gpt2_small(layers, width, heads, **options)


def gpt3_175b(
    layers: int = 96, width: int = 12288, heads: int = 96, sequence: int = 2048, dropout: float = 0.0, **options
) -> Step:
    """GPT-3, 174,604,259,328 parameters."""
    return gpt2_small(layers, width, heads, sequence=sequence, dropout=dropout, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    vocabulary: int = 256,
    sequence: int = 32,
    batch_size: int = 4,
    learning_rate: float = 3e-3,
    **options,
) -> Step:
    """118,528 parameters: a second or two of training on a CPU shows the loss fall."""
    return gpt2_small(layers, width, heads, vocabulary, sequence, batch_size, learning_rate=learning_rate, **options)
