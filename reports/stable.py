"""Repeats until stable: what `python -m runner --until-stable` reached, as a table; read from RESULTS/stable.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from workloads.records.intervals import CONFIDENCE_PERCENT

from . import condition_text, load
from .frameworks import display_name, ordered
from .table import Cell, Table

FILE, SCHEMA_VERSION = "stable.json", 1
NAME, TITLE = "until-stable", "Until stable"
HEAD = ("Framework", "Batch size", "Repeats", "Half-width, % of the mean", "Ended")
KINDS: dict[str, Any] = {
    "framework": str, "batch_size": int, "repeats": int, "half_width": int | float | None, "ended": str
}  # fmt: skip


def table(results: Path) -> Table | str | None:
    """The line that says why it cannot be read; None where nothing was run until stable."""
    path = results / FILE
    try:
        stored = load.rows_of(path, SCHEMA_VERSION, "cells", KINDS)
        if stored is None:
            return None
        for name in ("tolerated", "limit"):
            if not isinstance(stored.get(name), int | float) or isinstance(stored[name], bool):
                raise ValueError(f"{name} is {stored.get(name)!r}")
        if not _is_coverage(stored.get("coverage_percent", {})):
            raise ValueError(f"coverage_percent is {stored['coverage_percent']!r}")
    except ValueError as error:
        return f"{TITLE}: {path}: left out: {error}"
    names = ordered(cell["framework"] for cell in stored["cells"])
    cells = sorted(stored["cells"], key=lambda cell: (names.index(cell["framework"]), cell["batch_size"]))
    how = (
        f"Repeats went on until half the width of the {CONFIDENCE_PERCENT} % interval of the mean training speed was "
        f"at most {100 * stored['tolerated']:g} % of it, or until {stored['limit']:g} repeats. "
        + _worth(stored.get("coverage_percent"))
    )
    rows = tuple(
        (
            Cell(display_name(cell["framework"])),
            Cell(str(cell["batch_size"]), cell["batch_size"]),
            Cell(str(cell["repeats"]), cell["repeats"]),
            _percent(cell["half_width"]),
            Cell(cell["ended"]),
        )
        for cell in cells
    )
    return Table(NAME, TITLE, HEAD, rows, pd.DataFrame(cells, columns=list(KINDS)), below=(how,))


def _percent(fraction: float | None) -> Cell:
    return Cell(condition_text.ABSENT) if fraction is None else Cell(f"{100 * fraction:.1f}", 100 * fraction)


def _worth(coverage: dict[str, list[float]] | None) -> str:
    """How often such an interval holds the true mean: {spread in percent: [lowest, highest percent]}."""
    head = "An interval that was waited for may hold the true mean less often than it says: "
    if not coverage:
        return f"{head}how often, the runner of that time did not store."
    parts = [f"{low:g} to {high:g} % where repeats spread by {spread} %" for spread, (low, high) in coverage.items()]
    return f"{head}by simulation, given that the cell ended as stable, in {', '.join(parts)}."


def _is_coverage(stored: object) -> bool:
    return isinstance(stored, dict) and all(
        isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
        for ends in stored.values()
    )
