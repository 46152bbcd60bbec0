"""Repeats until stable: what `python -m runner --until-stable` reached, as a table; read from RESULTS/stable.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from . import captions, load, markdown
from .frameworks import display_name, ordered
from .spread import CONFIDENCE_PERCENT

FILE, SCHEMA_VERSION = "stable.json", 1
TITLE = "## Until stable"
KINDS: dict[str, Any] = {
    "framework": str, "batch_size": int, "repeats": int, "half_width": int | float | None, "ended": str
}  # fmt: skip


def block(results: Path) -> list[str]:
    """The chapter in Markdown, or the line that says why it cannot be read; empty where the file is not there."""
    path = results / FILE
    try:
        stored = load.rows_of(path, SCHEMA_VERSION, "cells", KINDS)
        if stored is None:
            return []
        for name in ("tolerated", "limit"):
            if not isinstance(stored.get(name), int | float) or isinstance(stored[name], bool):
                raise ValueError(f"{name} is {stored.get(name)!r}")
    except ValueError as error:
        return [f"{TITLE}\n\n{markdown.escape(f'{path}: left out: {error}')}\n"]
    places = {name: place for place, name in enumerate(ordered(cell["framework"] for cell in stored["cells"]))}
    lines = [
        {
            "Framework": markdown.escape(display_name(cell["framework"])),
            "Batch size": str(cell["batch_size"]),
            "Repeats": str(cell["repeats"]),
            "Half-width, % of the mean": captions.ABSENT
            if cell["half_width"] is None
            else f"{100 * cell['half_width']:.1f}",
            "Ended": markdown.escape(cell["ended"]),
        }
        for cell in sorted(stored["cells"], key=lambda cell: (places[cell["framework"]], cell["batch_size"]))
    ]
    how = (
        f"Repeats went on until half the width of the {CONFIDENCE_PERCENT} % interval of the mean training speed was "
        f"at most {100 * stored['tolerated']:g} % of it, or until {stored['limit']:g} repeats. It is looked at after "
        "every repeat, so that of a cell that stopped early is somewhat too narrow."
    )
    table = markdown.table(pd.DataFrame(lines)) if lines else "No cell was measured."
    return [f"{TITLE}\n\n{table}\n\n{how}\n"]
