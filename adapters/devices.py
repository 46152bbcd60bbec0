"""Divide the images of one update between devices that train one model, the same way for every framework."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adapters.base import Order, Unsupported
from workloads.records.build import FLOAT32, TF32, TUNED

# A device that gets no image of an update computes this many all the same, because all devices must take part;
# BatchNorm needs two values of a channel.
FILLED = 2


@dataclass(frozen=True)
class Share:
    """One device's part of an update. `weight` is its part of the mean over all images, 0 if `rows` (n,), indices
    into the split, only fill in.
    """

    rows: Order
    weight: float


def shares(batch: Order, devices: int) -> list[Share]:
    """Divide `batch` (n,) between the devices as evenly as possible: the first ones get one more. The gradient of
    the mean over all of them is the sum of the devices' means, each times its weight.
    """
    pieces = np.array_split(batch, devices)
    return [
        Share(piece, len(piece) / len(batch)) if len(piece) else Share(np.resize(batch, FILLED), 0.0)
        for piece in pieces
    ]


def refuse(profile: str, precision: str, feed: str, name: str) -> None:
    """Raise Unsupported for settings in which this framework's data parallel was not compared with one device."""
    unheld = [
        *([f"profile {profile}"] if profile == TUNED else []),
        *([precision] if precision not in (FLOAT32, TF32) else []),
        *([f"feed {feed}"] if feed != "host" else []),
    ]
    if unheld:
        raise Unsupported(f"{name} on several devices in {' and '.join(unheld)}: nobody has held it against one device")


def refuse_parts(part: int | None, name: str) -> None:
    """Raise Unsupported if each device would have to go through its share in parts."""
    if part is not None:
        raise Unsupported(
            f"{name} on several devices accumulates no gradients here: leave --accumulate or --devices out"
        )
