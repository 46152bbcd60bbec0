"""Show progress while trials run: a row per finished trial, a live line with the time left, lines on disturbed ones."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from runner.estimate import is_whole
from workloads.records import figures as registry
from workloads.records.disturbance import is_withheld
from workloads.records.figures import FigureSpec
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.words import format_count

NAME_WIDTH = 25  # of the longest column name: tensorflow@tuned.bfloat16
HEADER = (
    f"{'framework':<{NAME_WIDTH}}{'batch':>6}{'repeat':>8}{'status':>15}{'images/s':>10}{'usage %':>9}"
    f"{'memory MiB':>12}{'accuracy %':>12}{'wall s':>8}"
)


def build_live_columns() -> tuple[ProgressColumn, ...]:
    """Return columns of a live line: what runs, how far it is, since when, and its field `left`."""
    left = TextColumn("{task.fields[left]}")
    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left


class Display(Progress):
    """Rows above a live line. Rows are printed through it so that they stay above. Outside a terminal: plain lines."""

    def __init__(self, console: Console, estimates_s: dict[str, float], series: dict[str, str]) -> None:
        """Start with estimates by trial id, and `series` by trial id for a study that has some."""
        super().__init__(*build_live_columns(), console=console, disable=not console.is_terminal)
        self.estimates_s, self.left_s = estimates_s, dict(estimates_s)
        self.series, self.width = series, max(map(len, ("series", *series.values()))) + 2
        self.estimated_s = self.measured_s = 0.0
        self.at_once = 1  # trials that run at the same time
        self.trials = self.add_task("", total=len(estimates_s), left=self._left())
        console.print(f"{'series':<{self.width}}" * bool(series) + HEADER)

    def begin(self, spec: TrialSpec) -> None:
        """Show the trial as the running one."""
        self.began_s = time.monotonic()
        self.name = (
            f"{self._of_series(spec)}{spec.cell.framework} batch {spec.cell.batch_size} repeat {spec.draw.repeat}"
        )
        self.update(self.trials, description=self.name, left=self._left())

    def doing(self, what: str) -> None:
        """Show which part of the trial runs."""
        self.update(self.trials, description=f"{self.name}: {what}")

    def handed_out(self, blocks: int) -> None:
        """Show how many blocks run or wait on other machines."""
        name = f"{format_count(blocks, 'block')} sent out, {self.at_once} at once"
        self.update(self.trials, description=name, left=self._left())

    def once_more(self, specs: Sequence[TrialSpec]) -> None:
        """Count these finished trials as still to be run."""
        self.left_s |= {spec.id: self.estimates_s[spec.id] for spec in specs}
        self.update(self.trials, total=(self.tasks[0].total or 0) + len(specs), left=self._left())

    def finish(self, result: TrialResult, attempt: int = 1, took_s: float | None = None) -> None:
        """Print the trial's row, and correct the time left by its duration compared with its estimate.

        `took_s` of None means the time since it began here.
        """
        estimate_s = self.left_s.pop(result.spec.id)
        if is_whole(result):  # one that ended early says nothing about the others
            self.estimated_s += estimate_s
            self.measured_s += time.monotonic() - self.began_s if took_s is None else took_s
        self.console.print(self._of_series(result.spec) + format_row(result, attempt))
        self.update(self.trials, advance=1, left=self._left())

    def _of_series(self, spec: TrialSpec) -> str:
        """Return the prefix of a trial's name and row."""
        return f"{self.series[spec.id]:<{self.width}}" if self.series else ""

    def _left(self) -> str:
        """Return the sum of the open estimates, scaled by how the finished ones turned out."""
        scale = self.measured_s / self.estimated_s if self.estimated_s else 1.0
        return f"about {format_duration(scale * sum(self.left_s.values()) / self.at_once)} left"


