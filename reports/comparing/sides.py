"""Read one side of a comparison: a results folder, or a folder that holds several runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workloads.records.result import Key

from ..conditions import Replaced, Section, group_into_sections
from ..load import ReportError, Stored
from ..publishing import archive


@dataclass(frozen=True)
class Side:
    """One side: a results folder, or several `runs` in one, or one `column` of it; `path` as it was given.

    `label` is the column's name in sentences.
    """

    path: Path
    stored: Stored
    replaced: tuple[Replaced, ...]
    column: str = ""
    label: str = ""
    runs: int = 1

    @property
    def name(self) -> str:
        """Name of the side in a sentence."""
        return f"{self.label} in {self.path}" if self.column else str(self.path)


ReadSide = tuple[Side, list[Section]]


def read_side(path: Path) -> ReadSide:
    """Read a results folder, or one that holds several runs. Raises ReportError as `compare`."""
    stored, run_of = _read_runs(path)
    in_sections, replaced = group_into_sections(stored.results, run_of)
    return Side(path, stored, tuple(replaced), runs=len({*run_of.values()})), in_sections


def _read_runs(path: Path) -> tuple[Stored, dict[Key, int]]:
    """Read everything that the runs hold, and by the key of each result the number of its run.

    Raises ReportError for a run that cannot be read, and for two that hold the same measurement.
    """
    folders = archive.list_results(path)
    runs = [archive.read_stored(folder) for folder in folders]
    for folder, stored in zip(folders, runs, strict=True):
        if not stored.results and not stored.unreadable:
            raise ReportError(f"{folder}: none of its trials has a result; finish that run or remove the folder")
        if not stored.results:
            first = stored.unreadable[0]
            raise ReportError(f"{first.path}: {first.reason}; no result of {folder} can be read")
    _refuse_copies(folders, runs)
    together = Stored(
        tuple(result for stored in runs for result in stored.results),
        tuple(folder for stored in runs for folder in stored.folders),
        tuple(item for stored in runs for item in stored.unreadable),
        tuple(folder for stored in runs for folder in stored.unfinished),
        tuple(folder for stored in runs for folder in stored.in_use),
        {folder: each for stored in runs for folder, each in stored.attempts.items()},
    )
    return together, {result.key: number for number, stored in enumerate(runs) for result in stored.results}


def _refuse_copies(folders: list[Path], runs: list[Stored]) -> None:
    seen: dict[Key, Path] = {}
    for folder, stored in zip(folders, runs, strict=True):
        for trial in {result.key for result in stored.results if result.wall_s}:  # without a length it never began
            if trial in seen:
                raise ReportError(
                    f"{folder}: it also holds a trial of {seen[trial]}: a copy is not a second run; remove it"
                )
            seen[trial] = folder
