"""Trials of steps alone, and a whole search, by the referee: real processes under a real limit."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import PROJECT
from rich.console import Console

from runner.batch_size.largest import Bound
from runner.batch_size.memory_limit import ANSWERS, bound_request, find_limit, largest_of
from runner.batch_size.steps import StepTrials
from runner.request import cli, inputs, own_data, parser
from runner.setup import collect_installations, make_environments
from workloads.records.batch_answers import Fit, Limit
from workloads.records.events import Event
from workloads.records.files import ATTEMPT_FILE, EVENTS_FILE, RESULT_FILE, write_json
from workloads.records.job import RATES, Kind
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

NUMPY = ("--framework", "numpy", "--isolation", "here", "--device", "cpu", "--threads", 1)
WORDS = (*NUMPY, "--workload", "tiny", "--dataset", "digits-64", "--window", 0.1, "--timeout", 60)


def step_trials(results: Path, *words: object) -> StepTrials:
    """Make the trials of steps as a command does, in a results folder."""
    options = parser.run_parser().parse_args([str(word) for word in (*WORDS, *words, "--results", results)])
    request = own_data.prepare_images(cli.build_request(options, PROJECT), Console())
    request = bound_request(request, *find_limit(request))
    repeats = inputs.write_repeats(request, inputs.write_data(request, Console()), range(1))
    return StepTrials.prepare(request, collect_installations(request), repeats, make_environments(request, Console()))


def test_every_searched_size_has_learning_rates_of_its_own_where_steps_differ_in_theirs(tmp_path: Path) -> None:
    """64 images in 10 epochs; no training at 200 would come to the end of this warm-up."""
    words = "--memory-limit", 900, "--batch-size", 4, "--epochs", 10, "--learning-rate", 0.5
    trials = step_trials(tmp_path / "rates", *words, "--schedule", "cosine", "--warm-up", 20)
    files = {size: trials.spec("numpy", size).inputs[RATES].path for size in (4, 8, 200)}
    rates = {size: np.load(tmp_path / "rates" / file) for size, file in files.items()}
    assert {size: len(each) for size, each in rates.items()} == {4: 160, 8: 80, 200: 1}
    assert [each.max() for each in rates.values()] == [0.5] * 3
    constant = step_trials(tmp_path / "constant", *words)
    assert not any(RATES in constant.spec("numpy", size).inputs for size in (4, 8, 200))


def test_a_batch_larger_than_the_split_has_a_trial_without_an_accuracy(tmp_path: Path) -> None:
    """There are 64 images; 200 are trained on and evaluated at once."""
    trials = step_trials(tmp_path, "--memory-limit", 900)
    result, folder = trials.run("numpy", 200, ANSWERS)
    assert result.status in (Status.OK, Status.CONTENDED), result.reason
    events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
    assert events[Event.WINDOW_ENDED]["images"] == 200 * events[Event.WINDOW_ENDED]["steps"]
    assert len(events[Event.WINDOW_ENDED]["calls_s"]) >= 2, "two calls are in flight at once"
    assert not {Event.EPOCH_TRAINED, Event.EPOCH_EVALUATED} & set(events)
    assert result.figures["test_accuracy"].value is None and result.figures["test_accuracy"].reason
    assert (result.figures["images_per_s"].value or 0) > 0 and not result.epochs
    assert json.loads((folder / "job.json").read_text())["kind"] == Kind.STEPS
    assert TrialResult.from_json(json.loads((folder / RESULT_FILE).read_text())) == result
    assert folder.parent == (tmp_path / "steps").resolve() and not (tmp_path / "trials").exists()


def test_a_second_run_measures_nothing_that_is_finished_and_loses_no_attempt(tmp_path: Path) -> None:
    trials = step_trials(tmp_path, "--memory-limit", 900)
    first, second = (trials.run("numpy", 8, ANSWERS) for _ in range(2))
    assert first[1] != second[1]
    interrupted = first[1].with_name(f"{first[0].spec.id}-3")
    shutil.copytree(first[1], interrupted)
    for name in (RESULT_FILE, ATTEMPT_FILE):  # in the middle, or the result would be made from the remaining files
        (interrupted / name).unlink()
    events = (interrupted / EVENTS_FILE).read_text().splitlines(keepends=True)
    (interrupted / EVENTS_FILE).write_text("".join(events[:4]))
    before = {path: path.read_bytes() for path in tmp_path.rglob("steps/*/*") if path.is_file()}
    again = step_trials(tmp_path, "--memory-limit", 900)
    assert [again.run("numpy", 8, ANSWERS) for _ in range(2)] == [first, second]
    third = again.run("numpy", 8, ANSWERS)
    assert third[1].name == f"{first[0].spec.id}-4", "the interrupted one stays where it is"
    assert all(path.read_bytes() == content for path, content in before.items())


def test_an_attempt_of_another_computer_answers_nothing_here(tmp_path: Path) -> None:
    trials = step_trials(tmp_path, "--memory-limit", 900)
    first, folder = trials.run("numpy", 8, ANSWERS)
    elsewhere = replace(first, machine=first.machine | {"cpu_model": "another processor"})
    write_json(folder / RESULT_FILE, elsewhere.to_json())
    assert step_trials(tmp_path, "--memory-limit", 900).run("numpy", 8, ANSWERS)[1] != folder


@pytest.mark.parametrize("limit_mib", [93])
def test_a_search_by_real_processes_is_exact(tmp_path: Path, limit_mib: int) -> None:
    trials = step_trials(tmp_path, "--memory-limit", limit_mib)
    bound = Bound(Limit.ASKED, limit_mib * 2**20)
    answer = largest_of(trials, "numpy", bound)
    assert answer.batch_size and len(answer.fits) == 2, answer.reason
    results = [json.loads((tmp_path / name / RESULT_FILE).read_text()) for name in (*answer.fits, *answer.fails)]
    ends = {(each["spec"]["cell"]["batch_size"], each["status"] == Status.OUT_OF_MEMORY) for each in results}
    assert (answer.batch_size, False) in ends and (answer.batch_size, True) not in ends
    if answer.reason is None:  # else a size fits only sometimes, as the allocator decides
        assert len(answer.fails) == 2 and (answer.batch_size + 1, True) in ends
    # The processor and its libraries decide how good the first guess is: 24 were seen on Zen 3, fewer elsewhere.
    assert len(answer.tried) <= 30 and not any(each.fit is Fit.UNKNOWN for each in answer.tried)
    same = largest_of(step_trials(tmp_path, "--memory-limit", limit_mib), "numpy", bound)
    assert same == answer, "nothing is measured again"
