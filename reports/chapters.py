"""Build the chapter of one section, its tables and charts, and the tables that compare several sections."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import pandas as pd

from . import best, condition_text, contrast, memory, parity, tables
from .condition_text import ABSENT, join_distinct, read_package_versions
from .conditions import Section
from .drawing.section_charts import build_charts
from .frameworks import order_frameworks
from .quantities import ACCURACY, USAGE, USAGE_BUSY, Quantity
from .report import Chapter
from .reproduction import published_figures
from .table import Table, TableCell, Theme

ALWAYS_BUSY = "Usage over the busy samples equals usage over all samples in every cell, so it has no separate table."


def build_chapter(
    section: Section,
    heading: str,
    quantities: Sequence[Quantity],
    with_quantities: bool,
    baseline_batch: int | None = None,
) -> Chapter:
    """Build a chapter; it has no tables of the quantities if those are shown side by side with other sections."""
    parts: list[Table | str] = []
    front = best.build_table(section) if section.results and with_quantities else None
    parts += [front] if front else []
    for quantity in quantities if section.results else ():
        if tables.find_measured_figure(section, quantity) is None:
            continue
        if with_quantities and quantity is USAGE_BUSY and _as_busy(section):
            parts.append(ALWAYS_BUSY)
        elif with_quantities:
            parts.append(tables.build_table({"": section}, quantity, quantity.title(section.condition)))
        if quantity is ACCURACY and section.condition.task.own_code:
            parts.append(parity.OF_OWN_CODE)
        elif quantity is ACCURACY:
            compared = parity.compare(section)
            told = parity.has_verdict(compared)
            parts.append(parity.build_table(compared, section.named) if told else parity.NOT_STATED)
    changes = contrast.build_mode_table(section)
    parts += [changes] if changes else []
    parts += contrast.build_batch_size_tables(section, baseline_batch)
    published, silent = published_figures.of_section(section)
    parts += [*published, *silent, *memory.build_tables(section)]
    workers = _build_workers_table(section)
    parts += [workers] if workers else []
    return Chapter(
        heading,
        section,
        condition_text.describe_setting(section),
        tuple(condition_text.describe_conditions(section)),
        tuple(item for item in parts if isinstance(item, Table)),
        build_charts(section),
        tuple(item for item in parts if isinstance(item, str)),
    )


def _build_workers_table(section: Section) -> Table | None:
    """Show what the workers reported: a row per fact or package, a column per framework; None for nothing."""
    facts: dict[str, dict[str, list[Any]]] = {}  # {fact: {framework: what its trials said}}
    packages: dict[str, dict[str, list[Any]]] = {}
    for result in section.every:
        said = {key.replace("_", " "): value for key, value in result.facts.items() if key != "packages"}
        variables = result.machine.get("profile_variables")
        if isinstance(variables, dict) and variables:
            said["variables of the profile"] = " ".join(f"{name}={value}" for name, value in sorted(variables.items()))
        for kind, values in ((facts, said), (packages, read_package_versions(result))):
            for key, value in values.items():
                if value is not None:
                    kind.setdefault(key, {}).setdefault(result.spec.cell.framework, []).append(value)
    names = order_frameworks(result.spec.cell.framework for result in section.every)
    named = facts | {f"package {name}": packages[name] for name in sorted(packages)}
    rows = [(fact, *(join_distinct(said.get(name, ())) or ABSENT for name in names)) for fact, said in named.items()]
    if not rows:
        return None
    head = ("Fact", *map(section.named, names))
    cells = tuple(tuple(TableCell(word) for word in row) for row in rows)
    tidy = pd.DataFrame(rows, columns=["fact", *names])
    return Table("workers", "What the workers reported", head, cells, tidy, words=True, theme=Theme.SOFTWARE)


def _as_busy(section: Section) -> bool:
    """True if usage over the busy samples equals the usage in every cell."""
    whole, busy = (tables.compute_cells(section, quantity) for quantity in (USAGE, USAGE_BUSY))
    return any(cell.n for cell in busy.values()) and all(
        tables.format_cell(cell, USAGE.decimals, 0).text == tables.format_cell(busy[place], USAGE.decimals, 0).text
        for place, cell in whole.items()
    )


def list_letters(count: int) -> list[str]:
    """List A to Z, A2 to Z2, ..."""
    every = string.ascii_uppercase
    return [every[place % 26] + (str(place // 26 + 1) if place >= 26 else "") for place in range(count)]


def build_side_by_side(named: dict[str, Section], quantities: Sequence[Quantity]) -> list[Table | str]:
    """Build one table per quantity, with a separate column for each batch size of each section.

    `named` is {letter: section}. Nothing is averaged over sections.
    """
    made = []
    for quantity in quantities:
        having = {
            name: each for name, each in named.items() if each.results and tables.find_measured_figure(each, quantity)
        }
        titles: dict[str, list[str]] = {}
        for letter, section in having.items():
            titles.setdefault(quantity.title(section.condition), []).append(letter)
        if having:
            several = "; ".join(f"{title} ({', '.join(those)})" for title, those in titles.items())
            title = several if len(titles) > 1 else next(iter(titles))
            made.append(tables.build_table(having, quantity, title))
    return made
