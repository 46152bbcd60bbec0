"""The gate's second probe, asked of the adapter that has just been measured, with its current weights.

It builds nothing anew: a framework that changed its behaviour during the trial would start again as at the beginning.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Floats, Order
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Prepared
from adapters.worker.trainer import Trainer
from workloads.datasets import Images, Labels
from workloads.layers import Join, Layer, Masked, StochasticDepth
from workloads.records.end_evidence import (
    CALL,
    CALL_BATCH,
    CALL_PARTS,
    CALL_ROWS,
    END_FILE,
    IDLE_LOSS,
    IDLE_STEPS,
    LARGE_PARAMETERS,
    LAST,
    DropoutMasks,
    drawn_images,
    evaluated_images,
    goes_back,
    idle_batch,
    makes_call,
    step_sizes,
    steps_before_evaluation,
)
from workloads.records.job import TrialSpec
from workloads.records.outstanding import COPIES_AGAIN, FIRST_TWO
from workloads.spec import Workload
from workloads.weights import Weights


def outstanding(adapter: Adapter) -> dict[str, float]:
    """Make the first two copies of an `Outstanding`: weights cannot be copied before all updates are done."""
    first, second = _copy(adapter), _copy(adapter)
    return dict(zip(FIRST_TWO, (first[0], second[0], first[1], second[1]), strict=True))


def copy_again(adapter: Adapter, images: Images, events: EventLog) -> dict[str, tuple[float, ...]]:
    """Copy the weights again when no work is left. The logits of `images`, computed before each, need all weights,
    and leave caches and heap as training does.
    """
    copies = []
    for _ in range(COPIES_AGAIN):
        adapter.predict(np.array(images))
        copies.append(_copy(adapter))
        events.beat(time.monotonic())
    wall_s, cpu_s = zip(*copies, strict=True)
    return {"again_s": wall_s, "again_cpu_s": cpu_s}


def _copy(adapter: Adapter) -> tuple[float, float]:
    """Return the seconds of one copy of the weights, and the process's processor time in user mode. The kernel's
    part allocates pages, which the first copy after training pays for.
    """
    began_s, cpu_before_s = time.monotonic(), host.user_s()
    adapter.weights()
    return time.monotonic() - began_s, host.user_s() - cpu_before_s


def gather(spec: TrialSpec, workload: Workload, prepared: Prepared, trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Write END_FILE into `folder`; return how many steps were tested for idleness, and how many were idle.

    Batches are drawn anew from the training split: none was seen before.
    """
    split, steps, adapter = len(prepared.train.images), len(trainer.losses), trainer.adapter
    rates = None if prepared.rates is None else prepared.rates[-1:]  # the last one holds
    generator = np.random.Generator(np.random.PCG64([spec.draw.seed, split, steps]))

    def batch(size: int) -> NDArray[np.int32]:
        return np.resize(generator.permutation(split), (1, size)).astype(np.int32)

    def evaluated(after: int) -> dict[str, NDArray[Any]]:
        size = spec.cell.batch_size
        return evaluated_logits(adapter, workload, prepared.test_images, size, generator, after)

    arrays: dict[str, NDArray[Any]] = {"steps": np.array(steps)}
    small, few = workload.parameter_count <= LARGE_PARAMETERS, idle_batch(workload, spec.cell.batch_size)
    if trainer.last is not None and goes_back(workload, spec, trainer.last.shape[1]):
        arrays |= _step_after_last(trainer, batch(few), rates)
    arrays |= named_weights(0, adapter.weights())
    sizes = step_sizes(workload, split, spec.global_batch, spec.passes.last_batch, spec.part)
    for number, images in enumerate(sizes):
        if number == steps_before_evaluation(len(sizes)):
            arrays |= evaluated(number)
        arrays[f"batch/{number}"] = batch(images)
        arrays[f"loss/{number}"] = adapter.read(trainer.train(arrays[f"batch/{number}"], rates))
        if small:
            arrays |= named_weights(number + 1, adapter.weights())
    if not sizes:
        arrays |= evaluated(0)
    idle = _idle(adapter, lambda order: trainer.train(order, rates), [batch(few) for _ in range(IDLE_STEPS)], small)
    if makes_call(workload, spec.task.optimizer.name, spec.cell.batch_size, spec.placement.devices):
        order = np.concatenate([batch(min(few, CALL_BATCH)) for _ in range(1 + CALL_ROWS)])
        arrays |= _call(trainer, order, rates, np.array(prepared.test_images[: spec.cell.batch_size]))
    np.savez(folder / END_FILE, **arrays)  # type: ignore[arg-type]
    if not workload.draws:
        return idle
    shown = batch(few)[0]
    return idle | masks_of(adapter, workload, prepared.images(-1)[shown], prepared.train.labels[shown])


