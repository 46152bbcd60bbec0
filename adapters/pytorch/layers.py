"""Each layer record of workloads/layers as a PyTorch module, channels first; and the loss behind them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import nn

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


class NormOfOneValue(nn.modules.batchnorm._BatchNorm):
    """BatchNorm that also trains on one value per channel, which PyTorch refuses because its running variance divides
    by 0.

    The batch's variance is 0, so the output is beta, and no gradient passes, as the contract requires.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, c, h, w) or (n, c), the same shape as `x`."""
        if not self.training or x.numel() > self.num_features:
            return super().forward(x)
        with torch.no_grad():
            self.running_mean.lerp_(x.reshape(-1).to(self.running_mean.dtype), self.momentum)
            self.running_var.mul_(1 - self.momentum)
        return torch.batch_norm(
            x, self.weight, self.bias, None, None, True, 0.0, self.eps, torch.backends.cudnn.enabled
        )


class ImageBatchNorm(NormOfOneValue, nn.BatchNorm2d):
    """BatchNorm of (n, c, h, w)."""


class VectorBatchNorm(NormOfOneValue, nn.BatchNorm1d):
    """BatchNorm of (n, c)."""


def batch_norm(layer: layers.BatchNorm, shape: layers.Shape) -> nn.Module:
    """Return the layer for (n, c, h, w) or (n, c). PyTorch's momentum is the new batch's share, the layer's the old."""
    kind = ImageBatchNorm if len(shape) == 3 else VectorBatchNorm
    return kind(shape[-1], layer.epsilon, momentum=1 - layer.momentum)


class BiasedVariance:
    """Keeps a BatchNorm's running variance to the contract: PyTorch adds the unbiased variance of each batch.

    Over t steps of n values per channel, running = m^t start + (the sum of the added variances). The sum is n / (n - 1)
    times that of the biased variances. So it is corrected between steps, when n changes or it is read, and costs a step
    nothing.
    """

    def __init__(self, block: Any, shape: layers.Shape) -> None:
        self.block, self.pixels = block, math.prod(shape[:-1])
        self.batch = self.steps = 0
        self.start = block.running_var.clone()

    def expect(self, batch: int) -> None:
        """Announce the batch size of the next steps."""
        if batch != self.batch:
            self.settle()
            self.batch = batch

    def settle(self) -> None:
        """Correct the running variance, for all steps since the last call."""
        with torch.no_grad():
            running, n = self.block.running_var, self.batch * self.pixels
            if self.steps:
                kept = (1 - self.block.momentum) ** self.steps * self.start
                running.copy_(kept + (running - kept) * ((n - 1) / n))
            self.start, self.steps = running.clone(), 0


class LayerNorm(nn.LayerNorm):
    """LayerNorm over channels, also those of images, which are not PyTorch's last axis."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, c, h, w), (n, t, d) or (n, d), the same shape as `x`."""
        if x.dim() == 4:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return super().forward(x)


class Tokens(nn.Module):
    """Makes one token per pixel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w) -> (n, h * w, c)."""
        return x.flatten(2).transpose(1, 2)


class PositionEmbedding(nn.Module):
    """Adds an embedding: x + embedding."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, t, d), the same shape as `x`."""
        return x + self.embedding


class MultiHeadAttention(nn.Module):
    """Four linear layers around PyTorch's scaled dot-product attention."""

    def __init__(self, layer: layers.MultiHeadAttention, shape: layers.Shape) -> None:
        super().__init__()
        self.heads = layer.heads
        for part in layers.ATTENTION_PARTS:
            self.add_module(part, nn.Linear(shape[1], shape[1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, t, d), the same shape as `x`."""
        query, key, value = (
            part(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        heads = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.output(heads.transpose(1, 2).flatten(2))


class Resize(nn.Module):
    """Resizes bilinearly, with half-pixel centres."""

    def __init__(self, layer: layers.Resize) -> None:
        super().__init__()
        self.size = (layer.height, layer.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, c, h, w) -> (n, c, height, width)."""
        return nn.functional.interpolate(x, self.size, mode="bilinear", align_corners=False)


class TokenMean(nn.Module):
    """The mean of all tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, t, d) -> (n, d)."""
        return x.mean(1)


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


LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], nn.Module]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: max_pool,
    layers.AveragePool2D: average_pool,
    layers.GlobalAveragePool2D: lambda layer, shape: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    layers.Resize: lambda layer, shape: Resize(layer),
    layers.BatchNorm: batch_norm,
    layers.LayerNorm: lambda layer, shape: LayerNorm(shape[-1], layer.epsilon),
    layers.Dropout: lambda layer, shape: nn.Dropout(layer.rate),
    layers.Relu: lambda layer, shape: nn.ReLU(),
    layers.Relu6: lambda layer, shape: nn.ReLU6(),
    layers.HardSigmoid: lambda layer, shape: nn.Hardsigmoid(),
    layers.HardSwish: lambda layer, shape: nn.Hardswish(),
    layers.Gelu: lambda layer, shape: nn.GELU(),
    layers.Silu: lambda layer, shape: nn.SiLU(),
    layers.Sigmoid: lambda layer, shape: nn.Sigmoid(),
    layers.Tanh: lambda layer, shape: nn.Tanh(),
    layers.Softmax: lambda layer, shape: nn.Softmax(1 if len(shape) == 3 else -1),
    layers.Flatten: lambda layer, shape: nn.Flatten(),
    layers.Dense: lambda layer, shape: nn.Linear(shape[-1], layer.units),
    layers.Tokens: lambda layer, shape: Tokens(),
    layers.PositionEmbedding: lambda layer, shape: PositionEmbedding(shape),
    layers.MultiHeadAttention: MultiHeadAttention,
    layers.TokenMean: lambda layer, shape: TokenMean(),
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
