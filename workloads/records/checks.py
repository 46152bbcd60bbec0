"""Identities that a trial's figures and samples must satisfy, between quantities that were counted separately.

The runner stores them with every result; `python -m reports check` computes them again from the stored files.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import numpy as np

from ..spec import Workload
from ..words import show_both
from . import figures as registry
from .check_name import CheckName
from .columns import PERIOD_S
from .figures import Figure, FigureSpec, Method
from .job import ANEW, TrialSpec
from .reported import check_reported
from .result import Check, Epoch, TrialResult
from .samples import Samples

SHORTEST_S, FEWEST_SAMPLES = 5.0, 10
ENERGY_TOLERANCE = 0.05
POWER_TOLERANCE = 0.05  # a window of seconds on an H200 reached 1.00 times its limit
SURE = 2.0  # times a 95 % interval: allows for chance in readings, so that a check seldom fails by it
CLOCK_DRIFT_S = 0.05
CONTENDED_PERCENT = 25.0  # of a CPU trial's cores, used by others: its speed is not its own
THROTTLED_PERCENT = 1.0  # of the window x the cores allotted, withheld by a CPU quota
# A stalled worker: its longest call took this many times the median one, and this share of the window more.
STALL_TIMES, STALL_SHARE = 5.0, 0.05
# Epochs after the first train at the window's speed: at 0.6 to 1.8 times it in all 709 calm published trials, and
# beyond twice in 2 disturbed ones. Fixed costs dominate epochs that are shorter than EPOCHS_S in all.
EPOCHS_APART, EPOCHS_S = 2.0, 1.0
# A window does the same as the epochs, so it is no faster than the fastest of them by more than WINDOW_FASTER.
# EPOCH_COSTS_S are subtracted from each epoch for work that no window does. All 789 trials published as ok, of four
# epochs and more, are below 1.14 times that; of their 1,833 runs of three epochs none is above 1.18, of two one is at
# 1.37.
WINDOW_FASTER, EPOCH_COSTS_S, FEWEST_EPOCHS = 1.3, 0.1, 3
# Of the cores, used by others in the window or in the epochs: above this, neither is compared so closely.
CALM_PERCENT = 10.0
# A value of only zeros through a window of training was not measured; nor was a sum that does not move.
NEVER_ZERO = (registry.CPU_USAGE, registry.GPU_USAGE, registry.POWER, registry.ENERGY)
NEVER_ALL_ZERO = (  # of the sampler's columns
    "gpu_percent", "host_memory_bytes", "device_memory_bytes", "process_memory_bytes", "power_mw", "sm_clock_mhz",
    "temperature_c",
)  # fmt: skip
SUMS = ("cpu_s", "energy_mj")
# (mean of all, mean of the busy ones, tolerance). A utilisation read with a power covers up to a second before, so the
# power of readings called busy may be a little below that of all; the others are exact.
BUSY = (
    (registry.CPU_USAGE, registry.CPU_BUSY, 1e-9),
    (registry.GPU_USAGE, registry.GPU_BUSY, 1e-9),
    (registry.POWER, registry.POWER_BUSY, 0.05),  # and the error of the power's readings
)


def check_figures(
    spec: TrialSpec, workload: Workload | None, figures: dict[str, Figure], epochs: list[Epoch]
) -> list[Check]:
    """Check the figures alone. A check whose figures, or whose workload, are unknown is left out."""
    return [
        *_split(spec, epochs),
        *_speed(spec, figures),
        *_steps(spec, epochs),
        *_epochs_speed(spec, figures, epochs[1:]),
        *_window_speed(spec, figures, epochs[1:]),
        *_window(spec, figures),
        *_zeros(figures),
        *_busy(figures),
        *_process_memory(figures),
        *_energy(figures),
        *_power(figures),
        *_stalls(figures),
        *_throttled(figures),
        *check_reported(spec, workload, figures),
    ]


def _values(figures: dict[str, Figure], *specs: FigureSpec) -> list[float] | None:
    """Return their values; None unless all are known."""
    wanted = (figures.get(spec.name) for spec in specs)
    known = [figure.value for figure in wanted if figure is not None and figure.value is not None]
    return known if len(known) == len(specs) else None


def _split(spec: TrialSpec, epochs: list[Epoch]) -> Iterator[Check]:
    if epochs and spec.global_batch > epochs[0].images:
        update = spec.global_batch
        detail = f"epochs are one batch of {epochs[0].images}, the window's batches of {update} repeat images"
        yield Check(CheckName.IN_SPLIT, False, detail)


def _speed(spec: TrialSpec, figures: dict[str, Figure]) -> Iterator[Check]:
    if pair := _values(figures, registry.SPEED, registry.STEP_TIME):
        product = pair[0] * pair[1]
        detail = f"{product:.2f} images per step, batch size {spec.global_batch}"
        yield Check(CheckName.SPEED_IDENTITY, abs(product / spec.global_batch - 1) <= 0.01, detail)


def _steps(spec: TrialSpec, epochs: list[Epoch]) -> Iterator[Check]:
    for number, epoch in enumerate(epochs):
        expected = math.ceil(epoch.images / spec.global_batch)
        if epoch.steps != expected:
            detail = f"epoch {number}: {epoch.images} images in {epoch.steps} steps, expected {expected}"
            yield Check(CheckName.STEPS_IDENTITY, False, detail)


def _copies_each_epoch(spec: TrialSpec) -> bool:
    """True if an epoch's time includes work that no window does: images augmented and copied to the device at once."""
    return spec.task.augment in ANEW and spec.task.feed == "device"


