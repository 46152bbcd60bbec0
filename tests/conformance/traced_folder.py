"""Trace a model in this Python as the runner has it traced, and compute its logits in float64."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from adapters.pytorch.tracing import __main__ as program
from adapters.pytorch.tracing.draws import read_draws
from adapters.pytorch.tracing.values import Refused
from workloads.source.traced import TRACED_FILE


def trace_into(
    folder: Path,
    make: Callable[[], nn.Module],
    shape: tuple[int, int, int],
    pixels: np.ndarray,
    change: Callable[[nn.Module], nn.Module] | None = None,
) -> None:
    """Write what the program writes for this model, and logits.npy of `pixels` (n, h, w, c) as it is afterwards.

    `change` changes the model's weights once it is whole.
    """
    folder.mkdir()
    torch.manual_seed(0)
    try:
        model = make()
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
        program.run_once(model, images)
        model = change(model) if change else model
        before = read_draws()
        traced: dict[str, Any] = program.import_module(model, shape, folder)
        assert read_draws() == before, "the import draws random numbers"
        with torch.no_grad():
            logits = model.double().eval()(images.double() / 255)
        np.save(folder / "logits.npy", logits.numpy())
    except Refused as refusal:
        traced = {"refused": refusal.line()}
    (folder / TRACED_FILE).write_text(json.dumps(traced))
