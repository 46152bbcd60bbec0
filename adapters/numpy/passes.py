"""One pass through a model in plain numpy: the state that its layers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]  # gradient of the output -> of the input; those of weights go to the pass
Forward = tuple[Array, Backward]


def as_computed(array: Array) -> Array:
    """Return the array in the precision in which it was computed."""
    return array


@dataclass
class Pass:
    """One pass through a model: what it reads, and what it leaves besides its result."""

    weights: Parameters  # {"layer/role"}
    training: bool
    generator: np.random.Generator  # for dropout's masks
    rounded: Callable[[Array], Array] = as_computed  # rounds a layer's output, forward and backward, and its kernels
    outputs: Parameters = field(default_factory=dict)  # {layer: its output}
    statistics: Parameters = field(default_factory=dict)  # {"layer/role": running statistic after this batch}
    gradients: Parameters = field(default_factory=dict)  # {"layer/role"}, once backward has been called
