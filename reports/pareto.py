"""Find the Pareto front: what nothing else is at least as good as in two quantities."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def find_front(values: Mapping[Key, tuple[float | None, float | None]], better: tuple[int, int]) -> list[Key]:
    """List the keys on the front, in the order of the first value.

    `better` says for each of the two values whether more (1) or less (-1) is better. A key is not on the front if
    another is at least as good in both values and better in one; of equal pairs all are. A pair with None is on no
    front, and beats nothing.
    """
    known = {key: (x, y) for key, (x, y) in values.items() if x is not None and y is not None}
    gains = {key: (better[0] * x, better[1] * y) for key, (x, y) in known.items()}
    front = [
        key
        for key, (x, y) in gains.items()
        if not any(x <= a and y <= b and (x, y) != (a, b) for a, b in gains.values())
    ]
    return sorted(front, key=lambda key: known[key][0])
