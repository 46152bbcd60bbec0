"""Write a comparison for programs: all numbers as JSON and CSV, and JUnit XML for continuous integration.

In JSON, unknown numbers are null. JUnit has a test case per cell, framework's mean and quantity. A failure is what the
gate counts as a loss, a skipped case what it could not decide. Exit code 1 has failures, exit code 2 for "cannot be
told" has skipped cases. Without the gate each established loss is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from workloads.records.files import without_nan
from workloads.statistics import POWER, Verdict

from ..condition_text import format_dates
from ..drawing.frame import replace_unprintable
from ..table import format_csv
from ..tables import JOINED
from . import comparison_tables, gate, headline
from .cell_tests import WORDS, AnyTest, CellTest, MeanTest, Untested
from .comparison import Comparison, Ending, PairComparison
from .gate import Ruling, find_smallest_losses
from .headline import GeometricMean
from .sides import Side

SCHEMA_VERSION = 1
ROOM = "batchwise.compare"
FAILURE, SKIPPED = "failure", "skipped"
CELL_COLUMNS = [
    "section", "framework", "batch_size", "quantity", "unit", "n_a", "n_b", "median_a", "median_b", "effect", "value",
    "low", "high", "p_worse_adjusted", "p_better_adjusted", "verdict", "notes",
]  # fmt: skip
MEAN_COLUMNS = [
    "section", "framework", "quantity", "batch_sizes", "untested_batch_sizes", "effect", "value", "low", "high",
    "loss_percent", "loss_at_most_percent", "smallest_loss_found_percent", "p_worse_adjusted", "p_better_adjusted",
    "verdict",
]  # fmt: skip
UNTOLD = {
    Untested.NOT_TESTED: "cannot be tested",
    Untested.NO_VALUE: "no value on a side",
    Untested.ONE_RUN: f"{Untested.ONE_RUN}; {gate.SEVERAL_RUNS}",
}


def write_json(comparison: Comparison, tolerated_percent: float | None, ruling: Ruling | None) -> str:
    """Write the JSON text; `tolerated_percent` and `ruling` are the gate's."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "pairs": [_pair(compared) for compared in comparison.pairs],
        "not_compared": comparison.alone,
        "smallest_loss_found_percent": {
            kind: {name: test.smallest_percent for name, test in tests.items()}
            for kind, tests in find_smallest_losses(comparison.tests).items()
        },
        "gate": ruling
        and {
            "tolerated_percent": tolerated_percent,
            "outcome": ruling.outcome.name.lower(),
            "exit_code": int(ruling.outcome),
            "head": ruling.head,
            "lines": ruling.lines,
        },
    }
    return json.dumps(without_nan(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _side(side: Side) -> dict[str, Any]:
    stored = side.stored
    return {
        "path": str(side.path),
        "column": side.column or None,
        "runs": side.runs,
        "trials": len(stored.results),
        "started": format_dates(stored.results),
        "unreadable": len(stored.unreadable),
        "unfinished": len(stored.unfinished),
        "replaced": len(side.replaced),
    }


def _pair(compared: PairComparison) -> dict[str, Any]:
    def places(of: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
        return [{"framework": framework, "batch_size": batch_size} for framework, batch_size in of]

    return {
        "title": compared.pair.title,
        "differences": [{"what": what, "a": a, "b": b} for what, a, b in compared.pair.differences],
        "same_trials": compared.pair.same_trials,
        "geometric_means": [_geometric_mean(mean) for mean in headline.compute_means(compared)],
        "frameworks": [_mean(mean) for mean in compared.means],
        "cells": [_cell(cell) for cell in compared.cells],
        "ended_otherwise": [
            {
                "framework": ending.framework,
                "batch_size": ending.batch_size,
                "a": ending.ended_a,
                "b": ending.ended_b,
                "verdict": WORDS[ending.verdict],
                "reason": ending.reason,
            }
            for ending in compared.endings
        ],
        "only_a": places(compared.only_a),
        "only_b": places(compared.only_b),
        "not_compared": compared.uncompared,
    }


def _geometric_mean(mean: GeometricMean) -> dict[str, Any]:
    """Return the fields of a mean; `framework` is null for all frameworks."""
    value, low, high = mean.effect
    return {
        "quantity": mean.quantity.name,
        "framework": mean.framework or None,
        "cells": mean.cells,
        "ratio": value,
        "low": low,
        "high": high,
        "tells_a_difference": mean.is_significant,
    }


def _test(test: AnyTest) -> dict[str, Any]:
    value, low, high = test.effect
    return {
        "framework": test.framework,
        "quantity": test.quantity.name,
        "better": test.quantity.better,
        "effect": "difference_points" if test.in_points else "ratio",
        "value": value,
        "low": low,
        "high": high,
        "loss_percent": test.loss_percent if test.quantity.better else None,
        "loss_at_most_percent": test.at_most_percent if test.is_judged else None,
        "smallest_loss_found_percent": test.smallest_percent if test.is_judged else None,
        "p_worse_adjusted": test.p_worse,
        "p_better_adjusted": test.p_better,
        "verdict": WORDS[test.verdict],
    }


def _mean(mean: MeanTest) -> dict[str, Any]:
    return _test(mean) | _sizes(mean)


def _sizes(mean: MeanTest) -> dict[str, tuple[int, ...]]:
    return {"batch_sizes": mean.batch_sizes, "untested_batch_sizes": mean.untested}


def _cell(cell: CellTest) -> dict[str, Any]:
    return _test(cell) | {
        "batch_size": cell.batch_size,
        "unit": cell.quantity.unit,
        "n_a": cell.n_a,
        "n_b": cell.n_b,
        "median_a": cell.median_a,
        "median_b": cell.median_b,
        "notes": cell.notes,
        "trials": cell.trials,
    }


def cells_csv(comparison: Comparison) -> str:
    """Write CELL_COLUMNS, a row for each quantity of each cell, and a row "status" for each cell that ended
    differently.
    """
    rows: list[dict[str, Any]] = []
    for pair in comparison.pairs:
        rows += [_ending_row(ending) | {"section": pair.pair.title} for ending in pair.endings]
        rows += [_cell(cell) | {"section": pair.pair.title, "notes": _joined(cell.notes)} for cell in pair.cells]
    frame = pd.DataFrame(rows, columns=CELL_COLUMNS).astype({"n_a": "Int64", "n_b": "Int64"})
    return format_csv(frame)


def means_csv(comparison: Comparison) -> str:
    """Write MEAN_COLUMNS, a row for each framework and quantity of each pair; losses of accuracies in points."""
    rows = [
        _mean(mean)
        | {name: " ".join(map(str, sizes)) for name, sizes in _sizes(mean).items()}
        | {"section": pair.pair.title}
        for pair in comparison.pairs
        for mean in pair.means
    ]
    return format_csv(pd.DataFrame(rows, columns=MEAN_COLUMNS))


def _ending_row(ending: Ending) -> dict[str, Any]:
    ended = map(": ".join, zip(ending.names, (ending.ended_a, ending.ended_b), strict=True))
    return {
        "framework": ending.framework,
        "batch_size": ending.batch_size,
        "quantity": "status",
        "verdict": WORDS[ending.verdict],
        "notes": _joined([*ended, ending.reason]),
    }


def _joined(notes: Iterable[str]) -> str:
    return JOINED.join(note for note in notes if note)


@dataclass(frozen=True)
class Case:
    """A test case. `ended`: FAILURE, SKIPPED or "" if it passed; `message` says why, `out` what was found."""

    framework: str
    name: str
    ended: str = ""
    message: str = ""
    out: str = ""


def write_junit(comparison: Comparison, tolerated_percent: float | None, every_cell: bool) -> str:
    """Write the file's text; `tolerated_percent` is the gate's, None without one."""
    root = ElementTree.Element("testsuites", name="python -m reports compare")
    suites = {
        f"{number}. {pair.pair.title}": list(_cases(pair, tolerated_percent, every_cell))
        for number, pair in enumerate(comparison.pairs, start=1)
    }
    if comparison.alone:
        suites["not compared"] = [Case("", line, SKIPPED, line) for line in comparison.alone]
    for name, cases in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": replace_unprintable(name)} | _counts(cases))
        for case in cases:
            _add(suite, case)
    root.attrib |= _counts([case for cases in suites.values() for case in cases])
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    ended = [case.ended for case in cases]
    return {
        "tests": str(len(cases)),
        "failures": str(ended.count(FAILURE)),
        "errors": "0",
        "skipped": str(ended.count(SKIPPED)),
        "time": "0",
    }


def _add(suite: ElementTree.Element, case: Case) -> None:
    room = f"{ROOM}.{case.framework}" if case.framework else ROOM
    element = ElementTree.SubElement(
        suite, "testcase", classname=replace_unprintable(room), name=replace_unprintable(case.name), time="0"
    )
    if case.ended:
        result = ElementTree.SubElement(element, case.ended, message=replace_unprintable(case.message))
        if case.ended == FAILURE:
            result.set("type", "regression")
            result.text = replace_unprintable(case.message)
    if case.out:
        ElementTree.SubElement(element, "system-out").text = replace_unprintable(case.out)


def _cases(compared: PairComparison, tolerated_percent: float | None, every_cell: bool) -> Iterator[Case]:
    for ending in compared.endings:
        ended = FAILURE if ending.verdict is Verdict.WORSE else ""
        yield Case(ending.framework, f"status, batch size {ending.batch_size}", ended, ending.line, ending.line)
    for test in compared.tests:
        if test.quantity.better:
            yield _case(test, compared.against, tolerated_percent, every_cell)
    for framework, batch_size in compared.only_a:
        message = f"{compared.pair.named(framework)}, batch size {batch_size}: only in {compared.names[0]}"
        yield Case(framework, f"batch size {batch_size}", SKIPPED, message)
    for line in compared.uncompared:
        yield Case("", line, SKIPPED, line)


def _case(test: AnyTest, against: str, tolerated_percent: float | None, every_cell: bool) -> Case:
    of_cell = isinstance(test, CellTest)
    where = f"batch size {test.batch_size}" if isinstance(test, CellTest) else "mean over its batch sizes"
    ended = message = ""
    if test.verdict in UNTOLD:
        notes = test.notes if isinstance(test, CellTest) and test.verdict is not Untested.ONE_RUN else ()
        ended, message = SKIPPED, "; ".join(notes) or UNTOLD[test.verdict]
    elif gate.is_loss(test, tolerated_percent or 0.0):
        ended, message = FAILURE, gate.describe_loss(test)
    elif tolerated_percent is not None and (every_cell or not of_cell) and gate.is_open(test, tolerated_percent):
        ended, message = SKIPPED, gate.describe_open(test, tolerated_percent)
    out = f"{against}: {comparison_tables.describe_test(test)}" if test.shift == test.shift else ""
    if not ended and test.verdict is Verdict.UNDECIDED:
        found = f"{test.smallest_percent:.1f} {test.unit}"
        out += f"; {100 * POWER:g} % of such comparisons would have found a loss of {found}"
    return Case(test.framework, f"{test.quantity.name}, {where}", ended, message, out)
