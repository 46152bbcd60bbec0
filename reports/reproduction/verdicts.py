"""Compare published and measured values: order, shape and distance as a table; what is known of the cause, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from workloads.statistics import ERROR, FEWEST_RANKED, p_of_ranks, rank_correlation

from .. import tables
from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT, points
from ..order import order as compared
from ..quantities import MEMORY, USAGE, USAGE_BUSY
from ..sentences import say
from ..table import Cell, Columns, Record, Table, Theme, count_of, framework_of, number_cell, of_records, text_of
from .reproduced import Reproduced, frameworks, rms

NAME = "agreement"
HOW = (
    "Difference: measured minus published. Shape: Spearman's rank correlation over the batch sizes, p by permutation; "
    f"below {ERROR:g} a positive one is the same shape, a negative one the opposite. It needs "
    f"{FEWEST_RANKED} batch sizes. Order: where the framework stands among the others whose published values "
    f"differ; uncertain if intervals overlap or values are within {TIE_PERCENT:g} % of each other. * one repeat: in "
    "this run only."
)


def below(ours: Reproduced) -> tuple[str, ...]:
    """Write the sentences below the table of this metric; a single one if nothing can be compared."""
    if ours.obstacles or not ours.points:
        return (say("published.untold", reasons=ours.obstacles),)
    return tuple(causes(ours))


def table(every: Iterable[Reproduced]) -> Table | None:
    """Build the table of agreement, a row per metric, series and framework; None if nothing can be compared."""
    records = [
        _agreement(ours, series, framework)
        for ours in every
        if not ours.obstacles
        for series in ours.metric.series
        for framework in frameworks(ours.points)
    ]
    shown: Columns = {
        "Published": lambda row: Cell(f"{row['quantity']}, {row['series']}".replace("_", " ")),
        "Framework": framework_of,
        "Batch sizes": count_of("batch_sizes"),
        "RMS difference": lambda row: number_cell(row["rms_difference"], "{:.2f}"),
        "Largest difference": _largest,
        "Rank correlation": lambda row: number_cell(row["rank_correlation"], "{:.2f}"),
        "p": lambda row: number_cell(row["p"], "{:.3f}"),
        **{f"{how.capitalize()} order at": text_of(f"{how}_order_at") for how in ORDERS},
    }
    title = "Published and measured: distance, shape and order"
    rows = of_records(records, shown)
    return Table(NAME, title, *rows, below=(HOW,), theme=Theme.PUBLISHED, keys=2) if records else None


ORDERS = ("same", "other", "uncertain")  # than published


def _agreement(ours: Reproduced, series: str, framework: str) -> dict[str, Any]:
    pairs = ours.pairs(series, framework)
    differences = {size: a - b for size, (a, b) in pairs.items()}
    largest = max(differences, key=lambda size: abs(differences[size]), default=None)
    sides = [*zip(*pairs.values(), strict=True)] if len(pairs) >= FEWEST_RANKED else [(), ()]
    orders = _orders(ours, series, framework)
    return {
        "quantity": ours.metric.name,
        "series": series,
        "framework": framework,
        "batch_sizes": len(pairs),
        "rms_difference": rms(pairs) if pairs else math.nan,
        "largest_difference": differences[largest] if largest is not None else math.nan,
        "largest_at": largest,
        "rank_correlation": rank_correlation(*sides),
        "p": p_of_ranks(*sides),
        **{f"{how}_order_at": " ".join(size for size, its in orders.items() if its == how) for how in ORDERS},
    }


def _largest(row: Record) -> Cell:
    cell = number_cell(row["largest_difference"], "{:+.2f}")
    return cell if cell.number is None else Cell(f"{cell.text} at {row['largest_at']}", cell.number)


def _orders(ours: Reproduced, series: str, framework: str) -> dict[str, str]:
    """Map {batch size, with a * for one repeat: one of ORDERS}, of the framework among those published otherwise."""
    published, measured, found = ours.metric.values[series], ours.points, {}
    for size in sorted({size for name, size in measured if name == framework and (name, size) in published}):
        names = [name for name, its_size in measured if its_size == size and (name, size) in published]
        orders = [
            compared(measured[a, size], measured[b, size])
            for a in names
            for b in names
            if framework in (a, b) and published[a, size] - published[b, size] > ours.metric.tolerance
        ]
        if orders:
            how = "other" if any(each in BELOW for each in orders) else "uncertain"
            how = "same" if all(each in ABOVE for each in orders) else how
            found[f"{size}*" if any(each in ONCE for each in orders) else f"{size}"] = how
    return found


def causes(ours: Reproduced) -> list[str]:
    """Say what a measurement shows about the cause, that it is unknown, and what is known to differ."""
    sentences = []
    if ours.metric.quantity is MEMORY:
        sentences += _policy(ours)
    if ours.metric.quantity is USAGE:
        sentences += _idle(ours)
    hardware, versions = _differing(ours)
    facts = {"hardware": hardware, "versions": versions, "unknown": ours.publication.unknown}
    return [*sentences, say("published.cause", explained=bool(sentences), **facts)]


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
        sentences.append(say("published.policy", name=framework, size=size, apart=apart, own_is_nearer=nearer, **facts))
    return sentences


def _idle(ours: Reproduced) -> list[str]:
    """Say how much of the usage gap can be explained by idle samples in the steady window."""
    busy = tables.by_place(ours.section, USAGE_BUSY)
    gaps = [
        cell["mean"] - ours.points[place].value for place, cell in busy.items() if cell["n"] and place in ours.points
    ]
    return [say("published.idle", points=max(gaps))] if gaps else []
