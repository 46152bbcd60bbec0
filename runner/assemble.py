"""From a trial's folder to its result: cut the samples by the window, compute the figures, check the identities."""

from __future__ import annotations

import csv
import json
import math
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.launch import Outcome
from runner.meter import COLUMNS, PERIOD_S
from workloads.trial import (
    EVENTS_FILE,
    LOG_FILE,
    SAMPLES_FILE,
    Check,
    Epoch,
    Event,
    Figure,
    Status,
    TrialResult,
    TrialSpec,
)

NVML_PERIOD_S = 1.0  # the driver's utilisation rate covers the last 1/6 to 1 s

Samples = dict[str, NDArray[np.float64]]
Events = list[dict[str, Any]]


def assemble(
    trial_dir: Path,
    spec: TrialSpec,
    outcome: Outcome,
    machine: dict[str, Any],
    started_at: str,
    killed_for_memory: bool,
) -> TrialResult:
    """The trial's result from its files alone, whatever is missing in them."""
    events, samples = read_events(trial_dir / EVENTS_FILE), read_samples(trial_dir / SAMPLES_FILE)
    status, reason = how_it_ended(events, outcome, trial_dir / LOG_FILE, killed_for_memory)
    found = {event["event"]: event for event in events}
    figures = {**speed(found), **usage(found, samples, spec), **memory(found, samples, spec)}
    epochs = read_epochs(events)
    checked = checks(spec, outcome, figures, epochs, samples, found)
    if status == Status.OK and (company := np.nanmax(samples["foreign_processes"], initial=0)) > 0:
        status, reason = Status.CONTENDED, f"{company:.0f} other process(es) on the device"
    elif status == Status.OK and (wrong := [check for check in checked if check.name in COUNTS and not check.passed]):
        status, reason = Status.UNVERIFIED, f"{wrong[0].name}: {wrong[0].detail}"
    figures["test_accuracy"] = (
        Figure(epochs[-1].test_accuracy, "worker: argmax of the logits, test split, after the last epoch")
        if len(epochs) == spec.epochs
        else _unknown("worker", f"{len(epochs)} of {spec.epochs} epochs were evaluated")
    )
    return TrialResult(
        spec=spec,
        status=status,
        reason=reason,
        started_at=started_at,
        wall_s=outcome.wall_s,
        phases_s=phases(events),
        epochs=epochs,
        first_losses=next((event["first_losses"] for event in reversed(events) if "first_losses" in event), []),
        figures=figures,
        checks=checked,
        facts=found.get(Event.OPENED, {}).get("facts", {}),
        machine=machine,
    )


