"""The kind `noise`, by the referee: what it trains, what it holds and measures, and that measuring moves nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec, varied
from own_numpy import Adapter as OwnCodeAdapter

from adapters import base
from adapters.numpy.adapter import Adapter
from adapters.worker.__main__ import main
from adapters.worker.noise_steps import norms_of
from workloads import weights
from workloads.catalogue import TINY
from workloads.datasets import DATASETS, Split, batch_order, load
from workloads.layers import BatchNorm, Dense, Dropout, Flatten
from workloads.noise_scale import BATCHES, HELD, PROGRESS, WINDOW, updates_before
from workloads.records import network
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import RATES, InputFile, Job, Kind, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.stored_events import read_events
from workloads.schedules import compute_rates
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

BATCH, EPOCHS, IMAGES = 3, 2, 64  # 21 full batches per epoch, and one image more
UPDATES = 22 * EPOCHS
STEPS, PARTS, SMALL = 3, 2, 4
NORMED = Workload(
    "normed", "", (8, 8, 1), (Flatten("f"), Dense("a", 6), BatchNorm("b"), Dropout("c", 0.5), Dense("d", 10))
)
COSINE = replace(OptimizerSpec.named("momentum"), schedule="cosine")


@dataclass(frozen=True)
class Asked:
    """A results folder whose inputs are there."""

    folder: Path
    spec: TrialSpec
    train: Split
    order: np.ndarray
    batches: np.ndarray

    def run(self, **inputs: InputFile) -> tuple[Path, list[dict[str, Any]]]:
        """Run the job; return (its folder, its events)."""
        job = Job(Kind.NOISE, replace(self.spec, inputs={**self.spec.inputs, **inputs}))
        folder = job.folder(self.folder)
        folder.mkdir(parents=True)
        write_json(folder / JOB_FILE, job.to_json())
        main(folder)
        return folder, read_events(folder / EVENTS_FILE)

    def file(self, path: Path) -> InputFile:
        return InputFile(str(path.relative_to(self.folder)), hashlib.sha256(path.read_bytes()).hexdigest())


def asked(folder: Path, workload: Workload = TINY, optimizer: OptimizerSpec | None = None) -> Asked:
    (folder / "inputs").mkdir()
    train, test = load(DATASETS["digits-64"], folder, workload.input_shape)
    order = batch_order(IMAGES, EPOCHS, seed=0)
    shape = (len(PROGRESS), STEPS, PARTS, SMALL)
    batches = np.random.Generator(np.random.PCG64(0)).integers(0, IMAGES, shape, np.int32)
    optimizer = optimizer or OptimizerSpec.named("momentum")
    arrays: dict[str, np.ndarray] = {
        **{"train_images": train.images, "train_labels": train.labels, "order": order, BATCHES: batches},
        **{"test_images": test.images, "test_labels": test.labels},
        **({RATES: compute_rates(optimizer, UPDATES)} if optimizer.changes_rate else {}),
    }
    for name, array in arrays.items():
        np.save(folder / "inputs" / f"{name}.npy", array)
    weights.save(folder / "inputs" / "weights.npz", weights.draw(workload, 0))
    (folder / "inputs" / "network.json").write_text(network.to_text(workload))
    each = Asked(folder, make_spec(batch_size=BATCH, epochs=EPOCHS, optimizer=optimizer), train, order, batches)
    inputs = {path.stem: each.file(path) for path in (folder / "inputs").iterdir()}
    return replace(each, spec=replace(each.spec, inputs=inputs))


def built(each: Asked, workload: Workload, given: Weights) -> Adapter:
    adapter = Adapter()
    adapter.load(each.train.images, each.train.labels)
    adapter.build(workload, each.spec.task.optimizer, given, 0)
    return adapter


def trained(each: Asked, workload: Workload, every: np.ndarray | None) -> tuple[list[Weights], list[Weights]]:
    """(weights before each update and after the last, gradients of each), by an ordinary training."""
    adapter = built(each, workload, weights.draw(workload, 0))
    states, gradients = [adapter.weights()], []
    batches = [batch for order in each.order[:EPOCHS] for batch in np.split(order, range(BATCH, IMAGES, BATCH))]
    for number, batch in enumerate(batches):
        if not workload.draws:
            gradients.append(adapter.probe(each.train.images[batch], each.train.labels[batch]).gradients)
        adapter.train(batch[None], None if every is None else every[number : number + 1])
        states.append(adapter.weights())
    return states, gradients


def of_kind(events: list[dict[str, Any]], kind: Event) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


@pytest.mark.parametrize(("optimizer", "workload"), [(None, TINY), (COSINE, TINY), (None, NORMED.without_dropout())])
def test_weights_are_held_as_a_trial_has_them_behind_so_many_updates(
    optimizer: OptimizerSpec | None, workload: Workload, tmp_path: Path
) -> None:
    each = asked(tmp_path, workload, optimizer)
    folder, events = each.run()
    names = [event["event"] for event in events if event["event"] != Event.FINDER_LOOKED]
    assert names == [
        *(Event.STARTED, Event.IMPORTED, Event.OPENED, Event.LOADED, Event.BUILT),
        *[Event.WEIGHTS_HELD] * len(PROGRESS),
        *[Event.NOISE_MEASURED] * len(PROGRESS),
        Event.FINISHED,
    ]
    states, _ = trained(each, workload, None if optimizer is None else compute_rates(optimizer, UPDATES))
    held = of_kind(events, Event.WEIGHTS_HELD)
    assert [event["update"] for event in held] == updates_before(UPDATES) == [0, 11, 22, 44]
    for event, name in zip(held, HELD, strict=True):
        assert event["file"] == f"{name}.npz" and event["finite"] is True
        assert event["sha256"] == each.file(folder / event["file"]).sha256
        kept = weights.load(folder / event["file"])
        assert kept.keys() == states[0].keys()
        assert all(np.array_equal(kept[key], states[event["update"]][key]) for key in kept)


def test_norms_are_those_of_the_drawn_batches_at_the_weights_held(tmp_path: Path) -> None:
    each = asked(tmp_path)
    folder, events = each.run()
    for number, event in enumerate(of_kind(events, Event.NOISE_MEASURED)):
        adapter = built(each, TINY, weights.load(folder / f"{HELD[number]}.npz"))
        norms = [norms_of(adapter, each.train.images, each.train.labels, step) for step in each.batches[number]]
        assert (event["progress"], event["small_batch"], event["large_batch"]) == (PROGRESS[number], 4, 8)
        assert event["small"] == [each.small for each in norms] and np.shape(event["small"]) == (STEPS, PARTS)
        assert event["large"] == [each.large for each in norms]
        large = each.batches[number, 0].ravel()
        whole = adapter.probe(each.train.images[large], each.train.labels[large])
        square = sum(float((array.astype(float) ** 2).sum()) for array in whole.gradients.values())
        assert event["large"][0] == pytest.approx(square, rel=1e-5), "the mean of the parts is the large batch's"


def test_who_is_given_the_weights_does_not_train_and_measures_the_same(tmp_path: Path) -> None:
    each = asked(tmp_path)
    folder, events = each.run()
    _, others = each.run(**{name: each.file(folder / f"{name}.npz") for name in HELD})
    assert not {Event.WEIGHTS_HELD, Event.FINDER_LOOKED, Event.BUILT} & {event["event"] for event in others}
    first, second = (
        [{key: event[key] for key in event if key != "t_ns"} for event in of_kind(log, Event.NOISE_MEASURED)]
        for log in (events, others)
    )
    assert first == second and others[-1]["event"] == Event.FINISHED


def test_each_step_that_is_measured_is_a_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = asked(tmp_path)
    folder, _ = each.run()
    beats: list[float] = []
    monkeypatch.setattr("adapters.worker.event_log.EventLog.beat", lambda log, now_s: beats.append(now_s))
    each.run(**{name: each.file(folder / f"{name}.npz") for name in HELD})  # it does not train
    assert len(beats) == len(PROGRESS) * STEPS and beats == sorted(beats)


def test_the_finder_looks_at_full_batches_that_follow_each_other_before_their_updates(tmp_path: Path) -> None:
    each = asked(tmp_path)
    _, events = each.run()
    looks = of_kind(events, Event.FINDER_LOOKED)
    _, gradients = trained(each, TINY, None)
    full = [number for number in range(UPDATES) if number not in (21, 43)]  # the last batch of each epoch has one image
    assert len(looks) == len(full) // WINDOW == 2
    for look, start in zip(looks, (0, WINDOW), strict=True):
        window = [gradients[number] for number in full[start : start + WINDOW]]
        flat = np.array(
            [np.concatenate([array.ravel() for array in gradient.values()]) for gradient in window], np.float64
        )
        assert look["small"] == pytest.approx((flat**2).sum(axis=1), rel=1e-6)
        assert look["large"] == pytest.approx((flat.mean(axis=0) ** 2).sum(), rel=1e-6)
        assert look["update"] == full[start + WINDOW - 1]


def test_where_an_update_has_parts_the_finder_and_the_training_have_them_too(tmp_path: Path) -> None:
    """In a network without batch statistics 2 x 3 images give the same as 6 at once, up to rounding."""
    each = asked(tmp_path)
    ends = []
    for changes in ({"batch_size": 3, "accumulate": 2}, {"batch_size": 6}):
        folder, events = replace(each, spec=varied(each.spec, **changes)).run()
        ends.append((weights.load(folder / f"{HELD[-1]}.npz"), of_kind(events, Event.FINDER_LOOKED)))
    (in_parts, looks), (at_once, others) = ends
    assert all(in_parts[key] == pytest.approx(at_once[key], rel=1e-4, abs=1e-6) for key in at_once)
    ((look,), (other,)) = looks, others
    assert look["small"] == pytest.approx(other["small"], rel=1e-4)
    assert look["large"] == pytest.approx(other["large"], rel=1e-4)


def test_it_is_measured_without_dropout_whose_masks_are_each_frameworks_own(tmp_path: Path) -> None:
    each = asked(tmp_path, NORMED)
    folder, events = each.run()
    for number, (event, held) in enumerate(zip(of_kind(events, Event.NOISE_MEASURED), HELD, strict=True)):
        adapter = built(each, NORMED.without_dropout(), weights.load(folder / f"{held}.npz"))
        norms = [norms_of(adapter, each.train.images, each.train.labels, step) for step in each.batches[number]]
        assert event["small"] == [each.small for each in norms]


def test_weights_that_are_no_numbers_are_said_to_be_none_and_so_are_their_norms(tmp_path: Path) -> None:
    each = asked(tmp_path, optimizer=OptimizerSpec.named("momentum", 1e30))
    with np.errstate(all="ignore"):
        _, events = each.run()
    assert [event["finite"] for event in of_kind(events, Event.WEIGHTS_HELD)] == [True, False, False, False]
    first, *others = of_kind(events, Event.NOISE_MEASURED)
    assert None not in first["large"]
    assert all(set(event["large"]) == {None} for event in others)
    assert events[-1]["event"] == Event.FINISHED


def test_own_code_is_measured_along_its_own_training_and_gives_the_norms_of_the_same_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saves no weights: no other framework could load them."""
    each = asked(tmp_path)
    _, expected = each.run()
    (tmp_path / "inputs" / "model.py").write_text(
        "from workloads.catalogue import TINY\n\ndef make_model(classes):\n    return TINY\n"
    )
    code = OwnCode("numpy", "net.py", "make_model", "0" * 12, 10, TINY.input_shape)
    spec = varied(each.spec, own_code=code)
    inputs = {name: file for name, file in spec.inputs.items() if name not in ("network", "weights")}
    inputs["model"] = each.file(tmp_path / "inputs" / "model.py")
    monkeypatch.setattr("adapters.worker.__main__.adapter_for", lambda *_: OwnCodeAdapter())
    folder, events = replace(each, spec=replace(spec, inputs=inputs)).run()
    for kind in (Event.NOISE_MEASURED, Event.FINDER_LOOKED):
        first, second = ([{**event, "t_ns": 0} for event in of_kind(log, kind)] for log in (expected, events))
        assert first and first == second
    assert not of_kind(events, Event.WEIGHTS_HELD) and not list(folder.glob("*.npz"))
    assert events[-1]["event"] == Event.FINISHED