def _epochs_speed(spec: TrialSpec, figures: dict[str, Figure], epochs: list[Epoch]) -> Iterator[Check]:
    """Compare the speed of the epochs after the first, which compiles, with the window's. The nearer of two speeds
    counts: that of all epochs, and that of the middle one, which a single disturbed epoch does not move.
    """
    if _copies_each_epoch(spec):
        return
    seconds, speed = sum(epoch.train_s for epoch in epochs), _values(figures, registry.SPEED)
    if seconds >= EPOCHS_S and speed and speed[0] > 0:
        each = [epoch.images / epoch.train_s for epoch in epochs if epoch.train_s > 0]
        speeds = sum(epoch.images for epoch in epochs) / seconds, statistics.median(each)
        of_epochs = min(speeds, key=lambda one: max(one / speed[0], speed[0] / one) if one > 0 else math.inf)
        detail = f"{of_epochs:,.0f} images/s in the epochs after the first, {speed[0]:,.0f} in the steady window"
        ratio = of_epochs / speed[0]
        yield Check(CheckName.EPOCHS_SPEED, 1 / EPOCHS_APART <= ratio <= EPOCHS_APART, detail)


def _window_speed(spec: TrialSpec, figures: dict[str, Figure], epochs: list[Epoch]) -> Iterator[Check]:
    """Compare the window's speed with the fastest epoch after the first. Left out on a GPU, where this was never
    measured, and if others disturbed window or epochs, or that is unknown.

    A smaller last batch counts as a full one: a step may take as long.
    """
    shares, speed = (
        _values(figures, registry.FOREIGN_CPU, registry.FOREIGN_CPU_EPOCHS),
        _values(figures, registry.SPEED),
    )
    if spec.placement.device != "cpu" or _copies_each_epoch(spec) or not speed:
        return
    if shares is None or max(shares) > CALM_PERCENT or len(epochs) < FEWEST_EPOCHS:
        return
    if min(epoch.train_s for epoch in epochs) > EPOCH_COSTS_S:
        fastest = max(epoch.steps * spec.global_batch / (epoch.train_s - EPOCH_COSTS_S) for epoch in epochs)
        times = f"it is {speed[0] / fastest:.3g} times as fast, which is too much"
        detail = f"{speed[0]:,.0f} images/s in the steady window, at most {fastest:,.0f} in the fastest epoch"
        passed = speed[0] <= WINDOW_FASTER * fastest
        yield Check(CheckName.WINDOW_SPEED, passed, detail if passed else f"{detail}; {times}")


