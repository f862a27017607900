"""BERT: a post-norm encoder trained to guess masked words, with padding.

Letters: B batch, S sequence, W width, H heads, D width of a head, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, dict[str, Tensor], torch.optim.Optimizer]


class Attention(nn.Module):
    """Self-attention over the tokens that are not padding."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[B, S, W], [B, 1, 1, S] -> [B, S, W]"""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, H, S, D]
            for project in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return self.out(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each added to its input and normed."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.feed_forward_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[B, S, W], [B, 1, 1, S] -> [B, S, W]"""
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        return self.feed_forward_norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """A masked language model that returns the mean loss over the masked words, and the logits."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, positions: int, dropout: float):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width, eps=1e-12)
        self.head = nn.Linear(width, vocabulary)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Four of [B, S] -> the loss, [B, S, V]. The mask is true on words; a label of -100 has no loss."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions) + self.segments(segments)
        x = self.dropout(self.norm(x))
        for block in self.blocks:
            x = block(x, mask[:, None, None, :])
        logits = self.head(self.transform_norm(F.gelu(self.transform(x))))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


def random_batch(batch_size: int, sequence: int, vocabulary: int) -> dict[str, Tensor]:
    """Pairs of texts of different lengths, in which one word of seven is hidden behind word 1, all [B, S]."""
    words = torch.randint(2, vocabulary, (batch_size, sequence))
    length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
    position = torch.arange(sequence)
    mask = position < length
    hidden = mask & (torch.rand(batch_size, sequence) < 1 / 7)
    return {
        "tokens": words.masked_fill(hidden, 1).masked_fill(~mask, 0),
        "segments": (position >= length // 2).long(),
        "mask": mask,
        "labels": words.masked_fill(~hidden, -100),
    }


def bert_base(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    sequence: int = 512,
    batch_size: int = 16,
    dropout: float = 0.1,
    learning_rate: float = 1e-4,
    positions: int = 512,
) -> Step:
    """BERT base, 109,514,298 parameters. Every size below takes these options."""
    model = Bert(layers, width, heads, vocabulary, max(positions, sequence), dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    return model, random_batch(batch_size, sequence, vocabulary), optimizer


def bert_large(layers: int = 24, width: int = 1024, heads: int = 16, **options) -> Step:
    """BERT large, 335,174,458 parameters."""
    return bert_base(layers, width, heads, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    vocabulary: int = 256,
    sequence: int = 32,
    batch_size: int = 4,
    learning_rate: float = 3e-3,
    positions: int = 32,
    **options,
) -> Step:
    """123,200 parameters: a second or two of training on a CPU shows the loss fall."""
    options.update(learning_rate=learning_rate, positions=positions)
    return bert_base(layers, width, heads, vocabulary, sequence, batch_size, **options)
