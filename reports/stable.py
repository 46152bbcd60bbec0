"""Repeats until stable: what `python -m runner --until-stable` reached, as a table; read from RESULTS/stable.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from . import captions, load
from .frameworks import display_name, ordered
from .spread import CONFIDENCE_PERCENT
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
    except ValueError as error:
        return f"{TITLE}: {path}: left out: {error}"
    places = {name: place for place, name in enumerate(ordered(cell["framework"] for cell in stored["cells"]))}
    cells = sorted(stored["cells"], key=lambda cell: (places[cell["framework"]], cell["batch_size"]))
    how = (
        f"Repeats went on until half the width of the {CONFIDENCE_PERCENT} % interval of the mean training speed was "
        f"at most {100 * stored['tolerated']:g} % of it, or until {stored['limit']:g} repeats. It is looked at after "
        "every repeat, so that of a cell that stopped early is somewhat too narrow."
    )
    rows = tuple(
        (
            Cell(display_name(cell["framework"])),
            Cell(str(cell["batch_size"]), cell["batch_size"]),
            Cell(str(cell["repeats"]), cell["repeats"]),
            Cell(captions.ABSENT)
            if cell["half_width"] is None
            else Cell(f"{100 * cell['half_width']:.1f}", 100 * cell["half_width"]),
            Cell(cell["ended"]),
        )
        for cell in cells
    )
    return Table(NAME, TITLE, HEAD, rows, pd.DataFrame(cells, columns=list(KINDS)), below=(how,))
