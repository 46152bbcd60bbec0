"""Answers of `python -m runner batch-size` are published with the trials that they rest on, and checked by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import stored
from test_report_check import run_trial

from reports import load
from reports.publishing import archive, contents, publish, published_files
from reports.publishing.citation import Credit
from reports.publishing.publish import list_obstacles
from workloads.records.batch_answers import ANSWERS_FILE, HOST_LIMIT_FILE
from workloads.trainings import target, trained

WORKER = "steps/pytorch-cpu-b00064-r0-0123abcd"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with trainings at two batch sizes, what they answer, and a process of a search."""
    folder = tmp_path / "results"
    for size in (32, 64):
        for repeat in range(3):
            run_trial(folder, stored.trial("pytorch", size, repeat, study="own"))
    trials = load.read(folder).results
    answers = replace(
        stored.answers("pytorch", 64, 2600), trained=(trained(trials, 32, 64),), target=target(trials, 0.5)
    )
    stored.store_answers(folder, answers)
    (folder / WORKER).mkdir(parents=True)
    (folder / WORKER / "events.jsonl").write_text("{}\n")
    (folder / HOST_LIMIT_FILE).write_text("{}")
    return folder


def test_answers_and_the_processes_of_their_search_are_published(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FORMATS", ("md", "csv"))
    done = publish.publish(results, tmp_path / "published", Credit(("Lovelace, Ada",)))
    assert done.warnings == ()
    again = archive.unpack(done.folder / archive.ARCHIVE, tmp_path / "again")
    assert (again / ANSWERS_FILE).read_bytes() == (results / ANSWERS_FILE).read_bytes()
    assert (again / WORKER / "events.jsonl").is_file() and not (again / HOST_LIMIT_FILE).exists()


def test_a_submission_has_no_answers_for_nothing_on_the_other_side_can_judge_them(
    results: Path, tmp_path: Path
) -> None:
    assert published_files.copy(results, tmp_path / "copy", searches=False) == []
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["trials"]


def change_answers(results: Path, where: tuple[str | int, ...], value: object) -> None:
    """Change one value of the first framework's stored answers."""
    path = results / ANSWERS_FILE
    data = json.loads(path.read_text())
    held = data["frameworks"][0]
    for key in where[:-1]:
        held = held[key]
    held[where[-1]] = value
    path.write_text(json.dumps(data))


def test_answers_of_one_version_are_not_judged_by_trials_of_another_in_the_same_folder(results: Path) -> None:
    for size in (32, 64):
        for repeat in range(3):
            later = stored.trial("pytorch", size, repeat, study="own")
            spec = replace(later.spec, installation=replace(later.spec.installation, environment="another"))
            slower = [replace(epoch, train_s=epoch.train_s * (1 + repeat + size)) for epoch in later.epochs]
            run_trial(results, replace(later, spec=spec, epochs=slower))
    assert [line for line in list_obstacles(load.read(results), results) if ANSWERS_FILE in line] == []


def test_words_and_missing_statuses_of_an_earlier_version_are_no_fault_of_an_answer(results: Path) -> None:
    change_answers(results, ("target", "reason"), "as an earlier version said it")
    change_answers(results, ("target", "reached", 0, "status"), None)
    assert list_obstacles(load.read(results), results) == []


@pytest.mark.parametrize(
    ("answer", "where", "line"),
    [
        ("trained", ("trained", 0, "speed_up"), "pytorch: batch size 64 compared with 32 is not what its trials give"),
        ("target", ("target", "batch_size"), "pytorch: the target accuracy 0.5 is not what its trials give"),
    ],
)
def test_answers_that_the_trainings_do_not_give_are_found(
    results: Path, answer: str, where: tuple[str | int, ...], line: str
) -> None:
    assert list_obstacles(load.read(results), results) == []
    change_answers(results, where, 4)
    (found,) = list_obstacles(load.read(results), results)
    assert line in found, answer