def test_a_framework_without_gradients_of_own_code_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Without(OwnCodeAdapter):
        parameter_gradients = base.Adapter.parameter_gradients

    monkeypatch.setattr("adapters.worker.__main__.adapter_for", lambda *_: Without())
    each = asked(tmp_path)
    (tmp_path / "inputs" / "model.py").write_text("from workloads.catalogue import TINY\nmake_model = lambda _: TINY\n")
    code = OwnCode("numpy", "net.py", "make_model", "0" * 12, 10, TINY.input_shape)
    spec = varied(each.spec, own_code=code)
    spec = replace(spec, inputs={**spec.inputs, "model": each.file(tmp_path / "inputs" / "model.py")})
    _, events = replace(each, spec=spec).run()
    assert (events[-1]["event"], events[-1]["status"]) == (Event.ENDED, "unsupported")
    assert "gradients of custom models" in events[-1]["reason"]


def test_weights_that_were_changed_on_their_way_are_refused(tmp_path: Path) -> None:
    each = asked(tmp_path)
    folder, _ = each.run()
    held = {name: each.file(folder / f"{name}.npz") for name in HELD}
    weights.save(folder / f"{HELD[2]}.npz", weights.draw(TINY, 5))
    _, events = each.run(**held)
    assert events[-1]["event"] == Event.ENDED and "sha256 expected" in events[-1]["reason"]
