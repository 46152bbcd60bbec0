"""Collect the cells of the page over many results: what each was measured of and with, and its means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

    A cell is one framework at one batch size under one set of conditions. Its value of a quantity is [mean], or
    [mean, low, high] with the 95 % interval of repeats, or a word that says why there is none.
    """
    every = [(number, cell) for number, source in enumerate(sources) for cell in _list_cells(source)]
    texts = list(dict.fromkeys(str(cell[name]) for _, cell in every for name in (*CHOICES, *WORDS)))
    index = {text: number for number, text in enumerate(texts)}
    styles = choose_styles(cell["key"] for _, cell in every)
    return {
        "choices": CHOICES,
        "quantities": [
            {"name": each.name, "label": label, "unit": each.unit, "better": each.better}
            for each, label in zip(SHOWN, LABELS, strict=True)
        ],
        "frameworks": {cell["framework"]: {"colour": styles[cell["key"]].colour} for _, cell in every},
        "sources": [{"name": source.name, "page": source.page, "marks": source.marks} for source in sources],
        "texts": texts,
        "cells": [
            [
                number,
                *(cell[name] if name == "batch" else index[cell[name]] for name in CHOICES),
                *(index[cell[name]] for name in WORDS),
                cell["trials"],
                *(cell[each.name] for each in SHOWN),
            ]
            for number, cell in every
        ],
    }


def _list_cells(source: Source) -> Iterator[dict[str, Any]]:
    trials = (result for result, folder in source.stored.pairs if folder.parent.name != BLOCKS)
    for section in group_into_sections(trials)[0]:
        for cell in _list_cells_of_section(section):
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


def _summarise(section: Section, quantity: Quantity, place: tables.Place) -> list[float] | str:
    if quantity.figure(section.condition) is None:
        return tables.describe_status(tables.UNKNOWN)
    cell = tables.compute_cells(section, quantity)[place]
    if cell.n == 0:
        return tables.describe_status(cell.status)
    ends = [] if math.isnan(cell.low) else [cell.low, cell.high]
    return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in (cell.mean, *ends)]
