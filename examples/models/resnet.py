"""ResNet: residual networks with batch norm, for images.

Letters: B batch, C channels, H height, W width, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class ConvNorm(nn.Sequential):
    """A convolution followed by batch norm."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")


class Bottleneck(nn.Module):
    """Narrow, convolve, widen; then add the input, projected where its shape differs."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        channels_out = channels * self.expansion
        self.narrow = ConvNorm(channels_in, channels, kernel=1)
        self.convolve = ConvNorm(channels, channels, kernel=3, stride=stride)
        self.widen = ConvNorm(channels, channels_out, kernel=1)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = ConvNorm(channels_in, channels_out, kernel=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C', H / stride, W / stride]"""
        y = F.relu(self.narrow(x), inplace=True)
        y = F.relu(self.convolve(y), inplace=True)
        return F.relu(self.widen(y) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """A classifier that returns the mean loss over the images, and the logits."""

    def __init__(self, layers: tuple[int, ...], width: int, classes: int):
        super().__init__()
        self.stem = ConvNorm(3, width, kernel=7, stride=2)
        self.stages = nn.ModuleList()
        channels_in = width
        for stage, depth in enumerate(layers):
            channels = width * 2**stage
            blocks = nn.Sequential()
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Bottleneck(channels_in, channels, stride))
                channels_in = channels * Bottleneck.expansion
            self.stages.append(blocks)
        self.head = nn.Linear(channels_in, classes)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 3, H, W], [B] -> the loss, [B, K]"""
        x = F.relu(self.stem(images), inplace=True)
        x = F.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        for stage in self.stages:
            x = stage(x)
        logits = self.head(x.mean(dim=(2, 3)))
        return F.cross_entropy(logits, labels), logits


def resnet50(
    layers: tuple[int, ...] = (3, 4, 6, 3),
    width: int = 64,
    classes: int = 1000,
    image: int = 224,
    batch_size: int = 32,
    learning_rate: float = 0.1,
) -> Step:
    """ResNet-50, 25,557,032 parameters. Every size below takes these options."""
    model = ResNet(layers, width, classes)
    batch = torch.randn(batch_size, 3, image, image), torch.randint(classes, (batch_size,))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9, weight_decay=1e-4)
    return model, batch, optimizer


def resnet101(layers: tuple[int, ...] = (3, 4, 23, 3), **options) -> Step:
    """ResNet-101, 44,549,160 parameters."""
    return resnet50(layers, **options)


def resnet152(layers: tuple[int, ...] = (3, 8, 36, 3), **options) -> Step:
    """ResNet-152, 60,192,808 parameters."""
    return resnet50(layers, **options)


def wide_resnet(layers: tuple[int, ...] = (3, 4, 6, 3), width: int = 320, batch_size: int = 16, **options) -> Step:
    """A ResNet-50 five times as wide, 596,691,240 parameters: big enough that its weights want more than one device."""
    return resnet50(layers, width, batch_size=batch_size, **options)


def tiny(
    layers: tuple[int, ...] = (1, 1),
    width: int = 8,
    classes: int = 10,
    image: int = 32,
    batch_size: int = 8,
    learning_rate: float = 0.05,
) -> Step:
    """9,362 parameters: a second or two of training on a CPU shows the loss fall."""
    return resnet50(layers, width, classes, image, batch_size, learning_rate)
