"""Test if the frameworks reach the same test accuracy, by paired differences over the repeats, per pair and batch size.

Repeat r has the same initial weights, batch order and data in every framework. What a seed does to both therefore
cancels in their difference. Trials whose inputs differ, by checksum, are not paired. All numbers are percentage points.
Mean and interval are those of the paired t-test (NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.1.1). If
differences agree to within one test image, their spread is taken to be one test image. "Not comparable" is a claim, and
a section makes it about many pairs. It requires a test that the true difference is beyond TOLERATED, corrected for the
number of pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from workloads.records.figures import ACCURACY
from workloads.records.result import TrialResult
from workloads.statistics import (
    CONFIDENCE_PERCENT,
    ERROR,
    Verdict,
    accuracy_step,
    benjamini_hochberg,
    cut_interval,
    decide,
    estimate_mean,
    is_overruled,
)

from .conditions import Section
from .frameworks import FrameworkNames, order_frameworks
from .sentences import note_corrected, status_words
from .table import Table, TableCell, Theme
from .tables import JOINED, is_shown

NAME = "parity"
FEWEST, TOLERATED = 3, 1.0
NOT_COMPARABLE, UNCERTAIN, NO_VERDICT, AGREE = FIRST_TOLD = ("not comparable", "uncertain", "", "agree")
NUMBERS = ("mean_difference_points", "low_points", "high_points")
COLUMNS = ["framework_a", "framework_b", "batch_size", "n", *NUMBERS, "p_beyond", "verdict", "notes", "trials"]
NOT_STATED = (
    "Accuracy parity is not stated: it needs three ok repeats in two frameworks at the same batch size "
    f"(--repeat {FEWEST})."
)
OF_OWN_CODE = "Accuracy parity is not stated: custom code, not compared."
HOW_TO_READ = f"""\
Mean of the paired differences of test accuracy, percentage points, and its {CONFIDENCE_PERCENT} % interval \
(Student's t, n-1 degrees of freedom, separately for each cell). "{AGREE}": the whole interval is within \
{TOLERATED:g} point of 0. "{NOT_COMPARABLE}": the whole interval is beyond it, also after a correction for the pairs \
of this table (Benjamini and Hochberg: at most {100 * ERROR:g} % of these verdicts are due to chance). \
"{UNCERTAIN}": neither. Differences that agree better than one test image are taken to spread by one image."""


def compare(section: Section) -> pd.DataFrame:
    """Build a data frame with COLUMNS, a row for each pair and batch size.

    `notes` (why repeats are left out) and `trials` are tuples of str. The differences are framework_a minus
    framework_b. Below FEWEST paired repeats: NaN and NO_VERDICT.
    """
    trials = {(r.spec.cell.framework, r.spec.cell.batch_size, r.spec.draw.repeat): r for r in section.results}
    names = order_frameworks(framework for framework, _, _ in trials)
    sizes, repeats = sorted({size for _, size, _ in trials}), sorted({repeat for _, _, repeat in trials})
    task = section.condition.task
    step = accuracy_step(task.dataset, task.source)
    rows = []
    for (a, b), size in itertools.product(itertools.combinations(names, 2), sizes):
        pairs = {repeat: (trials.get((a, size, repeat)), trials.get((b, size, repeat))) for repeat in repeats}
        obstacles = {repeat: _obstacles((a, b), pair, section.named) for repeat, pair in pairs.items() if any(pair)}
        paired = [pairs[repeat] for repeat, reasons in obstacles.items() if not reasons]
        notes = tuple(f"repeat {repeat}: {' and '.join(reasons)}" for repeat, reasons in obstacles.items() if reasons)
        ids = tuple(trial.spec.id for pair in pairs.values() for trial in pair if trial)
        cell = compute_difference([100 * (_accuracy(x) - _accuracy(y)) for x, y in paired], step)
        rows.append({"framework_a": a, "framework_b": b, "batch_size": size, **cell, "notes": notes, "trials": ids})
    for row, verdict in zip(rows, decide_verdicts(rows), strict=True):
        row["verdict"] = verdict
    return pd.DataFrame(rows, columns=COLUMNS)


def _accuracy(trial: TrialResult | None) -> float:
    """Test accuracy as a fraction, 0..1, for any status of the trial; NaN if there is none."""
    figure = trial.figures.get(ACCURACY.name) if trial else None
    return math.nan if figure is None or figure.value is None else figure.value


def _obstacles(frameworks: tuple[str, str], pair: Sequence[TrialResult | None], named: FrameworkNames) -> list[str]:
    """List why these two trials of one repeat are not a pair; empty if they are."""
    obstacles = []
    for name, trial in zip(map(named, frameworks), pair, strict=True):
        if trial is None:
            obstacles.append(f"{name} not run")
        elif not is_shown(trial, ACCURACY):
            obstacles.append(f"{name} {status_words(trial.status)}")
        elif math.isnan(_accuracy(trial)):
            obstacles.append(f"{name} accuracy unknown")
    inputs = [{name: file.sha256 for name, file in trial.spec.inputs.items()} for trial in pair if trial]
    if not obstacles and inputs[0] != inputs[1]:
        obstacles.append(f"{' and '.join(map(named, frameworks))} had different inputs")
    return obstacles


def compute_difference(differences: Sequence[float], step: float) -> dict[str, Any]:
    """Return n, NUMBERS and p_beyond of one cell, from paired differences in percentage points; NaN below FEWEST.

    `step`: the share of one test image, in points.
    """
    n = len(differences)
    if n < FEWEST:
        return {"n": n, **dict.fromkeys((*NUMBERS, "p_beyond"), math.nan)}
    estimate = estimate_mean(differences, step)
    # Rounded, because in floating point 71 % - 70 % is slightly more than 1 point.
    interval = cut_interval((estimate.value, *estimate.interval), ACCURACY.difference_bounds)
    mean, low, high = (round(number, 9) for number in interval)
    p = replace(estimate, value=mean).p_beyond(TOLERATED)
    return {"n": n, **dict(zip(NUMBERS, (mean, low, high), strict=True)), "p_beyond": p}


def decide_verdicts(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the verdicts on all `difference`s of one table together; an interval ending at exactly TOLERATED is
    within.
    """
    return [NO_VERDICT if math.isnan(p) else _verdict(cell, p) for cell, p in zip(cells, _correct(cells), strict=True)]


def _correct(cells: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the p of each cell, corrected for all of them that have a verdict; NaN for the others."""
    return benjamini_hochberg([cell["p_beyond"] for cell in cells])


def _note_corrected(compared: pd.DataFrame) -> tuple[str, ...]:
    """Write the line on intervals wholly beyond TOLERATED whose pairs are not said to differ; none without one."""
    cells: list[dict[Any, Any]] = compared.to_dict("records")
    overruled = [
        is_overruled(cell[NUMBERS[1]], cell[NUMBERS[2]], p, TOLERATED)
        for cell, p in zip(cells, _correct(cells), strict=True)
    ]
    tests = int((compared["n"] >= FEWEST).sum())
    return note_corrected([tests] * sum(overruled), f"differences up to {TOLERATED:g} point")


def _verdict(cell: Mapping[str, Any], p_corrected: float) -> str:
    _, low, high = (cell[name] for name in NUMBERS)
    told = {Verdict.WITHIN: AGREE, Verdict.UNDECIDED: UNCERTAIN}
    return told.get(decide(low, high, margin=(-TOLERATED, TOLERATED), p=p_corrected), NOT_COMPARABLE)


def has_verdict(compared: pd.DataFrame) -> bool:
    """True if any cell of `compare` has a verdict."""
    return bool((compared["verdict"] != NO_VERDICT).any())


def summarise(compared: pd.DataFrame, named: FrameworkNames) -> list[str]:
    """Write a sentence for each batch size; the pairs that do not agree come first."""
    lines = []
    for batch_size, rows in compared.groupby("batch_size"):
        text = "all pairs agree"
        if len(rows) == 1 or set(rows["verdict"]) != {AGREE}:
            cells = sorted(rows.to_dict("records"), key=lambda cell: FIRST_TOLD.index(cell["verdict"]))
            verdicts = (
                f"{_pair(cell, 'and', named)} ({cell['verdict'] or 'no verdict, n=' + str(cell['n'])})"
                for cell in cells
            )
            text = ", ".join(verdicts)
        lines.append(f"Batch size {batch_size}: {text}.")
    return lines


def build_table(compared: pd.DataFrame, named: FrameworkNames) -> Table:
    """Build the table of `compare`: a row per pair, a column per batch size, and above it a sentence per batch size."""
    most = int(compared["n"].max())
    rows: dict[str, dict[int, TableCell]] = {}
    for cell in compared.to_dict("records"):
        rows.setdefault(_pair(cell, "minus", named), {})[cell["batch_size"]] = _shown(cell, most)
    sizes = list(dict.fromkeys(size for row in rows.values() for size in row))
    fewer = (
        f" A cell with fewer repeats has its n; below {FEWEST} it has no verdict." if compared["n"].min() < most else ""
    )
    joined = {name: [JOINED.join(items) for items in compared[name]] for name in ("notes", "trials")}
    return Table(
        NAME,
        "Accuracy parity",
        ("Difference / batch size", *map(str, sizes)),
        tuple((TableCell(pair), *(row[size] for size in sizes)) for pair, row in rows.items()),
        compared.assign(**joined),
        above=(*summarise(compared, named), *_note_corrected(compared)),
        below=(f"{HOW_TO_READ} n = {most} paired repeats.{fewer}",),
        theme=Theme.ACCURACY,
        by_size=True,
    )


def _pair(cell: dict[Any, Any], between: str, named: FrameworkNames) -> str:
    a, b = (named(cell[key]) for key in ("framework_a", "framework_b"))
    return f"{a} {between} {b}"


def _shown(cell: dict[Any, Any], most: int) -> TableCell:
    n = f"n={cell['n']}"
    if cell["verdict"] == NO_VERDICT:
        return TableCell(n, None, cell["notes"], cell["trials"])
    mean, low, high = (f"{cell[key]:+z.2f}" for key in NUMBERS)
    text = f"{mean} [{low}, {high}] {cell['verdict']}" + (f" {n}" if cell["n"] < most else "")
    return TableCell(text, cell[NUMBERS[0]], cell["notes"], cell["trials"])
