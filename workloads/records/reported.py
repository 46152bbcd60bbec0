"""Checks of a worker's own figures, each with a margin. Memory is compared with the needs of its workload, processor
time and cores with those allotted and with the needs of its speed.

A check with an unknown figure is left out. The margins are measured: docs/evidence/margins.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..spec import SLOTS, Workload
from ..words import show_both
from . import figures as registry
from .build import FLOAT64, REDUCED
from .check_name import CheckName
from .figures import Figure, Method, read_value
from .job import TrialSpec
from .result import Check
from .samples import Samples

SCALAR_BYTES = 256  # for each parameter tensor, besides an optimizer's slots: a step counter, beta's powers
# Of the bytes that the backward pass needs. PyTorch's attention recomputes its softmax, and keeps 0.94 of them.
LEAST_ACTIVATIONS = 0.5
# Fast algorithms for 3 x 3 convolutions need up to four times fewer (Winograd F(4 x 4), Lavin & Gray 2016).
FAST_ALGORITHMS = 4
# One core alone may be this many times as fast as its share of the product of all cores.
LONE_CORE = 2
# Processor time is counted in ticks of 0.01 s, and samples do not lie exactly at the edges of a window.
CORES_MARGIN, CORES_S = 0.1, 0.1
# Each core counts resident sizes separately, and pages that processes share count in each.
PROCESSES_MARGIN, PROCESSES_BYTES = 0.1, 64 * 2**20


def check_reported(spec: TrialSpec, workload: Workload | None, figures: Mapping[str, Figure]) -> Iterator[Check]:
    """Compare the worker's figures with what can be computed; nothing for custom code, whose layers are unknown."""
    yield from _cores(spec, figures)
    if workload is None or spec.task.own_code is not None:
        return
    if check := check_optimizer(spec, workload, read_value(figures, registry.MEMORY_PARTS["optimizer"])):
        yield check
    if spec.placement.devices == 1:  # of several, frameworks count one copy or all
        yield from _parameters(spec, workload, figures)
        yield from _activations(figures)
    yield from _needed(spec, workload, figures)


def _value_bytes(spec: TrialSpec) -> int:
    """Return the bytes of a weight: weights stay in float32 in reduced precisions, too."""
    return 8 if spec.task.precision == FLOAT64 else 4


def check_optimizer(spec: TrialSpec, workload: Workload | None, state_bytes: float | None) -> Check | None:
    """Check the optimizer's state: every rule keeps its slots of each trained number and a few scalars, in every
    framework. None for an unknown state or workload.

    A tensor whose slots were forgotten, or a state shared or counted twice, fails. The state has at least the slots,
    and with Adam at most SCALAR_BYTES per parameter tensor more. For other rules only a state that is too small fails.
    """
    if state_bytes is None or workload is None:
        return None
    rule = spec.task.optimizer.name
    adam = rule in ("adam", "adamw")
    if not adam and spec.placement.devices > 1:  # of several, frameworks count one copy or all
        return None
    trainable_bytes = workload.parameter_count * _value_bytes(spec)
    extra = state_bytes - SLOTS[rule] * trainable_bytes
    most = SCALAR_BYTES * len(workload.parameter_shapes())
    detail = f"{state_bytes:.0f} bytes of state, {trainable_bytes} trainable; 0 to {most} bytes of scalars are allowed"
    name = CheckName.ADAM if adam else CheckName.SLOTS
    return Check(name, extra >= 0 and (extra <= most or not adam), detail)


def _parameters(spec: TrialSpec, workload: Workload, figures: Mapping[str, Figure]) -> Iterator[Check]:
    """Check that parameters, a sum of arrays, have no fewer bytes than the workload's."""
    reported = read_value(figures, registry.MEMORY_PARTS["parameters"])
    if reported is not None:
        expected = workload.parameter_count * _value_bytes(spec)
        detail = f"{reported:.0f} bytes of parameters, {expected} by the workload's definition"
        yield Check(CheckName.PARAMETERS, reported >= expected, detail)


