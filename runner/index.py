"""Index of stored results, so that a plan need not read them all: a table next to the trials' folders.

It is rebuilt from them whenever it is missing, broken or written by other code. A row counts only for the file that it
was made from, identified by inode, size and time of change. So it may be removed at any time, and everything works
without it if it cannot be written.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from runner import estimate
from runner.gate.judge import group
from runner.machine import description
from runner.results import memory_forecast
from workloads.records.files import INDEX_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult

PATIENCE_S = 5.0  # another run may be writing

Stamp = tuple[int, int, int]  # of a file: inode, size, ns of its last change


class Entry(NamedTuple):
    """Index row of one result. A hundred thousand of them are made in a tenth of a second, unlike dataclasses."""

    id: str
    inode: int
    size: int
    changed_ns: int
    status: str
    group: str  # digest of judge.group
    bare_id: str  # the id without inputs
    memory_id: str
    batch_size: int
    peak_bytes: float | None  # memory_forecast.peak of the trial
    framework: str
    device_kind: str
    workload: str
    computer: str | None  # description.name_computer
    pace: float | None  # estimate.pace_of

    @property
    def stamp(self) -> Stamp:
        """Stamp of the file that the row was made from."""
        return self.inode, self.size, self.changed_ns

    @staticmethod
    def of(result: TrialResult, stamp: Stamp, results: Path) -> Entry:
        """Make the row of a result that is stored under its id in this results folder."""
        spec = result.spec
        return Entry(
            spec.id,
            *stamp,
            str(result.status),
            group_digest(spec),
            replace(spec, inputs={}).id,
            spec.memory_id,
            spec.cell.batch_size,
            memory_forecast.peak(result),
            spec.cell.framework,
            spec.placement.device_kind,
            spec.task.workload,
            description.name_computer(result.machine),
            estimate.pace_of(result, results),
        )


COLUMNS = ", ".join(f'"{each}"' for each in Entry._fields)


def group_digest(spec: TrialSpec) -> str:
    """Digest shared by trials that are compared with each other."""
    return hashlib.sha256(repr(group(spec)).encode()).hexdigest()[:16]


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def read(results: Path, code: str) -> dict[str, Entry]:
    """Return the rows by id; empty if there is no table, or none that `code` made."""
    path = results / INDEX_FILE
    if not path.is_file():
        return {}
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as table:
            if table.execute("SELECT code FROM made_by").fetchall() != [(code,)]:
                return {}
            rows = table.execute(f"SELECT {COLUMNS} FROM trials").fetchall()
            return {row[0]: Entry._make(row) for row in rows}
    except (sqlite3.Error, TypeError, ValueError):
        return {}


def write(results: Path, code: str, entries: Iterable[Entry], gone: Iterable[str], anew: bool) -> None:
    """Insert these rows and remove those of trials that are gone; `anew` replaces the whole table."""
    path = results / INDEX_FILE
    with suppress(sqlite3.Error, OSError):
        if anew:
            path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as table, table:
            table.execute("CREATE TABLE IF NOT EXISTS made_by (code TEXT)")
            table.execute(f"CREATE TABLE IF NOT EXISTS trials ({COLUMNS}, PRIMARY KEY (id))")
            if anew:
                table.execute("INSERT INTO made_by VALUES (?)", (code,))
            places = ", ".join("?" * len(Entry._fields))
            table.executemany(f"INSERT OR REPLACE INTO trials VALUES ({places})", entries)
            table.executemany("DELETE FROM trials WHERE id = ?", ((name,) for name in gone))
