"""trials.csv and trials.parquet: a row per trial and attempt."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from conftest import ROOT
from stored import ended, numbers, run, store, trial
from test_report_attempts import attempted

import reports
from reports.trial_rows import COLUMNS, write_documentation
from workloads.records.check_name import CheckName
from workloads.records.figures import FIGURES, TARGET_TIME, Figure
from workloads.records.result import Check
from workloads.records.status import Status


def stored(folder: Path) -> Path:
    """Store a failed attempt before an ok trial, one out of memory, one that cannot be read, one that never ended."""
    ok = trial(checks=[Check(CheckName.GATE, True, "the same")])
    results = store(folder, ok, ended(Status.OUT_OF_MEMORY, "asked 9", "mxnet", 64))
    attempted(results, ended(Status.FAILED, "=it fell"))
    torn, unfinished = (results / "trials" / name for name in ("torn-1", "unfinished-1"))
    torn.mkdir()
    (torn / "result.json").write_text("{")
    unfinished.mkdir()
    return results


def test_every_trial_and_every_attempt_is_a_row_whatever_became_of_it(tmp_path: Path) -> None:
    frame = reports.trials(stored(tmp_path))
    ok, full = trial(), ended(Status.OUT_OF_MEMORY, "", "mxnet", 64)
    named = frame.set_index(["trial", "attempt"])
    assert set(named.index) == {(ok.spec.id, 1), (ok.spec.id, 2), (full.spec.id, 1), ("torn-1", 1), ("unfinished-1", 1)}
    assert named["status"].to_dict() == {
        (ok.spec.id, 1): "failed",
        (ok.spec.id, 2): "ok",
        (full.spec.id, 1): "out_of_memory",
        ("torn-1", 1): "unreadable",
        ("unfinished-1", 1): "no result",
    }
    assert list(frame[frame["shown"]]["trial"]) == sorted([ok.spec.id, full.spec.id])
    shown = frame[(frame["trial"] == ok.spec.id) & frame["shown"]].iloc[0].to_dict()
    told = [shown[name] for name in ("attempts", "framework_label", "batch_size", "verified")]
    assert told == [2, "PyTorch", 32, True]
    assert shown["images_per_s"] == ok.figures["images_per_s"].value
    assert shown["folder"] == f"trials/{ok.spec.id}", "no path of whoever measured it"
    assert named["images_per_s"].count() == 1, "a figure of a trial that has none"
    assert list(frame[frame["trial"] == full.spec.id]["reason"]) == ["asked 9"]


def test_a_row_of_a_contended_trial_has_no_figure_that_others_may_have_changed(tmp_path: Path) -> None:
    disturbed = trial(status=Status.CONTENDED, reason="others", figures={"foreign_cpu_percent": Figure(40.0, "s")})
    row = reports.trials(store(tmp_path, disturbed)).iloc[0].to_dict()
    assert all(pd.isna(row[name]) for name in ("images_per_s", "cpu_percent", "import_s", "host_memory_pss_bytes"))
    assert (row["test_accuracy"], row["foreign_cpu_percent"]) == (disturbed.figures["test_accuracy"].value, 40.0)
    assert row["host_memory_bytes"] == disturbed.figures["host_memory_bytes"].value


def test_the_files_say_the_same_and_no_spreadsheet_runs_them_and_a_notebook_shows_the_report(tmp_path: Path) -> None:
    results = stored(tmp_path)
    assert run(results, "--format", "csv", "parquet").returncode == 0
    whole, text = pd.read_parquet(results / "report" / "trials.parquet"), pd.read_csv(results / "report" / "trials.csv")
    pd.testing.assert_frame_equal(whole, reports.trials(results), check_dtype=False)
    assert list(text.columns) == list(whole.columns) == [column.name for column in COLUMNS]
    assert text["images_per_s"].equals(whole["images_per_s"].astype(float))
    assert "'=it fell" in set(text["reason"])
    sizes = {row["batch_size"] for row in numbers(results / "report" / "trials.csv")}
    assert sizes == {"32", "64", ""}, "what has no result makes no other size a fraction"
    shown = reports.read(stored(tmp_path / "2"))._repr_markdown_()
    assert shown.startswith("# PyTorch") and "| PyTorch" in shown


def test_every_figure_has_a_column_and_every_column_is_documented() -> None:
    names = [column.name for column in COLUMNS]
    assert set(FIGURES) - {TARGET_TIME.name} < set(names) and len(names) == len(set(names))
    assert all(column.meaning for column in COLUMNS)
    told = (ROOT / "docs" / "reference" / "columns.md").read_text()
    assert told == write_documentation(), "docs/reference/columns.md: made by python -m reports.trial_rows"
