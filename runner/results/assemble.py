"""Build a trial's result from its folder: its ending, its phases and epochs, its figures and checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.results.gpu import OfGpu, check_alone_on_all, combine_gpus, count_others, read_other_gpus
from runner.results.memory import MemoryAccount, collect_memory
from runner.results.pace import compute_pace
from runner.results.times import check_times
from runner.results.usage import compute_foreign_in_epochs, compute_usage
from runner.results.window import (
    compute_call_times,
    compute_interruptions,
    compute_speed,
    compute_start_up,
    cpu_quota,
    find_divergence,
    make_unknown,
    package_energy,
)
from workloads.networks import find_trained
from workloads.records.build import REDUCED, TF32
from workloads.records.check_name import COUNTS, DISTURBABLE, CheckName
from workloads.records.checks import check_clocks, check_figures, check_samples
from workloads.records.columns import DRIVER_COLUMNS
from workloads.records.disturbance import find_disturbance
from workloads.records.events import Event, Events
from workloads.records.figures import ACCURACY, AUGMENT, CPU_QUOTA, DIVERGED_STEP, GPU_USAGE, Figure
from workloads.records.files import DRIVER_SAMPLES_FILE, METER_FILE, SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.own_checks import check_own_code
from workloads.records.reported import check_processes, check_threads
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.samples import Samples, SteadyWindow, read_samples
from workloads.records.status import Status
from workloads.records.stored import read_meter, refuse_size
from workloads.spec import Workload


@dataclass(frozen=True)
class Records:
    """Records that a trial left: the ending of its worker, its events, and the sampler's files, empty if missing."""

    spec: TrialSpec
    workload: Workload | None
    ended: Ended
    samples: Samples
    driver: Samples  # the driver's samples
    meter: dict[str, Any]
    others: tuple[OfGpu, ...] = ()  # of the GPUs after the first

    @property
    def gpus(self) -> tuple[OfGpu, ...]:
        """The records of all GPUs."""
        return OfGpu(self.samples, self.driver, self.meter), *self.others

    @staticmethod
    def read(trial_dir: Path, spec: TrialSpec, ended: Ended) -> Records:
        """Read the records in this folder. Raises ValueError with file and reason for a file that no sampler wrote."""
        meter = read_meter(trial_dir / METER_FILE)
        return Records(
            spec,
            find_trained(spec, trial_dir.parent.parent),
            ended,
            read_samples(trial_dir / SAMPLES_FILE),
            read_samples(trial_dir / DRIVER_SAMPLES_FILE, DRIVER_COLUMNS),
            meter,
            read_other_gpus(trial_dir, spec, meter),
        )


