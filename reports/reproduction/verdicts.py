"""What follows from published beside measured, in words: order, shape, distance, and what is known of the cause."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import tables
from ..conditions import Section
from ..frameworks import display_name
from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT, Order
from ..order import of_cell as order_of_cell
from ..order import order as compared
from ..quantities import USAGE_BUSY
from ..spread import LEAST_SPREAD
from . import literature, ranks
from .comparable import MEMORY, USAGE, Metric, Points, frameworks, listed, obstacles
from .literature import CHART, TABLE

UNPUBLISHED = "Data set, network, optimizer and way of reading of the publication are unknown."
NAMED = {TABLE: "the published table", CHART: "the published chart"}


def of(section: Section, metric: Metric, ours: Points) -> tuple[str, ...]:
    """Sentences below the table of this metric; one alone where nothing may be compared."""
    in_the_way = obstacles(section, metric)
    if in_the_way:
        return (f"Order, shape and cause of the differences: cannot be told: {'; '.join(in_the_way)}.",)
    if not ours:
        return ("Order, shape and cause of the differences: cannot be told: nothing was measured.",)
    parts = []
    for series in (TABLE, CHART) if not metric.alone else (TABLE,):
        parts += [order(ours, metric, series), shape(ours, metric, series), distance(ours, metric, series)]
    return (*parts, *causes(section, metric, ours))


def order(ours: Points, metric: Metric, series: str) -> str:
    """Whether the frameworks stand in the published order, batch size by batch size."""
    head = f"Order of the frameworks, against {NAMED[series]}: "
    if metric.alone:
        return f"{head}cannot be told: published for {display_name(metric.alone)} alone."
    published, names = literature.values(series, metric.name), frameworks(ours)
    judged: dict[str, list[int]] = {}
    once: dict[str, list[int]] = {}  # of one repeat: how it was in this run
    for size in sorted({size for _, size in ours} & {size for _, size in published}):
        here = [name for name in names if (name, size) in ours and (name, size) in published]
        pairs = [
            (ours[a, size], ours[b, size])
            for a in here
            for b in here
            if published[a, size] - published[b, size] > literature.TOLERANCE[metric.name]
        ]
        if not pairs:
            continue
        orders = [compared(a, b) for a, b in pairs]
        one_repeat = any(one in ONCE for one in orders)
        if any(one in BELOW for one in orders):
            word = "another"
        elif all(one in ABOVE for one in orders):
            word = "the same"
        else:
            near = f"within {TIE_PERCENT:g} % of each other"
            word = near if Order.TIE in orders else "cannot be told, intervals overlap,"
        (once if one_repeat else judged).setdefault(word, []).append(size)
    sentences, told_once = (
        "; ".join(f"{word} at {listed(sizes)}" for word, sizes in found.items()) for found in (judged, once)
    )
    if once:
        sentences += f"{'; ' if sentences else ''}cannot be told from one repeat; in this run {told_once}"
    return f"{head}{sentences or 'cannot be told: at no batch size are there two frameworks to order'}."


def shape(ours: Points, metric: Metric, series: str) -> str:
    """Whether the values rise and fall over the batch sizes as the published ones do."""
    sentences = []
    for framework in frameworks(ours):
        pairs = _pairs(ours, metric, series, framework)
        if len(pairs) < ranks.FEWEST:
            word = f"cannot be told ({len(pairs)} batch sizes to compare, {ranks.FEWEST} are needed)"
        else:
            found = ranks.correlation([a for _, a, _ in pairs], [b for _, _, b in pairs])
            if math.isnan(found.rho):
                word = "cannot be told (all values are the same)"
            elif found.p >= ranks.ALPHA:
                word = f"cannot be told ({found})"
            else:
                word = f"{'the same' if found.rho > 0 else 'the opposite'} ({found})"
        sentences.append(f"{display_name(framework)} {word}")
    return f"Shape over the batch sizes, against {NAMED[series]}: {'; '.join(sentences)}."


def distance(ours: Points, metric: Metric, series: str) -> str:
    """Root-mean-square difference by framework, and the largest."""
    sentences = []
    for framework in frameworks(ours):
        pairs = _pairs(ours, metric, series, framework)
        if not pairs:
            sentences.append(f"{display_name(framework)} cannot be told (no batch size to compare)")
            continue
        size, worst = max(((size, a - b) for size, a, b in pairs), key=lambda pair: abs(pair[1]))
        sizes = "1 batch size" if len(pairs) == 1 else f"{len(pairs)} batch sizes"
        apart = f"{rms(a - b for _, a, b in pairs):.{metric.decimals}f} {metric.unit} over {sizes}"
        sentences.append(f"{display_name(framework)} {apart}, largest {worst:+z.{metric.decimals}f} at {size}")
    return f"Root-mean-square difference to {NAMED[series]}: {'; '.join(sentences)}."


def rms(differences: Iterable[float]) -> float:
    """Root of the mean square, in their unit. Raises ZeroDivisionError without any."""
    squares = [difference**2 for difference in differences]
    return math.sqrt(sum(squares) / len(squares))


def _pairs(ours: Points, metric: Metric, series: str, framework: str) -> list[tuple[int, float, float]]:
    """(batch size, ours, published) by batch size."""
    published = literature.values(series, metric.name)
    places = sorted(place for place in ours if place[0] == framework)
    return [
        (size, ours[framework, size].value, published[metric.framework(framework), size])
        for _, size in places
        if (metric.framework(framework), size) in published
    ]


def causes(section: Section, metric: Metric, ours: Points) -> list[str]:
    """What a measurement tells of the cause; that it is unknown, and what is known to differ."""
    sentences = []
    if metric is MEMORY:
        sentences += _policy(section, ours)
    if metric is USAGE:
        sentences += _idle(section, ours)
    return [
        *sentences,
        f"Cause of the differences: unknown{' beyond that' if sentences else ''}. {_differing(section)}",
    ]


def _differing(section: Section) -> str:
    """Hardware and versions, published and here: they differ together, so neither is shown to be the cause."""
    condition, published = section.condition, literature.versions()
    device = condition.cpu_model if condition.placement.device_kind == "cpu" else condition.gpu_name
    differ = []
    if literature.GPU not in (device or ""):
        differ.append(f"the hardware ({literature.HARDWARE} published, {device or 'not reported'} here)")
    others = [
        f"{display_name(name)} {version} published, {here or 'not reported'} here"
        for name, version in published.items()
        if name in section.software and (here := section.software[name].version) != version
    ]
    differ += [f"the versions ({'; '.join(others)})"] if others else []
    sentences = (
        f"What is known to differ: {' and '.join(differ)}; no measurement here tells their shares."
        if differ
        else "Hardware and versions are those published."
    )
    return f"{sentences} {UNPUBLISHED}"


def _policy(section: Section, ours: Points) -> list[str]:
    """TensorFlow's own policy against memory on demand, where both were measured at a published batch size."""
    published, measured = literature.values(TABLE, MEMORY.name), []
    for place, cell in tables.by_place(section.default, MEMORY.quantity).items():
        if not cell["n"] or place not in ours or place not in published:
            continue
        demand, own = ours[place].value, cell["median"]
        kind = compared(order_of_cell(cell, LEAST_SPREAD * abs(own)), ours[place])
        nearer = "its own policy" if abs(own - published[place]) < abs(demand - published[place]) else "on demand"
        apart = f"nearer to {nearer}" if kind in (*ABOVE, *BELOW) else "and the two cannot be told apart"
        measured.append(
            f"Allocator's policy, measured: with its own policy {display_name(place[0])} holds {own:.0f} MiB at batch "
            f"size {place[1]}, on demand {demand:.0f}; published are {published[place]:.0f}, {apart}."
        )
    return measured


def _idle(section: Section, ours: Points) -> list[str]:
    """How much of the usage idle samples in the steady window can explain."""
    busy = tables.by_place(section, USAGE_BUSY)
    gaps = [cell["median"] - ours[place].value for place, cell in busy.items() if cell["n"] and place in ours]
    if not gaps:
        return []
    return [
        "Idle time, measured: over the busy samples of the steady window alone the usage is at most "
        f"{max(gaps):.1f} points higher, so idle time in the window explains no more than that. What the publication "
        "read outside the training, if anything, is unknown."
    ]
