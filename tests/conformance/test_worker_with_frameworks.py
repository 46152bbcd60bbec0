"""The measured loop around every real adapter: determinism, the order of events, and what cannot be done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, QuickRun, varied
from suite import FRAMEWORKS, REFEREE

from runner.ask import Ended, find_ending
from runner.environments.definition import read
from runner.input_files import INPUTS
from runner.launch import WorkerOutcome
from runner.results.assemble import assemble
from runner.setup import build_local_launcher, make_fresh_folder
from runner.trial import run_trial
from workloads.records.columns import COLUMNS
from workloads.records.events import Event, Events
from workloads.records.files import EVENTS_FILE, JOB_FILE, LOG_FILE, SAMPLES_FILE, write_json
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.status import Status
from workloads.records.stored_events import read_events

NO_SUCH_GPU = "GPU-00000000-0000-0000-0000-000000000000"


def told(folder: Path) -> Events:
    """Everything a worker computed: losses, accuracies, the gate's evidence; no times."""
    events = read_events(folder / EVENTS_FILE)
    aside = ("t_ns", "copied_s", "counts", "facts", "resident_bytes", "proportional_bytes")
    computed = [{k: v for k, v in event.items() if k not in aside} for event in events]
    # How many steps the window has depends on time, and so do the weights after it.
    timed = (Event.WINDOW_STARTED, Event.WINDOW_ENDED, Event.WINDOW_SETTLED, Event.END_PROBED)
    return [event for event in computed if event["event"] not in timed]


@pytest.fixture
def asked(quick_run: QuickRun, tmp_path: Path) -> Callable[..., tuple[Path, Path, TrialSpec]]:
    """A trial of the quick run in a separate folder, with some fields changed: (first folder, new folder, spec)."""
    results, cells, _ = quick_run

    def ask(framework: str, **changes: Any) -> tuple[Path, Path, TrialSpec]:
        cell = cells["mxnet" if framework == REFEREE else framework, 128]
        first = TrialSpec.from_json(cell["spec"])
        spec = varied(first, study="again", framework=framework, **changes)
        folder = make_fresh_folder(tmp_path, Job(Kind.TRIAL, spec))
        (tmp_path / INPUTS).symlink_to(results / INPUTS)
        write_json(folder / JOB_FILE, Job(Kind.TRIAL, spec).to_json())
        return results / "trials" / first.id, folder, spec

    return ask


FINISHED = (Status.OK, Status.CONTENDED)  # neighbours change no loss, and other tests run at the same time


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != REFEREE])
def test_the_same_trial_gives_the_same_numbers_the_second_time(
    framework: str, asked: Callable[..., tuple[Path, Path, TrialSpec]]
) -> None:
    first, second, spec = asked(framework)
    result = run_trial(
        second, spec, build_local_launcher(read(PROJECT, framework, "cpu"), spec.installation.isolation), {}, {}
    )
    assert result.status in FINISHED, result.reason
    assert len([event for event in told(first) if "train_loss" in event]) == 10
    assert json.dumps(told(first)) == json.dumps(told(second))


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != REFEREE])
def test_data_kept_on_the_device_does_not_change_the_numbers(
    framework: str, asked: Callable[..., tuple[Path, Path, TrialSpec]]
) -> None:
    first, second, spec = asked(framework, feed="device", epochs=1, window_s=0.3)
    result = run_trial(
        second, spec, build_local_launcher(read(PROJECT, framework, "cpu"), spec.installation.isolation), {}, {}
    )
    assert result.status in FINISHED, result.reason
    (before,) = (event["first_losses"] for event in read_events(first / EVENTS_FILE) if "first_losses" in event)
    assert result.first_losses == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_device_that_cannot_be_had_is_a_row_with_its_reason(
    framework: str, asked: Callable[..., tuple[Path, Path, TrialSpec]]
) -> None:
    """The sampler is left out: it needs the driver that a GPU's trial has."""
    _, folder, spec = asked(framework, device=NO_SUCH_GPU)
    (folder / SAMPLES_FILE).write_text(",".join(COLUMNS) + "\n")
    with (folder / LOG_FILE).open("w") as log:
        worker = build_local_launcher(read(PROJECT, framework, "cpu"), "venv").start(folder, Job(Kind.TRIAL, spec), log)
        worker.go()
        exit_code = worker.wait(60)
    events, outcome = read_events(folder / EVENTS_FILE), WorkerOutcome(exit_code, False, 1.0)
    ended = Ended(events, outcome, *find_ending(events, outcome, folder / LOG_FILE, False))
    result = assemble(folder, spec, ended, {}, "2026-01-01T00:00:00+00:00", {})
    assert (result.status, bool(result.reason)) == (Status.UNSUPPORTED, True)
    names = [event["event"] for event in read_events(folder / EVENTS_FILE)]
    assert names == [Event.STARTED, Event.IMPORTED, Event.ENDED]
