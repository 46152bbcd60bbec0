"""Each layer record of workloads/layers as a PyTorch module, channels first; and the loss after them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import nn
from torch.nn.utils import skip_init

from adapters.pytorch import features
from workloads import layers
from workloads.spec import Workload


def split_margins(
    margins: layers.Margins, most: float = math.inf
) -> tuple[tuple[int, int], tuple[int, int, int, int] | None]:
    """Return (margins that PyTorch adds itself, margins padded separately, None for none).

    PyTorch's own are equal on both sides; those of a pool are at most half of its size, which is `most`.
    """
    (top, bottom), (left, right) = margins
    own = (top, left) == (bottom, right) and max(top, left) <= most
    return ((top, left), None) if own else ((0, 0), (left, right, top, bottom))


def pad_before(module: nn.Module, margins: tuple[int, int, int, int] | None, value: float = 0.0) -> nn.Module:
    """Return the same module, which pads its input."""
    if margins:
        module.register_forward_pre_hook(lambda _, x: nn.functional.pad(x[0], margins, value=value))
    return module


def convolution(layer: layers.Conv2D | layers.DepthwiseConv2D, shape: layers.Shape) -> nn.Module:
    """Return the layer (n, c, h, w) -> (n, filters, rows, columns), or for a depthwise one (n, c, rows, columns)."""
    filters, groups, dilation = shape[2], shape[2], 1
    if isinstance(layer, layers.Conv2D):
        filters, groups, dilation = layer.filters, layer.groups, layer.dilation
    even, uneven = split_margins(layer.margins(shape))
    module = nn.Conv2d(shape[2], filters, layer.kernel, layer.stride, even, dilation, groups, layer.bias)
    return pad_before(module, uneven)


def max_pool(layer: layers.MaxPool2D, shape: layers.Shape) -> nn.Module:
    """(n, c, h, w) -> (n, c, rows, columns)."""
    even, uneven = split_margins(layer.margins(shape), layer.size // 2)
    return pad_before(nn.MaxPool2d(layer.size, layer.stride, even), uneven, -math.inf)


def average_pool(layer: layers.AveragePool2D, shape: layers.Shape) -> nn.Module:
    """(n, c, h, w) -> (n, c, rows, columns)."""
    (top, bottom), (left, right) = layer.margins(shape)
    if any((top, bottom, left, right)):
        return PaddedAveragePool(layer, shape, (left, right, top, bottom))
    return nn.AvgPool2d(layer.size, layer.stride)


class PaddedAveragePool(nn.Module):
    """The mean of a window's pixels: its sum over the number of pixels that are not margin.

    PyTorch's own margins are not used: in channels-last memory on CUDA their gradient is wrong up to 2.13
    (pytorch#188344; seen on an H200 with 2.11).
    """

    def __init__(self, layer: layers.AveragePool2D, shape: layers.Shape, margins: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.margins, self.size, self.step = margins, layer.size, layer.step
        self.register_buffer("pixels", self.sums(torch.ones(1, 1, *shape[:2])))

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w) -> (n, c, rows, columns)."""
        padded = nn.functional.pad(x, self.margins)
        return nn.functional.avg_pool2d(padded, self.size, self.step, divisor_override=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w) -> (n, c, rows, columns)."""
        return self.sums(x) / self.pixels


class Resize(nn.Module):
    """Resizes bilinearly, with half-pixel centres."""

    def __init__(self, layer: layers.Resize) -> None:
        super().__init__()
        self.size = (layer.height, layer.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w) -> (n, c, height, width)."""
        return nn.functional.interpolate(x, self.size, mode="bilinear", align_corners=False)


class Join(nn.Module):
    """Joins branches. The caller that makes it fills `branches`; an empty branch returns its input."""

    def __init__(self, join: Callable[[list[torch.Tensor]], torch.Tensor]) -> None:
        super().__init__()
        self.branches, self.join = nn.ModuleList(), join

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the branches' outputs for `x`, joined."""
        return self.join([branch(x) for branch in self.branches])


def add(ys: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum, in the shape of every branch."""
    return reduce(operator.add, ys)


def concatenate(ys: list[torch.Tensor]) -> torch.Tensor:
    """(n, c, h, w) of each branch -> (n, sum of all c, h, w); (n, t, d) and (n, d) along the last axis."""
    return torch.cat(ys, 1 if ys[0].dim() == 4 else -1)


def multiply(ys: list[torch.Tensor]) -> torch.Tensor:
    """Return the product: (n, c) combined with (n, c, h, w) is one factor per channel."""
    axes = max(y.dim() for y in ys)
    return reduce(operator.mul, (y if y.dim() == axes else y[:, :, None, None] for y in ys))


def mean_loss(workload: Workload) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return a function (logits (n, classes), labels (n,)) -> the batch's mean; a binary task has one logit."""
    if workload.loss == "binary-cross-entropy":
        return lambda logits, labels: nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float())
    return lambda logits, labels: nn.functional.cross_entropy(logits, labels.long())


def dense(width: int, layer: layers.Dense) -> nn.Module:
    """Return the layer (n, ..., width) -> (n, ..., units), not filled: it may be large, and `build` sets it."""
    return skip_init(nn.Linear, width, layer.units, bias=layer.bias)


LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], nn.Module]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: max_pool,
    layers.AveragePool2D: average_pool,
    layers.GlobalAveragePool2D: lambda layer, shape: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    layers.Resize: lambda layer, shape: Resize(layer),
    layers.BatchNorm: features.batch_norm,
    layers.LayerNorm: lambda layer, shape: features.LayerNorm(shape[-1], layer.epsilon),
    layers.ChannelScale: lambda layer, shape: features.ChannelScale(shape),
    layers.Normalise: lambda layer, shape: features.Normalise(layer),
    layers.Dropout: lambda layer, shape: nn.Dropout(layer.rate),
    layers.StochasticDepth: lambda layer, shape: features.StochasticDepth(layer),
    layers.Relu: lambda layer, shape: nn.ReLU(),
    layers.Relu6: lambda layer, shape: nn.ReLU6(),
    layers.HardSigmoid: lambda layer, shape: nn.Hardsigmoid(),
    layers.HardSwish: lambda layer, shape: nn.Hardswish(),
    layers.Gelu: lambda layer, shape: nn.GELU("tanh" if layer.approximate else "none"),
    layers.Silu: lambda layer, shape: nn.SiLU(),
    layers.Sigmoid: lambda layer, shape: nn.Sigmoid(),
    layers.Tanh: lambda layer, shape: nn.Tanh(),
    layers.Softmax: lambda layer, shape: nn.Softmax(1 if len(shape) == 3 else -1),
    layers.Flatten: lambda layer, shape: nn.Flatten(),
    layers.Dense: lambda layer, shape: dense(shape[-1], layer),
    layers.Tokens: lambda layer, shape: features.Tokens(),
    layers.PositionEmbedding: lambda layer, shape: features.PositionEmbedding(shape),
    layers.ClassToken: lambda layer, shape: features.ClassToken(shape),
    layers.MultiHeadAttention: features.MultiHeadAttention,
    layers.TokenMean: lambda layer, shape: features.TokenMean(),
    layers.FirstToken: lambda layer, shape: features.FirstToken(),
    layers.Add: lambda layer, shape: Join(add),
    layers.Concatenate: lambda layer, shape: Join(concatenate),
    layers.Multiply: lambda layer, shape: Join(multiply),
}
ROLES = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "running_variance": "running_var",
    **{f"{part}_kernel": f"{part}.weight" for part in layers.ATTENTION_PARTS},
    **{f"{part}_bias": f"{part}.bias" for part in layers.ATTENTION_PARTS},
}  # those that are called otherwise
