"""Show what `python -m runner --until-stable` reached, as a table; read from RESULTS/stable.json."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from workloads.records import validation
from workloads.records.validation import Count, Number, Real
from workloads.statistics import CONFIDENCE_PERCENT

from . import condition_text
from .frameworks import FrameworkNames, order_frameworks
from .table import Columns, Table, TableCell, build_rows, count_of, make_framework_column, make_text_column

FILE = "stable.json"
NAME, TITLE = "until-stable", "Until stable"


class StableCell(TypedDict):
    """A cell in the file: one framework at one batch size."""

    framework: str
    batch_size: Count
    repeats: Count
    half_width: Number | None
    ended: str
    drifts: NotRequired[bool]


class StableFile(TypedDict):
    """Contents of the file that the runner stored."""

    schema_version: Literal[1]
    tolerated: Real
    limit: Real
    cells: list[StableCell]
    coverage_percent: NotRequired[dict[str, tuple[float, float]]]
    correlated_percent: NotRequired[dict[str, tuple[float, float]]]
    run_drifts: NotRequired[bool]


def build_table(results: Path, named: FrameworkNames) -> Table | str | None:
    """Build the table; returns a line with the reason if the file cannot be read, None if it does not exist."""
    path = results / FILE
    try:
        stored = validation.read(path, StableFile)
    except ValueError as error:
        return f"{TITLE}: {path}: left out: {error}"
    if stored is None:
        return None
    places = {name: place for place, name in enumerate(order_frameworks(cell["framework"] for cell in stored["cells"]))}
    cells = sorted(stored["cells"], key=lambda cell: (places[cell["framework"]], cell["batch_size"]))
    how = (
        f"Repeats went on until half the width of the {CONFIDENCE_PERCENT} % interval of the mean training speed was "
        f"at most {100 * stored['tolerated']:g} % of it, or until {stored['limit']:g} repeats. "
        + _describe_coverage(stored.get("coverage_percent"))
    )
    notes = tuple(filter(None, [_if_correlated(stored), _drift(stored)]))
    shown: Columns = {
        "Framework": make_framework_column(named),
        "Batch size": count_of("batch_size"),
        "Repeats": count_of("repeats"),
        "Half-width, % of the mean": lambda row: (
            TableCell(condition_text.ABSENT)
            if row["half_width"] is None
            else TableCell(f"{100 * row['half_width']:.1f}", 100 * row["half_width"], notes)
        ),
        "Ended": make_text_column("ended"),
    }
    records = [{**dict.fromkeys(StableCell.__annotations__), **cell} for cell in cells]
    return Table(NAME, TITLE, *build_rows(records, shown), below=(how,))


def _describe_coverage(coverage: dict[str, tuple[float, float]] | None) -> str:
    """Say how often such an interval covers the true mean, from {spread in percent: [lowest, highest percent]}."""
    head = "An interval that was waited for may hold the true mean less often than it says: "
    if not coverage:
        return f"{head}how often, the runner of that time did not store."
    parts = [f"{low:g} to {high:g} % where repeats spread by {spread} %" for spread, (low, high) in coverage.items()]
    return f"{head}by simulation, given that the cell ended as stable, in {', '.join(parts)}."


def _if_correlated(stored: StableFile) -> str:
    """Say what the interval covers if repeats are correlated."""
    known = stored.get("correlated_percent", {})
    parts = [f"{low:g} to {high:g} % at an autocorrelation of {size}" for size, (low, high) in known.items()]
    if not parts:
        return ""
    return (
        "half of the 95 % interval if repeats are independent; where a repeat is like the one before, that of a stable "
        f"cell contains the true mean, by simulation, in {', '.join(parts)}"
    )


def _drift(stored: StableFile) -> str:
    """Say that the whole run drifts; "" if it does not."""
    if not stored.get("run_drifts"):
        return ""
    return "the speeds of the whole run drift in the order of their starts: no cell of it is called stable"
