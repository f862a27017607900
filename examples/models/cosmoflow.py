"""CosmoFlow: a 3D convolutional network that reads cosmological parameters from a box of the universe.

Letters: B batch, C channels, X Y Z the volume, P parameters to guess.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class Stage(nn.Module):
    """A convolution and a leaky ReLU, at half the resolution."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, X, Y, Z] -> [B, C', X/2, Y/2, Z/2]"""
        return F.max_pool3d(F.leaky_relu(self.conv(x), 0.3), kernel_size=2)


class CosmoFlow(nn.Module):
    """A regression that returns the mean squared error, and its guesses."""

    def __init__(self, layers: int, width: int, channels_in: int, volume: int, targets: int, dropout: float):
        super().__init__()
        channels = [channels_in] + [width * 2**layer for layer in range(layers)]
        self.stages = nn.Sequential(*(Stage(c_in, c_out) for c_in, c_out in zip(channels, channels[1:])))
        self.head = nn.Sequential(
            nn.Linear(channels[-1] * (volume // 2**layers) ** 3, 128),
            nn.LeakyReLU(0.3),
            nn.Dropout(dropout),
            nn.Linear(128, 64),
            nn.LeakyReLU(0.3),
            nn.Dropout(dropout),
            nn.Linear(64, targets),
        )

    def forward(self, volume: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """[B, C, X, Y, Z], [B, P] -> the loss, [B, P]"""
        guesses = 1.2 * torch.tanh(self.head(self.stages(volume).flatten(1)))
        return F.mse_loss(guesses, targets), guesses


def cosmoflow(
    layers: int = 5,
    width: int = 32,
    channels_in: int = 4,
    volume: int = 128,
    targets: int = 4,
    batch_size: int = 8,
    dropout: float = 0.5,
    learning_rate: float = 1e-3,
) -> Step:
    """CosmoFlow for boxes of 128 voxels a side, 8,907,556 parameters."""
    model = CosmoFlow(layers, width, channels_in, volume, targets, dropout)
    boxes = torch.randn(batch_size, channels_in, volume, volume, volume)
    return model, (boxes, 2 * torch.rand(batch_size, targets) - 1), torch.optim.Adam(model.parameters(), learning_rate)


def cosmoflow_512(volume: int = 512, layers: int = 7, batch_size: int = 1, **options) -> Step:
    """Boxes of 512 voxels a side, 92,272,420 parameters: one sample overflows a device."""
    return cosmoflow(layers, volume=volume, batch_size=batch_size, **options)


def tiny(layers: int = 2, width: int = 8, volume: int = 16, dropout: float = 0.1, **options) -> Step:
    """144,060 parameters: a second or two of training on a CPU shows the loss fall."""
    return cosmoflow(layers, width, volume=volume, dropout=dropout, **options)
