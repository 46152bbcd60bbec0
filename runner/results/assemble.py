"""From a trial's folder to its result: how it ended, its phases and epochs, its figures and checks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.results.gpu import gpu_figures, memory_accounts
from runner.results.gpu_contention import alone, company
from runner.results.gpu_window import read_account
from runner.results.memory import Told, memory
from runner.results.window import calls, divergence, speed, start_up, unknown, usage, window
from workloads.records.check_name import COUNTS, CheckName
from workloads.records.checks import CONTENDED_PERCENT, clock_checks, figure_checks, sample_checks
from workloads.records.events import Event, Events
from workloads.records.figures import ACCURACY, DIVERGED_STEP, FOREIGN_CPU, GPU_USAGE, Figure
from workloads.records.files import DRIVER_SAMPLES_FILE, METER_FILE, SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.samples import DRIVER_COLUMNS, read_samples
from workloads.records.status import Status


def assemble(
    trial_dir: Path, spec: TrialSpec, ended: Ended, machine: dict[str, Any], started_at: str, told: Told
) -> TrialResult:
    """The trial's result from its files, whatever is missing in them; `told` is what its memory holds."""
    events, status, reason = ended.events, ended.status, ended.reason
    samples = read_samples(trial_dir / SAMPLES_FILE)
    driver, meter = read_samples(trial_dir / DRIVER_SAMPLES_FILE, DRIVER_COLUMNS), read_account(trial_dir / METER_FILE)
    found = {event["event"]: event for event in events}
    figures = {**start_up(found), **speed(found), **calls(found), **divergence(found)}
    figures |= usage(found, samples, spec) | memory(found, samples, spec, told)
    if spec.placement.device == "cpu":
        figures[GPU_USAGE.name] = unknown("NVML", "the trial ran on the CPU")
    else:
        figures |= gpu_figures(found, window(found), samples, driver, meter) | memory_accounts(figures, meter)
    epochs = read_epochs(events)
    checked = figure_checks(spec, figures, epochs) + clock_checks(figures, meter.get("clocks", []))
    if (edges := window(found)) is not None:
        checked += sample_checks(edges, samples)
    if spec.placement.device != "cpu":
        checked.append(alone(samples, meter, events))
    if Event.FINISHED in found:
        detail = f"exit code {ended.outcome.exit_code} after everything was measured"
        checked.append(Check(CheckName.ENDED_WELL, ended.outcome.exit_code == 0, detail))
    if status == Status.OK and (others := company(samples, meter) or neighbours(spec, figures)):
        status, reason = Status.CONTENDED, others
    elif status == Status.OK and (wrong := [check for check in checked if check.name in COUNTS and not check.passed]):
        status, reason = Status.UNVERIFIED, f"{wrong[0].name}: {wrong[0].detail}"
    if status == Status.OK:
        status, reason = as_it_converged(figures)
    figures[ACCURACY.name] = (
        Figure(epochs[-1].test_accuracy, "worker: argmax of the logits, test split, after the last epoch")
        if len(epochs) == spec.passes.epochs
        else unknown("worker", f"{len(epochs)} of {spec.passes.epochs} epochs were evaluated")
    )
    return TrialResult(
        spec=spec,
        status=status,
        reason=reason,
        started_at=started_at,
        wall_s=ended.outcome.wall_s,
        phases_s=phases(events),
        epochs=epochs,
        first_losses=next((event["first_losses"] for event in reversed(events) if "first_losses" in event), []),
        figures=figures,
        checks=checked,
        facts=found.get(Event.OPENED, {}).get("facts", {}),
        machine=machine,
    )


def neighbours(spec: TrialSpec, figures: Mapping[str, Figure]) -> str | None:
    """What other processes took of a CPU trial's cores, where that is more than CONTENDED_PERCENT."""
    share = figures[FOREIGN_CPU.name].value
    if spec.placement.device != "cpu" or share is None or share <= CONTENDED_PERCENT:
        return None
    return (
        f"other processes took {share:.0f} % of the cores in the steady window (more than {CONTENDED_PERCENT:g} %): "
        "--retry contended runs it again"
    )


def as_it_converged(figures: Mapping[str, Figure]) -> tuple[Status, str | None]:
    """Of a trial that is otherwise ok: `diverged` where a loss was no number."""
    step = figures[DIVERGED_STEP.name].value if DIVERGED_STEP.name in figures else None
    return (Status.OK, None) if step is None else (Status.DIVERGED, f"the loss of step {step:.0f} is no number")


def phases(events: Events) -> dict[str, float]:
    """Seconds from the event before to each event; epochs have records of their own."""
    return {
        event["event"]: (event["t_ns"] - before["t_ns"]) / 1e9
        for before, event in pairwise(events)
        if event["event"] not in (Event.EPOCH_TRAINED, Event.EPOCH_EVALUATED)
    }


def read_epochs(events: Events) -> list[Epoch]:
    """One record per evaluated epoch. The first one's training time starts at `built`: first step and warm-up count."""
    epochs, started_ns, trained = [], 0, None
    for event in events:
        if event["event"] == Event.BUILT:
            started_ns = event["t_ns"]
        elif event["event"] == Event.EPOCH_TRAINED:
            trained = event
        elif event["event"] == Event.EPOCH_EVALUATED and trained is not None:
            epochs.append(
                Epoch(
                    train_s=(trained["t_ns"] - started_ns) / 1e9,
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
