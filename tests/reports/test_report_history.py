"""Cells over commits: which changes are steps, and what is printed and written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import ended, run
from test_report_compare import in_runs, repeats

from reports.comparing import history_command
from reports.comparing.history import STATUS, CellChange, Confirmation, find_steps, read_entries
from reports.load import ReportError
from workloads.records.result import TrialResult
from workloads.records.status import Status

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

    return [describe(step) for step in find_steps(read_entries(folders)) if step.quantity == "speed"]


def test_a_change_is_a_step_where_the_next_entry_shows_it_and_the_level_is_then_the_new_one(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.002, 0.9, 0.901, 0.899, 1.0, 1.001))
    assert seen(folders) == [(32, 3, 1, "confirmed"), (32, 6, 3, "confirmed")]
    assert seen(folders[::-1]) == seen(folders), "the order is that of the measurements"


def test_one_bad_night_is_no_step_and_neither_is_the_return_from_it(tmp_path: Path) -> None:
    assert seen(nights(tmp_path, (1, 0.8, 1.001, 0.999))) == [(32, 2, 1, "not confirmed")]


def test_a_level_that_one_disturbed_run_shows_is_none_to_fall_from(tmp_path: Path) -> None:
    found = seen(nights(tmp_path, (1, 1.001, 1.5, 1.1, 1.099)))
    assert found == [(32, 3, 1, "confirmed"), (32, 4, 3, "the first entry differs")]


def test_an_entry_too_noisy_to_tell_agrees_with_no_level(tmp_path: Path) -> None:
    changes = {"started_at": "2026-11-02T10:00:00+00:00"}
    noisy = repeats([LEVEL * factor for factor in (0.7, 1.3, 0.8, 1.25, 1.0)], batch_size=32, **changes)
    folders = [
        entry(tmp_path, 1, 0.8),
        in_runs(tmp_path / "noisy", noisy),
        *nights(tmp_path / "later", (1, 1, 1, 1))[2:],
    ]
    assert seen(folders) == [(32, 3, 1, "the first entry differs")]


def test_the_last_entry_awaits_a_second_run(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.001, 0.8))
    assert seen(folders) == [(32, 3, 1, "awaits a second run")]
    again = entry(tmp_path / "again", 4, 0.8)
    assert seen([*folders, again]) == [(32, 3, 1, "confirmed")]


def test_without_a_change_there_is_no_step_and_with_one_run_speed_is_not_judged(tmp_path: Path) -> None:
    assert seen(nights(tmp_path / "same", (1, 1.001, 0.999))) == []
    single = [path / "0" for path in nights(tmp_path / "one", (1, 0.5, 0.5))]
    assert seen(single) == []
    chapter, summary = history_command.build_history(read_entries(single))
    assert chapter.tables[0].below == (
        "No cell changed in status.",
        "Speed was not judged: one run in entries 1, 2, 3.",
        "Memory and accuracy were not judged: one repeat in entries 1, 2, 3.",
    )
    assert summary.headline == "No step is confirmed in 3 entries; speed, memory and accuracy were not judged"
    written = history_command.write_markdown(chapter, summary)
    assert all(line in written for line in chapter.tables[0].below)


def test_every_cell_without_a_change_is_said_to_have_none_where_all_were_judged(tmp_path: Path) -> None:
    folders = nights(tmp_path, (1, 1.001, 0.999))
    chapter, summary = history_command.build_history(read_entries(folders))
    assert chapter.tables[0].below == ("No cell changed.",)
    assert summary.headline == "No step is confirmed in 3 entries"
    one_run = tmp_path / "one" / "night-4"
    shutil.copytree(entry(tmp_path / "more", 4, 1.0) / "0", one_run)
    chapter, _ = history_command.build_history(read_entries([*folders, one_run]))
    assert chapter.tables[0].below[:2] == (
        "No cell changed in status, speed, memory and accuracy.",
        "Speed was not judged everywhere: one run in entry 4.",
    )


def test_a_history_needs_two_folders_each_once(tmp_path: Path) -> None:
    (folder,) = nights(tmp_path, (1,))
    copy = shutil.copytree(folder, tmp_path / "copy")
    for folders, told in (
        ([folder], "one results folder has no history"),
        ([folder, folder], "given twice"),
        ([folder, copy], "copy: it also holds a trial of .*: a copy is no second run"),
    ):
        with pytest.raises(ReportError, match=told):
            read_entries(folders)
    outcomes = {"confirmed", "not confirmed", "awaits a second run", "the first entry differs"}
    assert {str(each) for each in Confirmation} == outcomes


def test_entries_whose_machines_began_a_trial_in_the_same_second_are_no_copies(tmp_path: Path) -> None:
    folders = [
        in_runs(tmp_path / name, [replace(each, wall_s=wall_s) for each in fast()])
        for name, wall_s in (("a", 20.25), ("b", 20.5))
    ]
    assert len(read_entries(folders).sides) == 2


def night(folder: Path, day: int, *results: list[TrialResult]) -> Path:
    """Store the results as those of a day."""
    every = [replace(each, started_at=f"2026-11-{day:02}T10:00:00+00:00") for part in results for each in part]
    return in_runs(folder / f"night-{day}", every)


def fast(factor: float = 1.0, batch_size: int = 32, **changes: Any) -> list[TrialResult]:
    return repeats([LEVEL * factor * wobble for wobble in SPREAD], batch_size=batch_size, **changes)


def failed(batch_size: int) -> list[TrialResult]:
    return [ended(Status.OUT_OF_MEMORY, "killed", batch_size=batch_size, repeat=each) for each in range(len(SPREAD))]


def test_a_first_entry_that_two_others_differ_from_confirms_no_step(tmp_path: Path) -> None:
    folders = nights(tmp_path / "first", (0.8, 1, 1.001, 0.999))
    assert seen(folders) == [(32, 2, 1, "the first entry differs")]
    _, summary = history_command.build_history(read_entries(folders))
    assert summary.headline.startswith("No step is confirmed in 4 entries; in 1 value the first entry differs")
    (found,) = summary.findings
    assert found.startswith("PyTorch, batch size 32: entry 1 differs from those after it, 1.250 [")
    later = nights(tmp_path / "later", (1, 0.8, 1.001, 0.9, 0.901))
    assert seen(later) == [(32, 2, 1, "not confirmed"), (32, 4, 1, "confirmed")], "entry 3 agreed with entry 1"


def test_a_cell_that_stops_working_is_a_change_that_a_second_run_confirms(tmp_path: Path) -> None:
    folders = [
        night(tmp_path, day, fast(), failed(64) if day in (3, 4, 6) else fast(batch_size=64)) for day in range(1, 7)
    ]
    entries = read_entries(folders)
    steps = [(step.quantity, step.test.batch_size, step.place, str(step.confirmation)) for step in find_steps(entries)]
    assert steps == [
        (STATUS, 64, 3, "confirmed"),
        (STATUS, 64, 5, "not confirmed"),
    ]
    chapter, summary = history_command.build_history(entries)
    assert summary.headline == "PyTorch, batch size 64: out of memory (before: ok) from entry 3 on"
    assert next(iter(chapter.tables[0].tidy["notes"])) == "entry 1: ok; entry 3: out of memory; killed"


def test_a_cell_that_entry_1_lacks_is_followed_and_drawn_from_its_first_entry_on(tmp_path: Path) -> None:
    factors = {2: 1.0, 3: 1.001, 4: 0.9, 5: 0.901}
    folders = [night(tmp_path, 1, fast(), fast(batch_size=16))]
    folders += [night(tmp_path, day, fast(), fast(factor, 64)) for day, factor in factors.items()]
    assert seen(folders) == [(64, 4, 2, "confirmed")]
    chapter, _ = history_command.build_history(read_entries(folders))
    (chart,) = (chart for chart in chapter.charts if chart.name == "history-speed")
    assert [panel.series[0].x for panel in chart.panels] == [(1, 2, 3, 4, 5), (2, 3, 4, 5)]
    assert chart.y_label.endswith("times that of the first entry of its line")
    (line,) = chapter.tables[1].below
    assert line == "Entries 2, 3, 4, 5: Only in entry 1, not compared: PyTorch at batch size 16."


def test_an_entry_with_nothing_in_common_is_listed_and_the_others_are_compared(tmp_path: Path) -> None:
    other = night(tmp_path, 3, fast(0.5, dataset="cifar10"))
    folders = [*nights(tmp_path, (1, 1.001)), other, *(entry(tmp_path, day, 0.9) for day in (4, 5))]
    assert seen(folders) == [(32, 4, 1, "confirmed")]
    chapter, _ = history_command.build_history(read_entries(folders))
    (line,) = chapter.tables[1].below
    assert line.startswith("Entry 3: nothing in common with entry 1: only in entry 1: osu-cnn on digits, ")
    assert "; only in the later entry: osu-cnn on cifar10, " in line and str(tmp_path) not in line
    with pytest.raises(ReportError, match="nothing in common"):
        find_steps(read_entries([folders[0], other]))


def test_a_cell_of_a_series_stays_itself_in_a_night_without_the_other_series(tmp_path: Path) -> None:
    def series(factor: float) -> list[TrialResult]:
        return fast(factor, threads=1)

    factors = {2: 1.001, 3: 0.9, 4: 0.901}
    folders = [night(tmp_path, 1, fast(), series(1))]
    folders += [
        night(tmp_path, day, series(factor), *([fast()] if day == 4 else [])) for day, factor in factors.items()
    ]
    folders.append(night(tmp_path, 5, fast()))
    assert seen(folders) == [(32, 3, 1, "confirmed")]
    chapter, summary = history_command.build_history(read_entries(folders))
    table = chapter.tables[0]
    assert table.head[0] == "Section" and [row[0].text[-9:] for row in table.rows] == ["threads 1"]
    assert list(table.tidy["section"]) == [table.rows[0][0].text]
    assert summary.headline.startswith(f"{table.rows[0][0].text}: PyTorch, batch size 32: 0.900 [")
    assert {chart.name for chart in chapter.charts} >= {"history-speed-1", "history-speed-2"}


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
    assert header.startswith("section,framework,label,batch_size,quantity,entry,against_entry,effect,effect_low")
    assert [row.rsplit(",", 1)[1] for row in rows] == ["confirmed", "awaits a second run"]
    alone = run("history", folders[0])
    assert (alone.returncode, alone.stdout, alone.stderr.count("\n")) == (2, "", 1)
