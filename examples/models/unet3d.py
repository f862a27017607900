"""3D U-Net: labels every voxel of a scan; skips carry detail from the way down to the way up.

Letters: B batch, C channels, X Y Z the volume, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class ConvNorm(nn.Sequential):
    """A convolution, group norm and ReLU."""

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(8, channels_out)
        self.relu = nn.ReLU(inplace=True)


class Up(nn.Module):
    """Doubles the resolution, joins the skip, and convolves twice."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.up = nn.ConvTranspose3d(channels_in, channels_out, kernel_size=2, stride=2)
        self.first = ConvNorm(2 * channels_out, channels_out)
        self.second = ConvNorm(channels_out, channels_out)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """[B, 2C, X/2, Y/2, Z/2], [B, C, X, Y, Z] -> [B, C, X, Y, Z]"""
        return self.second(self.first(torch.cat((self.up(x), skip), dim=1)))


class UNet3D(nn.Module):
    """A segmenter that returns the mean loss over the voxels that have a label, and the logits."""

    def __init__(self, channels: tuple[int, ...], channels_in: int, classes: int):
        super().__init__()
        self.down = nn.ModuleList()
        for level, channels_out in enumerate(channels):
            first = ConvNorm(channels_in, channels_out, stride=1 if level == 0 else 2)
            self.down.append(nn.Sequential(first, ConvNorm(channels_out, channels_out)))
            channels_in = channels_out
        deep_to_shallow = channels[::-1]
        self.up = nn.ModuleList(Up(deep, shallow) for deep, shallow in zip(deep_to_shallow, deep_to_shallow[1:]))
        self.head = nn.Conv3d(channels[0], classes, kernel_size=1)

    def forward(self, volume: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[B, C, X, Y, Z], [B, X, Y, Z] -> the loss, [B, K, X, Y, Z]. A label of -100 has no loss."""
        x = volume
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        skips.pop()
        for up in self.up:
            x = up(x, skips.pop())
        logits = self.head(x)
        return F.cross_entropy(logits, labels), logits


def unet3d(
    channels: tuple[int, ...] = (32, 64, 128, 256, 512),
    channels_in: int = 1,
    classes: int = 3,
    volume: int = 128,
    batch_size: int = 2,
    learning_rate: float = 0.1,
) -> Step:
    """A U-Net for organs in 3D scans, 22,578,339 parameters. A rim of the volume has no labels."""
    model = UNet3D(channels, channels_in, classes)
    scan = torch.randn(batch_size, channels_in, volume, volume, volume)
    labels = torch.full((batch_size, volume, volume, volume), -100)
    labels[:, 1:-1, 1:-1, 1:-1] = torch.randint(classes, (batch_size, volume - 2, volume - 2, volume - 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9, nesterov=True)
    return model, (scan, labels), optimizer


def tiny(channels: tuple[int, ...] = (8, 16, 32), volume: int = 16, **options) -> Step:
    """85,195 parameters: a second or two of training on a CPU shows the loss fall."""
    return unet3d(channels, volume=volume, **options)
