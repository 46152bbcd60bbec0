"""Write the start of a report: its headline, what was run, its findings, and what it does not show.

Every sentence is computed from the data. Findings describe one section, the one with most trials that are ok.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workloads.records.checks import failed
from workloads.records.result import TrialResult
from workloads.records.status import Status

from . import caveats, headline, order, parity, tables
from .condition_text import dates, setting
from .conditions import Section
from .doubts import TOLERATED_PERCENT, Doubt
from .frameworks import ordered
from .load import Stored
from .order import TIE_PERCENT, Extreme, Order, Points, extreme
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .report import Summary
from .reproduction import claims_across
from .reproduction import summary as published
from .sentences import say
from .tables import CellSummary, Place

WORDING = "findings"
MOST_SECTIONS = 3  # described one by one in what was run
UNSTEADY = {Doubt.DISTURBED, Doubt.NOISY}
Cells = dict[Place, CellSummary]


def summary(stored: Stored, sections: Sequence[Section]) -> Summary:
    """Summarise the sections; they are in the order of their chapters, numbered from 1."""
    shown = [_shown(section.results) for section in sections]
    if not any(map(any, shown)):
        elsewhere = any(_shown(stored.results))
        nothing = say(headline.WORDING, "nothing_on_demand" if elsewhere else "nothing")
        unverified = caveats.not_verified(stored, sections, None)
        findings = (f"{nothing}.", *filter(None, map(_silent, sections[:MOST_SECTIONS])))
        return Summary(nothing, SPEED.name, _ran(stored, sections), findings, unverified, None)
    place = shown.index(max(shown))
    main = sections[place]
    sentences = [_speed(main), _silent(main), _memory(main), _accuracy(main), published.finding(sections)]
    every = (claims_across.finding(sections), *sentences, _checks(stored))
    findings = tuple(sentence for sentence in every if sentence)
    unverified = caveats.not_verified(stored, sections, place)
    of_claims = claims_across.headline(sections)
    first, about = published.headline(main) or of_claims or (headline.headline(main), SPEED.name)
    return Summary(first, about, _ran(stored, sections), findings, unverified, place)


def _shown(results: Sequence[TrialResult]) -> tuple[int, int]:
    """Count trials that are ok, and contended trials, which are shown in part."""
    statuses = Counter(result.status for result in results)
    return statuses[Status.OK], statuses[Status.CONTENDED]


def _ran(stored: Stored, sections: Sequence[Section]) -> tuple[str, ...]:
    if not stored.results:
        return (say(WORDING, "unread"),)
    lines = [say(WORDING, "ran", tally=caveats.tally(stored), dates=dates(stored.results))]
    for number, section in enumerate(sections[:MOST_SECTIONS], start=1):
        head = f"Section {number}: " if len(sections) > 1 else ""
        lines.append(f"{head}{setting(section)}.")
    more = len(sections) - MOST_SECTIONS
    return (*lines, *([say(WORDING, "further", sections=more)] if more > 0 else []))


def _cells(section: Section, quantity: Quantity) -> Cells:
    """Cells with a value."""
    return {place: cell for place, cell in tables.by_place(section, quantity).items() if cell.n}


def _by_size(cells: Cells) -> dict[int, list[str]]:
    """Map {batch size: frameworks, the highest first}, where there are two or more."""
    ranked = {}
    for size in sorted({size for _, size in cells}):
        names = ordered(name for name, its_size in cells if its_size == size)
        if len(names) > 1:
            means = {name: cells[name, size].mean for name in names}
            ranked[size] = sorted(names, key=lambda name: -means[name])
    return ranked


def _extreme(points: Points, size: int, highest: bool = True) -> Extreme:
    """Find who has the highest, or lowest, value at a batch size, of two or more frameworks."""
    names = ordered(name for name, its_size in points if its_size == size)
    return extreme({name: points[name, size] for name in names}, highest)


def _speed(section: Section) -> str:
    """Say which framework is fastest at which batch sizes, as far as `order` allows, and by how much."""
    cells, race = _cells(section, SPEED), headline.race(section)
    if not race.fastest:
        return _alone("Training speed", cells, "images/s")
    return say(
        WORDING,
        "speed",
        groups=_grouped(race.fastest),
        every=race.met,
        lead=_lead(race, cells),
        unsteady=sum(not cell.doubts.isdisjoint(UNSTEADY) for cell in cells.values()),
        cells=len(cells),
        repeated=any(cell.n > 1 for cell in cells.values()),
        tie_percent=TIE_PERCENT,
    )


def _lead(race: headline.Race, cells: Cells) -> dict[str, Any] | None:
    """Find the batch size at which the fastest has the largest lead over the second."""
    leads = {size: lead for size in race.told if (lead := race.lead(size)) is not None}
    if not leads:
        return None
    size = max(leads, key=lambda size: leads[size])
    pair = [(name, _value(cells[name, size])) for name in race.ranked(size)[:2]]
    return {"factor": leads[size], "size": size, "pair": pair}


def _silent(section: Section) -> str:
    """Name frameworks without a number, and why; "" if each has one wherever another has."""
    lines = headline.silence(headline.race(section))
    return say(WORDING, "silent", lines=lines) if lines else ""


@dataclass(frozen=True)
class End:
    """The framework at one end, as far as the data show it.

    `kind` is "stated" by intervals, "seen" in this run beyond a known spread, or a "tie" of `names`. It is "untold" if
    intervals overlap, and "unranked" if repeats are missing.
    """

    kind: str
    names: tuple[str, ...] = ()


KINDS = ("stated", "seen", "tie", "untold", "unranked")  # stated first


def _said(end: Extreme) -> End:
    if end.stated or end.seen:
        return End("stated" if end.stated else "seen", (end.name,))
    if end.kind is Order.TIE:
        return End("tie", tuple(ordered((end.name, *end.against))))
    return End("unranked" if end.kind is Order.UNRANKED else "untold")


def _grouped(fastest: Mapping[int, Extreme]) -> list[dict[str, Any]]:
    """Group the batch sizes by who is at the end, stated ones first."""
    sizes: dict[End, list[int]] = {}
    for size, end in fastest.items():
        sizes.setdefault(_said(end), []).append(size)
    return [
        {"kind": end.kind, "names": end.names, "sizes": those}
        for end, those in sorted(sizes.items(), key=lambda group: KINDS.index(group[0].kind))
    ]


def _alone(label: str, cells: Cells, unit: str) -> str:
    """Describe a quantity if no batch size has two frameworks."""
    ends = [pick(cells, key=lambda place: cells[place].mean) for pick in (min, max)] if cells else []
    told = [{"name": name, "size": size, "value": _value(cells[name, size])} for name, size in dict.fromkeys(ends)]
    return say(WORDING, "alone", label=label, cells=told, unit=unit)


def _memory(section: Section) -> str:
    """Say who needs least and most memory, at the smallest and the largest batch size with two or more frameworks."""
    spec = MEMORY.figure(section.condition)
    label = spec.label if spec else "Memory"
    cells, points = _cells(section, MEMORY), order.points(section, MEMORY)
    ranked = _by_size(cells)
    if not ranked:
        return _alone(label, cells, "MiB")
    ends = []
    for size in dict.fromkeys((min(ranked), max(ranked))):
        least_and_most = [_extreme(points, size, highest) for highest in (False, True)]
        values = [_value(cells[end.name, size]) for end in least_and_most]
        ends.append((size, *(asdict(_said(end)) | {"value": v} for end, v in zip(least_and_most, values, strict=True))))
    return say(WORDING, "memory", label=label, ends=ends, tie_percent=TIE_PERCENT)


def _accuracy(section: Section) -> str:
    """Describe parity from the paired repeats if there are enough; otherwise the gap between the frameworks."""
    compared = parity.compare(section)
    if parity.stated(compared):
        counts = Counter(compared["verdict"])
        pairs = counts.total()
        return say(WORDING, "agreement", tolerated=parity.TOLERATED, verdicts=counts.most_common(), pairs=pairs)
    cells = _cells(section, ACCURACY)
    ranked = _by_size(cells)
    if not ranked:
        return _alone("Test accuracy", cells, "%")
    gaps = {size: cells[names[0], size].mean - cells[names[-1], size].mean for size, names in ranked.items()}
    widest = max(gaps, key=lambda size: gaps[size])
    return say(WORDING, "accuracy_gap", points=gaps[widest], size=widest, fewest=parity.FEWEST)


def _checks(stored: Stored) -> str:
    """Count ok trials with a failed check and ok trials that others disturbed; "" without any ok trial."""
    ok = [result for result in stored.results if result.status is Status.OK]
    if not ok:
        return ""
    shares = [caveats.foreign_percent(result) for result in ok]
    return say(
        WORDING,
        "checks",
        ok=len(ok),
        failed=sum(bool(failed(result)) for result in ok),
        known=len(ok) - shares.count(None),
        disturbed=caveats.disturbed(shares),
        tolerated=TOLERATED_PERCENT,
    )


def _value(cell: CellSummary) -> str:
    """Format three significant digits, with the interval where n > 1."""
    digits = tables.significant(cell.mean)
    text = f"{cell.mean:z.{digits}f}"
    return text + (f" [{cell.low:z.{digits}f}, {cell.high:z.{digits}f}]" if cell.n > 1 else "")
