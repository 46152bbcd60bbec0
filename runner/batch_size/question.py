"""Define what a `batch-size` command asks; print what it will try and how long that may take; show its progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import Progress

from runner.batch_size.largest import Bound
from runner.batch_size.memory_limit import find_limit
from runner.batch_size.noise import PROBES
from runner.batch_size.searches import MOST, count_largest
from runner.estimate import estimate_s
from runner.machine.counters import PackageEnergy
from runner.progress import Advice, build_live_columns, format_duration
from runner.request.cli import Request
from runner.request.parser import BadInput
from runner.request.plan import build_plan
from runner.setup import collect_installations
from workloads.noise_scale import SMALL_BATCH
from workloads.records.batch_answers import LIMIT_NAMES, Limit
from workloads.records.job import ON_DEMAND, Passes, TrialSpec
from workloads.records.status import Status
from workloads.words import format_count

LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE = "largest", "fastest", "least-energy", "noise-scale"
ANSWERS = (LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE)
FIELDS = {LARGEST: "largest", FASTEST: "fastest", LEAST_ENERGY: "least_energy"}  # of Answers: those that are searched
# Trials of a search: the usual number, and the number that 95 % of searches stay within, as simulated
# (docs/guide/batch-size.md). A largest has 3 more for the speed of smaller sizes, and at most 8 in pairs.
TRIALS = {LARGEST: (19, 41), FASTEST: (45, 90), LEAST_ENERGY: (45, 90)}
STEPS, SIZE = 10, 256  # steps of a trial outside its window, and a usual batch size


@dataclass(frozen=True)
class Question:
    """The requested answers, and what is trained after them."""

    answers: tuple[str, ...]  # some of ANSWERS
    in_use: int
    sizes: tuple[int, ...]  # to be trained in addition to the found ones
    target_accuracy: float | None
    then_train: bool
    global_batch: int | None
    window_s: float  # of a trial of steps only

    @property
    def trains(self) -> bool:
        """True if trainings follow the searches."""
        return self.then_train or self.target_accuracy is not None

    @property
    def searches(self) -> tuple[str, ...]:
        """Answers that trials of steps search for; a global batch needs the largest, too."""
        asked = {*self.answers, *([LARGEST] if self.global_batch is not None else [])}
        return tuple(name for name in FIELDS if name in asked)

    @property
    def trained_answers(self) -> tuple[str, ...]:
        """Answers whose batch sizes are trained: all requested ones that are batch sizes."""
        return tuple(name for name in FIELDS if name in self.answers)


@dataclass(frozen=True)
class Expected:
    """Forecast of one answer of one framework. A noise scale is one process, and so is an energy without a counter."""

    framework: str
    answer: str
    trials: int
    most: int
    seconds: float  # of the usual number of trials
    how: str


def find_bound(request: Request, question: Question) -> Bound:
    """Return the memory limit that searches are bound by. Raises BadInput where what fits is asked and unknown."""
    try:
        return Bound(*find_limit(request))
    except LookupError as error:
        if LARGEST in question.searches:
            raise BadInput(f"{error}: what fits is unknown; name another --device") from error
        return Bound(Limit.GPU, 0)


def refuse_devices(request: Request, question: Question) -> None:
    """Raises BadInput for what cannot be asked of several devices."""
    placement = request.placement
    option = f"--devices {placement.devices}"
    if placement.devices == 1:
        return
    if request.models:
        raise BadInput(f"{option}: custom code (--model) trains on one device: leave one of the two out")
    if question.global_batch is not None:
        raise BadInput(f"{option}: several devices cannot accumulate gradients: leave it or --global-batch out")
    in_container = request.isolation == "docker" and placement.memory_limit_bytes is not None
    together = placement.control_group or in_container
    if LARGEST in question.answers and placement.device == "cpu" and not together:
        raise BadInput(
            f"{option}: a memory limit per process does not limit their sum: leave {LARGEST} out of --answer, or give "
            "--memory-limit on a machine that permits control groups"
        )


def forecast_answers(request: Request, question: Question, bound: Bound) -> list[Expected]:
    """Return every requested answer, in the order in which they are searched."""
    specs = {
        spec.cell.framework: spec
        for spec in build_plan(request, collect_installations(request), range(1), {}).trials
        if spec.cell.allocator == ON_DEMAND
    }
    searched = [name for name in TRIALS if name in question.searches]
    found = [_searched(request, question, bound, spec, name) for spec in specs.values() for name in searched]
    if NOISE_SCALE in question.answers:
        found += [_noise(request, spec) for spec in specs.values()]
    return found


def _searched(request: Request, question: Question, bound: Bound, spec: TrialSpec, answer: str) -> Expected:
    start_s, image_s = _costs(request, spec)
    trials, most = TRIALS[answer]
    largest = min(MOST, count_largest(request))
    next_run = "a run without --memory-limit has no limit" if bound.limit is Limit.HOST else "a run has the same limit"
    limit = f"that fits into {bound.limit_bytes / 2**20:,.0f} MiB, {LIMIT_NAMES[bound.limit]} ({next_run})"
    devices = f" on each of {spec.placement.devices} devices" if spec.placement.devices > 1 else ""
    how = limit if answer == LARGEST else f"from 1 to {largest:,} images{devices}, as far as they fit"
    trial_s = start_s + question.window_s + STEPS * min(SIZE, largest) * image_s
    if answer == LEAST_ENERGY and spec.placement.device == "cpu" and (reason := PackageEnergy().reason):
        return Expected(spec.cell.framework, answer, 1, 1, trial_s, f"is unknown here: {reason}")
    return Expected(spec.cell.framework, answer, trials, most, trials * trial_s, how)


def _noise(request: Request, spec: TrialSpec) -> Expected:
    start_s, image_s = _costs(request, spec)
    images = spec.passes.epochs * request.dataset.train_count + PROBES * SMALL_BATCH
    return Expected(spec.cell.framework, NOISE_SCALE, 1, 1, start_s + images * image_s, "along one training")


def _costs(request: Request, spec: TrialSpec) -> tuple[float, float]:
    """Return (seconds of a trial without steps and window, seconds per image), from the estimates of trials."""
    count = request.dataset.train_count
    by_epochs = [replace(spec, passes=Passes(epochs, spec.passes.last_batch), window_s=0.0) for epochs in (0, 1)]
    start_s, whole_s = (estimate_s(each, request.workload, count, [], request.paces) for each in by_epochs)
    return start_s, (whole_s - start_s) / count


def print_forecast(request: Request, question: Question, every: Sequence[Expected], console: Console) -> None:
    """Print a line for each answer, one for the trainings after it, and one for the total."""
    for each in every:
        trials = f"about {each.trials} trials (seldom over {each.most})" if each.most > 1 else "1 process"
        console.print(f"{each.framework}: {each.answer} {each.how}: {trials}, about {format_duration(each.seconds)}")
    trained_s = 0.0
    for line, seconds in _trained(request, question):
        console.print(line)
        trained_s += seconds
    total = f"about {format_duration(sum(each.seconds for each in every) + trained_s)} in all"
    console.print(f"{total}; a rough guess: the sizes tried depend on the results")


def _trained(request: Request, question: Question) -> Iterator[tuple[str, float]]:
    """Yield (line, seconds) of the trainings that judge the found sizes; nothing if no size is searched or trained."""
    found = question.trained_answers
    sizes, where = _count_most_sizes(request, question), "once at the sizes found, with every check"
    if question.trains:
        given = ", ".join(map(str, (question.in_use, *question.sizes)))
        where = f"at batch sizes {given}" + "".join(f", the {name}" for name in found)
    if not sizes:
        return
    plan = build_plan(
        request, collect_installations(request), range(request.study.repeats if question.trains else 1), {}
    )
    seconds = sizes * sum(plan.estimates_s.values())
    yield (
        f"then every framework trains {where}: up to {format_count(sizes * len(plan.trials), 'trial')}, "
        f"about {format_duration(seconds)}",
        seconds,
    )


def _count_most_sizes(request: Request, question: Question) -> int:
    """Return the largest number of batch sizes that each framework may train at.

    A framework may find another size for each answer, and one more to recommend within its noise scale. If trainings
    were requested, every framework trains at the sizes of all.
    """
    found = len(question.trained_answers) + ({FASTEST, NOISE_SCALE} <= set(question.answers))
    return found * len(request.frameworks) + 1 + len(question.sizes) if question.trains else found


class SearchDisplay(Progress):
    """A live line over the expected trials of all searches; a search that ends early or late corrects their number."""

    def __init__(self, console: Console, expected: Sequence[Expected]) -> None:
        """Start the display; outside a terminal nothing is shown."""
        super().__init__(*build_live_columns(), console=console, disable=not console.is_terminal)
        self.ahead = {(each.framework, each.answer): each for each in expected}
        self.advice = Advice(console, (Status.CONTENDED,))  # the searches try disturbed trials again at once
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
        return f"about {format_duration(open_s)} left"
