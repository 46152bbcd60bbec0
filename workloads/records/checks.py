"""Identities that a trial's own figures and samples must satisfy, between what was counted apart from one another.

The runner stores them with every result; `python -m reports check` makes them again from the stored files.
"""

from __future__ import annotations

import math

import numpy as np

from ..catalogue import WORKLOADS
from .figures import Figure
from .job import TrialSpec
from .result import Check, Epoch
from .samples import PERIOD_S, Samples

SPEED_IDENTITY, STEPS_IDENTITY = "images/s x step time = batch size", "steps of an epoch"
COUNTS = (SPEED_IDENTITY, STEPS_IDENTITY)  # a trial that miscounts has no speed and no accuracy to show
LONG_ENOUGH, COVERED, INCREASING = "window is long enough", "samples cover the window", "samples' times increase"
NOT_ALL_ZERO = "not all zero"
BUSY_ABOVE_ALL, PROCESS_IN_DEVICE = "busy mean >= mean of all samples", "process memory <= device memory"
ENERGY = "energy by counter = integrated power"
KEPT_PACE = "the driver's clock kept pace"
NO_STALL = "no stall in the window"
IN_SPLIT, ADAM = "batch size <= training split", "Adam's state = 2 x trainable bytes"
NAMES = (
    *COUNTS, LONG_ENOUGH, COVERED, INCREASING, NOT_ALL_ZERO, BUSY_ABOVE_ALL, PROCESS_IN_DEVICE, ENERGY, KEPT_PACE,
    IN_SPLIT, ADAM, NO_STALL,
)  # fmt: skip
# What the gate finds beyond a framework's first probe. Not among NAMES: the runner alone can make them. A trial that
# lacks one was not looked at so, and one that fails one is no number.
EPOCHS_AGREE = "epochs are as the others'"
END_ANSWERED, END_EVALUATION = "its end answers the probe", "evaluation at its end = the referee's"
END_LOSSES, END_UPDATES = "losses at its end = the referee's", "updates at its end = the referee's"
NOTHING_LEFT, POSSIBLE = "nothing was left to do behind the window", "its speed is possible"
LATE_NAMES = (POSSIBLE, NOTHING_LEFT, END_ANSWERED, END_EVALUATION, END_LOSSES, END_UPDATES, EPOCHS_AGREE)

SHORTEST_S, FEWEST_SAMPLES = 5.0, 10
ENERGY_TOLERANCE = 0.05
SCALAR_BYTES = 256  # for each parameter tensor, beside its two moments: a step counter, beta's powers
CLOCK_DRIFT_S = 0.05
CONTENDED_PERCENT = 25.0  # of a CPU trial's cores, taken by others through the window: its speed is not its own
CALL_TIMES = ("call_p50_s", "call_p95_s", "call_p99_s", "call_longest_s")
# A worker that stood still: its longest call took this many times the median one, and this share of the window more.
STALL_TIMES, STALL_SHARE = 5.0, 0.05
# What is nothing but zeros through a window of training was not measured; nor was a sum that stands still.
NEVER_ZERO = ("cpu_percent", "gpu_percent", "power_w", "energy_j")
NEVER_ALL_ZERO = (
    "gpu_percent", "host_memory_bytes", "device_memory_bytes", "process_memory_bytes", "power_mw", "sm_clock_mhz",
    "temperature_c",
)  # fmt: skip
SUMS = ("cpu_s", "energy_mj")
# (mean of all, mean of the busy ones, tolerance). A utilisation read beside a power is that of up to a second before,
# so the power of readings called busy may be a little below that of all; the others are exact.
BUSY = (
    ("cpu_percent", "cpu_busy_percent", 1e-9),
    ("gpu_percent", "gpu_busy_percent", 1e-9),
    ("power_w", "power_busy_w", 0.05),
)
OWN_SAMPLES = "NVML nvmlDeviceGetSamples"  # how the source of a usage begins that the driver itself sampled
DEVICE_RISE = "less its baseline"  # in the source of a process's memory that is made of the device's