def read_events(path: Path) -> Events:
    """The worker's events; a last line that a kill cut short is left out."""
    events: Events = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def read_samples(path: Path) -> Samples:
    """Columns as float arrays, NaN where a cell is empty; a last row that a kill cut short is left out."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}


def how_it_ended(events: Events, outcome: Outcome, log: Path, killed_for_memory: bool) -> tuple[Status, str | None]:
    last = events[-1] if events else {}
    if last.get("event") == Event.FINISHED:  # a crash behind it, while the framework tears down, loses no figure
        return Status.OK, None
    if outcome.timed_out:
        return Status.TIMEOUT, f"not finished after {outcome.wall_s:.0f} s; last event: {last.get('event', 'none')}"
    if last.get("event") == Event.ENDED:
        return Status(last["status"]), last["reason"]
    if outcome.exit_code == -signal.SIGKILL and killed_for_memory:
        return Status.OUT_OF_MEMORY, "killed by SIGKILL while the kernel's out-of-memory count (oom_kill) rose"
    if outcome.exit_code < 0:
        reason = f"the worker was killed by {signal.Signals(-outcome.exit_code).name}"
    else:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        reason = f"the worker ended with exit code {outcome.exit_code}: {lines[-1] if lines else 'no output'}"
    return Status.FAILED, f"{reason}; last event: {last.get('event', 'none')}"


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


def window(found: dict[str, Any]) -> tuple[float, float] | None:
    """Edges of the steady window, in ns of the monotonic clock; None where the trial did not get that far."""
    if Event.WINDOW_ENDED not in found:
        return None
    return found[Event.WINDOW_STARTED]["t_ns"], found[Event.WINDOW_ENDED]["t_ns"]


NO_WINDOW = "the trial did not reach the end of its steady window"


def _unknown(source: str, reason: str) -> Figure:
    return Figure(None, source, reason=reason)


def speed(found: dict[str, Any]) -> dict[str, Figure]:
    source = "worker: steady window, synchronised at its edges"
    edges = window(found)
    if edges is None:
        return dict.fromkeys(("window_s", "images_per_s", "step_time_s"), _unknown(source, NO_WINDOW))
    window_s = (edges[1] - edges[0]) / 1e9
    ended = found[Event.WINDOW_ENDED]
    return {
        "window_s": Figure(window_s, source),
        "images_per_s": Figure(ended["images"] / window_s, f"{source}; images handed to the framework"),
        "step_time_s": Figure(window_s / ended["steps"], f"{source}; losses returned", samples=ended["steps"]),
    }


def in_window(samples: Samples, edges: tuple[float, float], period_s: float = PERIOD_S) -> NDArray[np.bool_]:
    """A reading at t describes the period before t: readings whose period starts before the window are left out."""
    return (samples["t_ns"] >= edges[0] + period_s * 1e9) & (samples["t_ns"] <= edges[1])


def _rate(samples: Samples, column: str, edges: tuple[float, float]) -> tuple[float | None, int]:
    """Mean rate of a running sum over the window, edges interpolated; and the samples inside."""
    known = ~np.isnan(samples[column])
    inside = known & in_window(samples, edges)
    if inside.sum() < 2 or samples["t_ns"][known][-1] < edges[1] - 3 * PERIOD_S * 1e9:
        return None, int(inside.sum())
    sums = np.interp(edges, samples["t_ns"][known], samples[column][known])
    return float((sums[1] - sums[0]) / ((edges[1] - edges[0]) / 1e9)), int(inside.sum())


def usage(found: dict[str, Any], samples: Samples, spec: TrialSpec) -> dict[str, Figure]:
    """CPU %: of the cores allotted (`threads`); foreign CPU %: what others, the sampler too, took of the same cores."""
    source = "sampler at 10 Hz: user and system time of the process tree over the steady window"
    edges = window(found)
    if edges is None:
        return {name: _unknown(source, NO_WINDOW) for name in ("cpu_percent", "foreign_cpu_percent", "gpu_percent")}
    own, count = _rate(samples, "cpu_s", edges)
    machine, _ = _rate(samples, "cores_cpu_s", edges)
    few = f"{count} samples in the window"
    figures: dict[str, Figure] = {}
    if own is None or machine is None:
        figures["cpu_percent"] = figures["foreign_cpu_percent"] = _unknown(source, few)
    else:
        figures["cpu_percent"] = Figure(100 * own / spec.threads, source, count)
        foreign = Figure(
            100 * max(0.0, machine - own) / spec.threads,
            "sampler at 10 Hz: busy time of the allotted cores less the trial's",
            count,
        )
        figures["foreign_cpu_percent"] = foreign
    gpu_source = "NVML utilisation rate polled at 10 Hz, mean over the steady window"
    gpu = samples["gpu_percent"][in_window(samples, edges, NVML_PERIOD_S)]
    gpu = gpu[~np.isnan(gpu)]
    if spec.device == "cpu":
        figures["gpu_percent"] = _unknown(gpu_source, "the trial ran on the CPU")
    elif len(gpu):
        figures["gpu_percent"] = Figure(float(gpu.mean()), gpu_source, len(gpu))
    else:
        figures["gpu_percent"] = _unknown(gpu_source, "NVML gave no utilisation for this device")
    return figures


def memory(found: dict[str, Any], samples: Samples, spec: TrialSpec) -> dict[str, Figure]:
    """Bytes: host resident size in the window and over the trial; device memory; what the adapter counted."""
    edges = window(found)
    inside = in_window(samples, edges) if edges else np.zeros(len(samples["t_ns"]), bool)
    figures = {
        "host_memory_bytes": _highest(
            samples["host_memory_bytes"][inside], "resident size of the process tree, highest in the steady window"
        ),
        "host_memory_peak_bytes": _highest(
            samples["host_memory_bytes"], "resident size of the process tree, highest of the whole trial"
        ),
    }
    if spec.device != "cpu":
        device = samples["device_memory_bytes"]
        # The process list is read once a second and the frameworks' pools only grow, so the whole trial is searched.
        process = _highest(samples["process_memory_bytes"], "NVML memory of the process, highest of the trial")
        baseline = _highest(device[:1], "NVML memory used on the device before the trial")
        peak = _highest(device, "NVML memory used on the device, highest of the trial")
        if process.value is None and peak.value is not None and baseline.value is not None:
            source = "NVML memory used on the device less its baseline: the driver lists no such process (a container?)"
            process = Figure(peak.value - baseline.value, source, peak.samples)
        figures["process_gpu_memory_bytes"] = process
        figures["device_memory_bytes"] = peak
        figures["device_memory_baseline_bytes"] = baseline
    for kind, counted in found.get(Event.FINISHED, {}).get("memory", {}).items():
        source = "the framework's adapter, at the end of the trial"
        figures[f"{kind}_bytes"] = (
            Figure(counted, source) if counted is not None else _unknown(source, "the framework does not tell here")
        )
    return figures


def _highest(values: NDArray[np.float64], source: str) -> Figure:
    known = values[~np.isnan(values)]
    if not len(known):
        return _unknown(source, "no sample gave it")
    return Figure(float(known.max()), source, len(known))


SPEED_IDENTITY, STEPS_IDENTITY = "images/s x step time = batch size", "steps of an epoch"
COUNTS = (SPEED_IDENTITY, STEPS_IDENTITY)  # a trial that miscounts has no speed and no accuracy to show


def checks(
    spec: TrialSpec,
    outcome: Outcome,
    figures: dict[str, Figure],
    epochs: list[Epoch],
    samples: Samples,
    found: dict[str, Any],
) -> list[Check]:
    """Identities between figures that were counted apart from one another, and what else casts doubt on them."""
    done: list[Check] = []
    if Event.FINISHED in found:
        detail = f"exit code {outcome.exit_code} after everything was measured"
        done.append(Check("the worker ended well", outcome.exit_code == 0, detail))
    if epochs and spec.batch_size > epochs[0].images:
        detail = f"epochs are one batch of {epochs[0].images}, the window's batches of {spec.batch_size} repeat images"
        done.append(Check("batch size <= training split", False, detail))
    images_per_s, step_time_s = figures["images_per_s"].value, figures["step_time_s"].value
    if images_per_s is not None and step_time_s is not None:
        product = images_per_s * step_time_s
        detail = f"{product:.2f} images a step, batch size {spec.batch_size}"
        done.append(Check(SPEED_IDENTITY, abs(product / spec.batch_size - 1) <= 0.01, detail))
    for number, epoch in enumerate(epochs):
        whole, rest = divmod(epoch.images, spec.batch_size)
        expected = whole + math.ceil(rest / spec.batch_size)
        if epoch.steps != expected:
            detail = f"epoch {number}: {epoch.images} images in {epoch.steps} steps, expected {expected}"
            done.append(Check(STEPS_IDENTITY, False, detail))
    if (edges := window(found)) is not None:
        times = samples["t_ns"][(samples["t_ns"] >= edges[0] - PERIOD_S * 1e9) & (samples["t_ns"] <= edges[1])]
        gap_s = float(np.diff(np.concatenate([[edges[0]], times, [edges[1]]])).max()) / 1e9
        detail = f"longest gap {gap_s:.2f} s, period {PERIOD_S} s"
        done.append(
            Check("samples cover the window", bool(np.all(np.diff(times) > 0)) and gap_s <= 3 * PERIOD_S, detail)
        )
    process, device = figures.get("process_gpu_memory_bytes"), figures.get("device_memory_bytes")
    if process and device and process.value is not None and device.value is not None:
        detail = f"{process.value / 2**20:.0f} of {device.value / 2**20:.0f} MiB"
        done.append(Check("process memory <= device memory", process.value <= device.value, detail))
    return done
