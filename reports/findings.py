"""What a report says first: its headline, what was run, what it shows in a few sentences, and what it does not show.

Every sentence is made from the data. Findings are those of one section, the one with most trials that are ok.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workloads.records.status import Status

from . import caveats, headline, order, parity, tables
from .condition_text import dates, setting
from .conditions import Section
from .frameworks import display_name, ordered
from .load import Stored
from .order import IN_THIS_RUN, TIE_PERCENT, Extreme, Order, Points, extreme
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .report import Summary
from .reproduction import summary as published
from .tables import Doubt, Place
from .words import counted, listed, spans

MOST_SECTIONS = 3  # told one by one in what was run
UNSTEADY = {Doubt.DISTURBED, Doubt.NOISY}
Cells = dict[Place, Mapping[str, Any]]


def summary(stored: Stored, sections: Sequence[Section]) -> Summary:
    """`sections` in the order of their chapters, which are numbered from 1."""
    ok = [sum(result.status is Status.OK for result in section.results) for section in sections]
    if not any(ok):
        any_ok = any(result.status is Status.OK for result in stored.results)
        nothing = headline.NOTHING_ON_DEMAND if any_ok else headline.NOTHING
        unverified = caveats.not_verified(stored, sections, None)
        return Summary(nothing, SPEED.name, _ran(stored, sections), (f"{nothing}.",), unverified, None)
    place = ok.index(max(ok))
    main = sections[place]
    sentences = [_speed(main), _silent(main), _memory(main), _accuracy(main), published.finding(sections)]
    findings = tuple(sentence for sentence in (*sentences, _checks(stored)) if sentence)
    unverified = caveats.not_verified(stored, sections, place)
    first, about = published.headline(main) or (headline.headline(main), SPEED.name)
    return Summary(first, about, _ran(stored, sections), findings, unverified, place)


def _ran(stored: Stored, sections: Sequence[Section]) -> tuple[str, ...]:
    if not stored.results:
        return ("No result could be read.",)
    lines = [f"{caveats.tally(stored)}. Started {dates(stored.results)} (UTC)."]
    for number, section in enumerate(sections[:MOST_SECTIONS], start=1):
        head = f"Section {number}: " if len(sections) > 1 else ""
        lines.append(f"{head}{setting(section)}.")
    more = len(sections) - MOST_SECTIONS
    return (*lines, *([f"{counted(more, 'further section')} of other conditions."] if more > 0 else []))


def _cells(section: Section, quantity: Quantity) -> Cells:
    """Those with a value."""
    return {place: cell for place, cell in tables.by_place(section, quantity).items() if cell["n"]}


def _by_size(cells: Cells) -> dict[int, list[str]]:
    """{batch size: frameworks, the highest first}, where there are two or more."""
    ranked = {}
    for size in sorted({size for _, size in cells}):
        names = ordered(name for name, its_size in cells if its_size == size)
        if len(names) > 1:
            means = {name: cells[name, size]["mean"] for name in names}
            ranked[size] = sorted(names, key=lambda name: -means[name])
    return ranked


def _extreme(points: Points, size: int, highest: bool = True) -> Extreme:
    """Who has the highest, or lowest, value there, of two or more."""
    names = ordered(name for name, its_size in points if its_size == size)
    return extreme({name: points[name, size] for name in names}, highest)


def _speed(section: Section) -> str:
    """Which framework is fastest where, as far as `order` allows to say it, and by how much."""
    cells, race = _cells(section, SPEED), headline.race(section)
    if not race.fastest:
        return f"Training speed: {_alone(cells, 'images/s')}"
    text = f"Training speed by batch size: {'; '.join(_grouped(race.fastest))}."
    leads = {size: lead for size in race.told if (lead := race.lead(size)) is not None}
    if leads:
        widest = max(leads, key=lambda size: leads[size])
        two = race.ranked(widest)[:2]
        pair = " against ".join(f"{display_name(name)} {_value(cells[name, widest])}" for name in two)
        text += f" The widest lead is a factor of {leads[widest]:.2f}, at {widest}: {pair} images/s."
    unsteady = sum(not cell[tables.DOUBTS].isdisjoint(UNSTEADY) for cell in cells.values())
    text += f" Disturbed or noisy: {unsteady} of {len(cells)} cells." if unsteady else ""
    return text if _repeated(cells) else f"{text} One repeat: no statement about the spread."


def _silent(section: Section) -> str:
    """Frameworks without a number, and why; "" where each has one wherever another has."""
    silence = headline.silence(headline.race(section))
    return f"Without a number: {'; '.join(silence)}." if silence else ""


def _grouped(fastest: Mapping[int, Extreme]) -> list[str]:
    """ "X is fastest at 4 and 8": a part for each wording, what is stated first."""
    sizes: dict[tuple[int, str], list[int]] = {}
    for size, end in fastest.items():
        sizes.setdefault(_fastest(end), []).append(size)
    parts = []
    for (_, words), those in sorted(sizes.items(), key=lambda group: group[0][0]):
        where = f"all {len(those)} batch sizes" if len(those) == len(fastest) > 1 else spans(those, list(fastest))
        parts.append(f"{words} at {where}" if words else f"at {where} it cannot be told, for intervals overlap")
    return parts


def _fastest(end: Extreme) -> tuple[int, str]:
    """(place among the wordings, wording); "" where intervals overlap."""
    name = display_name(end.name)
    if end.stated:
        return 0, f"{name} is fastest"
    if end.seen:
        return 1, f"{name} was fastest {IN_THIS_RUN}"
    return (2, f"{_tied(end)} tie within {TIE_PERCENT:g} %") if end.kind is Order.TIE else (3, "")


def _tied(end: Extreme) -> str:
    return listed(display_name(name) for name in ordered((end.name, *end.against)))


def _alone(cells: Cells, unit: str) -> str:
    """Where no batch size has two frameworks."""
    if not cells:
        return "no trial gave a value."
    low, high = (pick(cells, key=lambda place: cells[place]["mean"]) for pick in (min, max))
    values = [
        f"{display_name(name)} {_value(cells[name, size])} {unit} at {size}"
        for name, size in dict.fromkeys((low, high))
    ]
    return f"no two frameworks at one batch size; {', '.join(values)}."


def _memory(section: Section) -> str:
    """Least and most at the smallest and the largest batch size that two frameworks or more have."""
    spec = MEMORY.figure(section.condition)
    name = spec.label if spec else "Memory"
    cells, points = _cells(section, MEMORY), order.points(section, MEMORY)
    ranked = _by_size(cells)
    if not ranked:
        return f"{name}: {_alone(cells, 'MiB')}"
    parts = []
    for size in dict.fromkeys((min(ranked), max(ranked))):
        least, most = _extreme(points, size, highest=False), _extreme(points, size)
        ends = [_end(end, word, _value(cells[end.name, size])) for end, word in ((least, "least"), (most, "most"))]
        parts.append(f"at {size} {', and '.join(ends)}")
    return f"{name} by batch size: {'; '.join(parts)}."


def _end(end: Extreme, word: str, value: str) -> str:
    """Who takes least, or most, as far as it may be said; `value` is that of the one seen there, in MiB."""
    if end.stated:
        return f"{display_name(end.name)} takes {word}, {value} MiB"
    if end.seen:
        return f"{display_name(end.name)} took {word} {IN_THIS_RUN}, {value} MiB"
    if end.kind is Order.TIE:
        return f"{_tied(end)} tie for {word} within {TIE_PERCENT:g} %, {value} MiB"
    return f"who takes {word} cannot be told, for intervals overlap: {value} MiB"


def _accuracy(section: Section) -> str:
    """Parity by the paired repeats, where they suffice; else how far apart the frameworks lie."""
    compared = parity.compare(section)
    if parity.stated(compared):
        counts = Counter(verdict or "without a verdict, for lack of repeats" for verdict in compared["verdict"])
        verdicts = "; ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        pairs = f"{counted(counts.total(), 'pair')} of frameworks, each at one batch size"
        return f"Test accuracy to {parity.TOLERATED:g} point, of {pairs}: {verdicts}."
    cells = _cells(section, ACCURACY)
    ranked = _by_size(cells)
    if not ranked:
        return f"Test accuracy: {_alone(cells, '%')}"
    gaps = {size: cells[names[0], size]["mean"] - cells[names[-1], size]["mean"] for size, names in ranked.items()}
    widest = max(gaps, key=lambda size: gaps[size])
    return (
        f"Test accuracy: at the same batch size frameworks are at most {gaps[widest]:.2f} points apart (at {widest}). "
        f"Whether they agree is not stated: that takes {parity.FEWEST} paired repeats."
    )


def _checks(stored: Stored) -> str:
    """Trials with a check that failed, and trials that others disturbed, of those that are ok."""
    ok = [result for result in stored.results if result.status is Status.OK]
    failed = sum(any(not check.passed for check in result.checks) for result in ok)
    first = f"a check failed in {failed}" if failed else "no check failed"
    shares = [caveats.foreign_percent(result) for result in ok]
    known = len(ok) - shares.count(None)
    second = "none tells whether other processes disturbed it"
    if known:
        disturbed = f"{caveats.disturbed(shares) or 'none'} of {known}{' that tell' if known < len(ok) else ''}"
        second = f"other processes had over {tables.TOLERATED_PERCENT:g} % of the cores in {disturbed}"
    return f"Of {counted(len(ok), 'ok trial')}: {first}; {second}."


def _repeated(cells: Cells) -> bool:
    return any(cell["n"] > 1 for cell in cells.values())


def _value(cell: Mapping[str, Any]) -> str:
    """Three significant digits, with the interval where n > 1."""
    digits = tables.significant(cell["mean"])
    text = f"{cell['mean']:z.{digits}f}"
    return text + (f" [{cell['low']:z.{digits}f}, {cell['high']:z.{digits}f}]" if cell["n"] > 1 else "")
