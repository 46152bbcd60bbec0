"""How the images of one update are divided between devices that train one model, the same for every framework."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adapters.base import Order, Unsupported
from workloads.records.build import FLOAT32, TF32, TUNED

# A device that gets no image of an update computes these many all the same, for all devices must take part; BatchNorm
# wants two values of a channel.
FILLED = 2


@dataclass(frozen=True)
class Share:
    """What one device does of an update: `weight` is its part of the mean over all images, 0 where `rows` (n,), indices
    into the split, are none of its own.
    """

    rows: Order
    weight: float


def shares(batch: Order, devices: int) -> list[Share]:
    """Of `batch` (n,), for each device, as even as can be: the first ones have one more. The gradient of the mean over
    all of them is the sum of the devices' own means, each by its weight.
    """
    pieces = np.array_split(batch, devices)
    return [
        Share(piece, len(piece) / len(batch)) if len(piece) else Share(np.resize(batch, FILLED), 0.0)
        for piece in pieces
    ]


def refuse(profile: str, precision: str, feed: str, name: str) -> None:
    """Raises Unsupported for what this framework's data parallel has not been held against one device in."""
    unheld = [
        *([f"profile {profile}"] if profile == TUNED else []),
        *([precision] if precision not in (FLOAT32, TF32) else []),
        *([f"feed {feed}"] if feed != "host" else []),
    ]
    if unheld:
        raise Unsupported(f"{name} on several devices in {' and '.join(unheld)}: nobody has held it against one device")


def refuse_parts(part: int | None, name: str) -> None:
    """Raises Unsupported where each device would have to go through its share in parts."""
    if part is not None:
        raise Unsupported(
            f"{name} on several devices accumulates no gradients here: leave --accumulate or --devices out"
        )