def masks_of(adapter: Adapter, workload: Workload, images: Images, labels: Labels) -> dict[str, Any]:
    """Return `masks` of the probe's answer to these images; none if the framework gives none."""
    try:
        outputs = adapter.probe(images, labels).outputs
    except Exception:  # noqa: BLE001  # whatever a framework raises: earlier answers stay
        traceback.print_exc()
        return {}
    shown = [
        _mask(layer, outputs[before.name], outputs[layer.name])
        for before, layer in neighbours(workload.layers)
        if isinstance(layer, Masked) and before.name in outputs and layer.name in outputs
    ]
    return {"masks": [asdict(mask) for mask in shown]}


def _mask(layer: Masked, entering: Floats, leaving: Floats) -> DropoutMasks:
    telling = entering != 0
    kept, dropped = telling & (leaving != 0), telling & (leaving == 0)
    scale = float(np.median(leaving[kept] / entering[kept])) if kept.any() else None
    if isinstance(layer, StochasticDepth):  # an image that loses some of its values counts as dropped
        axes = tuple(range(1, entering.ndim))
        telling, dropped = telling.any(axes), dropped.any(axes)
    values = int(telling.sum())
    return DropoutMasks(layer.name, values, float(dropped.sum() / values) if values else 0.0, scale)


def neighbours(layers: tuple[Layer, ...]) -> Iterator[tuple[Layer, Layer]]:
    """Yield each layer with the one that its input comes from, also in branches; not the first of each."""
    yield from pairwise(layers)
    for layer in layers:
        for branch in layer.branches if isinstance(layer, Join) else ():
            yield from neighbours(branch)


def evaluated_logits(
    adapter: Adapter, workload: Workload, images: Images, size: int, generator: np.random.Generator, after: int
) -> dict[str, NDArray[Any]]:
    """Return `evaluated` (n,), images drawn from the test split, and their `logits` (n, classes), `evaluated_after` so
    many steps of the probe.

    Each is predicted in its batch of `size`, as in an evaluation.
    """
    drawn = drawn_images(generator, len(images), size, evaluated_images(workload))
    firsts = [int(batch[0]) // size * size for batch in drawn]
    logits = [adapter.predict(np.array(images[first : first + size])) for first in firsts]
    shown = [each[batch - first] for each, batch, first in zip(logits, drawn, firsts, strict=True)]
    return {
        "evaluated": np.concatenate(drawn),
        "logits": np.concatenate(shown),
        "evaluated_after": np.array(after),
    }


def named_weights(number: int, weights: Weights, where: str = "") -> Weights:
    """Return the arrays after this many steps; copies, because a step may overwrite them."""
    return {f"{where}weights/{number}/{key}": np.array(array) for key, array in weights.items()}


def _step_after_last(trainer: Trainer, batch: Order, rates: Floats | None) -> dict[str, NDArray[Any]]:
    """Make one step; return it with the trial's last update, the loss that was reported of that, and the weights
    between them.
    """
    assert trainer.last is not None
    arrays: dict[str, NDArray[Any]] = {f"{LAST}/batch": trainer.last[-1:], f"{LAST}/order": batch}
    arrays[f"{LAST}/loss"] = np.array(trainer.losses[-1:], np.float32)
    arrays |= named_weights(0, trainer.adapter.weights(), f"{LAST}/")
    trainer.adapter.read(trainer.train(batch, rates))
    return arrays


def _call(trainer: Trainer, order: Order, rate: Floats | None, images: Images) -> dict[str, NDArray[Any]]:
    """Make one step alone, then all others of `order` (1 + CALL_ROWS, n) in one call; `rate` (1,) if rates differ.

    Between the two `images` are evaluated, which must leave what momentum keeps.
    """
    rates, adapter = None if rate is None else rate * np.array(CALL_PARTS, np.float32), trainer.adapter
    arrays = {f"{CALL}/order": order} | ({} if rates is None else {f"{CALL}/rates": rates})
    arrays |= named_weights(0, adapter.weights(), f"{CALL}/")
    adapter.read(trainer.train(order[:1], rate))
    arrays |= named_weights(1, adapter.weights(), f"{CALL}/")
    adapter.predict(images)
    arrays[f"{CALL}/losses"] = adapter.read(trainer.train(order[1:], rates))
    return arrays | named_weights(2, adapter.weights(), f"{CALL}/")


def _idle(adapter: Adapter, train: Callable[[Order], Any], batches: list[Order], small: bool) -> dict[str, int]:
    if not small:
        return {}
    asked = idle = 0
    before = named_weights(0, adapter.weights())
    for batch in batches:
        loss = float(adapter.read(train(batch))[0])
        after = named_weights(0, adapter.weights())
        if loss > IDLE_LOSS:
            asked += 1
            idle += all(np.array_equal(before[key], array) for key, array in after.items())
        before = after
    return {"asked_steps": asked, "idle_steps": idle}
