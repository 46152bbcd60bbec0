"""Print what a `batch-size` command will try, under which limit, and how long that may take, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from runner.batch_size.largest import Bound
from runner.batch_size.noise import PROBES
from runner.batch_size.question import FASTEST, LARGEST, LEAST_ENERGY, NOISE_SCALE, Question
from runner.batch_size.searches import MOST
from runner.estimate import estimate_s
from runner.machine.counters import PackageEnergy
from runner.progress import duration
from runner.request.cli import Request
from runner.request.plan import plan_of
from runner.setup import installations
from workloads.noise_scale import SMALL_BATCH
from workloads.records.batch_answers import LIMIT_NAMES, Limit
from workloads.records.job import ON_DEMAND, Passes, TrialSpec

# Trials of a search: the usual number, and the number that 95 % of searches stay within, as simulated
# (docs/guide/batch-size.md).
TRIALS = {LARGEST: (16, 30), FASTEST: (45, 90), LEAST_ENERGY: (45, 90)}
STEPS, SIZE = 10, 256  # steps of a trial outside its window, and a usual batch size


@dataclass(frozen=True)
class Expected:
    """Forecast of one answer of one framework. A noise scale is one process, and so is an energy without a counter."""

    framework: str
    answer: str
    trials: int
    most: int
    seconds: float  # of the usual number of trials
    how: str


def expected(request: Request, question: Question, bound: Bound) -> list[Expected]:
    """Return every requested answer, in the order in which they are searched."""
    specs = {
        spec.cell.framework: spec
        for spec in plan_of(request, installations(request), range(1), {}).trials
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
    largest = min(MOST, request.dataset.train_count)
    next_run = "a run without --memory-limit has none" if bound.limit is Limit.HOST else "the same in a run"
    limit = f"into {bound.limit_bytes / 2**20:,.0f} MiB by {LIMIT_NAMES[bound.limit]} ({next_run})"
    how = limit if answer == LARGEST else f"of 1 to {largest:,} images, and of no more than fits"
    trial_s = start_s + question.window_s + STEPS * min(SIZE, largest) * image_s
    if answer == LEAST_ENERGY and spec.placement.device == "cpu" and (reason := PackageEnergy().reason):
        return Expected(spec.cell.framework, answer, 1, 1, trial_s, f"is not known here: {reason}")
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


def say(request: Request, question: Question, every: Sequence[Expected], console: Console) -> None:
    """Print a line for each answer, one for the trainings after it, and one for the total."""
    for each in every:
        trials = f"about {each.trials} trials (seldom over {each.most})" if each.most > 1 else "1 process"
        console.print(f"{each.framework}: {each.answer} {each.how}: {trials}, about {duration(each.seconds)}")
    trained_s = 0.0
    for line, seconds in _trained(request, question):
        console.print(line)
        trained_s += seconds
    total = f"about {duration(sum(each.seconds for each in every) + trained_s)} in all"
    console.print(f"{total}; a rough guess: what is tried depends on what is measured")


def _trained(request: Request, question: Question) -> Iterator[tuple[str, float]]:
    """Yield (line, seconds) of the trainings that judge the found sizes; nothing if no size is searched or trained."""
    found = question.trained_answers
    sizes, where = len(found), "once at the sizes found, with every check"
    if question.trains:
        sizes += 1 + len(question.sizes)
        given = ", ".join(map(str, (question.in_use, *question.sizes)))
        where = f"at batch sizes {given}" + "".join(f", the {name}" for name in found)
    if not sizes:
        return
    plan = plan_of(request, installations(request), range(request.study.repeats if question.trains else 1), {})
    seconds = sizes * sum(plan.estimates_s.values())
    yield (
        f"then every framework trains {where}: up to {sizes * len(plan.trials)} trials, about {duration(seconds)}",
        seconds,
    )
