"""The files of one section, or of several side by side: tables as Markdown and CSV, charts as PNG and SVG."""

from __future__ import annotations

import string
from pathlib import Path

import pandas as pd

from . import captions, figures, markdown, memory, overhead, parity, split, tables
from .conditions import Section
from .quantities import QUANTITIES, Quantity

PARITY = "parity"
NAMES = (*(quantity.name for quantity in QUANTITIES), PARITY, *memory.NAMES, split.NAME, overhead.NAME)


def write(section: Section, suffix: str, out: Path, with_tables: bool) -> list[tuple[str, str]]:
    """Write a section's files; returns (Markdown to print, the chart's embedding or "") of each.

    Without tables those of the quantities are left out: they stand side by side with other sections'.
    """
    blocks = []
    caption = captions.chart_caption(section)
    for quantity in QUANTITIES if section.results else ():
        source = quantity.source(section.condition)
        if source is None:
            continue
        cells, title = tables.cells(section.results, quantity, section.condition), quantity.title(section.condition)
        conditions = captions.conditions_list(section)
        block = _table(cells, title, quantity, out / f"{quantity.name}{suffix}", conditions) if with_tables else ""
        stem, axis = out / f"{quantity.name}{suffix}", f"{source.label}, {quantity.unit}"
        drawn = quantity.drawn and figures.draw(cells, title, axis, caption, stem, quantity.full_scale)
        blocks.append((block, f"\n![{source.label} against batch size]({stem.name}.png)\n" if drawn else ""))
        if quantity.name == "accuracy":
            blocks.append((_parity(section, suffix, out), ""))
    blocks += _memory(section, suffix, out)
    return [(block, picture) for block, picture in blocks if block or picture]


def _memory(section: Section, suffix: str, out: Path) -> list[tuple[str, str]]:
    found, missing = memory.written(section)
    blocks = []
    for name, (block, tidy) in found.items():
        stem = out / f"{name}{suffix}"
        _write(stem, block, markdown.bullets(captions.conditions_list(section)))
        _csv(stem, tidy)
        picture = ""
        if name == "memory-parts":
            stem = out / f"{split.NAME}{suffix}"
            drawn = split.draw(memory.parts_rows(section), captions.provenance(section), stem)
            picture = f"\n![What the memory holds, by batch size]({stem.name}.png)\n" if drawn else ""
        blocks.append((block, picture))
    return [*blocks, *((line, "") for line in missing)]


def letters(count: int) -> list[str]:
    """A to Z, A2 to Z2, ..."""
    every = string.ascii_uppercase
    return [every[place % 26] + (str(place // 26 + 1) if place >= 26 else "") for place in range(count)]


def side_by_side(named: dict[str, Section], out: Path) -> list[str]:
    """Write one table for each quantity, a batch size of each section in a column of its own; returns the tables.

    `named` is {letter: section}. Nothing is averaged over sections.
    """
    legend = [f"{letter}: {line}" for letter, section in named.items() for line in captions.conditions_list(section)]
    blocks = []
    for quantity in QUANTITIES:
        parts, titles = [], dict[str, list[str]]()
        for letter, section in named.items():
            if section.results and quantity.source(section.condition):
                cells = tables.cells(section.results, quantity, section.condition)
                parts.append(cells.assign(condition=letter))
                titles.setdefault(quantity.title(section.condition), []).append(letter)
        if parts:
            several = "; ".join(f"{title} ({', '.join(those)})" for title, those in titles.items())
            title = several if len(titles) > 1 else next(iter(titles))
            blocks.append(_table(pd.concat(parts, ignore_index=True), title, quantity, out / quantity.name, legend))
    return blocks


def _table(cells: pd.DataFrame, title: str, quantity: Quantity, stem: Path, conditions: list[str]) -> str:
    if quantity.optional and not cells["n"].any():
        return tables.nothing(cells, title)
    block = tables.block(cells, title, quantity)
    _write(stem, block, markdown.bullets(conditions))
    columns = [*(["condition"] if "condition" in cells else []), *tables.CSV_COLUMNS]
    _csv(stem, cells[columns])
    return block


def _parity(section: Section, suffix: str, out: Path) -> str:
    """Write the table of a section whose repeats suffice; returns it, or the line that says what is missing."""
    found = parity.compare(section)
    if not parity.stated(found):
        return parity.NOT_STATED
    block, stem = parity.block(found), out / f"{PARITY}{suffix}"
    _write(stem, block, markdown.bullets(captions.conditions_list(section)))
    _csv(stem, found[parity.CSV_COLUMNS])
    return block


def _write(stem: Path, block: str, below: str) -> None:
    path = stem.with_name(f"{stem.name}.md")
    path.write_text(f"{block}\n{below}\n", encoding="utf-8", errors="replace", newline="\n")


def _csv(stem: Path, found: pd.DataFrame) -> None:
    text = found.to_csv(index=False, lineterminator="\n")
    stem.with_name(f"{stem.name}.csv").write_text(text, encoding="utf-8", errors="replace", newline="\n")
