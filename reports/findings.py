"""What a report says first: what was run, what it shows in five sentences at most, and what it does not show.

Every sentence is made from the data. Findings are those of one section, the one with most trials that are ok.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workloads.records.status import Status

from . import caveats, order, parity, tables
from .condition_text import dates
from .conditions import Section, model_words
from .frameworks import display_name, ordered
from .load import Stored
from .order import IN_THIS_RUN, TIE_PERCENT, Extreme, Order, Points, extreme
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .report import Summary
from .reproduction import summary as published
from .tables import Doubt, Place
from .training_text import optimizer_label
from .words import counted, listed

MOST_SECTIONS = 3  # told one by one in what was run
UNSTEADY = {Doubt.DISTURBED, Doubt.NOISY}
Cells = dict[Place, Mapping[str, Any]]


def summary(stored: Stored, sections: Sequence[Section]) -> Summary:
    """`sections` in the order of their chapters, which are numbered from 1."""
    ok = [sum(result.status is Status.OK for result in section.results) for section in sections]
    if not any(ok):
        nothing = "No trial that takes memory on demand ended ok: there is nothing to compare."
        return Summary(_ran(stored, sections), (nothing,), caveats.not_verified(stored, sections, None))
    place = ok.index(max(ok))
    main = sections[place]
    sentences = [_speed(main), _memory(main), _accuracy(main), published.finding(sections), _checks(stored)]
    findings = tuple(sentence for sentence in sentences if sentence)
    return Summary(_ran(stored, sections), findings, caveats.not_verified(stored, sections, place))


def _ran(stored: Stored, sections: Sequence[Section]) -> tuple[str, ...]:
    if not stored.results:
        return ("No result could be read.",)
    lines = [f"{caveats.tally(stored)}. Started {dates(stored.results)} (UTC)."]
    for number, section in enumerate(sections[:MOST_SECTIONS], start=1):
        head = f"Section {number}: " if len(sections) > 1 else ""
        lines.append(f"{head}{_setting(section)}.")
    more = len(sections) - MOST_SECTIONS
    return (*lines, *([f"{counted(more, 'further section')} of other conditions."] if more > 0 else []))


def _setting(section: Section) -> str:
    """Model, data, device, software, batch sizes, training, repeats."""
    condition, results = section.condition, section.every
    model = condition.device_model or "(model not reported)"
    on_cpu = condition.placement.device_kind == "cpu"
    device = f"CPU {model}, {counted(condition.placement.threads, 'thread')}" if on_cpu else f"GPU {model}"
    software = ", ".join(
        f"{display_name(name)} {section.software[name].version or '(version not reported)'}"
        for name in ordered(section.software)
    )
    sizes = sorted({result.spec.cell.batch_size for result in results})
    batches = f"batch size {sizes[0]}" if len(sizes) == 1 else f"{len(sizes)} batch sizes, {sizes[0]} to {sizes[-1]}"
    repeats = len({result.spec.draw.repeat for result in results})
    augmented = "" if condition.task.augment == "none" else f" ({condition.task.augment})"
    times = "one repeat" if repeats == 1 else f"{repeats} repeats"
    task = condition.task
    return (
        f"{model_words(task)} on {task.dataset}{augmented}, {condition.passes.epochs} epochs of "
        f"{optimizer_label(task.optimizer, task.accumulate)}; {batches}, {times}; {device}; {software}"
    )


def _cells(section: Section, quantity: Quantity) -> Cells:
    """Those with a value."""
    return {place: cell for place, cell in tables.by_place(section, quantity).items() if cell["n"]}


def _by_size(cells: Cells) -> dict[int, list[str]]:
    """{batch size: frameworks, the highest median first}, where there are two or more."""
    ranked = {}
    for size in sorted({size for _, size in cells}):
        names = ordered(name for name, its_size in cells if its_size == size)
        if len(names) > 1:
            medians = {name: cells[name, size]["median"] for name in names}
            ranked[size] = sorted(names, key=lambda name: -medians[name])
    return ranked


def _extreme(points: Points, size: int, highest: bool = True) -> Extreme:
    """Who has the highest, or lowest, value there, of two or more."""
    names = ordered(name for name, its_size in points if its_size == size)
    return extreme({name: points[name, size] for name in names}, highest)


def _speed(section: Section) -> str:
    """Which framework is fastest where, as far as `order` allows to say it, and by how much."""
    cells, points = _cells(section, SPEED), order.points(section, SPEED)
    ranked = _by_size(cells)
    if not ranked:
        return f"Training speed: {_alone(cells, 'images/s')}"
    fastest = {size: _extreme(points, size) for size in ranked}
    text = f"Training speed by batch size: {'; '.join(_grouped(fastest))}."
    leads = {
        size: cells[ranked[size][0], size]["median"] / second
        for size, end in fastest.items()
        if (end.stated or end.seen) and (second := cells[ranked[size][1], size]["median"]) > 0
    }
    if leads:
        widest = max(leads, key=lambda size: leads[size])
        pair = " against ".join(f"{display_name(name)} {_value(cells[name, widest])}" for name in ranked[widest][:2])
        text += f" The widest lead is a factor of {leads[widest]:.2f}, at {widest}: {pair} images/s."
    unsteady = sum(not cell[tables.DOUBTS].isdisjoint(UNSTEADY) for cell in cells.values())
    text += f" Disturbed or noisy: {unsteady} of {len(cells)} cells." if unsteady else ""
    return text if _repeated(cells) else f"{text} One repeat: no statement about the spread."


def _grouped(fastest: Mapping[int, Extreme]) -> list[str]:
    """ "X is fastest at 4 and 8": a part for each wording, what is stated first."""
    sizes: dict[tuple[int, str], list[int]] = {}
    for size, end in fastest.items():
        sizes.setdefault(_fastest(end), []).append(size)
    parts = []
    for (_, words), those in sorted(sizes.items(), key=lambda group: group[0][0]):
        where = f"all {len(those)} batch sizes" if len(those) == len(fastest) > 1 else listed(those)
        parts.append(f"{words} at {where}" if words else f"at {listed(those)} it cannot be told, for intervals overlap")
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
    low, high = (pick(cells, key=lambda place: cells[place]["median"]) for pick in (min, max))
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
    return f"{name}, {'by medians, ' if _repeated(cells) else ''}by batch size: {'; '.join(parts)}."


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
    gaps = {size: cells[names[0], size]["median"] - cells[names[-1], size]["median"] for size, names in ranked.items()}
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
    digits = tables.significant(cell["median"])
    text = f"{cell['median']:z.{digits}f}"
    return text + (f" [{cell['low']:z.{digits}f}, {cell['high']:z.{digits}f}]" if cell["n"] > 1 else "")
