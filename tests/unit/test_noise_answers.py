"""`noise`: who is asked for what, what is read back, and the answer where something went wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec, varied

from runner.ask import Ended
from runner.batch_size.noise import SAME, SAME_MEAN, measure_noise
from runner.input_files import INPUTS, write, write_array
from runner.launch import LaunchFailed, Local, Unavailable, WorkerOutcome
from workloads import weights
from workloads.catalogue import TINY
from workloads.datasets import batch_order
from workloads.layers import BatchNorm, Dense, Dropout, Flatten
from workloads.noise_scale import BATCHES, HELD, PROGRESS, WINDOW
from workloads.records import network
from workloads.records.batch_answers import Caution
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.status import Status
from workloads.spec import Workload

STEPS, PARTS = 30, 4
NORMED = Workload("normed", "", (8, 8, 1), (Flatten("f"), BatchNorm("b"), Dropout("c", 0.5), Dense("d", 10)))


def specs_of(results: Path, *frameworks: str, workload: Workload = TINY) -> list[TrialSpec]:
    (results / INPUTS).mkdir(exist_ok=True)
    text = network.to_text(workload).encode()
    inputs = {
        "network": write(results, "network", ".json", memoryview(text)),
        "order": write_array(results, "order", batch_order(64, 2, 0)),
    }
    return [make_spec(framework=name, inputs=inputs, batch_size=64) for name in frameworks]


def norms_at(number: int) -> dict[str, Any]:
    """Norms at a point with |G|^2 = 1 and S = 16 (number + 1)."""
    generator = np.random.Generator(np.random.PCG64(number))
    gradients = generator.standard_normal((STEPS, PARTS, 20)) * np.sqrt((number + 1) / 20) + 20**-0.5
    return {"small": (gradients**2).sum(-1).tolist(), "large": (gradients.mean(1) ** 2).sum(-1).tolist()}


class Workers:
    """Replaces `runner.ask.ask`: answers as the worker of this kind does, except for those that cannot."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.dying: set[str] = set()
        self.change: Mapping[str, Callable[[int, dict[str, Any]], object]] = {}

    @property
    def asked(self) -> list[tuple[str, bool]]:
        """(framework, whether it was given the weights), in the order in which they were asked."""
        return [(job.trial.cell.framework, HELD[0] in job.trial.inputs) for job in self.jobs]

    def ask(self, job: Job, folder: Path, launcher: object) -> Ended:
        framework = job.trial.cell.framework
        self.jobs.append(job)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / JOB_FILE, job.to_json())
        if framework in self.dying:
            return Ended([], WorkerOutcome(1, False, 0.0), Status.FAILED, "it died")
        events = [] if HELD[0] in job.trial.inputs else self.trained(folder)
        for number, progress in enumerate(PROGRESS):
            norms = norms_at(number)
            if framework in self.change:
                self.change[framework](number, norms)
            sizes = {"small_batch": 16, "large_batch": 16 * PARTS}
            events.append({"event": Event.NOISE_MEASURED, "progress": progress} | sizes | norms)
        lines = [json.dumps(event | {"t_ns": 0}) for event in [*events, {"event": Event.FINISHED}]]
        (folder / EVENTS_FILE).write_text("\n".join(lines) + "\n")
        return Ended([], WorkerOutcome(0, False, 0.0), Status.OK, None)

    def trained(self, folder: Path) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        for number, name in enumerate(HELD):
            archive = io.BytesIO()
            weights.save(archive, weights.draw(TINY, number))
            (folder / f"{name}.npz").write_bytes(archive.getbuffer())
            kept = write(folder.parents[1], "expected", ".npz", archive.getbuffer())
            events.append({"event": Event.WEIGHTS_HELD, "file": f"{name}.npz", "sha256": kept.sha256})
        window = {"small": [4.0] * WINDOW, "large": 1.0}
        negative = {"small": [4.0] * (WINDOW - 1) + [24.0], "large": 1.0}
        return [*events, *({"event": Event.FINDER_LOOKED} | each for each in (window, window, negative))]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    standing = Workers()
    monkeypatch.setattr("runner.ask.ask", standing.ask)
    return standing


def launchers(*frameworks: str) -> dict[str, Local | Unavailable]:
    return {name: Local("python", {}, PROJECT) for name in frameworks}


