"""The checks of custom code: the same seed gives the same losses, and each test image is evaluated by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec, varied
from each import for_each
from numpy.typing import NDArray
from own_numpy import Adapter

from adapters.base import Floats
from adapters.worker.__main__ import main
from runner.results.evaluations import evaluate_epochs
from workloads import weights
from workloads.catalogue import TINY
from workloads.datasets import DATASETS, Images, batch_order, load
from workloads.records.check_name import CheckName
from workloads.records.events import Event, Events, add_evaluations
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import InputFile, Job, Kind, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.own_checks import check_own_code
from workloads.records.result import Check
from workloads.records.stored_events import read_events

CODE = OwnCode("numpy", "net.py", "make_model", "0" * 12, 10, TINY.input_shape)
LOSSES = [2.3, 2.2, 2.1]


class Unseeded(Adapter):
    """Draws other weights each time, as code does that seeds nothing."""

    def build_model(self, make_model: Callable[[int], Any], own: Any, optimizer: Any, seed: int) -> int:
        workload = make_model(own.classes)
        self.build(workload, optimizer, weights.draw(workload, int(np.random.default_rng().integers(2**31))), seed)
        return 0


class ByBatch(Adapter):
    """Evaluates an image with the mean of its batch, as BatchNorm does that stays in training mode."""

    def predict(self, images: Images) -> Floats:
        logits: Floats = super().predict(images)
        logits -= logits.mean(axis=0)
        return logits


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, adapter: type[Adapter]) -> dict[CheckName, Check]:
    """Run a trial of custom code by this adapter; return its checks."""
    (folder / "inputs").mkdir()
    train, test = load(DATASETS["digits-64"], folder, TINY.input_shape)
    arrays: dict[str, NDArray[Any]] = {
        **{"train_images": train.images, "train_labels": train.labels, "order": batch_order(64, 2, seed=0)},
        **{"test_images": test.images, "test_labels": test.labels},
    }
    for name, array in arrays.items():
        np.save(folder / "inputs" / f"{name}.npy", array)
    (folder / "inputs" / "model.py").write_text("from workloads.catalogue import TINY\nmake_model = lambda _: TINY\n")
    inputs = {
        path.stem: InputFile(str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (folder / "inputs").iterdir()
    }
    spec = replace(varied(make_spec(batch_size=8, epochs=2), own_code=CODE), inputs=inputs, window_s=0.05)
    job = Job(Kind.TRIAL, spec)
    trial = job.folder(folder)
    trial.mkdir(parents=True)
    write_json(trial / JOB_FILE, job.to_json())
    monkeypatch.setattr("adapters.worker.__main__.adapter_for", lambda *_: adapter())
    main(trial)
    events = read_events(trial / EVENTS_FILE)
    return by_name(spec, add_evaluations(events, evaluate_epochs(trial, spec, events)))


def by_name(spec: TrialSpec, events: Events) -> dict[CheckName, Check]:
    return {check.name: check for check in check_own_code(spec, events)}  # type: ignore[misc]


def test_a_trial_of_own_code_passes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = trained(tmp_path, monkeypatch, Adapter)
    assert set(checks) == {CheckName.SAME_LOSSES, CheckName.OWN_EVALUATION}
    assert all(check.passed for check in checks.values()), checks
    assert checks[CheckName.SAME_LOSSES].detail == "the first 8 losses, trained again from the same seed, are the same"


def test_code_that_draws_its_weights_from_no_seed_fails_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = trained(tmp_path, monkeypatch, Unseeded)
    assert not checks[CheckName.SAME_LOSSES].passed and "differ by up to" in checks[CheckName.SAME_LOSSES].detail
    assert checks[CheckName.OWN_EVALUATION].passed


def test_code_whose_evaluation_depends_on_the_batch_fails_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = trained(tmp_path, monkeypatch, ByBatch)
    assert checks[CheckName.SAME_LOSSES].passed and not checks[CheckName.OWN_EVALUATION].passed
    assert "the batch's statistics" in checks[CheckName.OWN_EVALUATION].detail


def events_of(**changes: Any) -> Events:
    known: dict[str, dict[str, Any]] = {
        Event.EPOCH_TRAINED: {"first_losses": LOSSES},
        Event.EPOCH_EVALUATED: {"apart": 1e-7},
        Event.EVALUATED_AGAIN: {"images": [3], "logits": [[0.0]]},
        Event.FINISHED: {},
        Event.TRAINED_AGAIN: {"losses": LOSSES},
    }
    return [{"event": name, **fields} for name, fields in (known | changes).items() if fields is not None]


OWN = varied(make_spec(epochs=2), own_code=CODE)


@for_each(
    "changes, name, passed, words",
    [
        ({}, CheckName.SAME_LOSSES, True, "the first 3 losses, trained again from the same seed, are the same"),
        ({Event.TRAINED_AGAIN: {"losses": [2.3, 2.2001, 2.1]}}, CheckName.SAME_LOSSES, True, "at step 2"),
        ({Event.TRAINED_AGAIN: {"losses": [2.3, 2.21, 2.1]}}, CheckName.SAME_LOSSES, False, "4.5e-03 at step 2"),
        ({Event.TRAINED_AGAIN: {"losses": [2.3, None, 2.1]}}, CheckName.SAME_LOSSES, False, "inf at step 2"),
        ({Event.TRAINED_AGAIN: {"reason": "no memory"}}, CheckName.SAME_LOSSES, False, "trained again: no memory"),
        ({Event.TRAINED_AGAIN: None}, CheckName.SAME_LOSSES, False, "the worker ended before"),
        ({Event.TRAINED_AGAIN: {"losses": []}}, CheckName.SAME_LOSSES, False, "there are no losses"),
        ({}, CheckName.OWN_EVALUATION, True, "have the logits of the last evaluation"),
        ({Event.EPOCH_EVALUATED: {"apart": 0.2}}, CheckName.OWN_EVALUATION, False, "2.0e-01 of the largest logit"),
        ({Event.EPOCH_EVALUATED: {}}, CheckName.OWN_EVALUATION, False, "are not numbers"),
        ({Event.EVALUATED_AGAIN: {"reason": "4 images"}, Event.EPOCH_EVALUATED: {}}, CheckName.OWN_EVALUATION, False,
         "no test image was evaluated again: 4 images"),
    ],
)  # fmt: skip
def test_each_way_that_custom_code_can_answer(
    changes: dict[str, Any], name: CheckName, passed: bool, words: str
) -> None:
    check = by_name(OWN, events_of(**changes))[name]
    assert (check.passed, words in check.detail) == (passed, True), check.detail


def test_networks_trials_without_epochs_and_trials_that_did_not_finish_have_neither() -> None:
    assert not by_name(make_spec(epochs=2), events_of())
    assert not by_name(varied(OWN, epochs=0), events_of())
    assert not by_name(OWN, events_of(**{Event.FINISHED: None}))


def test_a_gpu_may_add_in_another_order() -> None:
    apart = events_of(**{Event.TRAINED_AGAIN: {"losses": [2.3, 2.201, 2.1]}})
    on_gpu = varied(OWN, device="GPU-0")
    assert not by_name(OWN, apart)[CheckName.SAME_LOSSES].passed
    assert by_name(on_gpu, apart)[CheckName.SAME_LOSSES].passed
