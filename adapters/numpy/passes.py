"""One pass through a model in plain numpy: the state that its layers share, and how its numbers are rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.records.build import DIGITS

Array = NDArray[Any]
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]  # gradient of the output -> of the input; those of weights go to the pass
Forward = tuple[Array, Backward]

DIGITS_OF_FLOAT32 = 24


def as_computed(array: Array) -> Array:
    """Return the array in the precision in which it was computed."""
    return array


def rounding_to(precision: str) -> Callable[[Array], Array]:
    """Return a function float32 -> float32, of any shape: it rounds each number to the nearest, halfway to the even
    one, and keeps it in float32. The range stays that of float32: loss scaling handles float16's.
    """
    if precision not in DIGITS:
        return as_computed
    missing = DIGITS_OF_FLOAT32 - DIGITS[precision]

    def rounded(array: Array) -> Array:
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        last = (bits >> np.uint32(missing)) & np.uint32(1)
        raised = bits + (np.uint32((1 << (missing - 1)) - 1) + last)
        return np.where(
            np.isfinite(array), (raised >> np.uint32(missing) << np.uint32(missing)).view(np.float32), array
        )

    return rounded


@dataclass
class Pass:
    """One pass through a model: what it reads, and what it leaves besides its result."""

    weights: Parameters  # {"layer/role"}
    training: bool
    generator: np.random.Generator  # for dropout's masks
    rounded: Callable[[Array], Array] = as_computed  # rounds a layer's output, forward and backward, and its kernels
    images: Array | None = None  # the first layer's input: it trains nothing, so a convolution of it gives it zeros
    outputs: Parameters = field(default_factory=dict)  # {layer: its output}
    statistics: Parameters = field(default_factory=dict)  # {"layer/role": running statistic after this batch}
    gradients: Parameters = field(default_factory=dict)  # {"layer/role"}, once backward has been called
