"""The kind `memory`: memory contents per batch size; and after that, the speed of matrix products.

A separate worker, so that counting disturbs nothing that is timed. Sizes increase in one process: memory kept for a
smaller batch is reused by a larger one. There is one event for each size; if memory runs out, the sizes before it have
been reported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Count, MemoryUse, Unsupported
from adapters.worker import host, product
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import prepare
from adapters.worker.trainer import Trainer
from workloads.records.events import PEAK_PARTS, Event
from workloads.records.job import Job

SETTLING_STEPS = 4  # MXNet hands out four workspaces in turn, which all grow to the needs of this batch size
FEWEST_STEPS = 3
OWN_CODE = "own code: nobody knows its layers"


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
        trainer, update = Trainer(adapter, part=trial.part), trial.global_batch
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
        events.write_answer(Event.PRODUCT_TIMED, lambda: product.measure(adapter))
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
