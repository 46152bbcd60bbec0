"""Write a comparison as JUnit XML, for continuous integration: a test case per cell, framework's mean and quantity.

A failure is what the gate counts as a loss, a skipped case what it could not decide. Exit code 1 has failures, exit
code 2 for "cannot be told" has skipped cases. Without the gate each established loss is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from workloads.statistics import POWER, Verdict

from ..drawing.frame import plain
from ..frameworks import display_name
from . import comparison_tables, gate
from .cell_tests import AnyTest, CellTest, Untested
from .comparison import Compared, Comparison

ROOM = "batchwise.compare"
FAILURE, SKIPPED = "failure", "skipped"
UNTOLD = {
    Untested.NOT_TESTED: "cannot be tested",
    Untested.NO_VALUE: "no value on a side",
    Untested.ONE_RUN: f"{Untested.ONE_RUN}; {gate.SEVERAL_RUNS}",
}


@dataclass(frozen=True)
class Case:
    """A test case. `ended`: FAILURE, SKIPPED or "" if it passed; `message` says why, `out` what was found."""

    framework: str
    name: str
    ended: str = ""
    message: str = ""
    out: str = ""


def text(comparison: Comparison, tolerated_percent: float | None, every_cell: bool) -> str:
    """Write the file's text; `tolerated_percent` is the gate's, None without one."""
    root = ElementTree.Element("testsuites", name="python -m reports compare")
    suites = {
        f"{number}. {pair.pair.title}": list(_cases(pair, tolerated_percent, every_cell))
        for number, pair in enumerate(comparison.pairs, start=1)
    }
    if comparison.alone:
        suites["not compared"] = [Case("", line, SKIPPED, line) for line in comparison.alone]
    for name, cases in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": plain(name)} | _counts(cases))
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
    element = ElementTree.SubElement(suite, "testcase", classname=plain(room), name=plain(case.name), time="0")
    if case.ended:
        result = ElementTree.SubElement(element, case.ended, message=plain(case.message))
        if case.ended == FAILURE:
            result.set("type", "regression")
            result.text = plain(case.message)
    if case.out:
        ElementTree.SubElement(element, "system-out").text = plain(case.out)


def _cases(compared: Compared, tolerated_percent: float | None, every_cell: bool) -> Iterator[Case]:
    for ending in compared.endings:
        ended = FAILURE if ending.verdict is Verdict.WORSE else ""
        yield Case(ending.framework, f"status, batch size {ending.batch_size}", ended, ending.line, ending.line)
    for test in compared.tests:
        if test.quantity.better:
            yield _case(test, compared.against, tolerated_percent, every_cell)
    for framework, batch_size in compared.only_a:
        message = f"{display_name(framework)}, batch size {batch_size}: only in {compared.names[0]}"
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
        ended, message = FAILURE, gate.loss_line(test)
    elif tolerated_percent is not None and (every_cell or not of_cell) and gate.is_open(test, tolerated_percent):
        ended, message = SKIPPED, gate.open_line(test, tolerated_percent)
    out = f"{against}: {comparison_tables.in_words(test)}" if test.shift == test.shift else ""
    if not ended and test.verdict is Verdict.UNDECIDED:
        found = f"{test.smallest_percent:.1f} {test.unit}"
        out += f"; {100 * POWER:g} % of such comparisons would have found a loss of {found}"
    return Case(test.framework, f"{test.quantity.name}, {where}", ended, message, out)
