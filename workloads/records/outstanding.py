"""The work that a steady window left behind: what copies of the weights say of it, and how much may be left."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

# What may still be to be done, in seconds and as a part of the window.
LEFT_S, LEFT_SHARE = 0.05, 0.02
# A copy of a large network takes half a second, and its time spreads by as much. So where more seems to be left, this
# many copies are made again, with nothing to be done: they say what a copy takes, and twice their spread is allowed.
COPIES_AGAIN, SPREADS = 5, 2
FIRST_TWO = ("first_s", "second_s", "first_cpu_s", "second_cpu_s")  # fields that every trial with copies has


@dataclass(frozen=True)
class Outstanding:
    """Two copies of the weights, one after the other, as soon as a segment of the window had ended; seconds of each,
    summed over the segments.

    `cpu` is the process's own processor time. What the first takes longer than the second was still to be done.
    `again` are the copies that were made again, each right behind a forward pass; none where nothing seemed to be left.
    """

    first_s: float
    second_s: float
    first_cpu_s: float
    second_cpu_s: float
    segments: int = 1
    again_s: tuple[float, ...] = ()
    again_cpu_s: tuple[float, ...] = ()

    def compare_with_allowed(self, window_s: float, on_cpu: bool) -> tuple[float, float]:
        """Return (seconds of work that were left, how many may be).

        A neighbour makes a copy slow, but not its processor time: on a CPU both must be longer, and the less telling
        of the two is returned.
        """
        kinds = [(self.first_s, self.second_s, self.again_s), (self.first_cpu_s, self.second_cpu_s, self.again_cpu_s)]
        base_s, compared = max(LEFT_S, LEFT_SHARE * window_s), []
        for first_s, second_s, again_s in kinds if on_cpu else kinds[:1]:
            usual_s = self.segments * median(again_s) if again_s else second_s
            spread_s = self.segments * (max(again_s) - min(again_s)) if again_s else 0.0
            compared.append((first_s - usual_s, base_s + SPREADS * spread_s))
        return min(compared, key=lambda each: each[0] - each[1])

    def seems_left(self, window_s: float, on_cpu: bool) -> bool:
        """True where more was left than may be."""
        left_s, allowed_s = self.compare_with_allowed(window_s, on_cpu)
        return left_s > allowed_s
