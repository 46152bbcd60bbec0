"""Read all attempts at a trial: earlier ones, why they ended, and which one a report shows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workloads.records import files as numbered
from workloads.records.files import ATTEMPTS, RESULT_FILE
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored import parse_result
from workloads.words import format_count

from .sentences import status_words
from .table import Columns, Table, TableCell, build_rows, make_text_column

NAME, TITLE = "attempts", "Trials that were tried more than once"
HOW = (
    "A report shows the figures of the newest attempt that has a result. The other attempts are kept as they ended. "
    "A trial that ended well only at a later attempt may fail again."
)
NO_RESULT = "no result"
BLOCKS = ROOMS[Kind.BLOCKS]
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class AttemptResult:
    """An attempt with its result.

    If there is none, `error` says why it cannot be read, or is None if no result exists.
    """

    folder: Path
    result: TrialResult | None = None
    error: ValueError | None = None
    digest: bytes = b""  # of the result's file

    @property
    def ended(self) -> str:
        """Outcome of the attempt, in a word or two."""
        if self.result is not None:
            return status_words(self.result.status)
        return UNREADABLE if self.error else NO_RESULT

    @property
    def reason(self) -> str:
        """Reason why an attempt is not ok."""
        if self.result is not None:
            return self.result.reason or ""
        return str(self.error) if self.error else "interrupted, or still running"

    def __str__(self) -> str:
        return f"{self.ended}: {self.reason}" if self.reason else self.ended


@dataclass(frozen=True)
class Attempts:
    """Several attempts at one trial, in order.

    `shown` is the index of the one that the report shows: the newest with a readable result. It is None if there is
    none.
    """

    trial: str
    every: tuple[AttemptResult, ...]
    shown: int | None

    @property
    def place(self) -> str:
        """Position of the shown attempt, as "2 of 3"."""
        return f"{0 if self.shown is None else self.shown + 1} of {len(self.every)}"

    def __str__(self) -> str:
        """Say how often it was tried and how the others ended, as a sentence without a full stop."""
        count = len(self.every)
        if self.shown is None:
            head = f"none of {format_count(count, 'attempt')} has a result that can be read"
        else:
            whole = format_count(count, "attempt")
            head = f"{self.every[self.shown].ended} at the {format_ordinal(self.shown + 1)} of {whole}"
        others = [f"the {format_ordinal(n)}: {each}" for n, each in enumerate(self.every, 1) if n - 1 != self.shown]
        if self.shown is not None and self.shown < count - 1:
            others.append(f"the {format_ordinal(self.shown + 1)} stands in for the {format_ordinal(count)}")
        return "; ".join([head, *others])


def read(folder: Path) -> AttemptResult:
    """Read an attempt from a trial's folder. One that may not be opened counts as unreadable."""
    try:
        content = (folder / RESULT_FILE).read_bytes()
        return AttemptResult(folder, parse_result(content), None, hashlib.sha256(content).digest())
    except FileNotFoundError:
        return AttemptResult(folder)
    except OSError as error:
        return AttemptResult(folder, None, ValueError(error.strerror))
    except ValueError as error:
        return AttemptResult(folder, None, error)


def find_earlier_attempts(results: Path) -> dict[str, list[AttemptResult]]:
    """Return {a trial's id: attempts before the newest, in order}; leaves out attempts that were skipped."""
    folders = numbered.attempts_by_id(results / ATTEMPTS)
    found = {name: [each for path in paths if not _left_out(each := read(path))] for name, paths in folders.items()}
    return {name: attempts for name, attempts in found.items() if attempts}


def _left_out(attempt: AttemptResult) -> bool:
    return attempt.result is not None and attempt.result.status is Status.SKIPPED


def trial_id(folder: Path) -> str:
    """Return the id of the trial that an attempt's folder belongs to, whether the newest or an earlier one."""
    rooms = ATTEMPTS, BLOCKS  # folders of earlier attempts, which are numbered; folders of trials are not
    name = numbered.NUMBERED.fullmatch(folder.name) if folder.parent.name in rooms else None
    return name["id"] if name else folder.name


def strip_results_folder(folder: Path) -> str:
    """Path of a trial or an attempt without the results folder, whose path stays private."""
    return f"{folder.parent.name}/{folder.name}"


def format_ordinal(number: int) -> str:
    """Format "1st", "2nd", "11th"."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"


def build_table(trials: Iterable[Attempts]) -> Table | None:
    """Build a table with one row per attempt; None if every trial was tried once."""
    records = [
        {
            "trial": each.trial,
            "attempt": number,
            "attempts": len(each.every),
            "shown": number - 1 == each.shown,
            "ended": attempt.ended,
            "started_at": attempt.result.started_at if attempt.result else None,
            "reason": attempt.reason,
            "folder": strip_results_folder(attempt.folder),
        }
        for each in trials
        for number, attempt in enumerate(each.every, 1)
    ]
    shown: Columns = {
        "Trial": lambda row: TableCell(row["trial"], None, (), (row["trial"],)),
        "Attempt": lambda row: TableCell(f"{row['attempt']} of {row['attempts']}{' (shown)' if row['shown'] else ''}"),
        "Ended": make_text_column("ended"),
        "Started": lambda row: TableCell(row["started_at"] or ""),
        "Reason": make_text_column("reason"),
    }
    return Table(NAME, TITLE, *build_rows(records, shown), below=(HOW,), words=True) if records else None
