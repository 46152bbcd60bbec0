"""What follows from published beside measured, in words: order, shape, distance, and what is known of the cause."""

from __future__ import annotations

import math

from .. import tables
from ..frameworks import display_name
from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT, Order, points
from ..order import order as compared
from ..quantities import MEMORY, USAGE, USAGE_BUSY
from ..words import counted, listed
from . import rank_correlation
from .reproduced import Reproduced, frameworks, rms

UNTOLD = "Order, shape and cause of the differences: cannot be told:"


def of(ours: Reproduced) -> tuple[str, ...]:
    """Sentences below the table of this metric; one alone where nothing may be compared."""
    if ours.obstacles:
        return (f"{UNTOLD} {'; '.join(ours.obstacles)}.",)
    if not ours.points:
        return (f"{UNTOLD} nothing was measured.",)
    sentences = []
    for series in ours.metric.series:
        sentences += [
            f"Order of the frameworks, against the published {series}: {order(ours, series)}.",
            f"Shape over the batch sizes, against the published {series}: {shape(ours, series)}.",
            f"Root-mean-square difference to the published {series}: {distance(ours, series)}.",
        ]
    return (*sentences, *causes(ours))


def order(ours: Reproduced, series: str) -> str:
    """Whether the frameworks stand in the published order, batch size by batch size."""
    if ours.metric.framework:
        return f"cannot be told: published for {display_name(ours.metric.framework)} alone"
    judged: dict[str, list[int]] = {}
    once: dict[str, list[int]] = {}  # of one repeat: how it was in this run
    for size, orders in _orders(ours, series).items():
        if any(each in BELOW for each in orders):
            word = "another"
        elif all(each in ABOVE for each in orders):
            word = "the same"
        elif Order.TIE in orders:
            word = f"within {TIE_PERCENT:g} % of each other"
        else:
            word = "cannot be told, intervals overlap,"
        (once if any(each in ONCE for each in orders) else judged).setdefault(word, []).append(size)
    sentences, in_this_run = (
        "; ".join(f"{word} at {listed(sizes)}" for word, sizes in verdicts.items()) for verdicts in (judged, once)
    )
    if once:
        sentences += f"{'; ' if sentences else ''}cannot be told from one repeat; in this run {in_this_run}"
    return sentences or "cannot be told: at no batch size are there two frameworks to order"


def _orders(ours: Reproduced, series: str) -> dict[int, list[Order]]:
    """{batch size: our order of each two frameworks of which the first is published to lie above the second}."""
    published, measured = ours.metric.values[series], ours.points
    by_size = {}
    for size in sorted({size for _, size in measured}):
        names = [name for name in frameworks(measured) if (name, size) in measured and (name, size) in published]
        orders = [
            compared(measured[a, size], measured[b, size])
            for a in names
            for b in names
            if published[a, size] - published[b, size] > ours.metric.tolerance
        ]
        if orders:
            by_size[size] = orders
    return by_size


def shape(ours: Reproduced, series: str) -> str:
    """Whether the values rise and fall over the batch sizes as the published ones do."""
    return "; ".join(f"{display_name(name)} {_shape(ours, series, name)}" for name in frameworks(ours.points))


def _shape(ours: Reproduced, series: str, framework: str) -> str:
    pairs, fewest = ours.pairs(series, framework).values(), rank_correlation.FEWEST
    if len(pairs) < fewest:
        return f"cannot be told ({len(pairs)} batch sizes to compare, {fewest} are needed)"
    correlation = rank_correlation.correlation(*zip(*pairs, strict=True))
    if math.isnan(correlation.rho):
        return "cannot be told (all values are the same)"
    if correlation.p >= rank_correlation.ALPHA:
        return f"cannot be told ({correlation})"
    return f"{'the same' if correlation.rho > 0 else 'the opposite'} ({correlation})"


def distance(ours: Reproduced, series: str) -> str:
    """Root-mean-square difference by framework, and the largest."""
    decimals, sentences = ours.metric.decimals, []
    for framework in frameworks(ours.points):
        pairs = ours.pairs(series, framework)
        if not pairs:
            sentences.append(f"{display_name(framework)} cannot be told (no batch size to compare)")
            continue
        differences = {size: a - b for size, (a, b) in pairs.items()}
        size = max(differences, key=lambda size: abs(differences[size]))
        sentences.append(
            f"{display_name(framework)} {rms(pairs):.{decimals}f} {ours.metric.unit} over "
            f"{counted(len(pairs), 'batch size')}, largest {differences[size]:+z.{decimals}f} at {size}"
        )
    return "; ".join(sentences)


def causes(ours: Reproduced) -> list[str]:
    """What a measurement tells of the cause; that it is unknown, and what is known to differ."""
    sentences = []
    if ours.metric.quantity is MEMORY:
        sentences += _policy(ours)
    if ours.metric.quantity is USAGE:
        sentences += _idle(ours)
    beyond = " beyond that" if sentences else ""
    return [
        *sentences,
        f"Cause of the differences: unknown{beyond}. {_differing(ours)} {ours.publication.unknown}",
    ]


def _differing(ours: Reproduced) -> str:
    """Hardware and versions, published and here: they differ together, so neither is shown to be the cause."""
    condition, publication, software = ours.section.condition, ours.publication, ours.section.software
    device = condition.device_model
    differ = []
    if publication.device not in (device or ""):
        differ.append(f"the hardware ({publication.hardware} published, {device or 'not reported'} here)")
    others = [
        f"{display_name(name)} {version} published, {software[name].version or 'not reported'} here"
        for name, version in publication.versions.items()
        if name in software and software[name].version != version
    ]
    differ += [f"the versions ({'; '.join(others)})"] if others else []
    if not differ:
        return "Hardware and versions are those published."
    return f"What is known to differ: {' and '.join(differ)}; no measurement here tells their shares."


def _policy(ours: Reproduced) -> list[str]:
    """The framework's own policy against memory on demand, where both were measured at a published batch size."""
    published, sentences = ours.metric.published, []
    for (framework, size), own in points(ours.section.default, MEMORY).items():
        place = framework, size
        if place not in ours.points or place not in published:
            continue
        demand = ours.points[place]
        own_is_nearer = abs(own.value - published[place]) < abs(demand.value - published[place])
        nearer = f"nearer to {'its own policy' if own_is_nearer else 'on demand'}"
        if compared(own, demand) not in (*ABOVE, *BELOW):
            nearer = "and the two cannot be told apart"
        sentences.append(
            f"Allocator's policy, measured: with its own policy {display_name(framework)} holds {own.value:.0f} MiB "
            f"at batch size {size}, on demand {demand.value:.0f}; published are {published[place]:.0f}, {nearer}."
        )
    return sentences


def _idle(ours: Reproduced) -> list[str]:
    """How much of the usage idle samples in the steady window can explain."""
    busy = tables.by_place(ours.section, USAGE_BUSY)
    gaps = [
        cell["mean"] - ours.points[place].value for place, cell in busy.items() if cell["n"] and place in ours.points
    ]
    if not gaps:
        return []
    return [
        "Idle time, measured: over the busy samples of the steady window alone the usage is at most "
        f"{max(gaps):.1f} points higher, so idle time in the window explains no more than that. What the publication "
        "read outside the training, if anything, is unknown."
    ]
