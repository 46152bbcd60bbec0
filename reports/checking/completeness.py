"""Find gaps of stored results, and other reasons against publishing them.

Gaps are trials that did not end well, missing results and missing cells. The command `check` lists them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.records.build import column_of
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import EXPECTED, Status
from workloads.records.stored import Unreadable

from .. import caveats, stable
from ..attempts import Attempts
from ..conditions import Section, group_into_sections, has_own_columns, is_of_series, read_series
from ..frameworks import order_frameworks
from ..load import Stored
from ..sentences import status_words
from . import recheck

SHOWN = 3  # examples of each kind of obstacle


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


@dataclass(frozen=True)
class Obstacle:
    """A reason against publishing: a sentence without its full stop, and the check's line for each example."""

    sentence: str
    lines: tuple[str, ...]


def find_gaps(stored: Stored, folder: Path) -> list[Gap]:
    """List the gaps by kind; trials by status. `folder` is the results folder that `stored` was read from."""
    lacking = [_unreadable(item) for item in sorted(stored.unreadable, key=lambda item: not item.other_schema)]
    lacking += [Gap("unfinished", str(path), f"{path}: unfinished: it has no result") for path in stored.unfinished]
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
    for section in group_into_sections(stored.results)[0]:
        cells = _missing(section, with_stable)
        lacking += [Gap("planned and not there", cell, f"{folder}: missing: {cell}") for cell in cells]
    lines = caveats.describe_missing_runs(stored.results)
    return lacking + [Gap("not run", line, f"{folder}: not run of {line}", noun="") for line in lines]


def _unreadable(item: Unreadable) -> Gap:
    kind = "of another schema version" if item.other_schema else "unreadable"
    line = f"{item.path}: cannot be read: {_one_line(item.reason)}"
    return Gap(kind, f"{item.path}: {item.reason}", line, "result")


def _ended(result: TrialResult, trial_dir: Path) -> Gap:
    kind, reason = status_words(result.status), result.reason or "no reason was stored"
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
    specs = {result.spec.cell.framework: result.spec for result in section.results}
    asked = {name: _planned_sizes(spec, cells) for name, spec in specs.items()}
    for framework, size in itertools.product(order_frameworks(frameworks), sorted(sizes)):
        if size not in asked[framework]:
            continue
        run = {repeat for name, batch_size, repeat in cells if (name, batch_size) == (framework, size)}
        planned = set(range(max(run, default=0) + 1)) if with_stable else repeats
        for repeat in sorted(planned - run):
            yield f"{section.named(framework)}, batch size {size}, repeat {repeat}"


def _planned_sizes(spec: TrialSpec, cells: Sequence[tuple[str, int, int]]) -> set[int]:
    """Batch sizes at which this trial's column was to be run.

    Those of its series where series of its study have columns of their own, else those of all columns with its profile.
    `cells` are (framework, batch size, repeat).
    """
    if has_own_columns(spec.study):
        parts = read_series(spec.study).values()
        return {size for part in parts if is_of_series(spec, part) for size in part.batch_sizes}
    profile = spec.cell.column.mode.profile
    return {size for name, size, _ in cells if column_of(name).mode.profile == profile}


def find_obstacles(stored: Stored, folder: Path) -> list[Obstacle]:
    """List the obstacles that do not depend on the machine that looks for them."""
    lacking = [gap for gap in find_gaps(stored, folder) if gap.counts]
    found = []
    for (kind, noun), group in itertools.groupby(lacking, key=lambda gap: (gap.kind, gap.noun)):
        of_kind = list(group)
        if noun:
            found += count_obstacle(kind, [gap.example for gap in of_kind], [gap.line for gap in of_kind], noun)
        else:
            found += [Obstacle(f"{kind} of {gap.example}", (gap.line,)) for gap in of_kind]
    unknown = [r.spec.id for r in stored.results if not r.machine.get("commit")]
    found += count_obstacle(
        "of a commit that is unknown", unknown, [f"{one}: its commit is unknown" for one in unknown]
    )
    dirty = [f"{r.spec.id}: {r.machine['commit']}" for r in stored.results if _dirty(r)]
    found += count_obstacle(
        "of a commit with uncommitted changes", dirty, [f"{one}: uncommitted changes" for one in dirty]
    )
    return found + count_obstacle("by python -m reports check", recheck.check_trials(stored, folder), noun="finding")


def count_obstacle(
    kind: str, examples: Sequence[str], lines: Sequence[str] | None = None, noun: str = "trial"
) -> list[Obstacle]:
    """Build ["2 trials failed (a: reason; b: reason)"], or an empty list without examples."""
    count = len(examples)
    more = f"; and {count - SHOWN} more" if count > SHOWN else ""
    text = "; ".join(" ".join(example.split()) for example in examples[:SHOWN])
    sentence = f"{count} {noun}{'s' if count > 1 else ''} {kind} ({text}{more})"
    return [Obstacle(sentence, tuple(examples if lines is None else lines))] if count else []


def _dirty(result: TrialResult) -> bool:
    return str(result.machine.get("commit") or "").endswith("-dirty")