def is_as_asked(spec: TrialSpec, check: Check) -> bool:
    """True if a window is as short as requested: its figures have their footnote, and nothing went wrong."""
    return check.name == CheckName.LONG_ENOUGH and spec.window_s < SHORTEST_S


def list_failed(result: TrialResult) -> list[Check]:
    """Return checks of a trial that did not pass, except those that fail as requested."""
    return [check for check in result.checks if not check.passed and not is_as_asked(result.spec, check)]


def _window(spec: TrialSpec, figures: dict[str, Figure]) -> Iterator[Check]:
    if window := _values(figures, registry.WINDOW):
        usage = figures.get((registry.CPU_USAGE if spec.placement.device == "cpu" else registry.GPU_USAGE).name)
        samples = usage.samples if usage else None
        long_enough = window[0] >= SHORTEST_S and (samples is None or samples >= FEWEST_SAMPLES)
        counted = "" if samples is None else f", {samples} samples of the usage"
        detail = f"{window[0]:.2f} s{counted}; {SHORTEST_S:g} s and {FEWEST_SAMPLES} samples are required"
        yield Check(CheckName.LONG_ENOUGH, long_enough, detail)


def _zeros(figures: dict[str, Figure]) -> Iterator[Check]:
    for never in NEVER_ZERO:
        if _values(figures, never) == [0]:
            yield Check(CheckName.NOT_ALL_ZERO, False, f"{never.name} is exactly 0 through a window of training")


def _busy(figures: dict[str, Figure]) -> Iterator[Check]:
    for every, busy, tolerance in BUSY:
        if pair := _values(figures, every, busy):
            detail = f"{busy.name} {pair[1]:.2f}, {every.name} {pair[0]:.2f}"
            least = pair[0] * (1 - tolerance)
            if every is registry.POWER and (off := _values(figures, registry.ENERGY_INTEGRATED_ERROR, registry.WINDOW)):
                least -= SURE * off[0] / off[1]
            yield Check(CheckName.BUSY_ABOVE_ALL, pair[1] >= least, detail)


def _process_memory(figures: dict[str, Figure]) -> Iterator[Check]:
    pair = _values(figures, registry.PROCESS_GPU_MEMORY, registry.DEVICE_MEMORY)
    if pair and figures[registry.PROCESS_GPU_MEMORY.name].method is not Method.DEVICE_RISE:
        process, device = pair
        detail = f"{process / 2**20:.0f} of {device / 2**20:.0f} MiB"
        yield Check(CheckName.PROCESS_IN_DEVICE, process <= device, detail)


def _energy(figures: dict[str, Figure]) -> Iterator[Check]:
    """Compare a counter with the readings of the power, within their accuracy; without a counter both are integrated.

    Older results do not give the error of either.
    """
    pair = _values(figures, registry.ENERGY, registry.ENERGY_INTEGRATED)
    if pair and figures[registry.ENERGY.name].method is not Method.INTEGRATED:
        counter, integrated = pair
        hidden = (_values(figures, registry.ENERGY_RESOLUTION) or [0.0])[0] / 100 * counter
        sampled = SURE * (_values(figures, registry.ENERGY_INTEGRATED_ERROR) or [0.0])[0]
        detail = f"{counter:.1f} J by counter, {integrated:.1f} J integrated"
        if hidden or sampled:
            detail += f"; the counter's steps may hide {hidden:.1f} J, the readings {sampled:.1f} J"
        allowed = ENERGY_TOLERANCE * integrated + hidden + sampled
        yield Check(CheckName.ENERGY, abs(counter - integrated) <= allowed, detail)


def _power(figures: dict[str, Figure]) -> Iterator[Check]:
    """Compare the mean power with the limit that the driver enforces; single readings may lie above it."""
    if pair := _values(figures, registry.POWER, registry.POWER_LIMIT):
        power_w, limit_w = pair
        error_w = (_values(figures, registry.POWER_ERROR) or [0.0])[0]
        detail = f"{power_w:.1f} W, may be off by {error_w:.1f} W; the limit is {limit_w:.1f} W"
        yield Check(CheckName.POWER_LIMITED, power_w - error_w <= (1 + POWER_TOLERANCE) * limit_w, detail)