def assemble(
    trial_dir: Path,
    spec: TrialSpec,
    ended: Ended,
    machine: dict[str, Any],
    started_at: str,
    parts: MemoryAccount | None,
) -> TrialResult:
    """Return the trial's result from its files, even if some are missing or invalid. Files that no worker or sampler
    wrote make it `failed`, with file and reason. `parts` is what its memory holds, None before that was measured.
    """
    facts = ended.last.get(Event.OPENED, {}).get("facts", {})
    if said := ended.last.get(Event.BUILT, {}).get("execution"):  # known once there is a model
        facts |= {"execution": said}
    wall_s = ended.outcome.wall_s if ended.outcome else read_seen_s(ended.events)
    ended_so = TrialResult(spec, ended.status, ended.reason, started_at, wall_s, facts=facts, machine=machine)
    try:
        records = Records.read(trial_dir, spec, ended)
        return add_measurement(ended_so, records, parts)
    except (ValueError, ArithmeticError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"no figures can be computed from its files: {error}"
    if ended.status is Status.OK:
        return replace(ended_so, status=Status.FAILED, reason=reason)
    return replace(ended_so, reason=f"{ended.reason}; {reason}")


def add_measurement(result: TrialResult, records: Records, parts: MemoryAccount | None) -> TrialResult:
    """Return the result completed with everything its files report. Raises ValueError, ArithmeticError for values that
    cannot have been measured.
    """
    events = records.ended.events
    epochs = read_epochs(events)
    figures = collect_figures(records, parts) | {ACCURACY.name: find_accuracy(records.spec, epochs)}
    figures |= compute_pace(records.spec, records.workload, epochs, figures, parts)
    for name, figure in figures.items():
        refuse_size(name, figure)
    checks = collect_checks(records, figures, epochs)
    status, reason = decide_status(records, figures, checks)
    return replace(
        result,
        status=status,
        reason=reason,
        phases_s=read_phases(events),
        epochs=epochs,
        first_losses=next(reversed(read_first_losses(events)), []),
        figures=figures,
        checks=checks,
    )


def read_first_losses(events: Events) -> list[list[float | None]]:
    """First losses of each training that reports them. Other kinds of event may use the same name, and are not read."""
    return [event["first_losses"] for event in events
            if event["event"] == Event.EPOCH_TRAINED and "first_losses" in event]  # fmt: skip


def collect_figures(records: Records, parts: MemoryAccount | None) -> dict[str, Figure]:
    """Compute all figures except those that need the epochs."""
    spec, events, samples = records.spec, records.ended.last, records.samples
    figures = {
        **compute_start_up(events),
        **compute_speed(events),
        **compute_call_times(events),
        **find_divergence(events),
    }
    figures |= compute_interruptions(events, spec)
    figures |= read_augmentation(records.ended.events) | package_energy(events, samples, records.meter)
    figures |= cpu_quota(events, samples, spec, records.meter)
    figures |= compute_usage(events, samples, spec, figures[CPU_QUOTA.name].value)
    figures |= compute_foreign_in_epochs(records.ended.events, samples, spec)
    figures |= collect_memory(events, samples, spec, records.workload, parts)
    if spec.placement.device == "cpu":
        return figures | {GPU_USAGE.name: make_unknown("NVML", "the trial ran on the CPU")}
    return figures | combine_gpus(events, records.gpus) | count_others(records.gpus)


def collect_checks(records: Records, figures: dict[str, Figure], epochs: list[Epoch]) -> list[Check]:
    """Return the checks whose figures and files exist."""
    ended, samples, meter = records.ended, records.samples, records.meter
    checks = check_figures(records.spec, records.workload, figures, epochs) + check_clocks(
        figures, meter.get("clocks", [])
    )
    if (window := SteadyWindow.read(ended.last)) is not None:
        checks += check_samples(window.edges, samples)
        checks += check_processes(records.spec, figures, window.edges, samples)
    if records.spec.placement.device != "cpu":
        checks.append(check_alone_on_all(records.gpus, ended.events))
    checks += check_times(records.spec, ended, samples)
    if Event.FINISHED in ended.last:
        checks.append(check_ending(ended))
    checks += check_own_code(records.spec, ended.events)
    facts = ended.last.get(Event.OPENED, {}).get("facts", {})
    return [*checks, *check_threads(records.spec, facts), *check_precision(records.spec.task.precision, facts)]


def check_precision(asked: str, facts: Mapping[str, Any]) -> Iterator[Check]:
    """Compare the precision that the framework reports with the one asked for; yield nothing if it agrees on float32.
    The gate tests whether the framework computes in the precision it reports.
    """
    told, tf32 = facts.get("precision", asked), facts.get("tf32") is True
    wrong = [f"TF32 is {'on' if tf32 else 'off'}"] * (asked in REDUCED and tf32 != (asked == TF32))
    wrong += [f"it reports {told}"] * (told != asked)
    if wrong or asked in REDUCED:
        yield Check(CheckName.PRECISION, not wrong, f"{asked} was requested{'; ' * bool(wrong)}{' and '.join(wrong)}")


def check_ending(ended: Ended) -> Check:
    """Check the exit of a trial that was measured to its end. An unknown exit code fails the check."""
    if ended.outcome is None:
        unseen = "exit code unknown: the runner was killed before the worker ended, after everything was measured"
        return Check(CheckName.ENDED_WELL, False, unseen)
    detail = f"exit code {ended.outcome.exit_code} after everything was measured"
    detail += "; our probe of its end ran out of memory" * ended.outcome.out_of_memory
    return Check(CheckName.ENDED_WELL, ended.outcome.exit_code == 0, detail)


def read_seen_s(events: Events) -> float:
    """Seconds from the worker's first event to its last."""
    return float(events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9 if events else 0.0


def decide_status(records: Records, figures: dict[str, Figure], checks: list[Check]) -> tuple[Status, str | None]:
    """Return (status, reason): the worker's ending, or, if it ended well, what its figures allow. A disturbed trial is
    run again, so checks that a disturbance alone can fail are excused. On a GPU that others used, memory that ran out
    says nothing about the batch size.
    """
    ended = records.ended
    on_gpu = records.spec.placement.device != "cpu"
    if ended.status is Status.OUT_OF_MEMORY and on_gpu and (others := find_disturbance(records.spec, figures, checks)):
        return Status.FAILED, f"{others}; it ran out of memory: {ended.reason}"
    if ended.status != Status.OK:
        return ended.status, ended.reason
    undisputed = judge_disturbance(records.spec, figures, checks)
    excused = DISTURBABLE if undisputed[0] is Status.CONTENDED else ()
    wrong = [check for check in checks if check.name in COUNTS and check.name not in excused and not check.passed]
    if wrong:
        return Status.UNVERIFIED, f"{wrong[0].name}: {wrong[0].detail}"
    return undisputed


def read_augmentation(events: Events) -> dict[str, Figure]:
    """Return the mean time over the epochs; no figure if images were not augmented."""
    seconds = [event["augment_s"] for event in events if event["event"] == Event.EPOCH_AUGMENTED]
    if not seconds:
        return {}
    source = "worker: time in flips and crops, and with feed device in copying the epoch's images there"
    return {AUGMENT.name: Figure(sum(seconds) / len(seconds), source, samples=len(seconds))}


def find_accuracy(spec: TrialSpec, epochs: list[Epoch]) -> Figure:
    """Accuracy after the last epoch, a share of the test split; null if an epoch is missing or there are none."""
    if not spec.passes.epochs:
        return make_unknown("worker", "steps alone: there are no epochs, and nothing was evaluated as a whole")
    if len(epochs) != spec.passes.epochs:
        return make_unknown("worker", f"{len(epochs)} of {spec.passes.epochs} epochs were evaluated")
    return Figure(epochs[-1].test_accuracy, "runner: argmax of the logits, test split, after the last epoch")


def judge_disturbance(
    spec: TrialSpec, figures: Mapping[str, Figure], checks: Iterable[Check]
) -> tuple[Status, str | None]:
    """Return (status, reason) of a trial without failed checks: `contended` if others disturbed it."""
    others = find_disturbance(spec, figures, checks)
    return (Status.CONTENDED, others) if others else judge_convergence(figures)


def judge_convergence(figures: Mapping[str, Figure]) -> tuple[Status, str | None]:
    """Return the status of a trial that is otherwise ok: `diverged` if a loss was not a number."""
    step = figures[DIVERGED_STEP.name].value if DIVERGED_STEP.name in figures else None
    return (Status.OK, None) if step is None else (Status.DIVERGED, f"the loss of step {step:.0f} is not a number")


def read_phases(events: Events) -> dict[str, float]:
    """Seconds from the previous event to each event; epochs have records of their own."""
    return {
        event["event"]: (event["t_ns"] - before["t_ns"]) / 1e9
        for before, event in pairwise(events)
        if event["event"] not in (Event.EPOCH_TRAINED, Event.EPOCH_AUGMENTED, Event.EPOCH_EVALUATED)
    }


def read_epochs(events: Events) -> list[Epoch]:
    """Return one record per evaluated epoch. The first one's training time starts at `built` and includes warm-up."""
    epochs, started_ns, trained = [], 0, None
    for event in events:
        if event["event"] == Event.BUILT:
            started_ns = event["t_ns"]
        elif event["event"] == Event.EPOCH_TRAINED:
            trained = event
        elif event["event"] == Event.EPOCH_EVALUATED and trained and event.get("test_accuracy") is not None:
            epochs.append(
                Epoch(
                    train_s=(trained["t_ns"] - started_ns) / 1e9 - trained.get("copied_s", 0.0),
                    steps=trained["steps"],
                    images=trained["images"],
                    train_loss=trained["train_loss"],
                    evaluate_s=(event["t_ns"] - trained["t_ns"]) / 1e9,
                    test_loss=event["test_loss"],
                    test_accuracy=event["test_accuracy"],
                )
            )
            started_ns = event["t_ns"]
    return epochs