def test_the_first_trains_and_the_others_measure_at_its_weights_on_the_same_batches(
    workers: Workers, tmp_path: Path
) -> None:
    answers = measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path)
    assert workers.asked == [("one", False), ("two", True)]
    first, second = (job.trial.inputs for job in workers.jobs)
    assert first[BATCHES] == second[BATCHES]
    for number, name in enumerate(HELD):
        kept = weights.load(tmp_path / second[name].path)
        assert all(np.array_equal(kept[key], array) for key, array in weights.draw(TINY, number).items())
    ours, other = answers["one"], answers["two"]
    assert (ours.trained_by, other.trained_by) == ("one", "one")
    assert ours.noise_scale is not None and ours.low is not None and ours.high is not None
    assert ours.low < ours.noise_scale < ours.high and (ours.points, ours.low) == (other.points, other.low)
    assert [point.progress for point in ours.points] == list(PROGRESS)
    assert (ours.apart, ours.agrees, other.apart, other.apart_mean, other.agrees) == (None, None, 0.0, 0.0, True)
    for job, answer in zip(workers.jobs, answers.values(), strict=True):
        assert answer.folder is not None and (tmp_path / answer.folder).samefile(job.folder(tmp_path))
        assert job.kind is Kind.NOISE and job.trial.timeout_s > 60


def test_who_has_answered_is_not_asked_again(workers: Workers, tmp_path: Path) -> None:
    first, second = (
        measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path) for _ in range(2)
    )
    assert first == second and len(workers.jobs) == 2


def test_a_framework_that_comes_later_measures_at_the_weights_that_are_there(workers: Workers, tmp_path: Path) -> None:
    measure_noise(specs_of(tmp_path, "two"), launchers("two"), tmp_path)
    answers = measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path)
    assert workers.asked == [("two", False), ("one", True)]
    assert list(answers) == ["one", "two"] and answers["one"].trained_by == "two"


def test_where_the_first_cannot_train_the_next_does_and_each_says_why_it_has_no_answer(
    workers: Workers, tmp_path: Path
) -> None:
    workers.dying = {"dead"}
    known = launchers("dead", "two", "three") | {"none": Unavailable("no wheel for it")}
    answers = measure_noise(specs_of(tmp_path, "none", "dead", "two", "three"), known, tmp_path)
    assert workers.asked == [("dead", False), ("two", False), ("three", True)]
    assert answers["none"].reason == "no wheel for it" and answers["none"].noise_scale is None
    assert answers["dead"].reason is not None and answers["dead"].reason.startswith("failed: it died (log: ")
    assert answers["three"].agrees and answers["three"].trained_by == "two"


def test_norms_that_are_further_apart_than_rounding_can_be_are_said_not_to_agree(
    workers: Workers, tmp_path: Path
) -> None:
    def wrong(number: int, norms: dict[str, Any]) -> None:
        norms["large"] = (np.array(norms["large"]) * (1 + 3 * SAME * (number == 2))).tolist()

    def strange(number: int, norms: dict[str, Any]) -> None:
        norms["large"][0] *= 1 + 2 * STEPS * SAME_MEAN  # in one step only

    def rounded(number: int, norms: dict[str, Any]) -> None:
        norms["small"] = (np.array(norms["small"]) * (1 + SAME / 3)).tolist()
        norms["small"][0][0] *= 1 + STEPS * SAME_MEAN  # a kink

    workers.change = {"two": wrong, "three": strange, "four": rounded}
    names = ("one", "two", "three", "four")
    answers = measure_noise(specs_of(tmp_path, *names), launchers(*names), tmp_path)
    assert [answers[name].agrees for name in names] == [None, False, False, True]
    apart, apart_mean = ([getattr(answers[name], key) or 0.0 for name in names] for key in ("apart", "apart_mean"))
    assert apart[1] > 2 * SAME and apart[2] == 0 and SAME / 9 < apart[3] < SAME
    assert apart_mean[2] > SAME_MEAN > apart_mean[3] > SAME
    assert answers["two"].noise_scale is not None, "its own measurement stays"


def test_the_finders_figures_are_of_who_trained_alone(workers: Workers, tmp_path: Path) -> None:
    answers = measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path)
    first, other = answers["one"], answers["two"]
    assert (first.finder_windows, first.finder_negative) == (3, 1)
    assert (other.finder, other.finder_windows, other.finder_negative) == (None, 0, 0)


