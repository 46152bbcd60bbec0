"""Say how close our values are to published ones: order, shape and distance as a table; summary and cause in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from workloads.statistics import ERROR, FEWEST_TESTED, p_of_ranks, rank_correlation

from ..conditions import Section
from ..frameworks import FrameworkNames
from ..order import ABOVE, BELOW, ONCE, TIE_PERCENT
from ..order import order as compared
from ..sentences import say
from ..table import (
    Columns,
    Record,
    Table,
    TableCell,
    Theme,
    build_rows,
    count_of,
    make_framework_column,
    make_text_column,
    number_cell,
)
from .publication import Article, find_articles
from .reproduced import Reproduced, compute_rms, list_frameworks

NAME = "agreement"
HOW = (
    "Difference: measured minus published. Shape: Spearman's rank correlation over the batch sizes, p by permutation; "
    f"below {ERROR:g} a positive one means the same shape, a negative one the opposite. It needs "
    f"{FEWEST_TESTED} batch sizes. Order: the framework's rank among the others whose published values "
    f"differ; uncertain if intervals overlap or values are within {TIE_PERCENT:g} % of each other. * one repeat: in "
    "this run only."
)


def below(ours: Reproduced) -> tuple[str, ...]:
    """Write the sentences below the table of this metric; a single one if nothing can be compared."""
    if ours.obstacles or not ours.points:
        return (say("published.untold", reasons=ours.obstacles),)
    return (_cause(ours),)


def table(every: Iterable[Reproduced], named: FrameworkNames) -> Table | None:
    """Build the table of agreement, a row per metric, series and framework; None if nothing can be compared."""
    records = [
        _agreement(ours, series, framework)
        for ours in every
        if not ours.obstacles
        for series in ours.metric.series
        for framework in list_frameworks(ours.points)
    ]
    shown: Columns = {
        "Published": lambda row: TableCell(f"{row['quantity']}, {row['series']}".replace("_", " ")),
        "Framework": make_framework_column(named),
        "Batch sizes": count_of("batch_sizes"),
        "RMS difference": lambda row: number_cell(row["rms_difference"], "{:.2f}"),
        "Largest difference": _largest,
        "Rank correlation": lambda row: number_cell(row["rank_correlation"], "{:.2f}"),
        "p": lambda row: number_cell(row["p"], "{:.3f}"),
        **{f"{how.capitalize()} order at": make_text_column(f"{how}_order_at") for how in ORDERS},
    }
    title = "Published and measured: distance, shape and order"
    rows = build_rows(records, shown)
    return Table(NAME, title, *rows, below=(HOW,), theme=Theme.PUBLISHED, keys=2) if records else None


ORDERS = ("same", "other", "uncertain")  # than published


def _agreement(ours: Reproduced, series: str, framework: str) -> dict[str, Any]:
    pairs = ours.pairs(series, framework)
    differences = {size: a - b for size, (a, b) in pairs.items()}
    largest = max(differences, key=lambda size: abs(differences[size]), default=None)
    sides = [*zip(*pairs.values(), strict=True)] if len(pairs) >= FEWEST_TESTED else [(), ()]
    orders = _orders(ours, series, framework)
    return {
        "quantity": ours.metric.name,
        "series": series,
        "framework": framework,
        "batch_sizes": len(pairs),
        "rms_difference": compute_rms(pairs) if pairs else math.nan,
        "largest_difference": differences[largest] if largest is not None else math.nan,
        "largest_at": largest,
        "rank_correlation": rank_correlation(*sides),
        "p": p_of_ranks(*sides),
        **{f"{how}_order_at": " ".join(size for size, its in orders.items() if its == how) for how in ORDERS},
    }


def _largest(row: Record) -> TableCell:
    cell = number_cell(row["largest_difference"], "{:+.2f}")
    return cell if cell.number is None else TableCell(f"{cell.text} at {row['largest_at']}", cell.number)


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
    facts = {"hardware": hardware, "versions": versions, "unknown": publication.unknown}
    return say("published.cause", ours.section.named, **facts)


def _comparable(section: Section) -> Iterator[Reproduced]:
    """Yield what the section measured of each published row of the summary that it can be compared with."""
    for publication in find_articles(section) if section.results else ():
        for metric in publication.metrics:
            ours = Reproduced(section, publication, metric)
            if metric.finding and not ours.obstacles and ours.distances():
                yield ours


def headline(section: Section) -> tuple[str, str] | None:
    """Return (how close our values are, the quantity's name), for the publication that the study is named after, or
    None.
    """
    studies = {result.spec.study for result in section.results}
    ours = next((ours for ours in _comparable(section) if ours.publication.name in studies), None)
    if ours is None:
        return None
    metric, distances = ours.metric, ours.distances()
    nearest_first = sorted(((name, away, sizes) for name, (away, sizes) in distances.items()), key=itemgetter(1))
    text = say(
        "published.nearness",
        section.named,
        distances=[(name, _round_up(away), sizes) for name, away, sizes in nearest_first],
        unit=metric.unit,
        row=metric.finding[:1].lower() + metric.finding[1:],
        alike=len({sizes for _, sizes in distances.values()}) == 1,
        from_size=metric.from_size if any(size < metric.from_size for _, size in ours.points) else 0,
        once=_is_once(ours),
    )
    return text, metric.quantity.name


def _round_up(distance: float) -> float:
    """Round up to a tenth, so that the distance is within it; float noise does not add a tenth."""
    return math.ceil(round(10 * distance, 6)) / 10


def _is_once(ours: Reproduced) -> bool:
    """True if no cell has more than one repeat."""
    return max(point.n for point in ours.points.values()) == 1


def finding(sections: Sequence[Section]) -> str:
    """Describe the first published row that a section can be compared with, and ours; "" if there is none."""
    found = ((number, ours) for number, section in enumerate(sections, start=1) for ours in _comparable(section))
    number, ours = next(found, (0, None))
    return _finding(ours, number if len(sections) > 1 else None) if ours else ""


def _finding(ours: Reproduced, number: int | None) -> str:
    metric = ours.metric
    return say(
        "published.finding",
        ours.section.named,
        row=metric.finding,
        from_size=metric.from_size,
        section=number,
        once=_is_once(ours),
        distances=[(name, away, sizes) for name, (away, sizes) in ours.distances().items()],
        unit=metric.unit,
    )


def caveats(sections: Sequence[Section]) -> list[str]:
    """List published figures that no section can be compared with, and why; for the others, what a
    comparison assumes.
    """
    held: dict[Article, list[Section]] = {}
    for section in sections:
        for publication in find_articles(section) if section.results else ():
            held.setdefault(publication, []).append(section)
    return [sentence for publication, those in held.items() for sentence in _caveats(those, publication)]


def _caveats(sections: Sequence[Section], publication: Article) -> list[str]:
    labels: dict[tuple[str, ...], list[str]] = {}
    figures = [metric for metric in publication.metrics if metric.series]
    for metric in figures:
        fitting = [section for section in sections if not metric.other_conditions(section.condition)]
        obstacles = [Reproduced(section, publication, metric).obstacles for section in fitting or sections]
        if all(obstacles):
            reasons = tuple(dict.fromkeys(reason for of_section in obstacles for reason in of_section))
            labels.setdefault(reasons, []).append(metric.label.replace("Test", "test"))
    sentences = [
        say("published.not_compared", labels=list(dict.fromkeys(those)), reasons=reasons)
        for reasons, those in labels.items()
    ]
    compared = sum(map(len, labels.values())) < len(figures)
    return [*sentences, publication.caveat] if compared else sentences
