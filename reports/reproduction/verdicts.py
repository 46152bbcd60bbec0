"""Compare published and measured values: order, shape and distance as a table; what is known of the cause, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from workloads.statistics import ERROR, FEWEST_RANKED, p_of_ranks, rank_correlation

from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT
from ..order import order as compared
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
    return (_cause(ours),)


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


def _cause(ours: Reproduced) -> str:
    """Say that the cause is unknown, and which hardware and versions differ; these differ together."""
    publication, software, device = ours.publication, ours.section.software, ours.section.condition.device_model
    same = publication.device and publication.device in (device or "")
    hardware = None if same else (publication.hardware, device)
    versions = [
        (name, version, software[name].version)
        for name, version in publication.versions.items()
        if name in software and software[name].version != version
    ]
    return say("published.cause", hardware=hardware, versions=versions, unknown=publication.unknown)
