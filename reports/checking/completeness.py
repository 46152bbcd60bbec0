"""Find gaps of stored results: trials that did not end well, missing results and missing cells.

The command `check` lists them, and `publish` refuses results that have any.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads.records.result import TrialResult
from workloads.records.status import EXPECTED, Status
from workloads.records.stored import Unreadable

from .. import caveats, stable
from ..attempts import Attempts
from ..conditions import Section, sections
from ..frameworks import display_name, ordered
from ..load import Stored


@dataclass(frozen=True)
class Gap:
    """A gap. `kind` completes "3 trials ..." or "3 results ...", as `noun` says; `example` names this one.

    The example includes its reason if there is one besides the kind. `line` is the check's. `counts`: a fault of the
    results, not a finding that they report.
    """

    kind: str
    example: str
    line: str
    noun: str = "trial"
    counts: bool = True


def gaps(stored: Stored, folder: Path) -> list[Gap]:
    """List the gaps by kind; trials by status. `folder` is the results folder that `stored` was read from."""
    lacking = [_unreadable(item) for item in sorted(stored.unreadable, key=lambda item: not item.other_schema)]
    lacking += [Gap("unfinished", str(path), f"{path}: unfinished: no result is there") for path in stored.unfinished]
    for status in Status:
        lacking += [
            _ended(result, trial_dir)
            for result, trial_dir in zip(stored.results, stored.folders, strict=True)
            if result.status is status is not Status.OK
        ]
    lacking += [
        _attempt(each, number)
        for each in stored.attempts.values()
        for number in range(1, 1 + len(each.every))
        if number - 1 != each.shown
    ]
    with_stable = (folder / stable.FILE).exists()
    for section in sections(stored.results)[0]:
        cells = _missing(section, with_stable)
        lacking += [Gap("planned and not there", cell, f"{folder}: missing: {cell}") for cell in cells]
    lines = caveats.not_run(stored.results)
    return lacking + [Gap("not run", line, f"{folder}: not run of {line}", noun="") for line in lines]


def _unreadable(item: Unreadable) -> Gap:
    kind = "of another schema version" if item.other_schema else "unreadable"
    line = f"{item.path}: cannot be read: {_one_line(item.reason)}"
    return Gap(kind, f"{item.path}: {item.reason}", line, "result")


def _ended(result: TrialResult, trial_dir: Path) -> Gap:
    kind, reason = str(result.status).replace("_", " "), result.reason or "no reason was stored"
    line = f"{trial_dir}: {kind}: {_one_line(reason)}"
    return Gap(kind, f"{result.spec.id}: {reason}", line, counts=result.status not in EXPECTED)


def _attempt(tried: Attempts, number: int) -> Gap:
    """Build the gap for an attempt that is not shown."""
    attempt = tried.every[number - 1]
    line = f"{attempt.folder}: attempt {number} of {len(tried.every)}: {_one_line(str(attempt))}"
    return Gap("an attempt that is not shown", f"{tried.trial}: {attempt}", line, "attempt", counts=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _missing(section: Section, with_stable: bool) -> Iterator[str]:
    """Yield the cells of frameworks x batch sizes x repeats without a trial.

    `with_stable`: repeats ended when a cell was stable, so cells may have different numbers of repeats without a gap.
    """
    cells = [(r.spec.cell.framework, r.spec.cell.batch_size, r.spec.draw.repeat) for r in section.results]
    frameworks, sizes, repeats = map(set, zip(*cells, strict=True)) if cells else (set(), set(), set())
    for framework, size in itertools.product(ordered(frameworks), sorted(sizes)):
        run = {repeat for name, batch_size, repeat in cells if (name, batch_size) == (framework, size)}
        planned = set(range(max(run, default=0) + 1)) if with_stable else repeats
        for repeat in sorted(planned - run):
            yield f"{display_name(framework)}, batch size {size}, repeat {repeat}"
