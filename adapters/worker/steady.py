"""The steady window of a trial: segments of full batches, with the device synchronised at both edges of each.

They are cut from epochs behind the first two where an epoch is long enough; what is missing is trained on behind the
epochs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from adapters.base import Order
from adapters.worker import end_probe, host
from adapters.worker.event_log import EventLog
from adapters.worker.trainer import Trainer, endless_batches
from workloads.records.events import Event
from workloads.records.job import TrialSpec
from workloads.spec import Workload

FIRST_EPOCH = 2  # counted from 0: the one before it has calls of the same lengths, each of which may be compiled
SHORTEST_S, FEWEST_STEPS = 0.2, 4  # of a segment: two periods of the sampler, two calls in flight and two more
# Behind each segment of an epoch weights are copied, to see that nothing was left to be done. Above so many, the copy
# would be a part of the memory that training takes.
MOST_PARAMETERS = 10**6


class SteadyWindow:
    """Trains by `trainer`, and keeps what was counted between the edges."""

    def __init__(self, trainer: Trainer, events: EventLog, window_s: float) -> None:
        self.trainer, self.events, self.window_s = trainer, events, window_s
        self.segments: list[tuple[int, int]] = []
        self.steps = self.images = 0
        self.calls_s: list[float] = []
        self.peak_bytes: int | None = None
        self.copies: list[dict[str, float]] = []
        self.failure: Exception | None = None  # of a copy
        self.cut = False  # whether epochs are

    @property
    def missing_s(self) -> float:
        """What is still to be trained."""
        return self.window_s - sum(end - start for start, end in self.segments) / 1e9

    def wants(self, epoch: int) -> bool:
        """Whether this epoch's full batches are a segment."""
        return self.cut and epoch >= FIRST_EPOCH and self.missing_s > 0

    def train(self, calls: Iterator[Order]) -> None:
        """One segment; the first opens the window."""
        trainer = self.trainer
        trainer.adapter.synchronize()
        if not self.segments:
            peak_before = host.peak_resident_bytes()
            self.counts_anew = host.reset_peak()
        steps_before, images_before, started_ns = len(trainer.losses), trainer.images, time.monotonic_ns()
        if not self.segments:
            self.events.write(Event.WINDOW_STARTED, t_ns=started_ns, peak_resident_bytes=peak_before)
        trainer.run(calls)
        self.segments.append((started_ns, time.monotonic_ns()))
        self.steps += len(trainer.losses) - steps_before
        self.images += trainer.images - images_before
        self.calls_s += trainer.calls_s
        self.peak_bytes = host.peak_resident_bytes() if self.counts_anew else None

    def settle(self) -> float:
        """Right behind a segment: two copies of the weights, which wait for all that was left; seconds."""
        began_s = time.monotonic()
        try:
            self.copies.append(end_probe.outstanding(self.trainer.adapter))
        except Exception as error:  # noqa: BLE001  # whatever a framework raises: it is told behind all that counts
            self.failure = error
        return time.monotonic() - began_s

    def train_on(self, order: Order, batch_size: int, fewest_calls: int = 0) -> None:
        """What is missing, round and round `order` (n,); its updates enter no accuracy."""
        trainer = self.trainer
        steps = trainer.steps_a_call()  # so that this length of a call is compiled before it starts
        trainer.run(iter([np.resize(order, (steps, batch_size))]))
        length_s = max(self.missing_s, SHORTEST_S if self.segments else 0.0)

        def calls() -> Iterator[Order]:  # the length counts from when the segment begins
            yield from endless_batches(order, batch_size, trainer, time.monotonic() + length_s, fewest_calls)

        self.train(calls())

    def end(self) -> None:
        """Write what was counted."""
        self.events.write(
            Event.WINDOW_ENDED,
            segments=self.segments,
            steps=self.steps,
            images=self.images,
            calls_s=self.calls_s,
            diverged_step=self.trainer.diverged_step,
            peak_resident_bytes=self.peak_bytes,
        )

    def outstanding(self) -> dict[str, Any]:
        """The sums over all segments, of which the last was settled just now or before. Raises what a copy raised."""
        if self.failure is None and len(self.copies) < len(self.segments):
            self.settle()
        if self.failure is not None:
            raise self.failure
        return {name: sum(copy[name] for copy in self.copies) for name in self.copies[0]}


def can_be_cut(spec: TrialSpec, workload: Workload, steps: int, step_s: float) -> bool:
    """Whether segments of epochs tell the same as a window behind them, by an epoch's full batches and their time.

    A GPU's readings look back up to a second. Own code gives no weights to copy.
    """
    small = not spec.task.own_code and workload.parameter_count <= MOST_PARAMETERS
    long_enough = steps >= FEWEST_STEPS and SHORTEST_S <= steps * step_s < math.inf
    return spec.placement.device == "cpu" and small and long_enough and spec.passes.epochs > FIRST_EPOCH
