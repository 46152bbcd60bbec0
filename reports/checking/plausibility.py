"""Compare a stored trial with what is physically possible: its times, its sampler's rate, its speed, its power.

Times are compared only where the sampler stored its own account, meter.json. The margins are measured:
docs/evidence/margins.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from workloads.conditions import read_gpu
from workloads.records import figures as registry
from workloads.records.build import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, TF32
from workloads.records.columns import PACKAGES_W, PERIOD_S
from workloads.records.events import Event, Events
from workloads.records.figures import read_value
from workloads.records.files import EVENTS_FILE, METER_FILE, SAMPLES_FILE
from workloads.records.reported import FAST_ALGORITHMS
from workloads.records.result import TrialResult
from workloads.records.samples import Samples
from workloads.records.status import Status
from workloads.records.stored import read_meter, read_start

SPAN_S = 2.0  # in 897 published trials, samples and clocks span the trial's length to 0.16 s
LAST_EVENT_S = 3.0  # before the last sample: at most 1.1 s in them
LATE_START_S, EARLY_START_S = 300.0, 5.0  # a start is stored in whole seconds, up to 1.9 s before its sampler's
MORE_ROWS = 0.02, 12  # share, and rows at events: no sampler is faster than its period
LONG_PERIOD = 3.0  # times PERIOD_S: the median of 897 trials is at most 1.05 times; a busy machine's is longer
CPU_TIME, CPU_TIME_S = 0.3, 2.0  # all processes, as they were last seen, against the samples: 1.00 to 1.10 in 51 trials
# float32 operations per cycle and core: two units of fused multiply-adds, 16 or 8 numbers wide; without FMA one each.
WIDTHS, NARROW = (("avx512f", 64), ("fma", 32)), 16
FASTEST_HZ = 6.5e9  # no processor's clock is higher
PACKAGES = {  # beginnings of their names
    "tensorflow": ("tensorflow", "tf-nightly", "tf_nightly", "intel-tensorflow", "intel_tensorflow"),
    "pytorch": ("torch",),
    "mxnet": ("mxnet",),
    "jax": ("jax",),
    "paddle": ("paddle",),
}
AMD_CORES = ("Zen", "Excavator", "Steamroller", "Piledriver", "Bulldozer", "Barcelona")  # OpenBLAS's for AMD alone
# Of NVIDIA's data sheets, dense, in 1e12 per s: float32, TF32, bfloat16 and float16 with tensor cores.
GPU_PEAKS = {
    "B200": (80.0, 1200.0, 2500.0),
    "H200": (67.0, 495.0, 990.0),
    "H100": (67.0, 495.0, 990.0),
    "A100": (19.5, 156.0, 312.0),
    "V100": (15.7, 15.7, 125.0),
    "L40S": (91.6, 183.0, 366.0),
    "L4": (30.3, 60.0, 121.0),
    "T4": (8.1, 8.1, 65.0),
}


def find_impossible(result: TrialResult, events: Events, samples: Samples, trial_dir: Path) -> Iterator[str]:
    """Yield a line for each impossible value of a trial that ended ok. Raises ValueError for an unreadable meter."""
    if result.status is not Status.OK:
        return
    meter = read_meter(trial_dir / METER_FILE)
    if meter.get("sampler") and len(meter.get("clocks", [])) > 1 and len(samples["t_ns"]):
        yield from _times(result, events, samples, meter)
        yield from _rows(samples, meter)
        yield from compare_processor_time(samples, meter)
    yield from _software(result, events)
    yield from _work(result)
    yield from _sizes(result)


def _software(result: TrialResult, events: Events) -> Iterator[str]:
    """Compare the facts with those that the worker reported, and with the framework and the processor's maker."""
    opened = next((event for event in reversed(events) if event["event"] == Event.OPENED), {})
    names = [name for name, fact in opened.get("facts", {}).items() if result.facts.get(name) != fact]
    if names:
        yield f"facts: {', '.join(names)}: not as in {EVENTS_FILE}"
    framework, packages = result.spec.cell.column.framework, result.facts.get("packages")
    known = tuple(map(str, packages)) if isinstance(packages, dict) else ()
    others = [name for name, beginnings in PACKAGES.items() if any(each.startswith(beginnings) for each in known)]
    if framework in PACKAGES and others and framework not in others:
        yield f"framework: {framework}, but its worker's packages do not include it; they include {', '.join(others)}"
    core, model = (
        str(facts.get(name) or "") for facts, name in ((result.facts, "openblas_core"), (result.machine, "cpu_model"))
    )
    if core in AMD_CORES and "intel" in model.lower():
        yield f"machine: cpu_model is {model}, its OpenBLAS chose code for AMD's {core}"


