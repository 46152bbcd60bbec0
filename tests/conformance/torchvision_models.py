"""Trace torchvision's models and compute their logits: python torchvision_models.py FOLDER NAME..."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

SHAPE = (64, 64, 3)
SETTINGS: dict[str, dict[str, Any]] = {"vit_b_16": {"image_size": 64}}


def define_operators() -> None:
    """Define the operators that torchvision's Python needs at import.

    Its build for CUDA cannot load its own with a CPU build of PyTorch. No model here calls them.
    """
    if torch.version.cuda is None:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        globals()["kept"] = library  # it defines them as long as it lives


def main(folder: Path, names: list[str]) -> None:
    """Trace each model into FOLDER/NAME, with its logits of FOLDER/pixels.npy."""
    define_operators()
    from torchvision import models
    from traced_folder import trace_into
    from traced_models import jolt

    pixels = np.load(folder / "pixels.npy")
    for name in names:
        trace_into(folder / name, partial(getattr(models, name), **SETTINGS.get(name, {})), SHAPE, pixels, jolt)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(Path(sys.argv[1]), sys.argv[2:])
