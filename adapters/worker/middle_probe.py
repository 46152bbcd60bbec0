"""The gate's probe in a trial's middle: some of its own updates, one per call, with the weights around them.

Nothing is trained in addition to the trial, so the optimizer's state needs no copy: the referee follows what was done.
No job names these updates. An epoch is drawn when it begins, and then the updates in it.
"""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Order
from adapters.worker.end_probe import evaluated_logits, named_weights
from adapters.worker.event_log import in_a_line
from adapters.worker.prepare import Prepared
from adapters.worker.steady import are_long_enough
from adapters.worker.trainer import Trainer, power_of_two
from workloads.records.end_evidence import (
    CALL_PARAMETERS,
    EVALUATED_FILE,
    MIDDLE_FILE,
    middle_steps,
    steps_before_evaluation,
)
from workloads.records.job import TrialSpec
from workloads.spec import Workload


class MiddleProbe:
    """Draws the updates, once per trial, and writes MIDDLE_FILE into `folder`."""

    def __init__(self, spec: TrialSpec, workload: Workload, prepared: Prepared, folder: Path) -> None:
        self.spec, self.workload, self.test_images = spec, workload, prepared.test_images
        self.file = folder / MIDDLE_FILE
        self.epochs_left = spec.passes.epochs if workload.parameter_count <= CALL_PARAMETERS else 0
        self.saved: dict[str, NDArray[Any]] = {}

    def draw(self, trainer: Trainer, full: Order, in_window: bool) -> range | None:
        """Return the rows of an epoch's full batches (steps, batch) to be trained by `ask`; None: it is not this epoch.

        They are whole calls, so that no other length of a call is needed. In an epoch from which the window takes its
        part they come first, and leave enough for that.
        """
        if self.saved or self.epochs_left <= 0:
            return None
        self.epochs_left -= 1
        if not len(full) or secrets.randbelow(self.epochs_left + 1):
            return None
        call = min(trainer.steps_a_call(), power_of_two(len(full)))
        needed = call * -(-self._steps(full) // call)
        length = min(needed, len(full) // call * call)
        first = call * secrets.randbelow((len(full) - length) // call + 1)
        if in_window:
            return range(length) if are_long_enough(len(full) - length, trainer) else None
        return range(first, first + length)

    def ask(self, trainer: Trainer, epoch: int, rows: Order) -> float:
        """Train these rows, one per call. Return by how many seconds that took longer than usual."""
        began_s, trained_s, adapter = time.monotonic(), 0.0, trainer.adapter
        steps, taken = min(len(rows), self._steps(rows)), len(trainer.losses)
        followed = min(steps, middle_steps(self.workload, self.spec.task.optimizer.name, rows.shape[1]))
        self.saved = {"epoch": np.array(epoch), "steps": np.array(taken)}
        self.saved |= {f"batch/{number}": rows[number : number + 1] for number in range(followed)}
        if trainer.rates is not None:
            self.saved["rates"] = trainer.rates[np.minimum(np.arange(taken, taken + steps), len(trainer.rates) - 1)]
        self._save(lambda: named_weights(0, adapter.weights()))
        between = steps_before_evaluation(followed)
        for number in range(steps):
            if epoch and number == between:  # in the first epoch this would take the extra time of a first evaluation
                self._save(lambda: self._logits(adapter, taken, between))
            started_s = time.monotonic()
            trainer.run(iter([rows[number : number + 1]]))
            trained_s += time.monotonic() - started_s
            self.saved[f"loss/{number}"] = np.array(trainer.losses[-1:], np.float32)
            self._save(lambda after=number + 1: named_weights(after, adapter.weights()))  # type: ignore[misc]
        self._store()
        self.saved = {"asked": np.array(True)}
        started_s = time.monotonic()
        trainer.run(row[None] for row in rows[steps:])
        trained_s += time.monotonic() - started_s
        return time.monotonic() - began_s - min(trained_s, len(rows) * trainer.step_s)

    def keep_evaluated(self, adapter: Adapter) -> None:
        """Save the weights that the last evaluation used; those of a large network would count as its memory."""
        file = self.file.with_name(EVALUATED_FILE)
        if not self.spec.passes.epochs or self.workload.parameter_count > CALL_PARAMETERS:
            return
        try:
            np.savez(file, **named_weights(0, adapter.weights()))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  # whatever a framework raises; the evaluation is not lost with it
            traceback.print_exc()
            file.unlink(missing_ok=True)

    def _steps(self, full: Order) -> int:
        """Return the number of followed steps, at least one, which shows whether it changes the weights."""
        return max(1, middle_steps(self.workload, self.spec.task.optimizer.name, full.shape[1]))

    def _logits(self, adapter: Adapter, taken: int, after: int) -> dict[str, NDArray[Any]]:
        generator = np.random.Generator(np.random.PCG64([self.spec.draw.seed, len(self.test_images), taken]))
        size = self.spec.cell.batch_size
        return evaluated_logits(adapter, self.workload, self.test_images, size, generator, after)

    def _store(self) -> None:
        try:
            np.savez(self.file, **self.saved)  # type: ignore[arg-type]
        except OSError:  # perhaps the disk is full; what was measured is not lost with it
            traceback.print_exc()
            self.file.unlink(missing_ok=True)

    def _save(self, ask: Callable[[], dict[str, NDArray[Any]]]) -> None:
        """Keep the framework's answer, or the reason if it gives none. Training goes on in any case."""
        if "reason" in self.saved:
            return
        try:
            self.saved |= ask()
        except Exception as error:  # noqa: BLE001  # whatever a framework raises
            traceback.print_exc()
            self.saved = {name: self.saved[name] for name in ("epoch", "steps")}
            self.saved["reason"] = np.array(in_a_line(error))
