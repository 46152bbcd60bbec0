"""Collect the cells of the page over many results: what each was measured of and with, and its means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workloads.conditions import SETTINGS
from workloads.records.build import column_of

from .. import quantities, tables
from ..condition_text import describe_condition, describe_parts
from ..conditions import Section, group_into_sections
from ..frameworks import choose_styles
from ..load import BLOCKS, Stored
from ..publishing.publication import name_machine
from ..quantities import Quantity
from ..submitting.labels import Label, find_weakest

SHOWN = (quantities.SPEED, quantities.MEMORY, quantities.ENERGY, quantities.ACCURACY, quantities.USAGE)
LABELS = ("Training speed", "Memory", "Energy per image", "Test accuracy", "Usage")
# What a reader chooses by, in the order of the page's menus; `batch` is a number.
CHOICES = {
    "machine": "Machine",
    "device": "Device",
    "network": "Network",
    "data": "Data set",
    "precision": "Precision",
    "profile": "Profile",
    "framework": "Framework",
    "batch": "Batch size",
    "label": "Checked",
    "report": "Report",
}
# The other conditions: as they were asked for, as the machine reported them, and the framework's versions and packages.
WORDS = ("settings", "reported", "software")
IN_MENUS = {each.name for each in SETTINGS if each.column and each.field in ("workload", "dataset")} | {"device"}
NAMED = {each.name for each in SETTINGS} - IN_MENUS
SIGNIFICANT_DIGITS = 6
UNCHECKED = "not checked"  # trials of a file or folder that `verify_submission` has not labelled
Value = list[float | str | None] | str  # of a quantity, as `build_data` says


@dataclass(frozen=True)
class Source:
    """A publication, results folder or submission: its name on the page, what it holds, and its page relative to the
    site's. `labels`: {trial id: label} of a submission that was verified. `marks`: what a publication lacks.
    """

    name: str
    stored: Stored
    page: str
    labels: Mapping[str, Label] = field(default_factory=dict)
    marks: tuple[str, ...] = ()


def build_data(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the page's data, ready for JSON: cells in the order of sources, texts once each, cells by their index.

    A cell is one framework at one batch size under one set of conditions. Its value of a quantity is a word that says
    why there is none, or [mean, low, high, n, notes]: the 95 % interval of repeats, null without one, and how many of
    the cell's trials are in the mean. The end is left out where it says nothing: no interval, all trials, no notes.
    """
    every = [(number, cell) for number, source in enumerate(sources) for cell in _list_cells(source)]
    texts: dict[str, int] = {}
    styles = choose_styles(cell["key"] for _, cell in every)
    cells = [_pack(number, cell, lambda text: texts.setdefault(text, len(texts))) for number, cell in every]
    return {
        "choices": CHOICES,
        "quantities": [
            {
                "name": each.name,
                "label": label,
                "unit": each.unit,
                "better": each.better,
                # Each kind of device may have a figure of its own: only cells of the same one are compared.
                "figures": {kind: spec.label for kind in ("cpu", "cuda") if (spec := each.find_figure(kind))},
            }
            for each, label in zip(SHOWN, LABELS, strict=True)
        ],
        "frameworks": {cell["framework"]: {"colour": styles[cell["key"]].colour} for _, cell in every},
        "sources": [{"name": source.name, "page": source.page, "marks": source.marks} for source in sources],
        "texts": list(texts),
        "cells": cells,
    }


def _pack(number: int, cell: Mapping[str, Any], place: Callable[[str], int]) -> list[Any]:
    """Return a cell as the page's script reads it: its source's number, then CHOICES, WORDS, trials, SHOWN."""
    values: list[Value] = [cell[each.name] for each in SHOWN]
    return [
        number,
        *(cell[name] if name == "batch" else place(cell[name]) for name in CHOICES),
        *(place(cell[name]) for name in WORDS),
        cell["trials"],
        *(
            value if isinstance(value, str) else [place(part) if isinstance(part, str) else part for part in value]
            for value in values
        ),
    ]


def _list_cells(source: Source) -> Iterator[dict[str, Any]]:
    trials = (result for result, folder in source.stored.pairs if folder.parent.name != BLOCKS)
    for section in group_into_sections(trials)[0]:
        for cell in _list_cells_of_section(replace(section, attempts=source.stored.tried)):
            label = str(find_weakest(cell["trials"], source.labels)) if source.labels else UNCHECKED
            yield cell | {"report": source.name, "framework": source.stored.named(cell["key"]), "label": label}


def _list_cells_of_section(section: Section) -> Iterator[dict[str, Any]]:
    """Yield each framework and batch size that was run in the section; not those that only others were run at."""
    words = describe_condition(section.condition)
    others = {name: f"{name}: {said}" for name, said in words.items() if name not in IN_MENUS}
    shared = {
        "machine": name_machine(section.every[0]),
        "device": section.condition.placement.device_kind,
        "network": words["model"],
        "data": words["data set"],
        "settings": "; ".join(said for name, said in others.items() if name in NAMED),
        "reported": "; ".join(said for name, said in others.items() if name not in NAMED),
    }
    for (name, batch_size), trials in tables.group_by_place(section).items():
        build, task = column_of(name).installed, trials[0].spec.task
        parts = describe_parts(section.software[name], section.condition.placement.device_kind)
        yield shared | {
            "key": build,
            "batch": batch_size,
            "profile": task.profile,
            "precision": task.precision,
            "software": "; ".join(f"{part}: {said}" for part, said in parts.items()),
            "trials": [trial.spec.id for trial in trials],
            **{each.name: _summarise(section, each, (name, batch_size)) for each in SHOWN},
        }


def _summarise(section: Section, quantity: Quantity, place: tables.Place) -> Value:
    if quantity.figure(section.condition) is None:
        return tables.describe_status(tables.UNKNOWN)
    cell = tables.compute_cells(section, quantity)[place]
    if cell.n == 0:
        return tables.describe_status(cell.status)
    low, high = (None if math.isnan(end) else _shorten(end) for end in (cell.low, cell.high))
    value: list[float | str | None] = [_shorten(cell.mean), low, high, cell.n, tables.JOINED.join(cell.notes)]
    usual = (None, None, None, len(cell.trials), "")
    while value[-1] == usual[len(value) - 1]:
        value.pop()
    return value


def _shorten(number: float) -> float:
    return float(f"{number:.{SIGNIFICANT_DIGITS}g}")
