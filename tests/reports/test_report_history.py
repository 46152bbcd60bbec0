"""Cells over commits: which changes are steps, and what is printed and written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from stored import run
from test_report_compare import in_runs, repeats

from reports.comparing import history_command
from reports.comparing.history import CellChange, Confirmation, find_steps, read_entries
from reports.load import ReportError

LEVEL, SPREAD = 1000.0, (1.0, 1.003, 0.998, 1.001, 0.997)


def entry(folder: Path, day: int, factor: float, steady: float = 1.0) -> Path:
    """Store five runs of a day: PyTorch `factor` times as fast as LEVEL at batch size 32, `steady` times at 64."""
    changes = {"started_at": f"2026-11-{day:02}T10:00:00+00:00"}
    results = [
        *repeats([LEVEL * factor * wobble for wobble in SPREAD], batch_size=32, **changes),
        *repeats([LEVEL * steady * wobble for wobble in reversed(SPREAD)], batch_size=64, **changes),
    ]
    return in_runs(folder / f"night-{day}", results)


def nights(folder: Path, factors: Sequence[float]) -> list[Path]:
    return [entry(folder, day, factor) for day, factor in enumerate(factors, start=1)]


def seen(folders: Sequence[Path]) -> list[tuple[int, int, int, str]]:
    """(batch size, entry, entry that it is compared with, what became of it) of each change of speed."""

    def describe(step: CellChange) -> tuple[int, int, int, str]:
        return step.test.batch_size, step.place, step.base, str(step.confirmation)

    return [describe(step) for step in find_steps(read_entries(folders)) if step.test.quantity.name == "speed"]


def test_a_change_is_a_step_where_the_next_entry_shows_it_and_the_level_is_then_the_new_one(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.002, 0.9, 0.901, 0.899, 1.0, 1.001))
    assert seen(folders) == [(32, 3, 1, "confirmed"), (32, 6, 3, "confirmed")]
    assert seen(folders[::-1]) == seen(folders), "the order is that of the measurements"


def test_one_bad_night_is_no_step_and_neither_is_the_return_from_it(tmp_path: Path) -> None:
    assert seen(nights(tmp_path, (1, 0.8, 1.001, 0.999))) == [(32, 2, 1, "not confirmed")]


def test_the_last_entry_awaits_a_second_run(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.001, 0.8))
    assert seen(folders) == [(32, 3, 1, "awaits a second run")]
    again = entry(tmp_path / "again", 4, 0.8)
    assert seen([*folders, again]) == [(32, 3, 1, "confirmed")]


def test_without_a_change_there_is_no_step_and_with_one_run_speed_is_not_judged(tmp_path: Path) -> None:
    assert seen(nights(tmp_path / "same", (1, 1.001, 0.999))) == []
    single = [path / "0" for path in nights(tmp_path / "one", (1, 0.5, 0.5))]
    assert seen(single) == []


def test_a_history_needs_two_folders_each_once(tmp_path: Path) -> None:
    (folder,) = nights(tmp_path, (1,))
    for folders, told in (([folder], "one results folder has no history"), ([folder, folder], "given twice")):
        with pytest.raises(ReportError, match=told):
            read_entries(folders)
    assert {str(each) for each in Confirmation} == {"confirmed", "not confirmed", "awaits a second run"}


@pytest.mark.slow
def test_the_page_names_the_steps_first_draws_each_cell_and_lists_the_entries(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.002, 0.9, 0.901, 0.7))
    ran = run("history", *folders, "--out", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    first = ran.stdout.splitlines()[0]
    assert first.startswith("# PyTorch, batch size 32: 0.900 [0.") and first.endswith("1 change awaits a second run")
    assert "times as fast from entry 3 on" in first
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines() if line[:1] == "|"]
    assert ["3", "night-3", "afa2864", "5", "10", "2026-11-03"] in lines
    page = (tmp_path / "out" / "history.html").read_text()
    assert "Training speed, times that of entry 1" in page and "<svg" in page and "confirmed" in page
    header, *rows = (tmp_path / "out" / f"{history_command.STEPS}.csv").read_text().splitlines()
    assert header.startswith("framework,label,batch_size,quantity,entry,against_entry,effect,effect_low")
    assert [row.rsplit(",", 1)[1] for row in rows] == ["confirmed", "awaits a second run"]
    alone = run("history", folders[0])
    assert (alone.returncode, alone.stdout, alone.stderr.count("\n")) == (2, "", 1)
