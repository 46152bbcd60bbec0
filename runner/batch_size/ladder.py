"""Try single batch sizes, and choose those that may be the best: the first part of a search for the best size.

The ladder has powers of four up to the bound, and the bound itself. Then the powers of two next to every size that may
still be the best are tried. Suppose that the neighbours of the best are worse by d. Then the best of all sizes beats
the best power of two by d / 4 at most. This follows from a parabola over the logarithm. So sizes between powers of two
are tried only where d is more than CLIFF: halfway, as 96 between 64 and 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

NEAR = 0.2  # sizes whose single figure is worse than the best by more than this share get no second trial
CLIFF = 0.3  # between a near size and the next one: a larger loss has the size halfway tried, too

MeasureOnce = Callable[[int], float | None]  # batch size -> logarithm of one trial's figure, or None; higher is better


def climb_ladder(measure_once: MeasureOnce, smallest: int, largest: int) -> dict[int, float]:
    """Return {batch size: logarithm} of the sizes that gave a figure: powers of four, powers of two next to near ones,
    and sizes halfway down a cliff.
    """
    powers = [2**power for power in range(largest.bit_length()) if smallest <= 2**power <= largest]
    sizes = sorted({*powers, smallest, largest})
    first = [size for size in sizes if size not in powers or size.bit_length() % 2 or size == powers[-1]]
    known = {size: measure_once(size) for size in first}
    while missing := _list_untried_near(sizes, known):
        known |= {size: measure_once(size) for size in missing}
    known |= {size: measure_once(size) for size in _halfway(known)}
    return {size: figure for size, figure in known.items() if figure is not None}


def _halfway(known: Mapping[int, float | None]) -> list[int]:
    """Return the sizes halfway between a near size and one next to it whose figure is worse by more than CLIFF."""
    figures = {size: figure for size, figure in sorted(known.items()) if figure is not None}
    near = _near(figures)
    return [
        (low + high) // 2
        for low, high in pairwise(figures)
        if {low, high}.intersection(near)
        and abs(figures[low] - figures[high]) > -math.log(1 - CLIFF)
        and low + 1 < high <= 2 * low
    ]


def _list_untried_near(sizes: Sequence[int], known: Mapping[int, float | None]) -> list[int]:
    """Return the untried sizes that are next to a near one or next to one that failed."""
    near = _near({size: figure for size, figure in known.items() if figure is not None})
    open_ended = {*near, *(size for size, figure in known.items() if figure is None)}
    return [
        size
        for place, size in enumerate(sizes)
        if size not in known and open_ended.intersection(sizes[max(0, place - 1) : place + 2])
    ]


def _near(figures: Mapping[int, float]) -> list[int]:
    """Return the sizes whose single figure, given a trial's noise, may be within TOLERATED of the best."""
    least = max(figures.values(), default=0.0) + math.log(1 - NEAR)
    return [size for size, figure in sorted(figures.items()) if figure >= least]


def choose_candidates(ladder: Mapping[int, float]) -> list[int]:
    """Return the near sizes. A single one is joined by its neighbours, because no single trial decides."""
    near, sizes = _near(ladder), sorted(ladder)
    if len(near) > 1:
        return near
    place = sizes.index(near[0])
    return sizes[max(0, place - 1) : place + 2]
