"""The network of planted_imports.py as a user writes it in PyTorch."""

import torch
from torch import nn


class StochasticDepth(nn.Module):  # torchvision's, by its name and mode "row"
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        kept = torch.bernoulli(torch.full((len(x), *(1 for _ in x.shape[1:])), 1 - self.p))
        return x * kept / (1 - self.p)


class Dropout2d(nn.Dropout):  # drops values, though PyTorch's class of this name drops channels
    pass


class Block(nn.Module):
    def __init__(self, rate, approximate):
        super().__init__()
        self.mix = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.norm = nn.LayerNorm(16, 1e-6)
        self.up, self.gelu, self.down = nn.Linear(16, 32), nn.GELU(approximate), nn.Linear(32, 16)
        self.scale = nn.Parameter(torch.full((16, 1, 1), 0.7))
        self.depth = StochasticDepth(rate)

    def forward(self, x):
        y = self.norm(self.mix(x).permute(0, 2, 3, 1))
        y = self.down(self.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + self.depth(self.scale * y)


class Net(nn.Module):
    def __init__(self, classes, approximate="none"):
        super().__init__()
        self.register_buffer("mean_of_images", torch.tensor([0.4, 0.5, 0.45])[:, None, None])
        self.register_buffer("std_of_images", torch.tensor([0.2, 0.25, 0.22])[:, None, None])
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.stem_norm, self.relu6, self.pool = nn.BatchNorm2d(8), nn.ReLU6(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.reduce, self.reduce_norm = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.middle, self.middle_norm = nn.Conv2d(8, 8, 3, 2, 1, groups=4, bias=False), nn.BatchNorm2d(8)
        self.expand, self.expand_norm = nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16)
        self.shortcut, self.shortcut_norm = nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.block1, self.block2 = Block(0.1, approximate), Block(0.2, approximate)
        self.drop, self.head = Dropout2d(0.5), nn.Linear(16, classes)

    def forward(self, x):
        x = (x - self.mean_of_images) / self.std_of_images
        x = self.pool(self.relu6(self.stem_norm(self.stem(x))))
        y = self.relu(self.reduce_norm(self.reduce(x)))
        y = self.relu(self.middle_norm(self.middle(y)))
        y = self.expand_norm(self.expand(y)) + self.shortcut_norm(self.shortcut(x))
        y = self.block2(self.block1(self.relu(y)))
        return self.head(self.drop(y.mean((2, 3))))


def make_model(classes):
    return Net(classes)


def make_approximate(classes):
    return Net(classes, "tanh")
