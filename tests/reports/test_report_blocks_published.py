"""Blocks of steps are checked and published as trials are."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from stored import spec_of_blocks, store_blocks, study_of_blocks
from test_report_publish import CREDIT

from reports import check, export, load
from reports.load import ReportError
from reports.neighbours import measurements
from reports.publishing import archive, contents, publication, publish
from reports.reproduction.claim_tests import Outcome
from workloads.records.blocks import BLOCKS_FILE
from workloads.records.columns import COLUMNS
from workloads.records.files import EVENTS_FILE, RESULT_FILE, SAMPLES_FILE
from workloads.records.status import Status

PAGE = export.MAIN[0]
HEADLINE = (
    "Is a round batch size faster per image than its neighbours? Faster: 128 (PyTorch, training; PyTorch, evaluation; "
    "MXNet, training; MXNet, evaluation)"
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two frameworks of a known commit, where 128 is 5 % faster than its neighbours."""
    folder = study_of_blocks(tmp_path / "results", {128: 0.05}, frameworks=("pytorch", "mxnet"), process_spread=0.001)
    for process in (folder / "blocks").iterdir():
        (process / EVENTS_FILE).touch()
        (process / SAMPLES_FILE).write_text(",".join(COLUMNS) + "\n")
    return folder


def process_of(results: Path) -> Path:
    return next(iter(sorted((results / "blocks").iterdir())))


def test_a_study_of_blocks_is_published_with_its_page_picture_findings_and_claims(
    results: Path, tmp_path: Path
) -> None:
    folder = publish.publish(results, tmp_path / "published", CREDIT).folder
    assert {PAGE, "powers-of-two.png", "RULES.md", archive.ARCHIVE, "CITATION.cff"} <= {
        path.name for path in folder.iterdir()
    }
    facts = publication.read(folder / publication.FILE)
    assert facts.headline == HEADLINE and facts.picture == "powers-of-two.png"
    assert len(facts.findings) == 4 and all(": 128 is " in line for line in facts.findings)
    assert facts.trials == {"ok": 12}
    told = {
        (each.framework, each.text.partition(":")[0]): (each.published["table"], each.measured)
        for each in facts.claims
        if "powers of two are" in each.text and "multiples" not in each.text
    }
    assert told == {
        (framework, f"{{framework}}, {phase}"): (Outcome.UNCERTAIN, Outcome.HOLDS)
        for framework in ("pytorch", "mxnet")
        for phase in ("training", "evaluation")
    }
    index = (tmp_path / "published" / "index.html").read_text()
    assert f"{folder.name}/{PAGE}" in index and HEADLINE in index
    assert "Training: powers of two are faster per image than their neighbours" in index


@pytest.mark.slow
def test_the_page_can_be_made_again_from_the_archive(results: Path, tmp_path: Path) -> None:
    folder = publish.publish(results, tmp_path / "published", CREDIT).folder
    archive.unpack(folder / archive.ARCHIVE, tmp_path / "again")
    with chdir(tmp_path / "again"):
        contents.write_report(Path("made"), (), ("html",))
        assert Path("made", PAGE).read_bytes() == (folder / PAGE).read_bytes()
    assert not publish.publish(folder, tmp_path / "published", CREDIT).fresh


def test_a_study_of_blocks_that_lacks_something_is_refused_and_anyway_says_so(results: Path, tmp_path: Path) -> None:
    spec = spec_of_blocks("pytorch", (127, 128, 129), 7)
    store_blocks(results, spec, [], Status.CONTENDED)
    with pytest.raises(ReportError, match="1 trial contended"):
        publish.publish(results, tmp_path / "published", CREDIT)
    folder = publish.publish(results, tmp_path / "published", CREDIT, anyway=True).folder
    (mark,) = publication.read(folder / publication.FILE).marks
    assert "1 trial contended" in mark and mark in (folder / PAGE).read_text()


@pytest.mark.parametrize("damage", ["torn", "empty", "another's"])
def test_a_process_whose_files_are_not_its_own_is_a_finding_of_the_check(
    results: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main([str(results)]) == 0, capsys.readouterr().out
    path = process_of(results)
    if damage == "torn":
        (path / BLOCKS_FILE).write_text('{"blocks": [')
    elif damage == "empty":
        (path / BLOCKS_FILE).write_text('{"blocks": []}')
    else:
        data = json.loads((path / RESULT_FILE).read_text())
        data["spec"]["draw"]["repeat"] = 9
        (path / RESULT_FILE).write_text(json.dumps(data))
    capsys.readouterr()
    assert check.main([str(results)]) == 1
    told = capsys.readouterr().out
    assert str(path) in told and ("blocks.json" in told or "wrong folder" in told)


def test_attempts_before_the_newest_are_counted_and_no_process_of_their_own(results: Path) -> None:
    path = process_of(results)
    path.with_name(f"{path.name}-1").mkdir()
    everything = load.read_all(results)
    assert len(everything.results) == 12 and not everything.unfinished
    assert [each.place for each in everything.attempts.values()] == ["2 of 2"]
    assert sum(len(each.processes) for each in measurements(everything)[0]) == 12


def test_a_process_whose_newest_result_cannot_be_read_is_shown_as_it_was_before_that(results: Path) -> None:
    path = process_of(results)
    shutil.copytree(path, path.with_name(f"{path.name}-1"))
    (path / RESULT_FILE).write_text("{")
    everything = load.read_all(results)
    ([measurement], _) = measurements(everything)
    assert len(measurement.processes) == 12
    assert [each.path.parent for each in everything.unreadable] == [path]
