"""All trials of a report for its page: their table, and what is told of each, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workloads.records.figures import FIGURES, FigureSpec
from workloads.records.files import LOG_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult
from workloads.records.status import Status

from ..conditions import Section
from ..quantities import ACCURACY, MEMORY, SPEED, STEP_TIME, USAGE
from ..report import Report
from ..tables import significant
from . import raw as web_raw
from .chart_data import Indices
from .pack import column, columns, fitting, flat, rounded

IN_TABLE = (SPEED, STEP_TIME, USAGE, MEMORY, ACCURACY)
DETAILS_DIGITS = (5, 4, 3)
LOG_BYTES = (20_000, 2_000)
MOST_LOG_CHARACTERS = 6_000_000  # of all logs together, before they are compressed
FEW, CURVE_POINTS = 200, (160, 60)  # up to so many trials have the finer curves
SAMPLED = (2000, 1000, 500, 250, 100)  # trials with a curve
# Of the room left when its turn comes; in order of worth.
SHARES = {"conditions": 0.5, "figures": 0.6, "checks": 0.3, "epochs": 0.5, "logs": 0.6, "samples": 1.0}


@dataclass(frozen=True)
class Trials:
    """Every stored result with its folder, id, section's number from 1 (0: replaced), and the key that names it.

    The key is the trial's id; where results folders were merged and two have one, "~2" and so on set them apart.
    """

    results: tuple[TrialResult, ...]
    folders: tuple[Path, ...]
    ids: tuple[str, ...]
    numbers: tuple[int, ...]
    keys: tuple[str, ...]

    def finder(self, section: Section | None = None) -> Indices:
        """What gives the places of ids, within the section where there is one; what is not stored has none."""
        own = {id(result) for result in section.every} if section else None
        places: dict[str, list[int]] = {}
        for place, result in enumerate(self.results):
            if own is None or id(result) in own:
                places.setdefault(self.ids[place], []).append(place)
        return lambda ids: sorted(place for one in dict.fromkeys(ids) for place in places.get(one, []))


def trials_of(report: Report) -> Trials:
    """All that the report read; a trial stored in two folders gets a second key, `ID~2`."""
    results = report.stored.results
    section_of = {
        id(result): number for number, chapter in enumerate(report.chapters, 1) for result in chapter.section.every
    }
    ids = tuple(result.spec.id for result in results)  # once: an id is a digest of everything asked
    seen: dict[str, int] = {}
    keys = []
    for own in ids:
        seen[own] = seen.get(own, 0) + 1
        keys.append(own if seen[own] == 1 else f"{own}~{seen[own]}")
    numbers = tuple(section_of.get(id(result), 0) for result in results)
    return Trials(results, report.stored.folders, ids, numbers, tuple(keys))


def table_data(trials: Trials, sections: list[Section]) -> dict[str, Any]:
    """The columns of the table of all trials; its figures in the units and decimals of the quantities' tables."""
    results = trials.results
    shown = dict.fromkeys(quantity.figure(section.condition) for quantity in IN_TABLE for section in sections)
    return {
        "key": column(trials.keys),
        "framework": column([result.spec.cell.framework for result in results]),
        "batch": column([result.spec.cell.batch_size for result in results]),
        "repeat": column([result.spec.draw.repeat for result in results]),
        "status": column([str(result.status).replace("_", " ") for result in results]),
        "section": column(trials.numbers),
        "figures": [
            {
                "label": spec.label,
                "unit": spec.unit,
                "decimals": spec.decimals,
                "values": column([_value(result, spec) for result in results]),
            }
            for spec in shown
            if spec
        ],
    }


def _value(result: TrialResult, spec: FigureSpec) -> float | None:
    """As the figure's table rounds it."""
    figure = result.figures.get(spec.name)
    if figure is None or figure.value is None:
        return None
    value = figure.value * spec.factor
    shown: float | None = rounded(
        round(value, significant(value) if spec.decimals is None else spec.decimals) + 0.0, 15
    )
    return shown


def details(trials: Trials, room: int) -> tuple[dict[str, str], list[str]]:
    """({name of SHARES: packed}, a sentence for everything that `room` bytes did not hold)."""
    makers: dict[str, Callable[[Trials], Iterator[tuple[str, Callable[[], Any]]]]] = {
        "conditions": _conditions,
        "figures": _figures,
        "checks": _checks,
        "epochs": _epochs,
        "logs": _logs,
        "samples": _samples,
    }
    packed, left_out = {}, []
    for name, share in SHARES.items():
        packed[name], missing = fitting(makers[name](trials), int(room * share))
        room -= len(packed[name])
        left_out += [missing] if missing else []
    return packed, left_out


