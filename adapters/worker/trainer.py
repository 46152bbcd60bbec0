"""Batches, and the one loop that feeds them to an adapter, the same for every framework."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Floats, Order
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Ahead

SEEDING = 16  # images of an order, whose numbers seed what follows from it
CALL_S = 0.1  # the most work that one `train` call is given, once steps are timed


class Trainer:
    """Feeds an adapter several steps per call, a power of two of them, never more than two calls ahead of the device.

    `rates` are the learning rates of all steps from the first on, if they differ; the last holds for all after it.
    `losses` grows by what the adapter returned, `images` by what it was given: two counts that must agree. `calls_s` is
    the time from the losses of one call to those of the next, for each call of the last `run`. `last` is the last call.
    """

    def __init__(
        self,
        adapter: Adapter,
        events: EventLog | None = None,
        rates: Floats | None = None,
        ahead: Ahead | None = None,
        part: int | None = None,
    ) -> None:
        self.adapter, self.events, self.rates, self.ahead = adapter, events, rates, ahead
        self.train = train_of(adapter, part)
        self.steps = 0
        self.losses: list[float] = []
        self.finite_losses = 0  # the number of losses, from the first on, known to be numbers
        self.images = 0
        self.last: Order | None = None
        self.calls_s: list[float] = []
        self.step_s = float("inf")  # until the first full batches are timed: one step a call

    def run(self, calls: Iterator[Order]) -> None:
        """Train on every (steps, batch) of `calls`; returns when the device is done."""
        pending = None
        self.calls_s, self.read_at_s = [], time.monotonic()
        for order in calls:
            if self.ahead is not None:
                self.ahead(order)
            submitted = self.train(order, self._rates(len(order)))
            self.images += order.size
            self.last = order
            self._read(pending)
            pending = submitted
        self._read(pending)
        self.adapter.synchronize()

    def _rates(self, steps: int) -> Floats | None:
        """Return the learning rates of the next steps."""
        if self.rates is None:
            return None
        first, self.steps = self.steps, self.steps + steps
        return self.rates[np.minimum(np.arange(first, self.steps), len(self.rates) - 1)]

    def _read(self, handle: Any) -> None:
        if handle is not None:
            self.losses.extend(float(loss) for loss in self.adapter.read(handle))
            before_s, self.read_at_s = self.read_at_s, time.monotonic()
            self.calls_s.append(self.read_at_s - before_s)
            if self.events is not None:
                self.events.beat(self.read_at_s)

    @property
    def diverged_step(self) -> int | None:
        """The first step, counted from 1, whose loss is not a number; None if all are."""
        self.look_at_losses()
        return self.finite_losses + 1 if self.finite_losses < len(self.losses) else None

    def look_at_losses(self) -> None:
        """Count the losses that are numbers, up to the first that is not; each is looked at once."""
        while self.finite_losses < len(self.losses) and math.isfinite(self.losses[self.finite_losses]):
            self.finite_losses += 1

    def run_timed(self, batches: Order) -> None:
        """Train on (steps, batch) one step per call, or as before; from now on a step's time is known."""
        started = time.monotonic()
        self.run(self.calls(batches))
        if len(batches):
            self.step_s = (time.monotonic() - started) / len(batches)

    def steps_a_call(self) -> int:
        """Return the largest power of two whose steps take at most CALL_S, times the adapter's factor.

        It is one until `run_timed` has timed a step.
        """
        return power_of_two(max(1, int(CALL_S * self.adapter.call_factor / self.step_s)))

    def calls(self, batches: Order) -> Iterator[Order]:
        """Cut (steps, batch) into calls."""
        done = 0
        while done < len(batches):
            steps = min(self.steps_a_call(), power_of_two(len(batches) - done))
            yield batches[done : done + steps]
            done += steps


def train_of(adapter: Adapter, part: int | None) -> Callable[[Order, Floats | None], Any]:
    """Return its `train` of rows in parts of `part` images; an adapter that knows no parts trains whole rows."""
    return adapter.train if part is None else partial(adapter.train, part=part)


def power_of_two(most: int) -> int:
    """Return the largest power of two that is no more than `most`, which is 1 or more.

    Lengths decided by time differ from run to run; with so few lengths, each can be compiled once.
    """
    return 1 << (most.bit_length() - 1)


def epoch_batches(order: NDArray[np.int32], batch_size: int, last_batch: str) -> list[Order]:
    """Return one epoch's permutation (n,) as [(steps, batch_size)], and [(1, rest)] after it if the rest is kept."""
    full = len(order) // batch_size
    batches = [order[: full * batch_size].reshape(full, batch_size)] if full else []
    rest = order[full * batch_size :]
    if len(rest) and last_batch == "keep":
        batches.append(rest[None])
    return batches


class Rounds:
    """Endless images of a split: `order` (n,), then a fresh permutation of it for each further round.

    No batch comes back, even if the batch size divides the split: keeping the results of a batch gains nothing. The
    permutations follow from `order`, which all frameworks are given alike.
    """

    def __init__(self, order: NDArray[np.int32]) -> None:
        self.order, self.left = order, order
        self.generator = np.random.Generator(np.random.PCG64(order[:SEEDING].tolist()))

    def take(self, steps: int, batch_size: int) -> Order:
        """Return the next (steps, batch_size)."""
        count = steps * batch_size
        parts, there = [self.left], len(self.left)
        while there < count:
            parts.append(self.generator.permutation(self.order))
            there += len(self.order)
        images = np.concatenate(parts) if len(parts) > 1 else self.left
        self.left = images[count:]
        return images[:count].reshape(steps, batch_size)


def endless_batches(
    rounds: Rounds, batch_size: int, trainer: Trainer, until_s: float, fewest_calls: int = 0
) -> Iterator[Order]:
    """Yield full batches until the monotonic clock passes `until_s`; `fewest_calls` calls at least."""
    calls = 0
    while calls < fewest_calls or time.monotonic() < until_s:
        calls += 1
        yield rounds.take(trainer.steps_a_call(), batch_size)