def format_duration(seconds: float) -> str:
    """Format seconds as "1 h 05 min", "5 min 03 s" or "12 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def format_row(result: TrialResult, attempt: int = 1) -> str:
    """Return one aligned line; a dash where the trial has no figure, or a withheld one.

    After it come the attempt's number if it is not the first, and the reason of a trial that is not ok.
    """
    spec, cpu = result.spec, result.spec.placement.device == "cpu"
    usage = _cell(result, registry.CPU_USAGE if cpu else registry.GPU_USAGE, 1)
    memory = _cell(result, registry.HOST_MEMORY if cpu else registry.PROCESS_GPU_MEMORY, 0)
    line = (
        f"{spec.cell.framework:<{NAME_WIDTH}}{spec.cell.batch_size:>6}{spec.draw.repeat:>8}{result.status:>15}"
        f"{_cell(result, registry.SPEED, 0):>10}{usage:>9}{memory:>12}"
        f"{_cell(result, registry.ACCURACY, 1):>12}{result.wall_s:>8.1f}"
    )
    return "  ".join([line, *([f"attempt {attempt}"] if attempt > 1 else []), *list_reason(result)])


def list_reason(result: TrialResult) -> list[str]:
    """Return what the end of a trial's row says: the reason of one that is not ok, nothing for an ok one."""
    return [] if result.status == Status.OK else [str(result.reason)]


def _cell(result: TrialResult, spec: FigureSpec, digits: int) -> str:
    figure = result.figures.get(spec.name)
    return (
        "-"
        if figure is None or figure.value is None or is_withheld(result, spec)
        else f"{figure.value * spec.factor:,.{digits}f}"
    )


STAYS = "its earlier contended result stays; this attempt is kept in"
NEW = "these are then new trials"
KEPT = (
    "figures that this may have changed are withheld: speed, usage, energy, power, times, memory of the whole device; "
    "accuracy, losses and other memory are shown"
)


class Advice:
    """Advice printed once, after the first disturbed trial of a run."""

    def __init__(self, console: Console, retried: Collection[Status]) -> None:
        """Start without advice given; `retried` are the statuses that are tried again at once."""
        self.console, self.retried, self.given = console, retried, False

    def give(self, result: TrialResult) -> None:
        """Print what helps if this trial was disturbed and no advice was printed before."""
        if result.status is Status.CONTENDED and not self.given:
            self.given = True
            means = "; ".join(suggest_help(result.spec, Status.CONTENDED in self.retried))
            self.console.print(f"  other processes disturbed this trial. What helps: {means}")


def suggest_help(spec: TrialSpec, retried: bool) -> list[str]:
    """Return what helps, depending on the trial's device and whether disturbed trials are tried again at once."""
    at_once = [] if retried else ["--retry contended (tries again at once)"]
    if spec.placement.device != "cpu":
        return ["stop the other processes on the GPU (nvidia-smi lists them)", f"another --device ({NEW})", *at_once]
    means = ["stop other work on the CPU"]
    if "OMP_WAIT_POLICY" not in spec.placement.variables:
        means.append(f"OMP_WAIT_POLICY=PASSIVE before the command (waiting threads sleep; {NEW})")
    if spec.placement.threads > 1:
        means.append(f"fewer --threads than {spec.placement.threads} (a core is left to others; {NEW})")
    return [*means, *at_once]


def announce_again(specs: Sequence[TrialSpec], console: Console) -> None:
    """Print that these are tried once more."""
    if specs:
        trials = "1 disturbed trial is" if len(specs) == 1 else f"{len(specs)} disturbed trials are"
        console.print(f"{trials} run once more; each attempt is kept")


def summarise_disturbed(results: Sequence[TrialResult]) -> str | None:
    """Return a line with the number of trials that stayed disturbed; None where none did."""
    disturbed = [result for result in results if result.status is Status.CONTENDED]
    if not disturbed:
        return None
    how_many = f"{len(disturbed)} of {format_count(len(results), 'trial')} contended: {KEPT}"
    return f"{how_many} ({disturbed[0].spec.id}: {disturbed[0].reason}); the same command runs them again"
