from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec, varied
from each import for_each
from numpy.typing import NDArray

from adapters.base import MEMORY_KINDS
from adapters.numpy import adapter as numpy_adapter
from adapters.numpy.adapter import Adapter
from adapters.worker import first_probe
from adapters.worker import trial as trial_worker
from adapters.worker.__main__ import main
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import read_input
from adapters.worker.trainer import CALL_S, Rounds, Trainer, endless_batches, epoch_batches
from adapters.worker.trial import FIRST_LOSSES, compute_logits
from runner.gate.tolerances import Truth, find_difference
from workloads import weights
from workloads.catalogue import OSU_CNN
from workloads.datasets import DATASETS, Split, batch_order, load
from workloads.records import network
from workloads.records.end_evidence import EVALUATION_FILE
from workloads.records.evidence import PROJECTIONS, Evidence
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import InputFile, Job, Kind, TrialSpec
from workloads.records.stored_events import read_events
from workloads.spec import OptimizerSpec, Workload

ROOT = Path(__file__).parents[2]
TRAIN, TEST, EPOCHS, BATCH = 75, 25, 2, 8  # no window is cut from these epochs, however slow the machine


@pytest.mark.parametrize(
    ("batch_size", "last_batch", "shapes"),
    [
        (4, "keep", [(2, 4), (1, 2)]),
        (4, "drop", [(2, 4)]),
        (5, "keep", [(2, 5)]),
        (5, "drop", [(2, 5)]),
        (10, "keep", [(1, 10)]),
        (1, "drop", [(10, 1)]),
        (16, "keep", [(1, 10)]),
        (16, "drop", []),
    ],
)
def test_an_epoch_is_cut_into_full_batches_and_a_rest_that_is_kept_or_dropped(
    batch_size: int, last_batch: str, shapes: list[tuple[int, int]]
) -> None:
    order = np.random.Generator(np.random.PCG64(0)).permutation(10).astype(np.int32)
    batches = epoch_batches(order, batch_size, last_batch)
    assert [block.shape for block in batches] == shapes
    seen = [int(index) for block in batches for index in block.ravel()]
    assert seen == order[: len(seen)].tolist()


