"""The one measured loop, the same for every framework: python -m adapters.worker TRIAL_DIR.

It reads trial.json, appends events to events.jsonl with the time of the monotonic clock, and writes nothing else.
Exit code 0 = the last event says how the trial ended.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Order, Unsupported
from adapters.worker import end_probe, first_probe, host
from workloads import weights as initial_weights
from workloads.catalogue import WORKLOADS
from workloads.datasets import Images, Labels, file_digest
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, TRIAL_FILE, without_nan
from workloads.records.job import TrialSpec
from workloads.records.result import Status
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

FIRST_LOSSES = 10  # recorded one by one, so that frameworks can be compared
WARM_UP_STEPS = 5
CONTEXT_S = 0.3  # three periods of the sampler
CALL_S = 0.1  # how much work one `train` call is given, once steps are timed


class EventLog:
    """Appends one JSON line per event; each has left the process before the next piece of work starts."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self.file = path.open("a", encoding="utf-8")

    def write(self, event: Event, t_ns: int | None = None, **data: Any) -> None:
        line = {"event": event, "t_ns": time.monotonic_ns() if t_ns is None else t_ns, **data}
        self.file.write(json.dumps(without_nan(line), allow_nan=False) + "\n")
        self.file.flush()


class Trainer:
    """Feeds an adapter several steps a call, never more than two calls ahead of the device.

    `losses` grows by what the adapter returned, `images` by what it was given: two counts that must agree.
    `calls_s` is how long after the one before it the losses of each call of the last `run` were there.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.losses: list[float] = []
        self.images = 0
        self.calls_s: list[float] = []
        self.step_s = float("inf")  # until the first full batches are timed: one step a call

    def run(self, calls: Iterator[Order]) -> None:
        """Train on every (steps, batch) of `calls`; returns when the device is done."""
        pending = None
        self.calls_s, self.read_at_s = [], time.monotonic()
        for order in calls:
            submitted = self.adapter.train(order)
            self.images += order.size
            self._read(pending)
            pending = submitted
        self._read(pending)
        self.adapter.synchronize()

    def _read(self, handle: Any) -> None:
        if handle is not None:
            self.losses.extend(float(loss) for loss in self.adapter.read(handle))
            before_s, self.read_at_s = self.read_at_s, time.monotonic()
            self.calls_s.append(self.read_at_s - before_s)

    @property
    def diverged_step(self) -> int | None:
        """The first step, counted from 1, of which the loss is no number; None where all are."""
        return next((step for step, loss in enumerate(self.losses, start=1) if not math.isfinite(loss)), None)

    def run_timed(self, batches: Order) -> None:
        """Train on (steps, batch) one step a call, or as before; from here on a step's time is known."""
        started = time.monotonic()
        self.run(self.calls(batches))
        if len(batches):
            self.step_s = (time.monotonic() - started) / len(batches)

    def steps_a_call(self) -> int:
        return max(1, int(CALL_S / self.step_s))

    def calls(self, batches: Order) -> Iterator[Order]:
        """Cut (steps, batch) into calls."""
        done = 0
        while done < len(batches):
            steps = self.steps_a_call()
            yield batches[done : done + steps]
            done += steps


def epoch_batches(order: NDArray[np.int32], batch_size: int, last_batch: str) -> list[Order]:
    """One epoch's permutation (n,) as [(steps, batch_size)], and [(1, rest)] behind it where the rest is kept."""
    full = len(order) // batch_size
    batches = [order[: full * batch_size].reshape(full, batch_size)] if full else []
    rest = order[full * batch_size :]
    if len(rest) and last_batch == "keep":
        batches.append(rest[None])
    return batches


def endless_batches(order: NDArray[np.int32], batch_size: int, trainer: Trainer, until_s: float) -> Iterator[Order]:
    """Full batches, round and round one permutation, until the monotonic clock passes `until_s`."""
    position = 0
    while time.monotonic() < until_s:
        steps = trainer.steps_a_call()
        indices = np.arange(position, position + steps * batch_size) % len(order)
        yield order[indices].reshape(steps, batch_size)
        position = int(indices[-1]) + 1


def read_input(root: Path, spec: TrialSpec, name: str) -> Path:
    """The input's path, its sha256 verified."""
    file = spec.inputs[name]
    path = root / file.path
    found = file_digest(path, "sha256")
    if found != file.sha256:
        raise ValueError(f"input {path}: sha256 expected {file.sha256}, found {found}")
    return path