def _stalls(figures: dict[str, Figure]) -> Iterator[Check]:
    if calls := _values(figures, registry.WINDOW, registry.CALL_MEDIAN, registry.CALL_LONGEST):
        window_s, usual_s, longest_s = calls
        lost = (longest_s - usual_s) / window_s if window_s > 0 else math.inf  # such a file was not written by us
        stalled = longest_s > STALL_TIMES * usual_s and lost > STALL_SHARE
        detail = f"the longest call took {longest_s:.2f} s, the median one {usual_s:.2f} s: {lost:.0%} of the window"
        yield Check(CheckName.NO_STALL, not stalled, detail)


def _throttled(figures: dict[str, Figure]) -> Iterator[Check]:
    """Check that the CPU quota withheld little: the speed of a throttled worker is that of its quota."""
    if pair := _values(figures, registry.CPU_THROTTLED, registry.CPU_QUOTA):
        percent, quota = pair
        detail = f"{percent:.1f} % of the cores' time in the window was withheld by a quota of {quota:g} cores; "
        detail += f"at most {THROTTLED_PERCENT:g} % is allowed"
        yield Check(CheckName.NOT_THROTTLED, percent <= THROTTLED_PERCENT, detail)


def check_samples(edges: tuple[float, float], samples: Samples) -> list[Check]:
    """Check the samples inside the window, whose edges are given in ns of the monotonic clock."""
    inside = (samples["t_ns"] >= edges[0] - PERIOD_S * 1e9) & (samples["t_ns"] <= edges[1])
    times = samples["t_ns"][inside]
    steps = np.diff(times)
    gap_s = float(np.diff(np.concatenate([[edges[0]], np.sort(times), [edges[1]]])).max()) / 1e9
    checks = [
        Check(CheckName.COVERED, gap_s <= 3 * PERIOD_S, f"longest gap {gap_s:.2f} s, period {PERIOD_S} s"),
        Check(CheckName.INCREASING, bool(np.all(steps > 0)), f"{int(np.sum(steps <= 0))} of {len(times)} do not"),
    ]
    for column in (*NEVER_ALL_ZERO, *SUMS):
        values = samples[column][inside]
        known = values[~np.isnan(values)]
        detail = f"{column}: all {len(known)} samples in the window are {known[0] if len(known) else 0:g}"
        if column in NEVER_ALL_ZERO and len(known) and not known.any():
            checks.append(Check(CheckName.NOT_ALL_ZERO, False, detail))
        if column in SUMS and len(known) > 1 and known.min() == known.max():
            checks.append(Check(CheckName.NOT_ALL_ZERO, False, f"{detail}, but it is a running sum"))
    return checks


def check_clocks(figures: dict[str, Figure], clocks: list[dict[str, int]]) -> list[Check]:
    """Check if the clock was set during the trial: the driver's samples, if the usage comes from them, have its time.

    `clocks` of meter.json hold the same moment as monotonic_ns and epoch_ns, before the worker's life and after it.
    """
    usage = figures.get(registry.GPU_USAGE.name)
    if usage is None or usage.value is None or usage.method is not Method.DRIVER_SAMPLES:
        return []
    if len(clocks) < 2:
        return [Check(CheckName.KEPT_PACE, False, "uncertain: the sampler did not read the clocks at the end")]
    before_ns, after_ns = (pair["epoch_ns"] - pair["monotonic_ns"] for pair in (clocks[0], clocks[-1]))
    drift_s = (after_ns - before_ns) / 1e9
    drifted, allowed = show_both(abs(drift_s), CLOCK_DRIFT_S, "f", digits=3, fewer=1)
    sign = "+" if drift_s >= 0 else "-"
    detail = f"the epoch moved by {sign}{drifted} s against the monotonic clock; {allowed} s are allowed"
    return [Check(CheckName.KEPT_PACE, abs(drift_s) < CLOCK_DRIFT_S, detail)]