@for_each("batch_size", [1, 3, 4, 10, 16, 25])
@for_each("timed, steps", [(1, 1), (3, 2), (4, 4)])
def test_each_round_of_the_window_has_every_image_once_in_an_order_that_is_the_same_in_all_frameworks(
    batch_size: int, timed: int, steps: int
) -> None:
    order = np.random.Generator(np.random.PCG64(0)).permutation(10).astype(np.int32)
    trainer = Trainer(Adapter())
    trainer.step_s = CALL_S / (timed + 0.5)

    def seen() -> NDArray[np.int32]:
        blocks = list(islice(endless_batches(Rounds(order), batch_size, trainer, time.monotonic() + 60), 70))
        assert {(block.shape, block.dtype, block.flags.c_contiguous) for block in blocks} == {
            ((steps, batch_size), np.dtype(np.int32), True)
        }
        return np.concatenate([block.ravel() for block in blocks])

    images = seen()
    rounds = images[: len(images) // 10 * 10].reshape(-1, 10)
    assert rounds[0].tolist() == order.tolist()
    assert (np.sort(rounds) == np.arange(10)).all()
    assert np.array_equal(images, seen())


def test_no_batch_of_the_window_comes_back_where_the_batch_size_divides_the_split() -> None:
    rounds = Rounds(np.random.Generator(np.random.PCG64(0)).permutation(256).astype(np.int32))
    batches = {tuple(sorted(batch)) for batch in rounds.take(4000, 64).tolist()}
    assert len(batches) == 4000


@for_each("length", [1, 2, 7, 11, 64, 359])
@for_each("timed", [0.3, 1, 3, 11, 1000])
def test_calls_are_powers_of_two_of_steps_and_hold_the_batches_in_their_order(length: int, timed: float) -> None:
    trainer = Trainer(Adapter())
    trainer.step_s = CALL_S / (timed + 0.01)
    batches = np.arange(3 * length, dtype=np.int32).reshape(length, 3)
    blocks = list(trainer.calls(batches))
    assert np.array_equal(np.concatenate(blocks), batches)
    lengths = [len(block) for block in blocks]
    assert {number.bit_count() for number in lengths} == {1}
    assert max(lengths) <= max(1, timed)
    assert len(set(lengths)) <= length.bit_length()


def test_the_window_ends_when_its_time_has_passed() -> None:
    order = np.arange(10, dtype=np.int32)
    assert list(endless_batches(Rounds(order), 4, Trainer(Adapter()), time.monotonic() - 1)) == []
    started = time.monotonic()
    for _ in endless_batches(Rounds(order), 4, Trainer(Adapter()), started + 0.05):
        pass
    assert 0.05 <= time.monotonic() - started < 5


@dataclass(frozen=True)
class Ran:
    """Exit code, events and log of a worker, and its folder."""

    folder: Path
    exit_code: int
    events: list[dict[str, Any]]
    log: str

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def logits(self, epoch: int) -> NDArray[np.float32]:
        """Return the logits that it saved after this epoch."""
        with np.load(self.folder / EVALUATION_FILE.format(epoch=epoch)) as saved:
            return np.array(saved["logits"])


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@dataclass(frozen=True)
class Results:
    """A results folder with the inputs of a trial on a few digits."""

    folder: Path
    spec: TrialSpec
    train: Split
    test: Split
    order: np.ndarray

    def asked(self, name: str, kind: Kind = Kind.TRIAL, **changes: Any) -> Path:
        """Write a job; return its folder."""
        folder = self.folder / "trials" / name
        folder.mkdir(parents=True)
        write_json(folder / JOB_FILE, Job(kind, varied(self.spec, **changes)).to_json())
        return folder

    def run(self, name: str, address_space: int | None = None, kind: Kind = Kind.TRIAL, **changes: Any) -> Ran:
        trial_dir = self.asked(name, kind, **changes)

        def limit() -> None:
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

        ran = subprocess.run(
            [sys.executable, "-m", "adapters.worker", str(trial_dir)],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            preexec_fn=limit,
        )
        lines = (trial_dir / EVENTS_FILE).read_text(encoding="utf-8").splitlines()
        return Ran(trial_dir, ran.returncode, [json.loads(line, parse_constant=refuse) for line in lines], ran.stdout)

    def put(self, name: str, array: np.ndarray) -> dict[str, InputFile]:
        """Return the trial's inputs with one more array, or another one in its place."""
        path = self.folder / "inputs" / f"{name}-{len(array)}.npy"
        np.save(path, array)
        return {**self.spec.inputs, name: described(path, self.folder)}


def described(path: Path, root: Path) -> InputFile:
    return InputFile(str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("run") / "results"
    (folder / "inputs").mkdir(parents=True)
    splits = load(DATASETS["digits"], folder, OSU_CNN.input_shape)
    pick = np.random.Generator(np.random.PCG64(0)).permutation
    train, test = (
        Split(split.images[chosen], split.labels[chosen])
        for split, count in zip(splits, (TRAIN, TEST), strict=True)
        for chosen in [pick(len(split.labels))[:count]]
    )
    order = batch_order(TRAIN, EPOCHS, seed=0)
    arrays: dict[str, np.ndarray] = {
        "train_images": train.images,
        "train_labels": train.labels,
        "test_images": test.images,
        "test_labels": test.labels,
        "order": order,
    }
    for name, array in arrays.items():
        np.save(folder / "inputs" / f"{name}.npy", array)
    weights.save(folder / "inputs" / "weights.npz", weights.draw(OSU_CNN, 0))
    (folder / "inputs" / "network.json").write_text(network.to_text(OSU_CNN))
    files = sorted((folder / "inputs").iterdir())
    spec = make_spec(
        batch_size=BATCH,
        epochs=EPOCHS,
        repeat=1,
        threads=1,
        window_s=0.3,
        inputs={path.stem: described(path, folder) for path in files},
    )
    return Results(folder, spec, train, test, order)


@pytest.fixture(scope="module")
def ran(results: Results) -> Ran:
    return results.run("kept")


@pytest.fixture(scope="module")
def probe(results: Results) -> Ran:
    return results.run("probe", kind=Kind.PROBE)


def test_an_unchanged_input_is_found_and_a_changed_one_refused(results: Results, tmp_path: Path) -> None:
    asked = results.spec.inputs["order"]
    assert read_input(results.folder, asked) == results.folder / "inputs" / "order.npy"
    path = tmp_path / "inputs" / "order.npy"
    path.parent.mkdir()
    path.write_bytes((results.folder / "inputs" / "order.npy").read_bytes() + b"\0")
    with pytest.raises(ValueError, match="sha256 expected") as caught:
        read_input(tmp_path, asked)
    for told in (str(path), asked.sha256, hashlib.sha256(path.read_bytes()).hexdigest()):
        assert told in str(caught.value)


def test_a_trial_ends_well_with_its_events_in_order(ran: Ran) -> None:
    assert ran.exit_code == 0, ran.log
    assert [event["event"] for event in ran.events] == [
        *("started", "imported", "opened", "loaded", "built", "first_step", "warmed_up"),
        *["epoch_trained", "epoch_evaluated"] * EPOCHS,
        *("window_started", "window_ended", "finished"),
        *("window_settled", "host_counted", "allocator_counted", "end_probed"),
    ]
    assert ran.named("allocator_counted")[0]["counts"].keys() == set(MEMORY_KINDS)
    assert not [event for event in ran.events if "evidence" in event]


def test_a_probe_gives_the_evidence_of_the_trials_own_weights_images_and_optimizer(
    results: Results, probe: Ran
) -> None:
    (probed,) = probe.named("probed")
    found, spec = Evidence.from_json(probed["evidence"]), results.spec
    referee = Adapter()
    referee.load(results.train.images, results.train.labels)
    task = (OSU_CNN, spec.task.optimizer, weights.draw(OSU_CNN, 0), spec.draw.seed)
    expected = first_probe.gather(referee, task, results.train.images, results.train.labels, results.order[0])
    assert find_difference(found, Truth(expected, expected)) is None
    assert {len(value) for value in found.outputs.values()} == {1 + PROJECTIONS}


def test_a_probe_trains_no_epoch(probe: Ran) -> None:
    assert probe.exit_code == 0, probe.log
    names = [event["event"] for event in probe.events]
    assert names == ["started", "imported", "opened", "loaded", "probed", "finished"]


class Silent(Adapter):
    """The referee, which fails where TensorFlow did: when it is asked for its memory at the very end."""

    def memory(self) -> Any:
        raise ValueError("Allocator stats not available for device 'CPU:0'")


def test_a_figure_that_fails_behind_the_end_costs_the_trial_nothing_and_gives_its_reason(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_adapter, "Adapter", Silent)
    folder = results.asked("silent", epochs=1, window_s=0.01)
    main(folder)
    events = read_events(folder / EVENTS_FILE)
    names = ["finished", "window_settled", "host_counted", "allocator_counted", "end_probed"]
    assert [event["event"] for event in events[-5:]] == names
    assert events[-2]["reason"] == "ValueError: Allocator stats not available for device 'CPU:0'"


class Measured(Adapter):
    """The referee; refuses what only a probe asks, and notes how much of the given weights lives on, by phase."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[weakref.ref[np.ndarray]] = []
        self.alive: list[int] = []

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: dict[str, np.ndarray], seed: int) -> None:
        assert not self.given, "built twice"
        self.given = [weakref.ref(array) for array in weights.values()]
        super().build(workload, optimizer, weights, seed)

    def synchronize(self) -> None:
        self.alive.append(sum(ref() is not None for ref in self.given))
        super().synchronize()

    def probe(self, images: Any, labels: Any) -> Any:
        raise AssertionError("a measured worker probed")


def test_a_measured_worker_probes_nothing_and_lets_go_of_the_initial_weights_once_it_has_built(
    results: Results, tmp_path: Path
) -> None:
    adapter, job = Measured(), Job(Kind.TRIAL, varied(results.spec, epochs=1, window_s=0.01), results=".")
    trial_worker.run(adapter, job, results.folder, EventLog(tmp_path / EVENTS_FILE))
    assert len(adapter.given) == len(OSU_CNN.parameter_shapes())
    assert len(adapter.alive) > 2 and set(adapter.alive) == {0}
    assert '"probed"' not in (tmp_path / EVENTS_FILE).read_text()


def test_a_trial_counts_its_images_steps_and_times_of_calls_in_order(ran: Ran) -> None:
    # event times never go back
    times = [event["t_ns"] for event in ran.events]
    assert times == sorted(times)
    # each epoch counts every image and step
    trained = ran.named("epoch_trained")
    assert [event["epoch"] for event in trained] == list(range(EPOCHS))
    assert {(event["steps"], event["images"]) for event in trained} == {(math.ceil(TRAIN / BATCH), TRAIN)}
    # the window lasts and counts its steps
    (started,), (ended,) = ran.named("window_started"), ran.named("window_ended")
    assert ended["images"] == ended["steps"] * BATCH > 0
    assert 0.3 <= (ended["t_ns"] - started["t_ns"]) / 1e9 < 10
    # the window keeps the time of every call
    assert len(ended["calls_s"]) >= 2 and min(ended["calls_s"]) >= 0
    assert sum(ended["calls_s"]) == pytest.approx((ended["t_ns"] - started["t_ns"]) / 1e9, rel=0.1)
    assert ended["diverged_step"] is None


def test_dropped_rests_are_not_counted(results: Results) -> None:
    ran = results.run("dropped", last_batch="drop", epochs=1, window_s=0.01)
    counted = [(event["steps"], event["images"]) for event in ran.named("epoch_trained")]
    assert counted == [(TRAIN // BATCH, TRAIN // BATCH * BATCH)]


def test_the_worker_trains_in_the_given_order_and_evaluates_after_each_epoch(results: Results, ran: Ran) -> None:
    referee = Adapter()
    referee.load(results.train.images, results.train.labels)
    referee.build(OSU_CNN, results.spec.task.optimizer, weights.draw(OSU_CNN, 0), results.spec.draw.seed)
    trained, evaluated = ran.named("epoch_trained"), ran.named("epoch_evaluated")
    for epoch in range(EPOCHS):
        blocks = epoch_batches(results.order[epoch], BATCH, "keep")
        losses = np.concatenate([referee.train(block) for block in blocks])
        if epoch == 0:
            assert trained[0]["first_losses"] == pytest.approx(losses[:FIRST_LOSSES], rel=1e-4)
        assert trained[epoch]["train_loss"] == pytest.approx(losses.mean(), rel=1e-3)
        logits = compute_logits(referee, results.test.images, BATCH)
        assert set(evaluated[epoch]) == {"event", "t_ns", "epoch"}, "the worker knows no test label"
        assert ran.logits(epoch) == pytest.approx(logits, rel=1e-3, abs=1e-3)


@pytest.mark.slow
def test_the_same_trial_gives_the_same_losses_and_accuracies(results: Results, ran: Ran) -> None:
    def figures(ran: Ran) -> list[Any]:
        keys = ("first_losses", "train_loss")
        return [{key: event[key] for key in keys if key in event} for event in ran.events if "epoch" in event]

    again = results.run("again")
    assert figures(again) == figures(ran)
    assert all(np.array_equal(again.logits(epoch), ran.logits(epoch)) for epoch in range(EPOCHS))
    assert len(figures(again)[0]["first_losses"]) == FIRST_LOSSES


@pytest.mark.slow
def test_a_batch_larger_than_the_split_trains_one_step_an_epoch(results: Results) -> None:
    ran = results.run("large", batch_size=TRAIN + 1, epochs=2, window_s=0.01)
    assert ran.exit_code == 0 and ran.named("finished"), ran.log
    assert [(event["steps"], event["images"]) for event in ran.named("epoch_trained")] == [(1, TRAIN)] * 2


def ended(ran: Ran, status: str) -> str:
    """Return the reason; the trial must have ended that way, with exit code 0."""
    assert ran.exit_code == 0, ran.log
    assert ran.events[-1]["event"] == "ended", ran.log
    assert ran.events[-1]["status"] == status
    assert "\n" not in ran.events[-1]["reason"]
    return str(ran.events[-1]["reason"])


@pytest.mark.slow
def test_exhausted_memory_is_told_apart_from_a_failure(results: Results) -> None:
    inputs = results.put("order", np.resize(results.order, (2, 40_000)))
    ran = results.run("huge", address_space=2**30, batch_size=40_000, epochs=1, inputs=inputs)
    assert "Unable to allocate" in ended(ran, "out_of_memory")
    assert ran.events[-2]["event"] == "built"


def test_what_a_worker_cannot_do_ends_it_with_a_reason_before_anything_is_trained(results: Results) -> None:
    # an unknown framework fails with its name
    ran = results.run("unknown", framework="abacus")
    assert "adapters.abacus" in ended(ran, "failed")
    assert [event["event"] for event in ran.events] == ["started", "ended"]
    # a gpu asked of the referee is unsupported
    ran = results.run("gpu", device="GPU-00000000-0000-0000-0000-000000000000")
    assert "CPU only" in ended(ran, "unsupported")
    assert [event["event"] for event in ran.events] == ["started", "imported", "ended"]
    # a changed input fails before anything is trained
    inputs = {**results.spec.inputs, "order": replace(results.spec.inputs["order"], sha256="0" * 64)}
    ran = results.run("changed", inputs=inputs)
    assert "sha256 expected 000" in ended(ran, "failed")
    assert ran.events[-2]["event"] == "opened"
    # a batch larger than the split without rests ends with a reason that says so
    ran = results.run("nothing-to-train", batch_size=TRAIN + 1, last_batch="drop")
    assert "batch" in ended(ran, "failed")


def test_events_stay_json_when_training_diverges(results: Results) -> None:
    ran = results.run("diverged", optimizer=OptimizerSpec("sgd", 1e30), epochs=1, window_s=0.01)
    assert ran.exit_code == 0 and ran.named("finished"), ran.log
    assert ran.named("epoch_trained")[0]["train_loss"] is None
    step = ran.named("window_ended")[0]["diverged_step"]
    losses = ran.named("epoch_trained")[0]["first_losses"]
    assert step == 1 + next(number for number, loss in enumerate(losses) if loss is None)


def test_a_loss_is_looked_at_once_so_that_a_long_trial_writes_its_windows_end_at_once() -> None:
    trainer = Trainer(Adapter())
    trainer.losses = [0.5] * 1000
    trainer.look_at_losses()
    trainer.losses[:1000] = [math.nan] * 1000  # nobody looks at these again
    trainer.losses += [0.25]
    assert trainer.diverged_step is None
    trainer.losses += [math.inf, 0.1]
    assert trainer.diverged_step == 1002 == trainer.diverged_step
