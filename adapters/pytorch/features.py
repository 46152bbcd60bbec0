"""Norms, masks and layers of tokens as PyTorch modules."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from workloads import layers


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
    norm = kind(shape[-1], layer.epsilon, momentum=1 - layer.momentum)
    norm.weight = norm.weight if layer.scale else None
    norm.bias = norm.bias if layer.center else None
    return norm


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


class TokenMean(nn.Module):
    """The mean of all tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, t, d) -> (n, d)."""
        return x.mean(1)


class FirstToken(nn.Module):
    """The first token alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, t, d) -> (n, d)."""
        return x[:, 0]


class ClassToken(nn.Module):
    """Puts a learned token before the others."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(shape[1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, t, d) -> (n, t + 1, d)."""
        return torch.cat((self.token.expand(len(x), 1, -1), x), 1)


class ChannelScale(nn.Module):
    """Multiplies each channel by a learned factor."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(shape[-1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, c, h, w), (n, t, d) or (n, d), the same shape as `x`."""
        return x * (self.scale[:, None, None] if x.dim() == 4 else self.scale)


class Normalise(nn.Module):
    """Subtracts a constant from each channel and divides by another."""

    def __init__(self, layer: layers.Normalise) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(layer.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(layer.std)[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, c, h, w), the same shape as `x`."""
        return (x - self.mean) / self.std


class StochasticDepth(nn.Module):
    """Drops whole images in training."""

    def __init__(self, layer: layers.StochasticDepth) -> None:
        super().__init__()
        self.rate = layer.rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, ...), the same shape as `x`."""
        if not self.training or self.rate == 0:
            return x
        images = x.new_ones((len(x), *(1 for _ in x.shape[1:])))
        return x * nn.functional.dropout(images, self.rate)
