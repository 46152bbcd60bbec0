"""Each layer record of workloads/layers.py as a PyTorch module, channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workloads import layers


def convolution(layer: layers.Conv2D | layers.DepthwiseConv2D, shape: layers.Shape) -> nn.Module:
    """One margin an axis is PyTorch's own; uneven ones are padded apart."""
    filters, groups = (layer.filters, 1) if isinstance(layer, layers.Conv2D) else (shape[2], shape[2])
    (above, below), (left, right) = layer.margins(shape)
    even = (above, left) == (below, right)
    padding = (above, left) if even else (0, 0)
    module = nn.Conv2d(shape[2], filters, layer.kernel, layer.stride, padding, groups=groups, bias=layer.bias)
    if not even:
        module.register_forward_pre_hook(lambda _, x: nn.functional.pad(x[0], (left, right, above, below)))
    return module


def batch_norm(layer: layers.BatchNorm, shape: layers.Shape) -> nn.Module:
    """(n, c, h, w) or (n, c); PyTorch's momentum is the new batch's share, the layer's that of the old mean."""
    kind = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
    return kind(shape[-1], layer.epsilon, momentum=1 - layer.momentum)


class ResidualBranch(nn.Sequential):
    """x + branch(x)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w), as `x` is."""
        return x + super().forward(x)


class SqueezeExciteBranch(nn.Sequential):
    """x * branch(x), whose (n, c) counts for every pixel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w), as `x` is."""
        return x * super().forward(x)[:, :, None, None]


LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], nn.Module]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: lambda layer, shape: nn.MaxPool2d(layer.size),
    layers.AveragePool2D: lambda layer, shape: nn.AvgPool2d(layer.size),
    layers.GlobalAveragePool2D: lambda layer, shape: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    layers.BatchNorm: batch_norm,
    layers.Dropout: lambda layer, shape: nn.Dropout(layer.rate),
    layers.Relu: lambda layer, shape: nn.ReLU(),
    layers.Relu6: lambda layer, shape: nn.ReLU6(),
    layers.HardSigmoid: lambda layer, shape: nn.Hardsigmoid(),
    layers.HardSwish: lambda layer, shape: nn.Hardswish(),
    layers.Flatten: lambda layer, shape: nn.Flatten(),
    layers.Dense: lambda layer, shape: nn.Linear(shape[0], layer.units),
    layers.Residual: lambda layer, shape: ResidualBranch(),
    layers.SqueezeExcite: lambda layer, shape: SqueezeExciteBranch(),
}
ROLES = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "running_variance": "running_var",
}  # those that are called otherwise
