"""Show progress below the lines of the searches' trials: which search runs, how far it is, the time left."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import Progress

from runner.batch_size.forecast import Expected
from runner.progress import duration, live_columns


class SearchDisplay(Progress):
    """A live line over the expected trials of all searches; a search that ends early or late corrects their number."""

    def __init__(self, console: Console, expected: Sequence[Expected]) -> None:
        """Start the display; outside a terminal nothing is shown."""
        super().__init__(*live_columns(), console=console, disable=not console.is_terminal)
        self.ahead = {(each.framework, each.answer): each for each in expected}
        self.current: Expected | None = None
        self.made = self.of_current = 0  # trials
        self.expected_s = self.measured_s = 0.0  # of the searches that have ended
        self.bar = self.add_task("", total=sum(each.trials for each in expected), left=self._left())

    def begin(self, framework: str, answer: str) -> None:
        """Show this search as the running one; the one before it has ended."""
        self.end()
        self.current, self.began_s = self.ahead.pop((framework, answer), None), time.monotonic()
        self._show(f"{framework}: {answer}")

    def tried(self) -> None:
        """Count one more trial of the running search."""
        self.made, self.of_current = self.made + 1, self.of_current + 1
        self._show()

    def end(self) -> None:
        """End the running search, whatever number of trials it was expected to take."""
        if self.current is not None:
            self.expected_s += self.current.seconds
            self.measured_s += time.monotonic() - self.began_s
            self.current, self.of_current = None, 0
        self._show()

    @property
    def total(self) -> int:
        """Trials that were run, plus those still expected."""
        here = max(1, self.current.trials - self.of_current) if self.current else 0
        return self.made + here + sum(each.trials for each in self.ahead.values())

    def _show(self, name: str | None = None) -> None:
        self.update(self.bar, description=name, completed=self.made, total=self.total, left=self._left())

    def _left(self) -> str:
        """Return the sum of the open expectations, scaled by how the ended searches turned out."""
        scale = self.measured_s / self.expected_s if self.expected_s else 1.0
        open_s = scale * sum(each.seconds for each in self.ahead.values())
        if self.current is not None:
            open_s += max(0.0, scale * self.current.seconds - (time.monotonic() - self.began_s))
        return f"about {duration(open_s)} left"