def test_a_training_that_diverged_keeps_its_points_before_and_says_so(workers: Workers, tmp_path: Path) -> None:
    def diverged(number: int, norms: dict[str, Any]) -> None:
        norms |= {"large": [None] * STEPS, "small": [[None] * PARTS] * STEPS} if number >= 2 else {}

    workers.change = dict.fromkeys(("one", "two"), diverged)
    for answer in measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path).values():
        assert answer.reason is not None and "at 50% of the updates" in answer.reason
        assert (answer.noise_scale, answer.at_least, answer.agrees) == (None, None, None)
        assert [point.progress for point in answer.points] == [0.0, 0.25]


def test_who_finds_numbers_where_the_first_finds_none_has_nothing_to_agree_with(
    workers: Workers, tmp_path: Path
) -> None:
    workers.change = {"one": lambda number, norms: norms.update(large=[None] * STEPS)}
    answer = measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path)["two"]
    assert (answer.reason, answer.apart, answer.agrees) == (None, None, None) and answer.noise_scale is not None


def test_a_training_that_diverged_before_its_first_point_has_none(workers: Workers, tmp_path: Path) -> None:
    workers.change = {"one": lambda number, norms: norms.update(large=[None] * STEPS)}
    answer = measure_noise(specs_of(tmp_path, "one"), launchers("one"), tmp_path)["one"]
    assert answer.points == () and answer.reason is not None and "at 0% of the updates" in answer.reason


@pytest.mark.parametrize("fault", ["changed", "gone"])
def test_weights_that_are_not_what_was_trained_are_not_handed_on(fault: str, workers: Workers, tmp_path: Path) -> None:
    measure_noise(specs_of(tmp_path, "one"), launchers("one"), tmp_path)
    path = workers.jobs[0].folder(tmp_path) / f"{HELD[1]}.npz"
    path.write_bytes(b"other") if fault == "changed" else path.unlink()
    answers = measure_noise(specs_of(tmp_path, "one", "two"), launchers("one", "two"), tmp_path)
    reason = answers["one"].reason
    assert reason is not None and str(path) in reason and "remove its folder" in reason
    assert (answers["two"].trained_by, answers["two"].reason) == ("two", None)


def test_layers_that_disturb_the_estimate_are_named(workers: Workers, tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "one", workload=NORMED)
    assert measure_noise(specs, launchers("one"), tmp_path)["one"].cautions == (Caution.BATCH_NORM, Caution.DROPOUT)


def test_own_code_is_measured_by_each_framework_alone_and_its_weights_go_to_nobody(
    workers: Workers, tmp_path: Path
) -> None:
    code = OwnCode("one", "net.py", "make_model", "0" * 12, 10, (8, 8, 1))
    specs = [varied(spec, own_code=code) for spec in specs_of(tmp_path, "one", "two")]
    answers = measure_noise(specs, launchers("one", "two"), tmp_path)
    assert workers.asked == [("one", False), ("two", False)]
    for name, answer in answers.items():
        assert answer.reason is None and len(answer.points) == len(PROGRESS) and answer.noise_scale
        assert (answer.cautions, answer.trained_by) == ((Caution.OWN_CODE,), name)
        assert (answer.apart, answer.agrees, answer.finder_windows) == (None, None, 3)


def test_several_devices_are_measured_on_one_as_parts_of_the_same_update(workers: Workers, tmp_path: Path) -> None:
    specs = [varied(spec, devices=4, batch_size=16) for spec in specs_of(tmp_path, "one")]
    assert measure_noise(specs, launchers("one"), tmp_path)["one"].reason is None
    (asked,) = (job.trial for job in workers.jobs)
    assert (asked.placement.devices, asked.part, asked.global_batch, specs[0].global_batch) == (1, 16, 64, 64)


def test_a_worker_that_cannot_be_started_has_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(job: Job, folder: Path, launcher: object) -> Ended:
        raise LaunchFailed("no such interpreter")

    monkeypatch.setattr("runner.ask.ask", refuse)
    assert measure_noise(specs_of(tmp_path, "one"), launchers("one"), tmp_path)["one"].reason == "no such interpreter"
