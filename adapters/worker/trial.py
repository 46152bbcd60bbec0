"""The kind `trial`: the measured epochs, and the steady window in and after them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Floats, Order
from adapters.worker import end_probe, host, own_steps, refused_memory, steady
from adapters.worker.event_log import EventLog
from adapters.worker.middle_probe import MiddleProbe
from adapters.worker.prepare import Prepared, prepare
from adapters.worker.steady import WindowTrainer
from adapters.worker.trainer import Trainer, epoch_batches
from workloads.datasets import Images
from workloads.records.end_evidence import EVALUATION_FILE
from workloads.records.events import Event
from workloads.records.job import Job, TrialSpec

FIRST_LOSSES = 10  # recorded one by one, so that frameworks can be compared
WARM_UP_STEPS = 5


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run everything after the import; raises what the adapter raises before `finished`."""
    spec, prepared = job.trial, prepare(adapter, job, folder, events)
    workload = prepared.task[0]
    middle = MiddleProbe(spec, workload, prepared, folder) if prepared.own is None else None
    window = measure(adapter, spec, prepared, events, folder, middle)
    events.write(Event.FINISHED)

    def ran_out(error: Exception) -> bool:
        return refused_memory.culprit_of(error, adapter, spec) is not None

    if prepared.own is None:
        images, on_cpu = prepared.test_images[: spec.cell.batch_size], spec.placement.device == "cpu"
        events.write_answer(Event.WINDOW_SETTLED, lambda: window.outstanding(images, on_cpu), ran_out)  # at once
    events.write_answer(Event.HOST_COUNTED, lambda: {"proportional_bytes": host.proportional_bytes()})
    events.write_answer(Event.ALLOCATOR_COUNTED, lambda: {"counts": adapter.memory()})
    # After all that counts, because it trains on. Custom code is compared with itself alone.
    if prepared.own is None:
        events.write_answer(
            Event.END_PROBED,
            lambda: end_probe.gather(spec, workload, prepared, window.trainer, folder),
            ran_out,
        )
    elif spec.passes.epochs:
        load_epoch(adapter, prepared, 0)
        first = epoch_batches(prepared.order[0], spec.global_batch, spec.passes.last_batch)[0][:FIRST_LOSSES]
        events.write_answer(
            Event.TRAINED_AGAIN, lambda: own_steps.train_again(adapter, prepared, first, spec.part), ran_out
        )


