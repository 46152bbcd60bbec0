"""Build a trial's result from its folder: its ending, its phases and epochs, its figures and checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.results.gpu import OfGpu, alone_on_all, of_gpus, of_others, others_on
from runner.results.memory import MemoryAccount, memory
from runner.results.pace import pace
from runner.results.times import times_checks
from runner.results.window import (
    calls,
    cpu_quota,
    divergence,
    foreign_in_epochs,
    interruptions,
    package_energy,
    speed,
    start_up,
    unknown,
    usage,
)
from workloads.networks import of_trial
from workloads.records.build import REDUCED, TF32
from workloads.records.check_name import COUNTS, DISTURBABLE, CheckName
from workloads.records.checks import clock_checks, figure_checks, sample_checks
from workloads.records.disturbance import disturbance
from workloads.records.events import Event, Events
from workloads.records.figures import ACCURACY, AUGMENT, CPU_QUOTA, DIVERGED_STEP, GPU_USAGE, Figure
from workloads.records.files import DRIVER_SAMPLES_FILE, METER_FILE, SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.reported import processes_check, threads_check
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.samples import DRIVER_COLUMNS, Samples, SteadyWindow, read_samples
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
            of_trial(spec, trial_dir.parent.parent),
            ended,
            read_samples(trial_dir / SAMPLES_FILE),
            read_samples(trial_dir / DRIVER_SAMPLES_FILE, DRIVER_COLUMNS),
            meter,
            of_others(trial_dir, spec, meter),
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
    wall_s = ended.outcome.wall_s if ended.outcome else seen_s(ended.events)
    ended_so = TrialResult(spec, ended.status, ended.reason, started_at, wall_s, facts=facts, machine=machine)
    try:
        records = Records.read(trial_dir, spec, ended)
        return measured(ended_so, records, parts)
    except (ValueError, ArithmeticError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"no figures can be made of its files: {error}"
    if ended.status is Status.OK:
        return replace(ended_so, status=Status.FAILED, reason=reason)
    return replace(ended_so, reason=f"{ended.reason}; {reason}")


def measured(result: TrialResult, records: Records, parts: MemoryAccount | None) -> TrialResult:
    """Return the result completed with everything its files report. Raises ValueError, ArithmeticError for values that
    cannot have been measured.
    """
    events = records.ended.events
    epochs = read_epochs(events)
    figures = figures_of(records, parts) | {ACCURACY.name: accuracy(records.spec, epochs)}
    figures |= pace(records.spec, records.workload, epochs, figures, parts)
    for name, figure in figures.items():
        refuse_size(name, figure)
    checks = checks_of(records, figures, epochs)
    status, reason = ending(records, figures, checks)
    return replace(
        result,
        status=status,
        reason=reason,
        phases_s=phases(events),
        epochs=epochs,
        first_losses=next(reversed(first_losses_of(events)), []),
        figures=figures,
        checks=checks,
    )


def first_losses_of(events: Events) -> list[list[float | None]]:
    """First losses of each training that reports them. Other kinds of event may use the same name, and are not read."""
    return [event["first_losses"] for event in events
            if event["event"] == Event.EPOCH_TRAINED and "first_losses" in event]  # fmt: skip


def figures_of(records: Records, parts: MemoryAccount | None) -> dict[str, Figure]:
    """Compute all figures except those that need the epochs."""
    spec, events, samples = records.spec, records.ended.last, records.samples
    figures = {**start_up(events), **speed(events), **calls(events), **divergence(events)}
    figures |= interruptions(events, spec)
    figures |= augmentation(records.ended.events) | package_energy(events, samples, records.meter)
    figures |= cpu_quota(events, samples, spec, records.meter)
    figures |= usage(events, samples, spec, figures[CPU_QUOTA.name].value)
    figures |= foreign_in_epochs(records.ended.events, samples, spec)
    figures |= memory(events, samples, spec, records.workload, parts)
    if spec.placement.device == "cpu":
        return figures | {GPU_USAGE.name: unknown("NVML", "the trial ran on the CPU")}
    return figures | of_gpus(events, records.gpus) | others_on(records.gpus)


def checks_of(records: Records, figures: dict[str, Figure], epochs: list[Epoch]) -> list[Check]:
    """Return the checks whose figures and files exist."""
    ended, samples, meter = records.ended, records.samples, records.meter
    checks = figure_checks(records.spec, records.workload, figures, epochs) + clock_checks(
        figures, meter.get("clocks", [])
    )
    if (window := SteadyWindow.of(ended.last)) is not None:
        checks += sample_checks(window.edges, samples)
        checks += processes_check(records.spec, figures, window.edges, samples)
    if records.spec.placement.device != "cpu":
        checks.append(alone_on_all(records.gpus, ended.events))
    checks += times_checks(records.spec, ended, samples)
    if Event.FINISHED in ended.last:
        checks.append(ended_well(ended))
    facts = ended.last.get(Event.OPENED, {}).get("facts", {})
    return [*checks, *threads_check(records.spec, facts), *precision_check(records.spec.task.precision, facts)]


def precision_check(asked: str, facts: Mapping[str, Any]) -> Iterator[Check]:
    """Compare the precision that the framework reports with the one asked for; yield nothing if it agrees on float32.
    The gate tests whether the framework computes in the precision it reports.
    """
    told, tf32 = facts.get("precision", asked), facts.get("tf32") is True
    wrong = [f"TF32 is {'on' if tf32 else 'off'}"] * (asked in REDUCED and tf32 != (asked == TF32))
    wrong += [f"it says {told}"] * (told != asked)
    if wrong or asked in REDUCED:
        yield Check(CheckName.PRECISION, not wrong, f"{asked} was asked for{'; ' * bool(wrong)}{' and '.join(wrong)}")


def ended_well(ended: Ended) -> Check:
    """Check the exit of a trial that was measured to its end. An unknown exit code fails the check."""
    if ended.outcome is None:
        unseen = "exit code unknown: the runner was killed before the worker had ended, after everything was measured"
        return Check(CheckName.ENDED_WELL, False, unseen)
    detail = f"exit code {ended.outcome.exit_code} after everything was measured"
    detail += "; our probe of its end ran out of memory" * ended.outcome.out_of_memory
    return Check(CheckName.ENDED_WELL, ended.outcome.exit_code == 0, detail)


def seen_s(events: Events) -> float:
    """Seconds from the worker's first event to its last."""
    return float(events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9 if events else 0.0


def ending(records: Records, figures: dict[str, Figure], checks: list[Check]) -> tuple[Status, str | None]:
    """Return (status, reason): the worker's ending, or, if it ended well, what its figures allow. A disturbed trial is
    run again, so checks that a disturbance alone can fail are excused.
    """
    if records.ended.status != Status.OK:
        return records.ended.status, records.ended.reason
    undisputed = as_it_was(records.spec, figures, checks)
    excused = DISTURBABLE if undisputed[0] is Status.CONTENDED else ()
    wrong = [check for check in checks if check.name in COUNTS and check.name not in excused and not check.passed]
    if wrong:
        return Status.UNVERIFIED, f"{wrong[0].name}: {wrong[0].detail}"
    return undisputed


def augmentation(events: Events) -> dict[str, Figure]:
    """Return the mean time over the epochs; no figure if images were not augmented."""
    seconds = [event["augment_s"] for event in events if event["event"] == Event.EPOCH_AUGMENTED]
    if not seconds:
        return {}
    source = "worker: time in flips and crops, and with feed device in copying the epoch's images there"
    return {AUGMENT.name: Figure(sum(seconds) / len(seconds), source, samples=len(seconds))}


def accuracy(spec: TrialSpec, epochs: list[Epoch]) -> Figure:
    """Accuracy after the last epoch, a share of the test split; null if an epoch is missing or there are none."""
    if not spec.passes.epochs:
        return unknown("worker", "steps alone: there are no epochs, and nothing was evaluated as a whole")
    if len(epochs) != spec.passes.epochs:
        return unknown("worker", f"{len(epochs)} of {spec.passes.epochs} epochs were evaluated")
    return Figure(epochs[-1].test_accuracy, "runner: argmax of the logits, test split, after the last epoch")


def as_it_was(spec: TrialSpec, figures: Mapping[str, Figure], checks: Iterable[Check]) -> tuple[Status, str | None]:
    """Return (status, reason) of a trial without failed checks: `contended` if others disturbed it."""
    others = disturbance(spec, figures, checks)
    return (Status.CONTENDED, others) if others else as_it_converged(figures)


def as_it_converged(figures: Mapping[str, Figure]) -> tuple[Status, str | None]:
    """Return the status of a trial that is otherwise ok: `diverged` if a loss was not a number."""
    step = figures[DIVERGED_STEP.name].value if DIVERGED_STEP.name in figures else None
    return (Status.OK, None) if step is None else (Status.DIVERGED, f"the loss of step {step:.0f} is no number")


def phases(events: Events) -> dict[str, float]:
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
