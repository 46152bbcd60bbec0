"""A model of the caller's code for PyTorch: an nn.Module of (n, c, h, w) float32, pixels scaled to 0..1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from adapters.own_code import PROBED, refuse_other_shape
from workloads.records.network import OwnCode


def make(make_model: Callable[[int], Any], own: OwnCode, device: torch.device, seed: int) -> nn.Module:
    """Make the model with the weights that it draws from the seed, lazy ones included. Raises TypeError, ValueError."""
    torch.manual_seed(seed)
    model = make_model(own.classes)
    if not isinstance(model, nn.Module):
        raise TypeError(f"{own.function} returns a {type(model).__name__}, an nn.Module is needed")
    model.to(device).eval()
    height, width, channels = own.input_shape
    with torch.no_grad():
        logits = model(torch.zeros(PROBED, channels, height, width, device=device))
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"the model returns a {type(logits).__name__}, a tensor of logits is needed")
    refuse_other_shape(logits.shape, own.classes)
    return model


def statistics_bytes(model: nn.Module) -> int:
    """Bytes of the model's buffers, which are not trained."""
    return sum(buffer.nbytes for buffer in model.buffers())
