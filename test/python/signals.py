# SPDX-License-Identifier: Apache-2.0
"""A net for signals of one dim: what the examples do not have, windows over it and blended resizing."""

import torch
import torch.nn.functional as F
from torch import nn


class SignalNet(nn.Module):
    """Labels every sample of a signal; halves it, widens the view, and doubles it again."""

    def __init__(self, channels, classes):
        super().__init__()
        self.first = nn.Conv1d(2, channels, 5, padding=2, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        self.wide = nn.Conv1d(channels, channels, 3, padding=2, dilation=2)
        self.strided = nn.Conv1d(channels, channels, 4, stride=2, padding=1, groups=2)
        self.up = nn.ConvTranspose1d(channels, channels, 2, stride=2)
        self.head = nn.Conv1d(2 * channels, classes, 1)

    def forward(self, signal, labels):
        x = F.relu(self.norm(self.first(signal)))
        y = F.dropout(F.gelu(self.wide(F.max_pool1d(x, 2))), 0.1)
        y = self.up(F.gelu(self.strided(y))) + y
        y = F.interpolate(y, scale_factor=2, mode="linear")
        return F.cross_entropy(self.head(torch.cat((x, y), dim=1)), labels)


def tiny(channels=8, classes=5, length=52, batch_size=6):
    model = SignalNet(channels, classes)
    batch = torch.randn(batch_size, 2, length), torch.randint(classes, (batch_size, length))
    return model, batch, torch.optim.AdamW(model.parameters(), lr=1e-3)
