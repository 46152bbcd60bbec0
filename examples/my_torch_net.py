"""A small ResNet as a PyTorch user writes it. Nothing in it is for Batchwise: examples/import_my_model.md."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions and a shortcut (He et al. 2016)."""

    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or entering != leaving:
            convolution = nn.Conv2d(entering, leaving, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(leaving))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, entering, h, w) -> (n, leaving, h / stride, w / stride)."""
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Net(nn.Module):
    """A stem, three blocks, and a classifier with dropout."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, 3, h, w) in 0..1 -> logits (n, classes)."""
        x = self.blocks(self.stem((images - 0.5) / 0.25))
        return self.head(x.mean(dim=(2, 3)))


def make_model(classes: int) -> nn.Module:
    """Return the model for so many classes, with PyTorch's own initial weights."""
    return Net(classes)
