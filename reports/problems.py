"""What a reader must know beside the tables: how many trials, which are not ok, which checks failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from workloads.records.figures import FOREIGN_CPU
from workloads.records.result import TrialResult
from workloads.records.status import Status

from . import captions, tables
from .conditions import Replaced
from .load import Stored


def count(stored: Stored) -> str:
    """All in one line: "27 trials: 26 ok, 1 timeout; 2 unfinished. Started 2025-11-21 (UTC)."."""
    return f"{tally(stored)}. Started {captions.dates(stored.results)} (UTC)."


def tally(stored: Stored) -> str:
    """ "27 trials: 26 ok, 1 timeout; 1 unreadable; 2 unfinished"."""
    by_status = Counter(_status(result) for result in stored.results)
    trials = "trial" if len(stored.results) == 1 else "trials"
    counted = ", ".join(f"{number} {status}" for status, number in by_status.most_common())
    text = f"{len(stored.results)} {trials}" + (f": {counted}" if counted else "")
    for number, what in ((len(stored.unreadable), "unreadable"), (len(stored.unfinished), "unfinished")):
        text += f"; {number} {what}" if number else ""
    return text + ("; a run is still writing" if stored.in_use else "")


def lists(stored: Stored, replaced: Sequence[Replaced]) -> dict[str, tuple[str, ...]]:
    """{what: a line each}: every trial that is not ok or not shown, and every check that failed."""
    bad = [result for result in stored.results if result.status is not Status.OK]
    checks = [(result, check) for result in stored.results for check in result.checks if not check.passed]
    shares = [(r, share) for r in stored.results if (share := tables.figure_of(r, FOREIGN_CPU.name).value)]
    found = {
        "Still being written: what is not finished is not in this report": [str(path) for path in stored.in_use],
        "Trials that are not ok": [f"{_name(r)}: {_status(r)}: {r.reason or 'no reason was stored'}" for r in bad],
        "Trials disturbed by other processes": [
            f"{_name(result)}: they took {share:.0f} % of the cores in the steady window"
            for result, share in shares
            if share > tables.TOLERATED_PERCENT
        ],
        "Checks that failed": [f"{_name(result)}: {check.name}: {check.detail}" for result, check in checks],
        "Replaced by a newer trial of the same cell": [
            f"{_name(pair.old)} of {pair.old.started_at} by {_name(pair.new)} of {pair.new.started_at}"
            for pair in replaced
        ],
        "Unreadable results, left out": [f"{item.path}: {item.reason}" for item in stored.unreadable],
        "Unfinished trials (no result: still running, or killed)": [str(path) for path in stored.unfinished],
    }
    return {title: tuple(lines) for title, lines in found.items() if lines}


def _name(result: TrialResult) -> str:
    return result.spec.id


def _status(result: TrialResult) -> str:
    return str(result.status).replace("_", " ")
