"""Trials tried more than once: no survivor is shown without its failures, no figure that there was is lost."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import stored
from stored import make, run
from test_report_check import printed, run_trial
from test_report_publish import CREDIT, unpacked

from reports import load, tables, trial_rows
from reports.attempts import format_ordinal
from reports.conditions import group_into_sections
from reports.publishing import contents, publish
from reports.quantities import SPEED
from reports.web import page
from workloads.records.files import write_json
from workloads.records.result import TrialResult
from workloads.records.status import Status

FELL = "the worker was killed by SIGKILL; last event: built"
trial, ended = partial(stored.trial, study="own"), partial(stored.ended, study="own", checks=[])


def attempted(results: Path, result: TrialResult, number: int = 1) -> Path:
    """Store an earlier attempt; return its folder."""
    folder = results / "attempts" / f"{result.spec.id}-{number}"
    folder.mkdir(parents=True)
    write_json(folder / "result.json", result.to_json())
    return folder


def failed_then_ok(results: Path) -> TrialResult:
    """Store two trials; return the one that failed first."""
    run_trial(results, trial("mxnet", 32), start_s=9.01)
    run_trial(results, trial())
    attempted(results, ended(Status.FAILED, FELL))
    return trial()


def test_a_trial_that_failed_and_then_ended_ok_shows_both_attempts_at_its_cell_and_in_a_table(tmp_path: Path) -> None:
    result = failed_then_ok(tmp_path)
    made = make(tmp_path, tmp_path / "report")
    told = f"ok at the 2nd of 2 attempts; the 1st: failed: {FELL}"
    assert f"repeat 0: {told}" in made.markdown
    assert "## Trials that were tried more than once" in made.markdown
    assert "2 trials: 2 ok; 1 tried more than once" in made.markdown
    assert "1 trial gave its number at a later attempt than the first" in made.markdown
    with (tmp_path / "report" / "attempts.csv").open() as file:
        rows = [
            (row["trial"], row["attempt"], row["attempts"], row["shown"], row["ended"]) for row in csv.DictReader(file)
        ]
    assert rows == [(result.spec.id, "1", "2", "False", "failed"), (result.spec.id, "2", "2", "True", "ok")]
    with (tmp_path / "report" / "speed.csv").open() as file:
        notes = {row["framework"]: row["notes"] for row in csv.DictReader(file)}
    assert told in notes["pytorch"] and "attempt" not in notes["mxnet"]


def test_attempts_count_once_however_often_and_by_whatever_path_their_folder_is_given(tmp_path: Path) -> None:
    results = tmp_path / "results"
    failed_then_ok(results)
    copied = shutil.copytree(results, tmp_path / "copy")
    (tmp_path / "link").symlink_to(results)
    for folders in ((results, tmp_path / "x" / ".." / "results", tmp_path / "link"), (results, copied)):
        stored_twice = load.read_all(*folders)
        assert len(stored_twice.results) == 2 and len(stored_twice.attempts) == 1
        frame = trial_rows.build_frame(load.read(*folders))
        assert list(frame["shown"]).count(True) == 2 and len(frame) == 3


def test_the_page_tells_of_a_trial_which_attempt_it_is_and_why_the_others_ended(tmp_path: Path) -> None:
    result = failed_then_ok(tmp_path)
    html = page.build_page(make(tmp_path, tmp_path / "report").report)
    row = html.partition(f'<tr id="trial-{result.spec.id}"')[2].partition("</tr>")[0]
    assert "(attempt 2 of 2: " in row and FELL in row
    assert html.count("(attempt ") == 1


def test_while_the_newest_attempt_has_no_result_the_one_before_stands_in_for_it(tmp_path: Path) -> None:
    attempted(tmp_path, ended(Status.FAILED, FELL))
    attempted(tmp_path, trial(), 2)
    (tmp_path / "trials" / trial().spec.id).mkdir(parents=True)
    made = make(tmp_path, tmp_path / "report")
    told = (
        f"ok at the 2nd of 3 attempts; the 1st: failed: {FELL}; the 3rd: no result: interrupted, or still running; the "
        "2nd stands in for the 3rd"
    )
    assert told in made.markdown
    assert made.report.stored.results == (trial(),)
    assert "1 trial: 1 ok; 1 unfinished; 1 tried more than once" in made.markdown


def test_an_attempt_moved_before_the_next_began_or_skipped_then_is_no_second_one(tmp_path: Path) -> None:
    """The runner was killed between the two."""
    folder = attempted(tmp_path, trial())
    read = load.read(tmp_path)
    assert (read.results, read.folders, read.unfinished, read.attempts) == ((trial(),), (folder,), (), {})
    assert make(tmp_path, tmp_path / "report").report.stored.results == (trial(),)
    stored.store(tmp_path / "2", trial())
    attempted(tmp_path / "2", ended(Status.SKIPPED, "batch size 16 ran out of memory"))
    assert load.read(tmp_path / "2").attempts == {}


def test_a_newest_result_that_is_unreadable_or_none_at_all_is_told_and_stops_nothing(tmp_path: Path) -> None:
    stored.store(tmp_path, trial())
    (path,) = tmp_path.glob("trials/*/result.json")
    path.write_text(path.read_text()[:300])
    attempted(tmp_path, ended(Status.CONTENDED, "others took 40 %"))
    read = load.read(tmp_path)
    assert [item.path for item in read.unreadable] == [path]
    assert [result.status for result in read.results] == [Status.CONTENDED]
    (told,) = map(str, read.attempts.values())
    assert told.startswith("contended at the 1st of 2 attempts; the 2nd: unreadable: not whole JSON")
    stored.store(tmp_path / "2", trial("mxnet"))
    attempted(tmp_path / "2", trial()).joinpath("result.json").write_text("{")
    (tmp_path / "2" / "trials" / trial().spec.id).mkdir()
    made = make(tmp_path / "2", tmp_path / "2" / "report")
    assert [result.spec.cell.framework for result in made.report.stored.results] == ["mxnet"]
    (told,) = map(str, made.report.stored.attempts.values())
    assert told.startswith("none of 2 attempts has a result that can be read; the 1st: unreadable: ")


def test_what_is_published_has_every_attempt_and_its_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FORMATS", ("md", "csv"))
    result = failed_then_ok(tmp_path / "own")
    before = (tmp_path / "own" / "attempts" / f"{result.spec.id}-1" / "result.json").read_bytes()
    done = publish.publish(tmp_path / "own", tmp_path / "published", CREDIT)
    assert done.warnings == ()
    folder = unpacked(done.folder, tmp_path)
    assert (folder / "attempts" / f"{result.spec.id}-1" / "result.json").read_bytes() == before
    assert f"ok at the 2nd of 2 attempts; the 1st: failed: {FELL}" in (done.folder / "report.md").read_text()


def test_the_check_notes_earlier_attempts_and_finds_what_was_changed_in_one(tmp_path: Path) -> None:
    run_trial(tmp_path, trial())
    folder = tmp_path / "trials" / trial().spec.id
    (tmp_path / "attempts").mkdir()
    earlier = folder.rename(tmp_path / "attempts" / f"{folder.name}-1")
    run_trial(tmp_path, trial(), start_s=9.01)
    code, findings, notes, _ = printed(tmp_path)
    assert (code, findings, notes) == (0, [], [f"{earlier}: attempt 1 of 2: ok"])
    data = json.loads((earlier / "result.json").read_text())
    data["figures"]["images_per_s"]["value"] *= 2
    (earlier / "result.json").write_text(json.dumps(data))
    assert any(line.startswith(f"{earlier}: images_per_s: stored: ") for line in printed(tmp_path)[1])


def test_a_disturbed_attempt_that_took_its_place_again_is_neither_missing_nor_out_of_order(tmp_path: Path) -> None:
    """It was the first, came back since the second failed, and was put aside for the one that is shown."""

    def begun(hour: int) -> str:
        return f"2025-11-21T{hour}:00:00+00:00"

    run_trial(tmp_path, trial(started_at=begun(12)))
    attempted(tmp_path, ended(Status.FAILED, FELL, started_at=begun(11)), 2)
    first = attempted(tmp_path, ended(Status.CONTENDED, "others took 40 %", started_at=begun(10)), 3)
    assert printed(tmp_path)[:2] == (0, [])
    write_json(first / "result.json", ended(Status.FAILED, FELL, started_at=begun(10)).to_json())
    assert printed(tmp_path)[:2] == (1, [
        f"{first}: started_at: {begun(10)}, attempt 2, is before {begun(11)}, attempt 1",
        f"{tmp_path / 'attempts'}: {trial().spec.id}: attempts 2, 3: an attempt is missing",
    ])  # fmt: skip


def test_a_skipped_attempt_leaves_the_number_of_a_disturbed_one_free(tmp_path: Path) -> None:
    stored.store(tmp_path, ended(Status.CONTENDED, "others took 40 %"))
    skipped = ended(Status.SKIPPED, "batch size 16 ran out of memory", started_at="2025-11-21T12:00:00+00:00")
    attempted(tmp_path, skipped, 2)
    assert not [line for line in printed(tmp_path)[1] if "missing" in line]


def test_a_size_that_was_skipped_is_a_cell_that_says_so_with_its_reason_and_no_fault(tmp_path: Path) -> None:
    run_trial(tmp_path, trial("pytorch", 32))
    why = "batch size 64 ran out of memory (asked 2 GiB); add --try-all to run it"
    stored.store(tmp_path, ended(Status.OUT_OF_MEMORY, "asked 2 GiB", batch_size=64))
    stored.store(tmp_path, ended(Status.SKIPPED, why, batch_size=128))
    made = make(tmp_path, tmp_path / "report")
    assert f"{why}" in made.markdown and "skipped" in made.markdown
    code, findings, notes, _ = printed(tmp_path)
    assert (code, findings) == (0, []) and any(why in note for note in notes)


def test_a_report_over_attempts_alone_is_made(tmp_path: Path) -> None:
    """The only trial is being run again."""
    attempted(tmp_path, trial())
    (tmp_path / "trials" / trial().spec.id).mkdir(parents=True)
    done = run(tmp_path, "--format", "md", "--tables")
    assert (done.returncode, done.stderr) == (0, "")
    assert "stands in for the 2nd" in done.stdout


def test_a_changed_copy_of_a_result_keeps_the_note_on_its_other_attempts() -> None:
    (section,), _ = group_into_sections([trial()])
    copied = replace(section, results=(replace(trial(), reason="changed"),), attempts={trial().key: "tried twice"})
    assert tables.compute_cells(copied, SPEED)["pytorch", 32].notes == ("repeat 0: tried twice",)


def test_ordinals_are_english() -> None:
    assert [format_ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
