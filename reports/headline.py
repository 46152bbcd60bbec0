"""State the finding of a section in one line: which framework is fastest where, as far as `order` allows."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workloads.records.result import TrialResult
from workloads.records.status import Status

from . import order, tables
from .conditions import Section
from .frameworks import FrameworkNames, order_frameworks
from .order import Extreme, Order, Point, find_extreme
from .quantities import SPEED
from .sentences import say, span_list, status_words

LONGEST_REASON = 120  # characters; the full reason is among the problems
MOST_SPANS = 4  # of batch sizes in the line; beyond that only their number is given


@dataclass(frozen=True)
class Race:
    """Training speeds of a section: `points` by batch size and framework, `fastest` where two or more frameworks have
    one.

    `met`: the batch sizes at which two or more frameworks were tried, however that ended. `silent`: the trials of each
    framework without a value, by the sizes of `met`. A framework without any value is listed with every batch size at
    which it was tried. `named` are the section's names of frameworks.
    """

    points: Mapping[int, Mapping[str, Point]]
    fastest: Mapping[int, Extreme]
    met: tuple[int, ...]
    silent: Mapping[str, Mapping[int, list[TrialResult]]]
    named: FrameworkNames

    @property
    def decided(self) -> dict[int, Extreme]:
        """Batch sizes at which one framework is fastest, by the intervals or in this run."""
        return {size: end for size, end in self.fastest.items() if end.stated or end.seen}

    def ranked(self, size: int) -> list[str]:
        """List the frameworks, the highest value first."""
        return sorted(self.points[size], key=lambda name: -self.points[size][name].value)

    def lead(self, size: int) -> float | None:
        """Return the ratio of the highest value to the next; None if that is 0."""
        first, second = (self.points[size][name].value for name in self.ranked(size)[:2])
        return first / second if second > 0 else None


def collect_race(section: Section) -> Race:
    """Collect the training speeds of every framework that was tried."""
    points = order.by_size(order.read_points(section, SPEED))
    fastest = {size: find_extreme(of_size) for size, of_size in points.items() if len(of_size) > 1}
    tried = tables.group_by_place(section)
    frameworks_at = Counter(size for _, size in tried)
    met = tuple(sorted(size for size, frameworks in frameworks_at.items() if frameworks > 1))
    silent: dict[str, dict[int, list[TrialResult]]] = {}
    for (name, size), trials in tried.items():
        anywhere = any(name in of_size for of_size in points.values())
        if name not in points.get(size, {}) and (size in met or not anywhere):
            silent.setdefault(name, {})[size] = trials
    return Race(points, fastest, met, silent, section.named)


def write_headline(section: Section) -> str:
    """Write the headline without a full stop; plain text."""
    of_section = collect_race(section)
    if not of_section.points:
        disturbed = sum(result.status is Status.CONTENDED for result in section.results)
        return say("headline.no_speed", disturbed=disturbed, trials=len(section.results))
    text = _of_several(of_section, section) if of_section.fastest else _of_one(of_section)
    if not of_section.silent:
        return text
    elsewhere = {name for of_size in of_section.points.values() for name in of_size}
    silent = {name: list(of_name) if name in elsewhere else [] for name, of_name in of_section.silent.items()}
    every = sorted({*of_section.points, *of_section.met})
    without = say("headline.without", section.named, silent=silent, every=every)
    return f"{text}; {without}"


def _of_several(of_section: Race, section: Section) -> str:
    told, every = of_section.decided, of_section.met
    if not told:
        return _undecided(of_section, section)
    sizes = order.group_sizes(told)
    facts = {"every": every, "once": any(end.seen for end in told.values()), "device": _device(section)}
    alone = next(iter(sizes.values())) if len(sizes) == 1 else []
    spans = sum(len(span_list(of_name, every)) for of_name in sizes.values())
    counts = spans > MOST_SPANS or bool(alone and len(every) > 1)
    lead = _widest(of_section, alone)
    return say("headline.leaders", section.named, word="fastest", sizes=sizes, counts=counts, lead=lead, **facts)


def _undecided(of_section: Race, section: Section) -> str:
    """Write the headline if no framework is fastest at any batch size; a certain slowest comes first."""
    every, sizes = of_section.met, order.map_stated(of_section.points, highest=False)
    certain = ""
    if sizes:
        counts = sum(len(span_list(of_name, every)) for of_name in sizes.values()) > MOST_SPANS
        facts = {"every": every, "once": False, "device": _device(section), "lead": None}
        certain = say("headline.leaders", section.named, word="slowest", sizes=sizes, counts=counts, **facts)
    if any(end.kind is Order.UNRANKED for end in of_section.fastest.values()):
        return say("headline.too_few", certain=certain, **_too_few(of_section))
    return say("headline.untold", every=every, certain=certain)


def _device(section: Section) -> str:
    return "CPU" if section.condition.placement.device_kind == "cpu" else "GPU"


def _too_few(of_section: Race) -> dict[str, Any]:
    """Return the facts for a section with too few repeats.

    `within_percent`: the largest difference that cannot be ruled out with one run per cell; None if no spread is known.
    """
    single = [
        point for of_size in of_section.points.values() for point in of_size.values() if not point.sure and point.value
    ]
    within = max((200 * point.borrowed / abs(point.value) for point in single), default=math.nan)
    every_once = all(point.n == 1 for of_size in of_section.points.values() for point in of_size.values())
    return {"within_percent": None if math.isnan(within) else within, "every_once": every_once}


def _widest(of_section: Race, sizes: Iterable[int]) -> tuple[float, str] | None:
    """Return (largest ratio to the second framework, the second's name), of sizes where intervals show the lead."""
    stated = (size for size in sizes if of_section.decided[size].stated)
    leads = {size: lead for size in stated if (lead := of_section.lead(size)) is not None}
    if not leads:
        return None
    widest = max(leads, key=lambda size: leads[size])
    return leads[widest], of_section.ranked(widest)[1]


def _of_one(of_section: Race) -> str:
    """Write the headline if no batch size has two frameworks."""
    named = of_section.named
    names = order_frameworks(name for of_size in of_section.points.values() for name in of_size)
    if len(names) > 1:
        return say("headline.not_at_the_same", named, names=names)
    points = {size: of_size[names[0]] for size, of_size in of_section.points.items()}
    if len(points) == 1:
        ((size, point),) = points.items()
        return say("headline.one_cell", named, name=names[0], speed=tables.format_number(point.value), size=size)
    best = order.find_best(points)
    once = not all(point.sure for point in points.values())  # then an order to the best one rests on one repeat
    facts = {"name": names[0], "every": list(points)}
    if len(best.tied) < len(points) - 1:
        return say("headline.alone", named, **facts, best=[best.place, *best.tied], once=once)
    if not once:
        return say("headline.none_fastest", named, **facts)
    every_once = all(point.n == 1 for point in points.values())
    return say("headline.too_few_of_one", named, **facts, every_once=every_once)


def explain_missing(of_section: Race) -> list[str]:
    """Name each framework without a number, with the reason that its trials stored: "MXNet at 1024: out of memory:
    ...".
    """
    lines = []
    for name, of_name in of_section.silent.items():
        reasons: dict[str, list[int]] = {}
        for size, trials in of_name.items():
            reasons.setdefault(_reason(trials[0]), []).append(size)
        every = sorted({*of_section.points, *of_name})
        lines += [
            say("headline.silence", of_section.named, name=name, sizes=sizes, every=every, reason=reason)
            for reason, sizes in reasons.items()
        ]
    return lines


def _reason(result: TrialResult) -> str:
    spec = SPEED.figures[0]
    reason = result.reason or tables.find_figure(result, spec.name).reason or "no reason was stored"
    text = textwrap.shorten(reason, LONGEST_REASON, placeholder=" ...")
    ended = "unknown" if tables.is_shown(result, spec) else status_words(result.status)
    return f"{ended}: {text}"
