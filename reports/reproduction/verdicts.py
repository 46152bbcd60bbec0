"""Compare published and measured values in words: order, shape, distance, and what is known of the cause."""

from __future__ import annotations

import math

from workloads.statistics import FEWEST_RANKED, Verdict, decide, p_of_ranks, rank_correlation

from .. import tables
from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT, Order, points
from ..order import order as compared
from ..quantities import MEMORY, USAGE, USAGE_BUSY
from ..sentences import say
from .claim_tests import correlation_words
from .reproduced import Reproduced, frameworks, rms

WORDING = "published"


def of(ours: Reproduced) -> tuple[str, ...]:
    """Write the sentences below the table of this metric; a single one if nothing can be compared."""
    if ours.obstacles or not ours.points:
        return (say(WORDING, "untold", reasons=ours.obstacles),)
    each = (sentence(ours, series) for series in ours.metric.series for sentence in (order, shape, distance))
    return (*each, *causes(ours))


def order(ours: Reproduced, series: str) -> str:
    """Say if the frameworks are in the published order, batch size by batch size."""
    judged: dict[str, list[int]] = {}
    once: dict[str, list[int]] = {}  # with one repeat: the order in this run
    for size, orders in _orders(ours, series).items():
        if any(each in BELOW for each in orders):
            how = "another"
        elif all(each in ABOVE for each in orders):
            how = "same"
        else:
            how = "tie" if Order.TIE in orders else "overlap"
        (once if any(each in ONCE for each in orders) else judged).setdefault(how, []).append(size)
    facts = {"judged": judged, "once": once, "tie_percent": TIE_PERCENT}
    return say(WORDING, "order", series=series, framework=ours.metric.framework, **facts)


def _orders(ours: Reproduced, series: str) -> dict[int, list[Order]]:
    """Map {batch size: our orders of framework pairs}, for pairs whose published values differ beyond the tolerance."""
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
    """Say if the values rise and fall over the batch sizes as the published ones do."""
    shapes: list[tuple[str, int, str | None, Verdict]] = []
    for framework in frameworks(ours.points):
        pairs = ours.pairs(series, framework).values()
        sides = [*zip(*pairs, strict=True)] if len(pairs) >= FEWEST_RANKED else [(), ()]
        rho, p = rank_correlation(*sides), p_of_ranks(*sides)
        words = None if math.isnan(rho) else correlation_words(rho, len(pairs), p)
        shapes.append((framework, len(pairs), words, decide(rho, rho, p=p)))
    return say(WORDING, "shape", series=series, shapes=shapes, fewest=FEWEST_RANKED)


def distance(ours: Reproduced, series: str) -> str:
    """State the root-mean-square difference per framework, and the largest difference."""
    decimals, distances = ours.metric.decimals, []
    for framework in frameworks(ours.points):
        differences = {size: a - b for size, (a, b) in ours.pairs(series, framework).items()}
        if differences:
            size = max(differences, key=lambda size: abs(differences[size]))
            mean, largest = f"{rms(ours.pairs(series, framework)):.{decimals}f}", f"{differences[size]:+z.{decimals}f}"
            distances.append((framework, len(differences), mean, largest, size))
        else:
            distances.append((framework, 0, "", "", 0))
    return say(WORDING, "distance", series=series, distances=distances, unit=ours.metric.unit)


def causes(ours: Reproduced) -> list[str]:
    """Say what a measurement shows about the cause, that it is unknown, and what is known to differ."""
    sentences = []
    if ours.metric.quantity is MEMORY:
        sentences += _policy(ours)
    if ours.metric.quantity is USAGE:
        sentences += _idle(ours)
    hardware, versions = _differing(ours)
    facts = {"hardware": hardware, "versions": versions, "unknown": ours.publication.unknown}
    return [*sentences, say(WORDING, "cause", explained=bool(sentences), **facts)]


def _differing(ours: Reproduced) -> tuple[tuple[str, str | None] | None, list[tuple[str, str, str | None]]]:
    """Return hardware and versions that differ. They differ together, so neither is shown to be the cause."""
    publication, software, device = ours.publication, ours.section.software, ours.section.condition.device_model
    same = publication.device and publication.device in (device or "")
    hardware = None if same else (publication.hardware, device)
    versions = [
        (name, version, software[name].version)
        for name, version in publication.versions.items()
        if name in software and software[name].version != version
    ]
    return hardware, versions


def _policy(ours: Reproduced) -> list[str]:
    """Compare the framework's default policy with memory on demand, where both were measured at a published
    batch size.
    """
    published, sentences = ours.metric.published, []
    for (framework, size), own in points(ours.section.default, MEMORY).items():
        place = framework, size
        if place not in ours.points or place not in published:
            continue
        demand = ours.points[place]
        facts = {"own": own.value, "demand": demand.value, "published": published[place]}
        nearer = abs(own.value - published[place]) < abs(demand.value - published[place])
        apart = compared(own, demand) in (*ABOVE, *BELOW)
        sentences.append(say(WORDING, "policy", name=framework, size=size, apart=apart, own_is_nearer=nearer, **facts))
    return sentences


def _idle(ours: Reproduced) -> list[str]:
    """Say how much of the usage gap can be explained by idle samples in the steady window."""
    busy = tables.by_place(ours.section, USAGE_BUSY)
    gaps = [
        cell["mean"] - ours.points[place].value for place, cell in busy.items() if cell["n"] and place in ours.points
    ]
    return [say(WORDING, "idle", points=max(gaps))] if gaps else []