def _conditions(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    def made() -> dict[str, Any]:
        results = trials.results
        return {
            "reason": column([result.reason for result in results]),
            "started_at": column([result.started_at for result in results]),
            "wall_s": column([rounded(result.wall_s, 4) for result in results]),
            "folder": column([path.name for path in trials.folders]),
            "spec": columns([flat(result.spec) for result in results]),
            "facts": columns([flat(result.facts) for result in results]),
            "machine": columns([flat(result.machine) for result in results]),
        }

    yield "", made
    yield (
        "The conditions of each trial are left out of this page for its size; they are in the trials' result.json.",
        _no,
    )


def _figures(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    names = list(dict.fromkeys(name for result in trials.results for name in result.figures))

    def made(digits: int) -> list[dict[str, Any]]:
        rows = []
        for name in names:
            spec = FIGURES[name]
            own = [result.figures.get(name) for result in trials.results]
            values = [None if one is None or one.value is None else float(one.value) * spec.factor for one in own]
            row: dict[str, Any] = {"name": name, "label": spec.label, "unit": spec.unit}
            row["there"] = column([one is not None for one in own])
            row["values"] = column([rounded(value, digits) for value in values])
            for part in ("source", "samples", "reason"):
                row[part] = column([getattr(one, part, None) for one in own])
            rows.append(row)
        return rows

    for digits in DETAILS_DIGITS:
        coarse = f"The figures of each trial stand here to {digits} significant digits, to keep this page small."
        yield "" if digits == DETAILS_DIGITS[0] else coarse, partial(made, digits)
    yield "All figures of each trial are left out of this page for its size; they are in the trials' result.json.", _no


def _checks(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    def made(details_of_passed: bool) -> dict[str, Any]:
        return {
            "passed": columns([{one.name: one.passed for one in result.checks} for result in trials.results]),
            "detail": columns(
                [
                    {one.name: one.detail for one in result.checks if details_of_passed or not one.passed}
                    for result in trials.results
                ]
            ),
        }

    yield "", partial(made, True)
    yield (
        "What passed checks found is left out of this page for its size; it is in the trials' result.json.",
        partial(made, False),
    )
    yield "The checks of each trial are left out of this page for its size; they are in the trials' result.json.", _no


def _epochs(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    def made() -> list[list[list[Any]]]:
        return [
            [
                [rounded(value, 4) for value in (e.train_s, e.train_loss, e.test_loss, 100 * e.test_accuracy)]
                for e in result.epochs
            ]
            for result in trials.results
        ]

    yield "", made
    yield "The epochs of each trial are left out of this page for its size; they are in the trials' result.json.", _no


def _logs(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    def made(most_bytes: int, bad_only: bool) -> dict[str, Any] | None:
        texts, length = [], 0
        for result, folder in zip(trials.results, trials.folders, strict=True):
            wanted = not bad_only or result.status is not Status.OK
            texts.append(web_raw.log(folder, most_bytes) if wanted else None)
            length += len(texts[-1] or "") if texts[-1] not in texts[-2:-1] else 0
            if length > MOST_LOG_CHARACTERS:
                return None
        there = [not bad_only or result.status is not Status.OK for result in trials.results]
        return {"there": column(there), "text": column(texts)}

    for most_bytes in LOG_BYTES:
        cut = f"Of logs of more than {most_bytes:,} bytes the middle is left out; the trials' {LOG_FILE} are whole."
        yield "" if most_bytes == LOG_BYTES[0] else cut, partial(made, most_bytes, False)
    note = f"Logs of trials that ended ok are left out of this page for its size; they are in the trials' {LOG_FILE}."
    yield note, partial(made, LOG_BYTES[-1], True)
    yield f"Logs are left out of this page for its size; they are in the trials' {LOG_FILE}.", _no


def _samples(trials: Trials) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Of the first repeats before the later ones, so that every cell has a curve if any cell has two."""
    results = trials.results
    by_worth = sorted(range(len(results)), key=lambda place: (results[place].spec.draw.repeat, place))
    read: dict[int, Any] = {}

    def made(points: int, most: int) -> list[Any]:
        found: list[Any] = [False] * len(results)
        for place in by_worth[:most]:
            if place not in read:
                read[place] = web_raw.samples(trials.folders[place], results[place].spec.placement.threads, points)
            found[place] = read[place]
        return found

    points = CURVE_POINTS[len(results) > FEW]
    for most in (len(results), *SAMPLED) if len(results) <= SAMPLED[0] else SAMPLED:
        note = (
            f"Curves of the samples are here for {most:,} of {len(results):,} trials, the first repeats before the "
            f"later ones, to keep this page small; the raw samples of all are in the trials' {SAMPLES_FILE}."
        )
        if most <= len(results):
            yield note if most < len(results) else "", partial(made, points, most)
    yield f"Curves of the samples are left out of this page for its size; they are in the trials' {SAMPLES_FILE}.", _no


def _no() -> None:
    """What makes nothing."""