def measure(
    adapter: Adapter,
    spec: TrialSpec,
    prepared: Prepared,
    events: EventLog,
    folder: Path,
    middle: MiddleProbe | None = None,
) -> WindowTrainer:
    """Train the epochs and the window, which may be cut from them. Each evaluation's logits go into `folder`: the
    runner has the labels.
    """
    update, split = spec.global_batch, len(prepared.train.images)
    if update > split and spec.passes.last_batch == "drop":
        raise ValueError(f"batch size {update} is larger than the split of {split}: every batch is dropped")
    prepared.build(adapter)
    workload = prepared.task[0]
    if prepared.own is None:
        del prepared.task  # the given weights, or they would count as the framework's memory
    adapter.synchronize()
    events.write(Event.BUILT, execution=adapter.execution)

    trainer = Trainer(adapter, events, prepared.rates, prepared.ahead, spec.part)
    window = WindowTrainer(trainer, events, spec.window_s)
    for epoch in range(spec.passes.epochs):
        if epoch:
            load_epoch(adapter, prepared, epoch)
        batches = epoch_batches(prepared.order[epoch], update, spec.passes.last_batch)
        train_epoch(trainer, epoch, batches, events, window, middle)
        trainer.look_at_losses()  # or the window's end would be written only after a look at all of them
        if epoch == steady.FIRST_EPOCH - 1:
            window.cut = steady.can_be_cut(spec, workload, split // update, trainer)
        if prepared.draws is not None:
            events.write(Event.EPOCH_AUGMENTED, epoch=epoch, augment_s=prepared.cost.taken())
        logits = compute_logits(adapter, prepared.test_images, spec.cell.batch_size, events)
        np.savez(folder / EVALUATION_FILE.format(epoch=epoch), logits=logits)
        events.write(Event.EPOCH_EVALUATED, epoch=epoch)
    if middle is not None:
        middle.keep_evaluated(adapter)
    if prepared.own is not None and spec.passes.epochs:
        events.write_answer(Event.EVALUATED_AGAIN, lambda: own_steps.evaluate_again(adapter, prepared.test_images))
    load_epoch(adapter, prepared, -1)
    if window.missing_s > 0:
        window.train_on(prepared.order[-1], update)
    window.end()
    return window


def load_epoch(adapter: Adapter, prepared: Prepared, epoch: int) -> None:
    """Load the training split as this epoch sees it, if epochs differ; with feed "device" it is copied there again."""
    if prepared.draws is None:
        return
    before_s, began_s = prepared.cost.seconds, time.perf_counter()
    adapter.load(prepared.images(epoch), prepared.train.labels)
    adapter.synchronize()
    prepared.cost.seconds = before_s + time.perf_counter() - began_s


def train_epoch(
    trainer: Trainer,
    epoch: int,
    batches: list[Order],
    events: EventLog,
    window: WindowTrainer,
    middle: MiddleProbe | None = None,
) -> None:
    """Train an epoch; a step's time is then that of the epoch without its warm-up, until epochs are cut.

    The part that `window` wants becomes a segment of it; the part that `middle` draws is trained separately.
    """
    first_step, first_image = len(trainer.losses), trainer.images
    if epoch == 0:
        batches = warm_up(trainer, batches, events)
    started_ns, warm_up_steps, copied_s = time.monotonic_ns(), len(trainer.losses), 0.0
    in_window = window.wants(epoch)
    full, *others = batches
    if middle is not None and (rows := middle.draw(trainer, full, in_window)) is not None:
        trainer.run(trainer.calls(full[: rows.start]))
        copied_s = middle.ask(trainer, epoch, full[rows.start : rows.stop])
        full = full[rows.stop :]
    if in_window:
        full, settled_s = window.train_in_epoch(full)
        copied_s += settled_s
    batches = [full, *others]
    for block in batches:
        trainer.run(trainer.calls(block))
    ended_ns = time.monotonic_ns()
    if len(trainer.losses) > warm_up_steps and not window.cut:
        trainer.step_s = ((ended_ns - started_ns) / 1e9 - copied_s) / (len(trainer.losses) - warm_up_steps)
    events.write(
        Event.EPOCH_TRAINED,
        t_ns=ended_ns,
        epoch=epoch,
        steps=len(trainer.losses) - first_step,
        images=trainer.images - first_image,
        train_loss=float(np.mean(trainer.losses[first_step:])),
        **({"first_losses": trainer.losses[:FIRST_LOSSES]} if first_step < FIRST_LOSSES else {}),
        **({"copied_s": copied_s} if copied_s else {}),
    )


def warm_up(trainer: Trainer, batches: list[Order], events: EventLog) -> list[Order]:
    """Train the first steps of the first epoch, timed separately: the first alone (it compiles), then a few more.

    They are ordinary updates. Returns the epoch's remaining batches.
    """
    first, *others = batches
    trainer.run(iter([first[:1]]))
    events.write(Event.FIRST_STEP)
    trainer.run_timed(first[1 : 1 + WARM_UP_STEPS])
    events.write(Event.WARMED_UP)
    return [first[1 + WARM_UP_STEPS :], *others]


def compute_logits(adapter: Adapter, images: Images, batch_size: int, events: EventLog | None = None) -> Floats:
    """Return the logits (n, outputs) of all images, computed in batches of the trial's size."""
    parts = []
    for first in range(0, len(images), batch_size):
        # A copy: a view of the file is read-only, about which PyTorch warns.
        parts.append(adapter.predict(np.array(images[first : first + batch_size])))
        if events is not None:
            events.beat(time.monotonic())
    return np.concatenate(parts).astype(np.float32, copy=False)