def evaluate(adapter: Adapter, images: Any, labels: NDArray[np.int32], batch_size: int) -> tuple[float, float]:
    """(mean loss, accuracy 0..1) from logits, in batches of the trial's size, in float64.

    One logit an image is that of class 1: the loss is the binary cross-entropy.
    """
    parts = [adapter.predict(images[i : i + batch_size]) for i in range(0, len(images), batch_size)]
    logits = np.concatenate(parts).astype(np.float64)
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)  # softmax of (0, z) is the sigmoid of z
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    losses = log_sums - shifted[np.arange(len(labels)), labels]
    return float(losses.mean()), float((logits.argmax(axis=1) == labels).mean())


@dataclass
class Prepared:
    """An adapter that is open and has its data; `order` is (epochs, n)."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    order: NDArray[np.int32]
    task: tuple[Workload, OptimizerSpec, Weights, int]  # what `build` takes


def prepare(adapter: Adapter, spec: TrialSpec, root: Path, events: EventLog) -> Prepared:
    """Open the adapter and load the data; raises what the adapter raises, ValueError for inputs that do not fit."""
    facts = adapter.open(spec.device_kind, spec.threads, spec.profile, spec.feed, spec.allocator)
    events.write(Event.OPENED, facts=facts | packages(), resident_bytes=host.resident_bytes())
    if spec.device_kind == "cuda":
        time.sleep(CONTEXT_S)
        events.write(Event.CONTEXT_SAMPLED)

    paths = {name: read_input(root, spec, name) for name in spec.inputs}
    train_images, train_labels = np.load(paths["train_images"]), np.load(paths["train_labels"])
    test_images, test_labels = np.load(paths["test_images"]), np.load(paths["test_labels"])
    order = np.load(paths["order"])
    if spec.batch_size > len(train_images) and spec.last_batch == "drop":
        raise ValueError(
            f"batch size {spec.batch_size} is larger than the split of {len(train_images)}: all is dropped"
        )
    adapter.load(train_images, train_labels)
    adapter.synchronize()
    events.write(Event.LOADED)
    task = WORKLOADS[spec.workload], spec.optimizer, initial_weights.load(paths["weights"]), spec.seed
    return Prepared(train_images, train_labels, test_images, test_labels, order, task)


@dataclass(frozen=True)
class Extra:
    """What is asked once a trial has finished: its event carries what `ask` returns, or the reason why it is unknown.

    Whatever happens here, the trial has been measured.
    """

    event: Event
    ask: Callable[[], dict[str, Any]]


def run_trial(adapter: Adapter, spec: TrialSpec, root: Path, events: EventLog) -> list[Extra]:
    """Everything between the import and `finished`, and what may be asked behind it; raises what the adapter raises."""
    prepared = prepare(adapter, spec, root, events)
    order = prepared.order
    if not spec.epochs:
        evidence = first_probe.gather(adapter, *prepared.task, prepared.train_images, prepared.train_labels, order[0])
        events.write(Event.PROBED, evidence=evidence.to_json())
        events.write(Event.FINISHED)
        return []
    adapter.build(*prepared.task)
    del prepared.task  # the weights as they were given, or they would count as the framework's memory
    adapter.synchronize()
    events.write(Event.BUILT)

    trainer = Trainer(adapter)
    for epoch in range(spec.epochs):
        batches = epoch_batches(order[epoch], spec.batch_size, spec.last_batch)
        first_step, first_image = len(trainer.losses), trainer.images
        if epoch == 0:
            batches = warm_up(trainer, batches, events)
            started_ns = time.monotonic_ns()
            warm_up_steps = len(trainer.losses)
        else:
            started_ns, warm_up_steps = time.monotonic_ns(), first_step
        for block in batches:
            trainer.run(trainer.calls(block))
        ended_ns = time.monotonic_ns()
        steps = len(trainer.losses) - first_step
        if len(trainer.losses) > warm_up_steps:
            trainer.step_s = (ended_ns - started_ns) / 1e9 / (len(trainer.losses) - warm_up_steps)
        events.write(
            Event.EPOCH_TRAINED,
            t_ns=ended_ns,
            epoch=epoch,
            steps=steps,
            images=trainer.images - first_image,
            train_loss=float(np.mean(trainer.losses[first_step:])),
            **({"first_losses": trainer.losses[:FIRST_LOSSES]} if first_step < FIRST_LOSSES else {}),
        )
        test_loss, test_accuracy = evaluate(adapter, prepared.test_images, prepared.test_labels, spec.batch_size)
        events.write(Event.EPOCH_EVALUATED, epoch=epoch, test_loss=test_loss, test_accuracy=test_accuracy)

    # The window trains on; its updates come after the last evaluation and enter no accuracy.
    trainer.run(iter([order[-1][np.arange(spec.batch_size) % len(order[-1])][None]]))
    steps_before, images_before = len(trainer.losses), trainer.images
    peak_before = host.peak_resident_bytes()
    counts_anew = host.reset_peak()
    started_ns = time.monotonic_ns()
    events.write(Event.WINDOW_STARTED, t_ns=started_ns, peak_resident_bytes=peak_before)
    trainer.run(endless_batches(order[-1], spec.batch_size, trainer, started_ns / 1e9 + spec.window_s))
    ended_ns = time.monotonic_ns()
    events.write(
        Event.WINDOW_ENDED,
        t_ns=ended_ns,
        steps=len(trainer.losses) - steps_before,
        images=trainer.images - images_before,
        calls_s=trainer.calls_s,
        diverged_step=trainer.diverged_step,
        peak_resident_bytes=host.peak_resident_bytes() if counts_anew else None,
    )
    events.write(Event.FINISHED)
    workload, split, steps = WORKLOADS[spec.workload], len(prepared.train_images), len(trainer.losses)
    return [
        Extra(Event.WINDOW_SETTLED, lambda: end_probe.outstanding(adapter)),  # at once: it tells what was left to do
        Extra(Event.HOST_COUNTED, lambda: {"proportional_bytes": host.proportional_bytes()}),
        Extra(Event.ALLOCATOR_COUNTED, lambda: {"counts": adapter.memory()}),
        Extra(
            Event.END_PROBED,  # behind all that counts: it trains on
            lambda: end_probe.gather(adapter, workload, spec, split, prepared.test_images, steps, events.folder),
        ),
    ]


def warm_up(trainer: Trainer, batches: list[Order], events: EventLog) -> list[Order]:
    """The first steps of the first epoch, timed apart: the first alone (it compiles), then a few more.

    They are ordinary updates. Returns the epoch's remaining batches.
    """
    first, *others = batches
    trainer.run(iter([first[:1]]))
    events.write(Event.FIRST_STEP)
    trainer.run_timed(first[1 : 1 + WARM_UP_STEPS])
    events.write(Event.WARMED_UP)
    return [first[1 + WARM_UP_STEPS :], *others]


def packages() -> dict[str, dict[str, str]]:
    """{"packages": {name: version}} of this environment."""
    return {"packages": {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}}


def main(trial_dir: Path, work: Callable[[Adapter, TrialSpec, Path, EventLog], list[Extra]] = run_trial) -> None:
    """Do the work of one process, whatever the framework raises in it."""
    spec = TrialSpec.from_json(json.loads((trial_dir / TRIAL_FILE).read_text(encoding="utf-8")))
    events = EventLog(trial_dir / EVENTS_FILE)
    events.write(Event.STARTED)
    adapter: Adapter | None = None
    extras: list[Extra] = []
    try:
        adapter = importlib.import_module(f"adapters.{spec.framework}.adapter").Adapter()
        events.write(Event.IMPORTED)
        extras = work(adapter, spec, trial_dir.parent.parent, events)
    except Unsupported as error:
        events.write(Event.ENDED, status=Status.UNSUPPORTED, reason=str(error))
    except Exception as error:  # blanket, as the one below: whatever a framework raises becomes a row with its reason
        traceback.print_exc()
        out_of_memory = adapter.out_of_memory(error) if adapter else isinstance(error, MemoryError)
        status = Status.OUT_OF_MEMORY if out_of_memory else Status.FAILED
        events.write(Event.ENDED, status=status, reason=in_a_line(error))
    for extra in extras:
        try:
            events.write(extra.event, **extra.ask())
        except Exception as error:
            traceback.print_exc()
            events.write(extra.event, reason=in_a_line(error))


def in_a_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
