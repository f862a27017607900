"""ViT: a pre-norm encoder over the patches of an image.

Letters: B batch, S patches and the class token, W width, H heads, D width of a head, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class Attention(nn.Module):
    """Self-attention over all patches."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 3 of [B, H, S, D]
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each added to the residual stream."""

    def __init__(self, width: int, hidden: int, heads: int, dropout: float):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, W] -> [B, S, W]"""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        y = self.dropout(F.gelu(self.up(self.feed_forward_norm(x))))
        return x + self.dropout(self.down(y))


class ViT(nn.Module):
    """A classifier that returns the mean loss over the images, and the logits."""

    def __init__(
        self, layers: int, width: int, hidden: int, heads: int, classes: int, image: int, patch: int, dropout: float
    ):
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 3, image, image], [B] -> the loss, [B, K]"""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1)
        x = self.dropout(x + self.positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)[:, 0])
        return F.cross_entropy(logits, labels, label_smoothing=0.1), logits


def vit_base(
    layers: int = 12,
    width: int = 768,
    hidden: int = 3072,
    heads: int = 12,
    classes: int = 1000,
    image: int = 224,
    patch: int = 16,
    batch_size: int = 32,
    dropout: float = 0.1,
    learning_rate: float = 1e-3,
) -> Step:
    """ViT-B/16, 86,567,656 parameters. Every size below takes these options."""
    model = ViT(layers, width, hidden, heads, classes, image, patch, dropout)
    batch = torch.randn(batch_size, 3, image, image), torch.randint(classes, (batch_size,))
    return model, batch, torch.optim.Adam(model.parameters(), lr=learning_rate)


def vit_large(layers: int = 24, width: int = 1024, hidden: int = 4096, heads: int = 16, **options) -> Step:
    """ViT-L/16, 304,326,632 parameters."""
    return vit_base(layers, width, hidden, heads, **options)


def vit_huge(
    layers: int = 32, width: int = 1280, hidden: int = 5120, heads: int = 16, patch: int = 14, **options
) -> Step:
    """ViT-H/14, 632,045,800 parameters."""
    return vit_base(layers, width, hidden, heads, patch=patch, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    hidden: int = 128,
    heads: int = 4,
    classes: int = 10,
    image: int = 32,
    patch: int = 8,
    batch_size: int = 8,
    **options,
) -> Step:
    """81,226 parameters: a second or two of training on a CPU shows the loss fall."""
    return vit_base(layers, width, hidden, heads, classes, image, patch, batch_size, **options)
