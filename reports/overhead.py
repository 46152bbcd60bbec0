"""Our own weight: what `python -m runner overhead` measured, as a table; read from RESULTS/overhead.json."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from . import captions, load, markdown
from .frameworks import display_name, ordered
from .spread import CONFIDENCE_PERCENT

FILE, NAME, SCHEMA_VERSION = "overhead.json", "overhead", 1
TITLE = "## Our own weight"
NUMBERS = ("pairs", "pairs_measured", "foreign_cpu_percent", "ratio", "low", "high", "bar")
SAMPLER = ("sampler_core_percent", "sampler_bar_percent")
OVER_ALL = ("ratio_all", "low_all", "high_all")  # not in every file
KINDS: dict[str, Any] = {
    **dict.fromkeys(("framework", "verdict", "sampler_verdict"), str),
    **dict.fromkeys((*NUMBERS, *SAMPLER), int | float),
    "batch_size": int,
}
CSV_COLUMNS = ["framework", "batch_size", *NUMBERS, "verdict", *OVER_ALL, *SAMPLER, "sampler_verdict"]
HOW = f"""\
Training speed with the sampler and the events over the speed without, the geometric mean over pairs of neighbouring \
stretches, with its {CONFIDENCE_PERCENT} % interval. Of the *pairs* measured those are taken that others disturbed \
least, in either stretch. Beside it stands the ratio over all pairs, for what the instruments cause beyond their own \
processor time would count as others' doing; where that one is over the bar, so is the verdict. *Foreign CPU*: what \
other processes took of the worker's cores in the pairs taken. *Bar*: the lowest ratio that is allowed. *Sampler*: its \
CPU time, % of one core, of what is allowed."""


def read(results: Path) -> dict[str, Any] | None:
    """What is stored; None where nothing was measured. Raises ValueError with the reason for an unreadable file."""
    stored = load.rows_of(results / FILE, SCHEMA_VERSION, "rows", KINDS)
    if stored is None:
        return None
    if not isinstance(stored.get("conditions"), dict):
        raise ValueError("conditions are missing")
    for number, row in enumerate(stored["rows"]):
        for name in OVER_ALL:
            told = row.setdefault(name, None)
            if told is not None and not (isinstance(told, float | int) and math.isfinite(told)):
                raise ValueError(f"rows[{number}].{name} is {told!r}")
    return stored


def block(results: Path, out: Path) -> str:
    """The chapter in Markdown, its table written into `out` as CSV too; or the line that says why there is none."""
    try:
        stored = read(results)
    except ValueError as error:
        return f"{TITLE}\n\n{markdown.escape(f'{results / FILE}: left out: {error}')}\n"
    if stored is None:
        return f"{TITLE}\n\nNot measured: run `python -m runner overhead --results {results}`.\n"
    rows = [
        row for name in ordered(row["framework"] for row in stored["rows"]) for row in stored["rows"]
        if row["framework"] == name
    ]  # fmt: skip
    lines = [
        {
            "Framework": markdown.escape(display_name(row["framework"])),
            "Batch size": str(row["batch_size"]),
            "Pairs": f"{row['pairs']} of {row['pairs_measured']}",
            "Foreign CPU, %": f"{row['foreign_cpu_percent']:.1f}",
            "With / without": _ratio(row, "ratio", "low", "high"),
            "Bar": f"{row['bar']:g}",
            "Verdict": markdown.escape(row["verdict"]),
            "Over all pairs": _ratio(row, *OVER_ALL),
            "Sampler, % of a core": f"{row['sampler_core_percent']:.2f} of {row['sampler_bar_percent']:g}",
            "Sampler's verdict": markdown.escape(row["sampler_verdict"]),
        }
        for row in rows
    ]
    if rows:
        pd.DataFrame(rows)[CSV_COLUMNS].to_csv(out / f"{NAME}.csv", index=False, lineterminator="\n")
    failed = [f"{cell.get('framework')} {cell.get('batch_size')}: {cell.get('reason')}" for cell in _failed(stored)]
    parts = [
        TITLE,
        f"{markdown.table(pd.DataFrame(lines))}\n\n{HOW}" if rows else "No row was measured.",
        markdown.bullets([markdown.escape(line) for line in [_conditions(stored["conditions"]), *failed]]),
    ]
    return "\n\n".join(parts) + "\n"


def _ratio(row: dict[str, Any], *names: str) -> str:
    """ "0.9981 [0.9951, 1.0011]"; a dash where one of them was not told."""
    ratio, low, high = (row[name] for name in names)
    return captions.ABSENT if None in (ratio, low, high) else f"{ratio:.4f} [{low:.4f}, {high:.4f}]"


def _failed(stored: dict[str, Any]) -> list[dict[str, Any]]:
    """What could not be measured."""
    failed = stored.get("failed")
    return [cell for cell in failed if isinstance(cell, dict)] if isinstance(failed, list) else []


def _conditions(conditions: dict[str, Any]) -> str:
    told = [
        f"{key.replace('_', ' ')} {value}" for key, value in conditions.items() if isinstance(value, str | int | float)
    ]
    frameworks = conditions.get("frameworks")
    for name, facts in frameworks.items() if isinstance(frameworks, dict) else ():
        version = facts.get("framework_version") if isinstance(facts, dict) else None
        told.append(f"{display_name(name)} {version or 'version not reported'}")
    return f"Conditions: {'; '.join(told) or 'not reported'}."
