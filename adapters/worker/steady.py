"""The steady window of a trial: segments of calls of one length, with the device synchronised at both edges of each.

They are cut from epochs after the first two if an epoch is long enough; the rest is trained after the epochs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from adapters.base import Order
from adapters.worker import end_probe, host
from adapters.worker.event_log import EventLog
from adapters.worker.trainer import Rounds, Trainer, endless_batches
from workloads.datasets import Images
from workloads.records.events import Event
from workloads.records.job import TrialSpec
from workloads.records.outstanding import FIRST_TWO, Outstanding
from workloads.spec import Workload

FIRST_EPOCH = 2  # counted from 0: the one before it, in which nothing of the kind is compiled, gives a step's time
SHORTEST_S, FEWEST_CALLS = 0.3, 3  # of a segment: three periods of the sampler
# After each segment of an epoch weights are copied, to see that no work was left. Above this number, the copy would be
# a part of the memory that training takes.
MOST_PARAMETERS = 10**6


class WindowTrainer:
    """Trains the window by `trainer`, and keeps the counts between the edges of its segments."""

    def __init__(self, trainer: Trainer, events: EventLog, window_s: float) -> None:
        self.trainer, self.events, self.window_s = trainer, events, window_s
        self.segments: list[tuple[int, int]] = []
        self.steps = self.images = 0
        self.interruptions = host.Interruptions(0, 0)
        self.calls_s: list[float] = []
        self.counts_anew = False  # True if the peak of memory is the window's
        self.peak_bytes: int | None = None
        self.copies: list[dict[str, float]] = []
        self.failure: Exception | None = None  # of a copy
        self.cut = False  # True if epochs are cut

    @property
    def missing_s(self) -> float:
        """Seconds that are still to be trained."""
        return self.window_s - sum(end - start for start, end in self.segments) / 1e9

    def wants(self, epoch: int) -> bool:
        """True if a part of this epoch is to be a segment. There are no more once one was too short."""
        short = any(end - start < SHORTEST_S / 2 * 1e9 for start, end in self.segments)
        return self.cut and epoch >= FIRST_EPOCH and self.missing_s > 0 and not short

    def train_in_epoch(self, batches: Order) -> tuple[Order, float]:
        """Train an epoch's full batches (steps, batch): the first call, then a segment of all others of that length.

        Returns the remaining batches, and the seconds that copies of the weights took.
        """
        steps = self.trainer.steps_a_call()
        calls = [batches[first : first + steps] for first in range(0, len(batches) - steps + 1, steps)]
        self.trainer.run(iter(calls[:1]))
        self.train(iter(calls[1:]))
        return batches[steps * len(calls) :], self.settle()

    def train(self, calls: Iterator[Order]) -> None:
        """Train one segment; the first opens the window."""
        trainer = self.trainer
        trainer.adapter.synchronize()
        peak_before = host.peak_resident_bytes()
        if not self.segments:
            self.counts_anew = host.reset_peak()
        steps_before, images_before, before = len(trainer.losses), trainer.images, host.interruptions()
        started_ns = time.monotonic_ns()
        if not self.segments:
            self.events.write(Event.WINDOW_STARTED, t_ns=started_ns, peak_resident_bytes=peak_before)
        trainer.run(calls)
        self.segments.append((started_ns, time.monotonic_ns()))
        counts = zip(self.interruptions, host.interruptions(), before, strict=True)
        self.interruptions = host.Interruptions(*(total + now - then for total, now, then in counts))
        self.steps += len(trainer.losses) - steps_before
        self.images += trainer.images - images_before
        self.calls_s += evened(trainer.calls_s)
        self.peak_bytes = host.peak_resident_bytes() if self.counts_anew else None

    def settle(self) -> float:
        """Copy the weights twice right after a segment, which waits for all remaining work; return the seconds."""
        began_s = time.monotonic()
        try:
            self.copies.append(end_probe.outstanding(self.trainer.adapter))
        except Exception as error:  # noqa: BLE001  # whatever a framework raises: it is reported after all that counts
            self.failure = error
        return time.monotonic() - began_s

    def train_on(self, order: Order, batch_size: int, fewest_calls: int = 0) -> None:
        """Train the missing time, on `order` (n,) and fresh permutations of it; its updates enter no accuracy."""
        trainer, rounds = self.trainer, Rounds(order)
        steps = trainer.steps_a_call()  # so that this length of a call is compiled before it starts
        trainer.run(iter([rounds.take(steps, batch_size)]))
        length_s = max(self.missing_s, SHORTEST_S if self.segments else 0.0)

        def calls() -> Iterator[Order]:  # the length counts from the beginning of the segment
            yield from endless_batches(rounds, batch_size, trainer, time.monotonic() + length_s, fewest_calls)

        self.train(calls())

    def end(self) -> None:
        """Write the counts."""
        self.events.write(
            Event.WINDOW_ENDED,
            segments=self.segments,
            steps=self.steps,
            images=self.images,
            calls_s=self.calls_s,
            diverged_step=self.trainer.diverged_step,
            peak_resident_bytes=self.peak_bytes,
            **self.interruptions._asdict(),
        )

    def outstanding(self, images: Images, on_cpu: bool) -> dict[str, Any]:
        """Return the sums over all segments, the last of which is settled now if it was not. If too much work seems
        left, copies are made again, each after the logits of `images`. Raises what a copy raised.
        """
        if self.failure is None and len(self.copies) < len(self.segments):
            self.settle()
        if self.failure is not None:
            raise self.failure
        sums: dict[str, Any] = {name: sum(copy[name] for copy in self.copies) for name in FIRST_TWO}
        sums["segments"] = len(self.copies)
        if Outstanding(**sums).seems_left(self.window_s - self.missing_s, on_cpu):
            sums |= end_probe.copy_again(self.trainer.adapter, images, self.events)
        return sums


def evened(calls_s: list[float]) -> list[float]:
    """Return times of calls of one length, each from the losses of the one before to its own. A call is read when
    the next one was submitted. If that blocks, the first holds two calls and the last none, so these two share their
    time.
    """
    if len(calls_s) < 2:
        return calls_s
    shared_s = (calls_s[0] + calls_s[-1]) / 2
    return [shared_s, *calls_s[1:-1], shared_s]


def can_be_cut(spec: TrialSpec, workload: Workload, steps: int, trainer: Trainer) -> bool:
    """True if segments of epochs of this many full batches say the same as a window after them.

    A GPU's readings look back up to a second. Custom code gives no weights to copy.
    """
    small = not spec.task.own_code and workload.parameter_count <= MOST_PARAMETERS
    return (
        spec.placement.device == "cpu"
        and small
        and spec.passes.epochs > FIRST_EPOCH
        and are_long_enough(steps, trainer)
    )


def are_long_enough(steps: int, trainer: Trainer) -> bool:
    """True if epochs of this many full batches leave time for a segment after the first call."""
    calls = steps // trainer.steps_a_call() - 1
    return calls >= FEWEST_CALLS and calls * trainer.steps_a_call() * trainer.step_s >= SHORTEST_S
