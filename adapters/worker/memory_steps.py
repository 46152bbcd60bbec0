"""The kind `memory`: memory contents per batch size; and after that, the speed of matrix products.

A separate worker, so that counting disturbs nothing that is timed. Sizes increase in one process: memory kept for a
smaller batch is reused by a larger one. There is one event for each size; if memory runs out, the sizes before it have
been reported. The training speed of a trial is a share of the products' speed.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adapters.base import Adapter, Count, MemoryUse, Unsupported
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import prepare
from adapters.worker.trainer import Trainer
from workloads.datasets import Images
from workloads.layers import Dense, Flatten
from workloads.records.events import PEAK_PARTS, Event
from workloads.records.job import Job
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

SETTLING_STEPS = 4  # MXNet hands out four workspaces in turn, which all grow to the needs of this batch size
FEWEST_STEPS = 3
OWN_CODE = "custom code: its layers are unknown"

WIDTHS = (1024, 2048, 4096, 8192)  # of square matrices: the first width at which a call takes LONG_ENOUGH_S is used
LONG_ENOUGH_S = 0.1  # the cost of a call besides its products is then negligible
PRODUCTS = 4
NARROW = 16  # columns of inputs and outputs: almost nothing is copied
FEWEST_CALLS, LENGTH_S = 3, 1.0


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the job. Raises what the adapter raises."""
    adapter.count_memory(folder)
    prepared = prepare(adapter, job, folder, events)
    order, statistics = prepared.order[0], prepared.build(adapter)
    events.write(Event.BUILT)
    split = prepared.train
    dataset = split.images.nbytes + split.labels.nbytes if job.trial.task.feed == "device" else 0
    for batch_size in sorted(job.batch_sizes):
        trial = replace(job.trial, cell=replace(job.trial.cell, batch_size=batch_size))
        trainer, update = Trainer(adapter, events, part=trial.part), trial.global_batch
        trainer.run(iter([np.resize(order, (1, update))]))
        trainer.run_timed(np.resize(order, (SETTLING_STEPS, update)))
        steps = max(FEWEST_STEPS, 2 * trainer.steps_a_call())  # a trial is two calls ahead of the device
        try:
            use = adapter.memory_use(np.resize(order, (steps, update)), *([trial.part] if trial.part else []))
            counts = adapter.memory()
            kept = {kind: known(counts[kind]) for kind in ("parameters", "optimizer")}
        except Unsupported as error:
            events.write(Event.MEMORY_TOLD, batch_size=batch_size, reason=str(error), host=host.counts())
            continue
        parts = divided(use, kept | {"statistics": statistics, "dataset": dataset})
        events.write(
            Event.MEMORY_TOLD,
            batch_size=batch_size,
            parts=parts,
            between_steps=use.before,
            step_peak=use.step_peak,
            peak=use.peak,
            steps=steps,
            pool_indices=use.pool_indices if prepared.own is None else OWN_CODE,
            in_chunks=use.in_chunks,
            runs_ahead=use.runs_ahead,
            planned=use.planned,
            host=host.counts(),
        )
    if prepared.own is None:  # custom code's speed is not compared with it
        cores = job.trial.placement.device_threads if job.trial.placement.device_kind == "cpu" else None
        events.write_answer(Event.PRODUCT_TIMED, lambda: measure_products(adapter, cores))
    events.write(Event.FINISHED)


def known(count: Count) -> int:
    """Return its bytes. Raises Unsupported if they are unknown, since no part can be computed without them."""
    if isinstance(count, str):
        raise Unsupported(count)
    return count


def divided(use: MemoryUse, counted: dict[str, int]) -> dict[str, int | None]:
    """Return bytes of every part of PARTS, from those counted one by one and from the memory in use.

    Activations are the memory in use between forward and backward, less the memory before it and the inputs. The
    workspace is the rest of a step's peak: temporaries, and memory kept between steps for them. It is None if a step
    never holds all the other parts at once. Both are None if the compiler plans a whole step.
    """
    parts = counted | {"gradients": use.gradients, "inputs": use.inputs}
    if not use.planned:
        parts["activations"] = use.held - use.before - use.inputs
        rest = use.step_peak - sum(parts.values())
        parts |= {"workspace": rest} if rest >= 0 else {}
    return {name: parts.get(name) for name in PEAK_PARTS}


def product_chain(width: int) -> Workload:
    """Return dense layers only: predicting `width` images is PRODUCTS products of matrices (width, width)."""
    products = (Dense(f"product{number}", width) for number in range(PRODUCTS))
    layers = (Flatten("flatten"), Dense("widen", width), *products, Dense("narrow", NARROW))
    return Workload("products", "", (1, 1, NARROW), layers)


def draw_products(workload: Workload) -> Weights:
    """Return the weights of `product_chain`, which a card must not wait for: each kernel is made of few random numbers.

    A row is the row before it, moved by one: kernel[i, j] = numbers[i + j], U(-a, a), a = sqrt(6 / (fan_in + fan_out)).
    So it is the same in both layouts, rows come without transposing, and the values along a product are random. To
    draw and transpose each number took 8 s for the widest matrices. Biases are zero.
    """
    generator, drawn = np.random.default_rng(0), {}
    for key, shape in workload.weight_shapes().items():
        if len(shape) == 1:
            drawn[key] = np.zeros(shape, np.float32)
            continue
        limit = math.sqrt(6 / sum(shape))
        numbers = generator.uniform(-limit, limit, sum(shape) - 1).astype(np.float32)
        drawn[key] = sliding_window_view(numbers, shape[1])
    return drawn


def measure_products(adapter: Adapter, cores: int | None) -> dict[str, Any]:
    """Return operations per second, two per multiply-add, of the fastest of several calls, and the number of calls.

    On a CPU, where its threads have so many `cores`, also return what those cores do in the processor time of the
    cheapest call. Other processes make a call slow, but do not add to its processor time. It builds other networks.
    Raises what the adapter raises.
    """
    workload, width, seconds, cpu_s = product_chain(WIDTHS[0]), WIDTHS[0], [math.inf], [math.inf]
    for wider in WIDTHS:
        if wider < WIDTHS[-1] and seconds[0] * (wider / width) ** 3 < LONG_ENOUGH_S:
            continue  # its products would take less, too
        width, workload = wider, product_chain(wider)
        adapter.build(workload, OptimizerSpec.named("sgd"), draw_products(workload), 0)
        images = np.random.default_rng(0).integers(0, 256, (width, *workload.input_shape), dtype=np.uint8)
        adapter.predict(images)  # compiled
        seconds, cpu_s = ([each] for each in _time_prediction(adapter, images))
        if seconds[0] >= LONG_ENOUGH_S:
            break
    while len(seconds) < FEWEST_CALLS or sum(seconds) < LENGTH_S:
        for times, taken in zip((seconds, cpu_s), _time_prediction(adapter, images), strict=True):
            times.append(taken)
    operations, least_cpu_s = 2 * workload.multiply_adds * width, min(cpu_s)
    told = {"flop_per_s": operations / min(seconds), "width": width, "calls": len(seconds)}
    return told | ({"cpu_time_flop_per_s": operations * cores / least_cpu_s} if cores and least_cpu_s > 0 else {})


def _time_prediction(adapter: Adapter, images: Images) -> tuple[float, float]:
    """Return the seconds of one call, and the processor time of all of the process's threads."""
    began_s, cpu_before_s = time.monotonic(), time.process_time()
    adapter.predict(images)
    return time.monotonic() - began_s, time.process_time() - cpu_before_s
