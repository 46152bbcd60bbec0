"""Numbers rounded to a reduced precision, kept in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adapters.numpy.passes import Array, as_computed
from workloads.records.build import DIGITS

OF_FLOAT32 = 24  # digits


def rounding_to(precision: str) -> Callable[[Array], Array]:
    """Return a function float32 -> float32, of any shape: it rounds each number to the nearest, halfway to the even
    one. The range stays that of float32: loss scaling handles float16's.
    """
    if precision not in DIGITS:
        return as_computed
    missing = OF_FLOAT32 - DIGITS[precision]

    def rounded(array: Array) -> Array:
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        last = (bits >> np.uint32(missing)) & np.uint32(1)
        raised = bits + (np.uint32((1 << (missing - 1)) - 1) + last)
        return np.where(
            np.isfinite(array), (raised >> np.uint32(missing) << np.uint32(missing)).view(np.float32), array
        )

    return rounded
