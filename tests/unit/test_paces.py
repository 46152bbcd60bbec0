"""Measurements on this machine correct every estimate, whatever the results folder; little is read for it."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from conftest import PROJECT

from runner import storage
from runner.batch_size import command
from runner.batch_size.largest import Bound
from runner.batch_size.question import forecast_answers
from runner.estimate import LIMIT_TIMES, MOST_FOLDERS, MOST_OF_FOLDER, MOST_OWN, find_results_folders, read_paces
from runner.machine import description
from runner.request import cli, parser
from runner.request.cli import Request
from runner.request.plan import build_plan
from runner.setup import collect_installations
from workloads.records.batch_answers import Limit
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import TrialSpec
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.study import LIMIT_S

WORDS = ("--framework", "numpy", "--isolation", "here", "--workload", "tiny", "--dataset", "digits-64", "--device",
         "cpu", "--batch-size", "16", "--epochs", "1", "--results", "results/next")  # fmt: skip
HERE, ELSEWHERE = "this processor", "another processor"
IMAGES = 64


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(description, "read_cpu_model", lambda: HERE)


def asked(*words: str) -> Request:
    return cli.build_request(parser.run_parser().parse_args([*WORDS, *words]), PROJECT)


def planned(request: Request) -> tuple[TrialSpec, float]:
    """(the request's only trial, the seconds that it may take)."""
    plan = build_plan(request, collect_installations(request), range(1), {})
    (spec,) = plan.trials
    return spec, plan.estimates_s[spec.id]


def store(folder: str, spec: TrialSpec, wall_s: float, computer: str | None, changed_s: float = 0.0) -> None:
    """Store a trial that was trained to its end, its result written so many seconds from now."""
    epoch = Epoch(train_s=1.0, steps=4, images=IMAGES, train_loss=1.0, evaluate_s=1.0, test_loss=1.0, test_accuracy=0.5)
    machine: dict[str, object] = {"cpu_model": computer, "gpus": []}
    result = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", wall_s, machine=machine, epochs=[epoch])
    path = Path(folder, "trials", spec.id, RESULT_FILE)
    path.parent.mkdir(parents=True)
    write_json(path, result.to_json())
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + changed_s))


def test_plans_batch_size_plans_and_time_limits_learn_from_every_results_folder_of_this_machine() -> None:
    spec, guess_s = planned(asked())
    assert spec.timeout_s == LIMIT_S
    store("results/before", spec, 100 * guess_s, HERE)
    slower, slower_s = planned(asked())
    assert slower_s == pytest.approx(100 * guess_s)
    assert slower.timeout_s == pytest.approx(LIMIT_TIMES * 100 * guess_s, abs=1) and slower.id == spec.id

    def searched_s() -> float:
        request, question = command.build_request([*WORDS[:10], "--answer", "fastest"], PROJECT)
        (answer,) = forecast_answers(request, question, Bound(Limit.ASKED, 2**30))
        return answer.seconds - answer.trials * question.window_s

    learnt_s = searched_s()
    Path("results").rename("elsewhere")
    assert learnt_s == pytest.approx(100 * searched_s())


@pytest.mark.parametrize(
    ("folder", "computer", "counted"),
    [
        ("results/before", HERE, True),
        ("results/kept/before", HERE, True),
        ("results/before", ELSEWHERE, False),
        ("results/before", None, False),
        ("results/next", ELSEWHERE, True),  # the folder in use is of the machines that its study runs on
        ("others/before", HERE, False),
    ],
)
def test_a_trial_counts_in_its_own_folder_and_elsewhere_where_it_ran_on_this_processor(
    folder: str, computer: str | None, counted: bool
) -> None:
    spec, guess_s = planned(asked())
    store(folder, spec, 3 * guess_s, computer)
    _, told_s = planned(asked())
    assert told_s == pytest.approx((3 if counted else 1) * guess_s)


def test_trials_that_run_on_other_machines_do_not_learn_from_this_one() -> None:
    request = asked()
    spec, guess_s = planned(request)
    store("results/before", spec, 3 * guess_s, HERE)
    assert replace(asked(), ray="auto").paces.times(spec) == 1


def test_of_all_folders_only_the_newest_results_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, _ = planned(asked())
    for folder, number in product(range(MOST_FOLDERS + 2), range(2 * MOST_OF_FOLDER)):
        repeat = replace(spec, draw=replace(spec.draw, repeat=100 * folder + number))
        store(f"results/{folder}", repeat, 10.0, HERE, number)
        os.utime(Path(f"results/{folder}/trials"), (folder, folder))
    for number in range(MOST_OWN + 1):
        store("results/next", replace(spec, draw=replace(spec.draw, repeat=10_000 + number)), 10.0, HERE, number)
    read: list[int] = []
    original = storage._read

    def note(folder: Path) -> TrialResult:
        result = original(folder)
        read.append(result.spec.draw.repeat)
        return result

    monkeypatch.setattr(storage, "_read", note)
    paces = read_paces(Path("results/next"), find_results_folders(Path("results")), [HERE]).paces
    of_others = [100 * folder + number for folder in range(2, MOST_FOLDERS + 2) for number in range(3, 6)]
    assert sorted(read) == [*of_others, *range(10_001, 10_001 + MOST_OWN)] and len(paces) == len(read)
    assert MOST_OF_FOLDER == 3


def test_a_results_folder_that_is_broken_changes_no_plan() -> None:
    _, guess_s = planned(asked())
    for name in ("file", "empty"):
        Path("results", name).mkdir(parents=True)
    Path("results/file/trials").write_text("")
    Path("results/empty/trials/one").mkdir(parents=True)
    Path("results/empty/trials/one", RESULT_FILE).write_text("{")
    assert planned(asked())[1] == guess_s