def figure_checks(spec: TrialSpec, figures: dict[str, Figure], epochs: list[Epoch]) -> list[Check]:
    """From the figures alone; a check whose figures are unknown is left out."""
    done: list[Check] = []
    value = {name: figure.value for name, figure in figures.items() if figure.value is not None}
    if epochs and spec.cell.batch_size > epochs[0].images:
        detail = (
            f"epochs are one batch of {epochs[0].images}, the window's batches of {spec.cell.batch_size} repeat images"
        )
        done.append(Check(IN_SPLIT, False, detail))
    if {"images_per_s", "step_time_s"} <= value.keys():
        product = value["images_per_s"] * value["step_time_s"]
        detail = f"{product:.2f} images a step, batch size {spec.cell.batch_size}"
        done.append(Check(SPEED_IDENTITY, abs(product / spec.cell.batch_size - 1) <= 0.01, detail))
    for number, epoch in enumerate(epochs):
        whole, rest = divmod(epoch.images, spec.cell.batch_size)
        expected = whole + math.ceil(rest / spec.cell.batch_size)
        if epoch.steps != expected:
            detail = f"epoch {number}: {epoch.images} images in {epoch.steps} steps, expected {expected}"
            done.append(Check(STEPS_IDENTITY, False, detail))
    if "window_s" in value:
        usage = figures["cpu_percent" if spec.placement.device == "cpu" else "gpu_percent"]
        long_enough = value["window_s"] >= SHORTEST_S and (usage.samples is None or usage.samples >= FEWEST_SAMPLES)
        counted = "" if usage.samples is None else f", {usage.samples} samples of the usage"
        detail = f"{value['window_s']:.2f} s{counted}; {SHORTEST_S:g} s and {FEWEST_SAMPLES} samples are wanted"
        done.append(Check(LONG_ENOUGH, long_enough, detail))
    for name in NEVER_ZERO:
        if value.get(name) == 0:
            done.append(Check(NOT_ALL_ZERO, False, f"{name} is exactly 0 through a window of training"))
    for every, busy, tolerance in BUSY:
        if {every, busy} <= value.keys():
            detail = f"{busy} {value[busy]:.2f}, {every} {value[every]:.2f}"
            done.append(Check(BUSY_ABOVE_ALL, value[busy] >= value[every] * (1 - tolerance), detail))
    by_process = "process_gpu_memory_bytes" in value and DEVICE_RISE not in figures["process_gpu_memory_bytes"].source
    if by_process and "device_memory_bytes" in value:
        process, device = value["process_gpu_memory_bytes"], value["device_memory_bytes"]
        detail = f"{process / 2**20:.0f} of {device / 2**20:.0f} MiB"
        done.append(Check(PROCESS_IN_DEVICE, process <= device, detail))
    # Without a counter the one is the other.
    by_counter = "energy_j" in value and "integrated" not in figures["energy_j"].source
    if by_counter and "energy_integrated_j" in value:
        counter, integrated = value["energy_j"], value["energy_integrated_j"]
        detail = f"{counter:.1f} J by counter, {integrated:.1f} J integrated"
        done.append(Check(ENERGY, abs(counter - integrated) <= ENERGY_TOLERANCE * integrated, detail))
    if {"window_s", "call_p50_s", "call_longest_s"} <= value.keys():
        usual_s, longest_s = value["call_p50_s"], value["call_longest_s"]
        lost = (longest_s - usual_s) / value["window_s"]
        stalled = longest_s > STALL_TIMES * usual_s and lost > STALL_SHARE
        detail = f"the longest call took {longest_s:.2f} s, the median one {usual_s:.2f} s: {lost:.0%} of the window"
        done.append(Check(NO_STALL, not stalled, detail))
    adam = optimizer_check(spec, value.get("optimizer_bytes"))
    return [*done, adam] if adam else done


def optimizer_check(spec: TrialSpec, state_bytes: float | None) -> Check | None:
    """Adam keeps two moments of each trained number and a few scalars, in every framework; None for another rule, an
    unknown state, or a workload that the catalogue does not have.

    A tensor whose moments were forgotten, or a state shared or counted twice, lies outside: at least the two moments,
    at most SCALAR_BYTES a parameter tensor more.
    """
    workload = WORKLOADS.get(spec.task.workload)
    if spec.task.optimizer.name != "adam" or state_bytes is None or workload is None:
        return None
    trainable_bytes = workload.parameter_count * (8 if spec.task.profile == "float64" else 4)
    extra = state_bytes - 2 * trainable_bytes
    most = SCALAR_BYTES * len(workload.parameter_shapes())
    detail = f"{state_bytes:.0f} bytes of state, {trainable_bytes} trainable; 0 to {most} bytes of scalars are allowed"
    return Check(ADAM, 0 <= extra <= most, detail)


def sample_checks(edges: tuple[float, float], samples: Samples) -> list[Check]:
    """From the samples inside the window whose edges are given in ns of the monotonic clock."""
    inside = (samples["t_ns"] >= edges[0] - PERIOD_S * 1e9) & (samples["t_ns"] <= edges[1])
    times = samples["t_ns"][inside]
    steps = np.diff(times)
    gap_s = float(np.diff(np.concatenate([[edges[0]], np.sort(times), [edges[1]]])).max()) / 1e9
    done = [
        Check(COVERED, gap_s <= 3 * PERIOD_S, f"longest gap {gap_s:.2f} s, period {PERIOD_S} s"),
        Check(INCREASING, bool(np.all(steps > 0)), f"{int(np.sum(steps <= 0))} of {len(times)} do not"),
    ]
    for column in NEVER_ALL_ZERO:
        known = samples[column][inside]
        known = known[~np.isnan(known)]
        if len(known) and not known.any():
            done.append(Check(NOT_ALL_ZERO, False, f"{column}: all {len(known)} samples in the window are 0"))
    for column in SUMS:
        known = samples[column][inside]
        known = known[~np.isnan(known)]
        if len(known) > 1 and known.min() == known.max():
            detail = f"{column}: all {len(known)} samples in the window are {known[0]:g}, and it is a running sum"
            done.append(Check(NOT_ALL_ZERO, False, detail))
    return done


def clock_checks(figures: dict[str, Figure], clocks: list[dict[str, int]]) -> list[Check]:
    """Where the usage is of the driver's samples, which are stamped with the epoch: was that clock set meanwhile?

    `clocks` of meter.json: the same moment as monotonic_ns and epoch_ns, before the worker's life and after it.
    """
    usage = figures.get("gpu_percent")
    if usage is None or usage.value is None or not usage.source.startswith(OWN_SAMPLES):
        return []
    if len(clocks) < 2:
        return [Check(KEPT_PACE, False, "cannot be told: the sampler did not read the clocks at the end")]
    before_ns, after_ns = (pair["epoch_ns"] - pair["monotonic_ns"] for pair in (clocks[0], clocks[-1]))
    drift_s = (after_ns - before_ns) / 1e9
    detail = f"the epoch moved by {drift_s:+.3f} s against the monotonic clock; {CLOCK_DRIFT_S:g} s are allowed"
    return [Check(KEPT_PACE, abs(drift_s) < CLOCK_DRIFT_S, detail)]
