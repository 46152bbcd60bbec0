"""Run one framework's searches with the trials that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from runner.batch_size.best import Disturbed, find_best_size
from runner.batch_size.cliffs import compare_speed
from runner.batch_size.largest import Bound, SearchState, list_sizes_around
from runner.batch_size.memory_limit import attempts, find_peak_bytes, largest_of
from runner.batch_size.steps import StepTrials
from runner.launch import Unavailable
from runner.progress import Advice, list_reason
from runner.request.cli import Request
from runner.request.parser import RETRIES
from workloads.records import figures
from workloads.records.batch_answers import LIMIT_NAMES, Best, Fit, Largest, MicroBatches, SizePoint
from workloads.records.disturbance import is_withheld
from workloads.records.figures import FigureSpec
from workloads.records.result import TrialResult
from workloads.records.status import COMPLETED, Status
from workloads.schedules import divide_batch
from workloads.trainings import ENERGIES
from workloads.words import format_count

MOST = 8192  # no larger size is searched for speed
FIRST = 32  # shows if there is a counter, where nothing else was tried


class Search:
    """Searches of one framework. Every trial is a line on the console; its figures serve every answer."""

    def __init__(
        self,
        framework: str,
        steps: StepTrials,
        bound: Bound,
        console: Console,
        tried: Callable[[], None] = lambda: None,
        advice: Advice | None = None,
    ) -> None:
        """Set up the searches.

        `steps` are trials of all frameworks, within the bound; `tried` is called for each trial. `advice` is given
        after the first disturbed one.
        """
        self.framework, self.console, self.tried, self.advice = framework, console, tried, advice
        self.steps = replace(steps, show=self.show)
        self.bound = bound
        self.fitting: Largest | None = None  # once it was searched for
        self.results: list[TrialResult] = []
        self.peaks: dict[int, list[int]] = {}  # by batch size

    def show(self, result: TrialResult, folder: Path) -> None:
        """Print a trial and note its figures.

        One with the limit lifted, or with updates in parts, says nothing about speed or memory of a batch.
        """
        self.tried()
        plain, parts = self.steps.specs[self.framework], result.spec.task.accumulate
        if result.spec.placement != plain.placement:
            self.console.print(format_line(result, None, "with the limit lifted"))
            return
        if parts != plain.task.accumulate:
            self.console.print(format_line(result, None, f"in {parts:,} parts"))
            return
        self.results.append(result)
        peak = find_peak_bytes(result, folder, self.bound.limit) if result.status in COMPLETED else None
        if peak is not None:
            self.peaks.setdefault(result.spec.cell.batch_size, []).append(peak)
        self.console.print(format_line(result, peak))
        if self.advice is not None:
            self.advice.give(result)

    @property
    def version(self) -> str | None:
        """Version of the framework, as a trial reported it."""
        return next((each.facts["framework_version"] for each in self.results if each.facts), None)

    def trial(self, batch_size: int) -> TrialResult:
        """Run one more trial."""
        return self.steps.run(self.framework, batch_size)[0]

    def largest(self) -> Largest:
        """Search for the largest size that fits."""
        bound = self.bound
        limit = f"{bound.limit_bytes / 2**20:,.0f} MiB ({LIMIT_NAMES[bound.limit]})"
        self.console.print(f"{self.framework}: the largest that fits into {limit}")
        answer = largest_of(self.steps, self.framework, bound)
        attempt, _ = attempts(self.steps, self.framework, bound)
        self.fitting = answer = replace(answer, around=tuple(map(attempt, list_sizes_around(answer))))
        size = "none" if answer.batch_size is None else f"{answer.batch_size:,}"
        self.console.print(
            f"{self.framework}: {size}, after {format_count(len(answer.tried), 'trial')} "
            f"and {len(answer.around)} around it"
        )
        for told in (answer.evidence, answer.reason):
            if told:
                self.console.print(f"  {told}")
        for failed, reason in answer.failed_otherwise.items():
            self.console.print(f"  {failed:,} failed, not for lack of memory: {reason}")
        return answer

    def compare_largest(self) -> Largest | None:
        """Return the largest with its speed, compared with the best that was measured. None if it is unknown."""
        if self.fitting is None or not self.fitting.batch_size:
            return self.fitting
        known: dict[int, list[float]] = {}
        for result in self.results:
            if result.status is Status.OK and (value := result.first_known(figures.SPEED)) is not None:
                known.setdefault(result.spec.cell.batch_size, []).append(value)
        speed = compare_speed(self._measure_speed, self.fitting.batch_size, known)
        size, reason = self.fitting.batch_size, None
        if speed is None:
            last = [result for result in self.results if result.spec.cell.batch_size == size][-1]
            reason = f"its speed is unknown: the last trial of it was {last.status}: {last.reason}"
        self.fitting = replace(self.fitting, speed=speed, speed_reason=reason)
        style = "yellow" if speed is None or speed.falls else None
        self.console.print(f"{self.framework}: {size:,}: {speed.words if speed else reason}", style=style)
        return self.fitting

    def split(self, global_batch: int) -> MicroBatches | None:
        """Return the fewest parts in which an update of this many images fits; None if that is unknown.

        Parts take more memory than one batch of their size, because their gradients are kept: so they are tried.
        """
        largest = self.fitting.batch_size if self.fitting else None
        while largest:
            parts, size = divide_batch(global_batch, largest)
            if parts == 1:
                return MicroBatches(global_batch, parts, size)
            attempt, lifted = attempts(self.steps.accumulating(parts), self.framework, self.bound)
            fit = SearchState(attempt, self.bound, {}, lifted).ask(size)
            if fit is Fit.FITS:
                return MicroBatches(global_batch, parts, size)
            self.console.print(f"{self.framework}: {global_batch:,} images in {parts:,} parts: {fit}")
            largest = size - 1 if fit is Fit.TOO_LARGE else None
        return None

    def memory(self) -> tuple[SizePoint, ...]:
        """Return the peak bytes of what the limit counts, by batch size: the highest of all trials that ended."""
        return tuple(SizePoint(size, max(peaks), None, None, len(peaks)) for size, peaks in sorted(self.peaks.items()))

    def fastest(self) -> Best:
        """Search for the size with the most images/s."""
        return self._best(1, figures.SPEED)

    def least_energy(self) -> Best:
        """Search for the size with the fewest joules per image; unknown if the first ok trial has no counter."""
        return self._best(-1, *ENERGIES)

    def _best(self, better: Literal[1, -1], *specs: FigureSpec) -> Best:
        launcher = self.steps.launchers[self.framework]
        if isinstance(launcher, Unavailable):
            return Best(None, launcher.reason)
        self.console.print(f"{self.framework}: {'the fastest' if better > 0 else 'the least energy'}")
        if specs == ENERGIES:
            if not self.results:
                self.trial(FIRST)
            first = next((each for each in self.results if each.status in COMPLETED), None)
            if first is not None and first.first_known(*ENERGIES) is None:
                return Best(None, explain_no_counter(first))
        most = min(MOST, count_largest(self.steps.request))
        if self.fitting is not None and self.fitting.batch_size is not None:
            most = min(most, self.fitting.batch_size)
        begun = len(self.results)
        answer = find_best_size(self._measure_by(*specs), most, better=better)
        if answer.batch_size is not None:
            unknown = ", ".join(list_without_figure(answer, self.results[begun:]))
            reasons = [answer.reason, f"no figure at {unknown}" if unknown else None]
            return replace(answer, reason="; ".join(filter(None, reasons)) or None)
        last = self.results[-1]
        reason = explain_no_counter(last) if last.reason is None and specs == ENERGIES else last.reason
        return replace(answer, reason=f"{answer.reason}; the last of them was {last.status}: {reason}")

    def _measure_speed(self, batch_size: int) -> float | None:
        """Return the images/s of one more trial; None if it has none."""
        try:
            return self._measure_by(figures.SPEED)(batch_size)
        except Disturbed:
            return None

    def _measure_by(self, *specs: FigureSpec) -> Callable[[int], float | None]:
        """Return the function that runs one more trial of a batch size for the first known of these figures.

        It raises Disturbed if other processes disturbed the trial and every retry.
        """

        def measure(batch_size: int) -> float | None:
            for _ in range(1 + RETRIES):
                result = self.trial(batch_size)
                if result.status is not Status.CONTENDED:  # neighbours come and go
                    return result.first_known(*specs) if result.status is Status.OK else None
            raise Disturbed

        return measure


def list_without_figure(answer: Best, results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield each size of a search's trials that gave no figure, with its status. Sizes larger than memory, and those
    that others disturbed, are said elsewhere.
    """
    known = {point.batch_size for point in answer.points}
    for size, status in sorted({result.spec.cell.batch_size: result.status for result in results}.items()):
        if size not in known and status not in (Status.OUT_OF_MEMORY, Status.CONTENDED):
            yield f"{size:,} ({status.replace('_', ' ')})"


def count_largest(request: Request) -> int:
    """Return the largest batch of one device that an epoch has images for, but at least one."""
    return max(1, request.dataset.train_count // request.placement.devices)


def explain_no_counter(result: TrialResult) -> str:
    """Return the reason why the trial has no energy figure."""
    reasons = [result.figures[spec.name].reason for spec in ENERGIES if spec.name in result.figures]
    return next((reason for reason in reasons if reason), "no energy counter on this device")


def format_line(result: TrialResult, peak: int | None, *remarks: str) -> str:
    """Return the line shown for a trial as it ends; the reason of one that is not ok comes last, as in a run's rows."""
    cell = result.spec.cell
    speed = None if is_withheld(result, figures.SPEED) else result.first_known(figures.SPEED)
    parts = [f"  {cell.framework} batch {cell.batch_size:,}: {result.status}"]
    parts += [f"{speed:,.0f} images/s"] if speed is not None else []
    parts += [f"{peak / 2**20:,.0f} MiB"] if peak is not None else []
    return "  ".join([", ".join([*parts, *remarks]), *list_reason(result)])
