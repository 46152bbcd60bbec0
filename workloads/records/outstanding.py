"""The work left after a steady window: what copies of the weights show of it, and how much may be left."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

# Work that may still be left, in seconds and as a part of the window.
LEFT_S, LEFT_SHARE = 0.05, 0.02
# A copy of a large network takes half a second, and its time spreads by as much. So if more seems to be left, this many
# copies are made again, with no work left: they show the time of a copy, and twice their spread is allowed.
COPIES_AGAIN, SPREADS = 5, 2
FIRST_TWO = ("first_s", "second_s", "first_cpu_s", "second_cpu_s")  # fields that every trial with copies has


@dataclass(frozen=True)
class Outstanding:
    """Seconds of two copies of the weights, one after the other, made right after a segment of the window and summed
    over the segments.

    `cpu` is the process's own processor time. The time by which the first takes longer than the second was remaining
    work. `again` are the copies that were made again, each right after a forward pass; none if nothing seemed to be
    left.
    """

    first_s: float
    second_s: float
    first_cpu_s: float
    second_cpu_s: float
    segments: int = 1
    again_s: tuple[float, ...] = ()
    again_cpu_s: tuple[float, ...] = ()

    def compare_with_allowed(self, window_s: float, on_cpu: bool) -> tuple[float, float]:
        """Return (seconds of work that were left, seconds allowed).

        Another process makes a copy slow, but does not change its processor time. So on a CPU both must be longer, and
        the one with the smaller excess is returned.
        """
        kinds = [(self.first_s, self.second_s, self.again_s), (self.first_cpu_s, self.second_cpu_s, self.again_cpu_s)]
        base_s, compared = max(LEFT_S, LEFT_SHARE * window_s), []
        for first_s, second_s, again_s in kinds if on_cpu else kinds[:1]:
            usual_s = self.segments * median(again_s) if again_s else second_s
            spread_s = self.segments * (max(again_s) - min(again_s)) if again_s else 0.0
            compared.append((first_s - usual_s, base_s + SPREADS * spread_s))
        return min(compared, key=lambda each: each[0] - each[1])

    def seems_left(self, window_s: float, on_cpu: bool) -> bool:
        """True if more work was left than allowed."""
        left_s, allowed_s = self.compare_with_allowed(window_s, on_cpu)
        return left_s > allowed_s