def _activations(figures: Mapping[str, Figure]) -> Iterator[Check]:
    kept = read_value(figures, registry.MEMORY_PARTS["activations"])
    exact = read_value(figures, registry.EXACT_ACTIVATIONS)
    if kept is not None and exact is not None:
        reported, least = show_both(kept / 2**20, LEAST_ACTIVATIONS * exact / 2**20, "f", digits=2, fewer=0)
        detail = f"{reported} MiB of activations; {LEAST_ACTIVATIONS:g} times what must be kept is {least} MiB"
        yield Check(CheckName.ACTIVATIONS, kept >= LEAST_ACTIVATIONS * exact, detail)


def _used_cores(spec: TrialSpec, figures: Mapping[str, Figure]) -> float | None:
    """Return the cores that the worker's processes used in the window, on average."""
    percent, quota = read_value(figures, registry.CPU_USAGE), read_value(figures, registry.CPU_QUOTA)
    if percent is None:
        return None
    return percent / 100 * min(float(spec.placement.threads), quota or float(spec.placement.threads))


def _cores(spec: TrialSpec, figures: Mapping[str, Figure]) -> Iterator[Check]:
    used, window_s = _used_cores(spec, figures), read_value(figures, registry.WINDOW)
    if used is None or not window_s:
        return
    allotted = spec.placement.threads
    most = allotted * (1 + CORES_MARGIN + CORES_S / window_s)
    shown, allowed = show_both(used, most, "f", digits=2, fewer=0)
    detail = f"the worker's processes used {shown} cores in the window, {allotted} are allotted ({allowed} allowed)"
    yield Check(CheckName.CORES, used <= most, detail)


def _needed(spec: TrialSpec, workload: Workload, figures: Mapping[str, Figure]) -> Iterator[Check]:
    """Compare the processor time seen with what the reported speed needs, given the framework's own matrix product, by
    processor time if that is known. Nothing is known in reduced precision, and on a GPU.
    """
    used, speed = _used_cores(spec, figures), read_value(figures, registry.SPEED)
    product = read_value(figures, registry.PRODUCT_BY_CPU_TIME) or read_value(figures, registry.PRODUCT)
    if spec.placement.device != "cpu" or spec.task.precision in REDUCED:
        return
    if used is None or not product or speed is None:
        return
    least = speed * workload.step_flop / FAST_ALGORITHMS / (LONE_CORE * product / spec.placement.threads)
    shown, allowed = show_both(used, least, "f", digits=3, fewer=0)
    detail = f"{speed:,.0f} images/s need at least {allowed} cores, its processes used {shown}"
    yield Check(CheckName.NEEDED, used >= least, detail)


def check_processes(
    spec: TrialSpec, figures: Mapping[str, Figure], edges: tuple[float, float], samples: Samples
) -> list[Check]:
    """Compare the resident size of all of the worker's processes with that of the worker, which is the figure.

    With several devices, which may be one process each, the figure is that of all. Custom code may start helpers, as
    torch.compile does: it is compared with nothing. `edges` of the window are in ns of the monotonic clock.
    """
    figure = figures.get(registry.HOST_MEMORY.name)
    if spec.placement.devices > 1 or spec.task.own_code:
        return []
    if figure is None or figure.value is None or figure.method is not Method.COUNTER:
        return []
    inside = (samples["t_ns"] >= edges[0]) & (samples["t_ns"] <= edges[1])
    sizes = samples["host_memory_bytes"][inside]
    known = sizes[~np.isnan(sizes)]
    if not len(known):
        return []
    most = figure.value * (1 + PROCESSES_MARGIN) + PROCESSES_BYTES
    shown, allowed = show_both(known.max() / 2**20, most / 2**20, "f", digits=0, fewer=0)
    detail = f"all of its processes had {shown} MiB in the window, the worker itself {figure.value / 2**20:,.0f}"
    return [Check(CheckName.PROCESSES, bool(known.max() <= most), f"{detail} ({allowed} MiB allowed)")]


def check_threads(spec: TrialSpec, facts: Mapping[str, Any]) -> list[Check]:
    """Compare the threads that a framework reports with those allotted. With several devices, which share them in
    their own ways, nothing is compared.
    """
    told = facts.get("intra_op_threads")
    if spec.placement.devices > 1 or type(told) is not int:
        return []
    allotted = spec.placement.device_threads
    return [Check(CheckName.THREADS, told == allotted, f"it reports {told} threads, {allotted} are allotted")]
