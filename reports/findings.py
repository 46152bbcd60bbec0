"""What a report says first: what was run, what it shows in five sentences at most, and what it does not show.

Every sentence is made from the data. Findings are those of one section, the one with most trials that are ok.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workloads.records.figures import FOREIGN_CPU
from workloads.records.result import TrialResult
from workloads.records.status import Status

from . import parity, problems, tables, unverified
from .conditions import Section, optimizer_label
from .frameworks import display_name, ordered
from .load import Stored
from .order import IN_THIS_RUN, TIE_PERCENT, Extreme, Order, Point, extreme, of_cell
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .report import Summary
from .reproduction import calibration, comparable, literature, verdicts
from .reproduction.comparable import listed
from .spread import LEAST_SPREAD
from .tables import Doubt

MOST_SECTIONS = 3  # told one by one in what was run
UNSTEADY = {Doubt.DISTURBED, Doubt.NOISY}
Cells = dict[literature.Place, Mapping[str, Any]]


def summary(stored: Stored, sections: Sequence[Section]) -> Summary:
    """`sections` in the order of their chapters, which are numbered from 1."""
    ok = [sum(result.status is Status.OK for result in section.results) for section in sections]
    if not any(ok):
        nothing = "No trial that takes memory on demand ended ok: there is nothing to compare."
        return Summary(_ran(stored, sections), (nothing,), unverified.told(stored, sections, None))
    place = ok.index(max(ok))
    main = sections[place]
    sentences = [_speed(main), _memory(main), _accuracy(main), _published(sections), _checks(stored)]
    found = tuple(sentence for sentence in sentences if sentence)
    return Summary(_ran(stored, sections), found, unverified.told(stored, sections, place))


def _ran(stored: Stored, sections: Sequence[Section]) -> tuple[str, ...]:
    if not stored.results:
        return ("No result could be read.",)
    lines = [problems.count(stored)]
    for number, section in enumerate(sections[:MOST_SECTIONS], start=1):
        head = f"Section {number}: " if len(sections) > 1 else ""
        lines.append(f"{head}{_setting(section)}.")
    more = len(sections) - MOST_SECTIONS
    if more > 0:
        lines.append(f"{_count(more, 'further section')} of other conditions.")
    return tuple(lines)


def _setting(section: Section) -> str:
    """Model, data, device, software, batch sizes, training, repeats."""
    condition, results = section.condition, section.every
    device = (
        f"CPU {condition.cpu_model or '(model not reported)'}, {_count(condition.placement.threads, 'thread')}"
        if condition.placement.device_kind == "cpu"
        else f"GPU {condition.gpu_name or '(model not reported)'}"
    )
    software = ", ".join(
        f"{display_name(name)} {section.software[name].version or '(version not reported)'}"
        for name in ordered(section.software)
    )
    sizes = sorted({result.spec.cell.batch_size for result in results})
    batches = f"batch size {sizes[0]}" if len(sizes) == 1 else f"{len(sizes)} batch sizes, {sizes[0]} to {sizes[-1]}"
    repeats = len({result.spec.draw.repeat for result in results})
    task, times = condition.task, "one repeat" if repeats == 1 else f"{repeats} repeats"
    return (
        f"{task.workload} on {task.dataset}, {condition.passes.epochs} epochs of {optimizer_label(task.optimizer)}; "
        f"{batches}, "
        f"{times}; {device}; {software}"
    )


def _cells(section: Section, quantity: Quantity) -> Cells:
    """Those with a value."""
    return {place: cell for place, cell in tables.by_place(section, quantity).items() if cell["n"]}


def _by_size(cells: Cells) -> dict[int, list[str]]:
    """{batch size: frameworks, the highest median first}, where there are two or more."""
    found: dict[int, list[str]] = {}
    names = ordered(name for name, _ in cells)
    for size in sorted({size for _, size in cells}):
        here = [name for name in names if (name, size) in cells]
        if len(here) > 1:
            found[size] = sorted(here, key=lambda name: -cells[name, size]["median"])
    return found


def _points(cells: Cells, size: int) -> dict[str, Point]:
    """{framework: its value there, with the interval that its repeats allow}."""
    return {
        name: of_cell(cells[name, size], LEAST_SPREAD * abs(cells[name, size]["mean"]))
        for name in ordered(name for name, here in cells if here == size)
    }


def _speed(section: Section) -> str:
    """Which framework is fastest where, as far as `order` allows to say it, and by how much."""
    cells = _cells(section, SPEED)
    ranked = _by_size(cells)
    if not cells:
        return "Training speed: no trial gave a value."
    if not ranked:
        return f"Training speed: {_alone(cells, 'images/s')}"
    fastest = {size: extreme(_points(cells, size)) for size in ranked}
    parts = [
        *_grouped(fastest, lambda one: one.stated, lambda one: f"{display_name(one.name)} is fastest"),
        *_grouped(fastest, lambda one: one.seen, lambda one: f"{display_name(one.name)} was fastest {IN_THIS_RUN}"),
        *_grouped(fastest, lambda one: one.kind is Order.TIE, lambda one: f"{_tied(one)} tie within {TIE_PERCENT:g} %"),
    ]
    overlapping = [size for size, one in fastest.items() if one.kind is Order.OVERLAP]
    parts += [f"at {listed(overlapping)} it cannot be told, for intervals overlap"] if overlapping else []
    text = f"Training speed by batch size: {'; '.join(parts)}."
    leads = {
        size: cells[ranked[size][0], size]["median"] / second
        for size, one in fastest.items()
        if (one.stated or one.seen) and (second := cells[ranked[size][1], size]["median"]) > 0
    }
    if leads:
        widest = max(leads, key=lambda size: leads[size])
        pair = " against ".join(f"{display_name(name)} {_value(cells[name, widest])}" for name in ranked[widest][:2])
        text += f" The widest lead is a factor of {leads[widest]:.2f}, at {widest}: {pair} images/s."
    once = not _repeated(cells)
    return text + _doubtful(cells) + (" One repeat: no statement about the spread." if once else "")


def _grouped(
    extremes: Mapping[int, Extreme], chosen: Callable[[Extreme], bool], words: Callable[[Extreme], str]
) -> list[str]:
    """ "WORDS at 4 and 8" for each wording of those chosen."""
    sizes: dict[str, list[int]] = {}
    for size, one in extremes.items():
        if chosen(one):
            sizes.setdefault(words(one), []).append(size)
    return [f"{wording} at {_sizes(those, len(extremes))}" for wording, those in sizes.items()]


def _tied(one: Extreme) -> str:
    return listed(display_name(name) for name in ordered((one.name, *one.against)))


def _sizes(own: list[int], all_of_them: int) -> str:
    return f"all {len(own)} batch sizes" if len(own) == all_of_them > 1 else listed(own)


def _alone(cells: Cells, unit: str) -> str:
    """Where no batch size has two frameworks."""
    low, high = (pick(cells, key=lambda place: cells[place]["median"]) for pick in (min, max))
    values = [f"{display_name(name)} {_value(cells[name, size])} {unit} at {size}" for name, size in {low: 0, high: 0}]
    return f"no two frameworks at one batch size; {', '.join(values)}."


def _doubtful(cells: Cells) -> str:
    doubtful = sum(not cell[tables.DOUBTS].isdisjoint(UNSTEADY) for cell in cells.values())
    return f" Disturbed or noisy: {doubtful} of {len(cells)} cells." if doubtful else ""


def _memory(section: Section) -> str:
    """Least and most at the smallest and the largest batch size that two frameworks or more have."""
    spec = MEMORY.figure(section.condition)
    cells = _cells(section, MEMORY)
    ranked = _by_size(cells)
    name = spec.label if spec else "Memory"
    if not cells:
        return f"{name}: no trial gave a value."
    if not ranked:
        return f"{name}: {_alone(cells, 'MiB')}"
    ends = []
    for size in dict.fromkeys((min(ranked), max(ranked))):
        points = _points(cells, size)
        least, most = extreme(points, highest=False), extreme(points)
        parts = [_end(one, word, _value(cells[one.name, size])) for one, word in ((least, "least"), (most, "most"))]
        ends.append(f"at {size} {', and '.join(parts)}")
    return f"{name}, {'by medians, ' if _repeated(cells) else ''}by batch size: {'; '.join(ends)}."


def _end(one: Extreme, word: str, value: str) -> str:
    """Who takes least, or most, as far as it may be said; `value` is that of the one seen there, in MiB."""
    if one.stated:
        return f"{display_name(one.name)} takes {word}, {value} MiB"
    if one.seen:
        return f"{display_name(one.name)} took {word} {IN_THIS_RUN}, {value} MiB"
    if one.kind is Order.TIE:
        return f"{_tied(one)} tie for {word} within {TIE_PERCENT:g} %, {value} MiB"
    return f"who takes {word} cannot be told, for intervals overlap: {value} MiB"


def _accuracy(section: Section) -> str:
    """Parity by the paired repeats, where they suffice; else how far apart the frameworks lie."""
    compared = parity.compare(section)
    if parity.stated(compared):
        counts = Counter(verdict or "without a verdict, for lack of repeats" for verdict in compared["verdict"])
        verdicts = "; ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        pairs = f"{_count(counts.total(), 'pair')} of frameworks, each at one batch size"
        return f"Test accuracy to {parity.TOLERATED:g} point, of {pairs}: {verdicts}."
    cells = _cells(section, ACCURACY)
    ranked = _by_size(cells)
    if not cells:
        return "Test accuracy: no trial gave a value."
    if not ranked:
        return f"Test accuracy: {_alone(cells, '%')}"
    gaps = {size: cells[names[0], size]["median"] - cells[names[-1], size]["median"] for size, names in ranked.items()}
    widest = max(gaps, key=lambda size: gaps[size])
    return (
        f"Test accuracy: at the same batch size frameworks are at most {gaps[widest]:.2f} points apart (at {widest}). "
        f"Whether they agree is not stated: that takes {parity.FEWEST} paired repeats."
    )


def _published(sections: Sequence[Section]) -> str:
    """The published accuracy row and ours; "" where no section may be compared with it."""
    for number, section in enumerate(sections, start=1):
        if comparable.obstacles(section, comparable.ACCURACY) or not section.results:
            continue
        ours = comparable.points(comparable.cells(section, comparable.ACCURACY), comparable.ACCURACY, section)
        published = literature.values(literature.TABLE, comparable.ACCURACY.name)
        gaps = {
            name: [
                point.value - published[comparable.ACCURACY.alone, size]
                for (framework, size), point in ours.items()
                if framework == name and size >= calibration.FROM and (comparable.ACCURACY.alone, size) in published
            ]
            for name in comparable.frameworks(ours)
        }
        counted = [
            f"{display_name(name)} {verdicts.rms(own):.1f} points over {_count(len(own), 'batch size')}"
            for name, own in gaps.items()
            if own
        ]
        if counted:
            where = f", section {number}" if len(sections) > 1 else ""
            distance = f"The published accuracy row, from batch size {calibration.FROM} on{where}: root-mean-square"
            once = " in one repeat" if max(point.n for point in ours.values()) == 1 else ""
            return f"{distance} difference{once} {listed(counted)}.{calibration.beside(section)}"
    return ""


def _checks(stored: Stored) -> str:
    """Trials with a check that failed, and trials that others disturbed, of those that are ok."""
    ok = [result for result in stored.results if result.status is Status.OK]
    failed = sum(any(not check.passed for check in result.checks) for result in ok)
    shares = [_foreign(result) for result in ok]
    disturbed = sum(share > tables.TOLERATED_PERCENT for share in shares)
    known = sum(not math.isnan(share) for share in shares)
    first = "no check failed" if not failed else f"a check failed in {failed}"
    second = f"other processes had over {tables.TOLERATED_PERCENT:g} % of the cores in {disturbed or 'none'} of {known}"
    if not known:
        second = "none tells whether other processes disturbed it"
    elif known < len(ok):
        second += " that tell"
    return f"Of {_count(len(ok), 'ok trial')}: {first}; {second}."


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _foreign(result: TrialResult) -> float:
    """Other processes' share of the cores in the window, percent; NaN where it is unknown."""
    value = tables.figure_of(result, FOREIGN_CPU.name).value
    return math.nan if value is None else value


def _repeated(cells: Cells) -> bool:
    return any(cell["n"] > 1 for cell in cells.values())


def _value(cell: Mapping[str, Any]) -> str:
    """Three significant digits, with the interval where n > 1."""
    digits = tables.significant(cell["median"])
    text = f"{cell['median']:z.{digits}f}"
    return text + (f" [{cell['low']:z.{digits}f}, {cell['high']:z.{digits}f}]" if cell["n"] > 1 else "")
