"""Simulate how often the 95 % interval of a cell's mean holds the true mean, with even and with skewed noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from workloads.statistics import mean_interval


class Noise(NamedTuple):
    """Noise. `deviation` is that of the logarithm where values are skewed to the right, else a share of the mean."""

    name: str
    deviation: float
    is_skewed: bool


NOISES = (
    Noise("even, 15 %", 0.15, False),
    Noise("skewed, 7 %", 0.07, True),
    Noise("skewed, 15 %", 0.15, True),
    Noise("skewed, 30 %", 0.3, True),
    Noise("skewed, 50 %", 0.5, True),
)


def coverage_percent(noise: Noise, repeats: int, cells: int, seed: int) -> float:
    """Percent of so many cells whose interval holds the true mean."""
    generator = np.random.Generator(np.random.PCG64([seed, repeats]))
    drawn = generator.normal(0.0, noise.deviation, (cells, repeats))
    values, mean = (np.exp(drawn), math.exp(noise.deviation**2 / 2)) if noise.is_skewed else (1 + drawn, 1.0)
    intervals = (mean_interval(cell) for cell in values.tolist())
    return 100 * sum(low <= mean <= high for _, low, high in intervals) / cells
