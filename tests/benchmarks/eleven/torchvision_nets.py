"""torchvision's functions, unchanged, as measure_eleven.py gives them to `--workload FILE.py:FUNCTION --from pytorch`.

A run hands this file alone to PyTorch's environment; `PACKAGES` is replaced by the folder that has torchvision.
"""

from __future__ import annotations

import sys

import torch

if torch.version.cuda is None:  # torchvision's build for CUDA cannot load its own operators; no network here calls them
    LIBRARY = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
sys.path.append("PACKAGES")

from torchvision import models


def resnet50() -> torch.nn.Module:
    """Return torchvision's network of 1,000 classes with random weights."""
    return models.resnet50()


def mobilenet_v3_large() -> torch.nn.Module:
    """Return the same of this name."""
    return models.mobilenet_v3_large()


def efficientnet_b0() -> torch.nn.Module:
    """Return the same of this name."""
    return models.efficientnet_b0()


def convnext_tiny() -> torch.nn.Module:
    """Return the same of this name."""
    return models.convnext_tiny()


def vit_b_16() -> torch.nn.Module:
    """Return the same of this name, for images of 64 x 64."""
    return models.vit_b_16(image_size=64)


def densenet121() -> torch.nn.Module:
    """Return the same of this name."""
    return models.densenet121()