def _times(result: TrialResult, events: Events, samples: Samples, meter: dict[str, Any]) -> Iterator[str]:
    """Compare the trial's length with its clocks and samples, and look for times that go back or lie outside."""
    times, clocks = samples["t_ns"], meter["clocks"]
    spans = {
        SAMPLES_FILE: (times[-1] - times[0]) / 1e9,
        f"the epoch in {METER_FILE}": (clocks[-1]["epoch_ns"] - clocks[0]["epoch_ns"]) / 1e9,
        f"the clock in {METER_FILE}": (clocks[-1]["monotonic_ns"] - clocks[0]["monotonic_ns"]) / 1e9,
        f"the sampler in {METER_FILE}": meter["sampler"].get("wall_s", result.wall_s),
    }
    for name, seconds in spans.items():
        if abs(seconds - result.wall_s) > SPAN_S:
            yield f"wall_s: the trial took {result.wall_s:.2f} s, {name} {seconds:.2f} s"
    late_s = clocks[0]["epoch_ns"] / 1e9 - read_start(result).timestamp()
    if not -EARLY_START_S <= late_s <= LATE_START_S:
        yield f"started_at: its sampler started {late_s:.0f} s later, by the clock in {METER_FILE}"
    if (back := int(np.sum(np.diff(times) <= 0))) > 0:
        yield f"{SAMPLES_FILE}: {back} times are not later than the one before"
    if events and (silent_s := (times[-1] - events[-1]["t_ns"]) / 1e9) > LAST_EVENT_S:
        yield f"{EVENTS_FILE}: its last event is {silent_s:.1f} s before the last sample"
    first, last = times[0] - SPAN_S * 1e9, times[-1] + SPAN_S * 1e9
    if outside := sum(not first <= event["t_ns"] <= last for event in events):
        yield f"{EVENTS_FILE}: {outside} times are outside the sampled time"


def _rows(samples: Samples, meter: dict[str, Any]) -> Iterator[str]:
    """Compare the number of samples with the sampler's own count and its period."""
    times, taken = samples["t_ns"], meter["sampler"].get("samples")
    if taken is not None and not taken <= len(times) <= taken + MORE_ROWS[1]:
        yield f"{SAMPLES_FILE}: {len(times)} rows, the sampler took {taken} by {METER_FILE}"
    if len(times) < 2:
        return
    most = (times[-1] - times[0]) / 1e9 / PERIOD_S * (1 + MORE_ROWS[0]) + MORE_ROWS[1]
    if len(times) > most:
        yield f"{SAMPLES_FILE}: {len(times)} rows, at most {most:.0f} can be sampled in its time"
    if (median := float(np.median(np.diff(times))) / 1e9) > LONG_PERIOD * PERIOD_S:
        yield f"{SAMPLES_FILE}: a row per {median:.2f} s, the sampler's period is {PERIOD_S:g} s"


def compare_processor_time(samples: Samples, meter: dict[str, Any]) -> Iterator[str]:
    """Compare the worker's processor time in the samples with that of its processes in the sampler's account.

    A process's time includes that of its children that have ended, so the sum over all counts some of it twice.
    """
    processes = [each["cpu_s"] for each in meter.get("processes", []) if "cpu_s" in each]
    sampled = samples["cpu_s"][~np.isnan(samples["cpu_s"])]
    if not processes or not len(sampled):
        return
    seen = float(sampled.max())
    counted = min(max(seen, max(processes)), sum(processes))  # the nearest that the account allows
    if max(seen, counted) > min(seen, counted) * (1 + CPU_TIME) + CPU_TIME_S:
        yield f"cpu_s: the samples have {seen:.1f} s of processor time, its processes {counted:.1f} s in {METER_FILE}"


def _work(result: TrialResult) -> Iterator[str]:
    """Compare the work of the layers, and of the product of matrices, with what the device can compute."""
    peak = find_peak(result)
    if peak is None:
        return
    for spec, times in ((registry.WORK, FAST_ALGORITHMS), (registry.PRODUCT, 1)):
        done = read_value(result.figures, spec)
        if done is not None and done > times * peak:
            yield (
                f"{spec.name}: {done / 1e9:,.0f} GFLOP/s; its device can do {times * peak / 1e9:,.0f}"
                f"{' by fast algorithms' * (times > 1)} at most"
            )


def find_peak(result: TrialResult) -> float | None:
    """Return the operations per s that no device of this name exceeds, over all devices; None if they are unknown."""
    placement, precision = result.spec.placement, result.spec.task.precision
    if placement.device_kind == "cpu":
        flags = result.machine.get("cpu_flags")
        if not isinstance(flags, list) or precision not in (FLOAT32, FLOAT64):
            return None
        width = next((width for flag, width in WIDTHS if flag in flags), NARROW)
        return placement.threads * width * FASTEST_HZ / (2 if precision == FLOAT64 else 1)
    words = re.split(r"[^A-Za-z0-9]+", str(read_gpu(result).get("name")))
    known = next((peaks for model, peaks in GPU_PEAKS.items() if model in words), None)
    tensor = TF32 if precision == FLOAT32 and result.facts.get("tf32") is True else precision
    place = {FLOAT32: 0, TF32: 1, BFLOAT16: 2, FLOAT16: 2}.get(tensor)
    return None if known is None or place is None else known[place] * 1e12 * placement.devices


def _sizes(result: TrialResult) -> Iterator[str]:
    """Compare memory with the machine's, and the power of the processor's packages with any machine's."""
    figures, machine = result.figures, result.machine
    card = read_gpu(result) if not result.spec.placement.others else {}
    for spec, there in (
        (registry.HOST_MEMORY, machine.get("memory_bytes")),
        (registry.DEVICE_MEMORY, card.get("memory_bytes")),
    ):
        used = read_value(figures, spec)
        if used is not None and isinstance(there, int | float) and used > there:
            yield f"{spec.name}: {used / 2**20:,.0f} MiB, its machine has {there / 2**20:,.0f}"
    cores = machine.get("cores")
    if isinstance(cores, int) and result.spec.placement.threads > cores > 0:
        yield f"threads: {result.spec.placement.threads} were allotted, its machine has {cores} cores"
    joules, seconds = (read_value(figures, spec) for spec in (registry.CPU_ENERGY, registry.WINDOW))
    if joules is not None and seconds and joules / seconds > PACKAGES_W:
        yield f"{registry.CPU_ENERGY.name}: {joules / seconds:,.0f} W, no machine takes more than {PACKAGES_W:,.0f}"
