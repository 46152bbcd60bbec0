"""The finding of a section in one line: which framework is fastest where, as far as `order` allows to say it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workloads.records.result import TrialResult

from . import order, tables
from .conditions import Section
from .frameworks import display_name, ordered
from .order import IN_THIS_RUN, Extreme, Point, extreme
from .quantities import SPEED
from .words import listed, spans, status_words

NOTHING = "No trial ended ok: there is nothing to compare"
NOTHING_ON_DEMAND = "No trial that takes memory on demand ended ok: there is nothing to compare"
LONGEST_REASON = 120  # characters; it stands in full among the problems
MOST_SPANS = 4  # of batch sizes in the line; of more only the number is told


@dataclass(frozen=True)
class Race:
    """Training speeds: `points` by batch size and framework, `fastest` where two frameworks or more have one.

    `silent`: the trials of each framework without a value, by the batch sizes of `fastest`; a framework that has none
    anywhere is there with every batch size that it was tried at.
    """

    points: Mapping[int, Mapping[str, Point]]
    fastest: Mapping[int, Extreme]
    silent: Mapping[str, Mapping[int, list[TrialResult]]]

    @property
    def told(self) -> dict[int, Extreme]:
        """Where one is fastest: intervals say so, or this run."""
        return {size: end for size, end in self.fastest.items() if end.stated or end.seen}

    def ranked(self, size: int) -> list[str]:
        """Frameworks, the highest value first."""
        return sorted(self.points[size], key=lambda name: -self.points[size][name].value)

    def lead(self, size: int) -> float | None:
        """The highest value over the next; None where that is 0."""
        first, second = (self.points[size][name].value for name in self.ranked(size)[:2])
        return first / second if second > 0 else None


def race(section: Section) -> Race:
    """Of every framework that was tried."""
    points: dict[int, dict[str, Point]] = {}
    for (name, size), point in sorted(order.points(section, SPEED).items(), key=lambda item: item[0][1]):
        points.setdefault(size, {})[name] = point
    points = {size: {name: of_size[name] for name in ordered(of_size)} for size, of_size in points.items()}
    fastest = {size: extreme(of_size) for size, of_size in points.items() if len(of_size) > 1}
    tried = tables.places(section)
    silent: dict[str, dict[int, list[TrialResult]]] = {}
    for (name, size), trials in tried.items():
        anywhere = any(name in of_size for of_size in points.values())
        if name not in points.get(size, {}) and (size in fastest or not anywhere):
            silent.setdefault(name, {})[size] = trials
    return Race(points, fastest, silent)


def headline(section: Section) -> str:
    """Without a full stop; plain text."""
    of_section = race(section)
    if not of_section.points:
        return "No trial gave a training speed"
    text = _of_several(of_section, section) if of_section.fastest else _of_one(of_section)
    return f"{text}; {_without(of_section)}" if of_section.silent else text


def _of_several(of_section: Race, section: Section) -> str:
    told, every = of_section.told, list(of_section.fastest)
    if not told:
        at_one = f"At batch size {every[0]} it cannot be told which framework is fastest"
        at_all = f"At none of {len(every)} batch sizes can it be told which framework is fastest"
        return at_one if len(every) == 1 else at_all
    sizes: dict[str, list[int]] = {}
    for size, end in told.items():
        sizes.setdefault(end.name, []).append(size)
    leaders = sorted(sizes, key=lambda name: -len(sizes[name]))
    once = any(end.seen for end in told.values())
    device = "CPU" if section.condition.placement.device_kind == "cpu" else "GPU"
    where = f"{f' {IN_THIS_RUN}' if once else ''} on this {device}"
    first = f"{display_name(leaders[0])} {'was' if once else 'is'} fastest"
    if len(leaders) > 1:
        return f"{first} at {_each(sizes, leaders, every)}{where}"
    own = sizes[leaders[0]]
    share = f"all {len(every)} batch sizes" if len(own) == len(every) else f"{len(own)} of {len(every)} batch sizes"
    return f"{first} at {share if len(every) > 1 else f'batch size {own[0]}'}{where}{_by(of_section, own)}"


def _each(sizes: Mapping[str, list[int]], leaders: list[str], every: list[int]) -> str:
    """ "batch sizes 4 to 32, MXNet at 64"; by numbers of batch sizes where that is too much for a line."""
    named = {name: spans(sizes[name], every) for name in leaders}
    if sum(text.count(",") + text.count(" and ") + 1 for text in named.values()) > MOST_SPANS:
        named = {name: str(len(sizes[name])) for name in leaders}
        first, *others = leaders
        return f"{named[first]} of {len(every)} batch sizes, " + listed(
            f"{display_name(name)} at {named[name]}" for name in others
        )
    first, *others = leaders
    noun = "batch size" if len(sizes[first]) == 1 else "batch sizes"
    return f"{noun} {named[first]}, " + ", ".join(f"{display_name(name)} at {named[name]}" for name in others)


def _by(of_section: Race, sizes: Iterable[int]) -> str:
    """By how much, where it is most."""
    leads = {size: lead for size in sizes if (lead := of_section.lead(size)) is not None}
    if not leads:
        return ""
    widest = max(leads, key=lambda size: leads[size])
    up_to = "up to " if len(of_section.fastest) > 1 else ""
    return f", {up_to}{leads[widest]:.3g} times as fast as {display_name(of_section.ranked(widest)[1])}"


def _of_one(of_section: Race) -> str:
    """Where no batch size has two frameworks."""
    names = ordered(name for of_size in of_section.points.values() for name in of_size)
    if len(names) > 1:
        return f"{listed(map(display_name, names))} were not measured at the same batch sizes"
    every = list(of_section.points)
    if len(every) == 1:
        return f"{display_name(names[0])}: {of_section.points[every[0]][names[0]].value:,.0f} images/s"
    best = order.best({size: of_size[names[0]] for size, of_size in of_section.points.items()})
    sizes = spans((best.place, *best.tied), every)
    noun = "batch sizes" if best.tied else "batch size"
    if any(point.sure for of_size in of_section.points.values() for point in of_size.values()):
        return f"{display_name(names[0])} trains fastest at {noun} {sizes}"
    return f"{display_name(names[0])} trained fastest at {noun} {sizes} {IN_THIS_RUN}"


def _without(of_section: Race) -> str:
    """ "no number of MXNet, nor of PyTorch at 1024": who is not in the race."""
    return "no number of " + listed(
        display_name(name) + (f" at {spans(of_name, list(of_section.points))}" if _elsewhere(of_section, name) else "")
        for name, of_name in of_section.silent.items()
    )


def _elsewhere(of_section: Race, name: str) -> bool:
    return any(name in of_size for of_size in of_section.points.values())


def silence(of_section: Race) -> list[str]:
    """ "MXNet at 1024: out of memory: ...": each framework without a number, with what its trials stored as reason;
    nothing where no framework has one.
    """
    if not of_section.points:
        return []
    lines = []
    for name, of_name in of_section.silent.items():
        reasons: dict[str, list[int]] = {}
        for size, trials in of_name.items():
            reasons.setdefault(_reason(trials[0]), []).append(size)
        places = sorted({*of_section.points, *of_name})
        lines += [f"{display_name(name)} at {spans(sizes, places)}: {reason}" for reason, sizes in reasons.items()]
    return lines


def _reason(result: TrialResult) -> str:
    spec = SPEED.figures[0]
    reason = result.reason or tables.figure_of(result, spec.name).reason or "no reason was stored"
    text = textwrap.shorten(reason, LONGEST_REASON, placeholder=" ...")
    ended = "unknown" if result.status in tables.measured_statuses(spec) else status_words(result.status)
    return f"{ended}: {text}"
