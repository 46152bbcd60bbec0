"""Keras' own training of a model on any backend: `train_on_batch` per update, or `fit` over the updates of a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from adapters.base import Floats, Order, Unsupported
from adapters.keras_shared import optimizers
from adapters.keras_shared.layers import LOSSES, Scaled
from workloads.datasets import Images, Labels
from workloads.spec import Workload

FROM_HOST = "Keras' fit takes its images from the host: leave --feed device or --profile fit out"
# A call of `fit` costs as much as some steps: users make one of many epochs. A trial's are of 2 s of steps at most.
FIT_FACTOR = 20
NO_PARTS = "Keras' own step weighs all parts of an update equally, whatever their sizes: leave --accumulate out"

Batch = tuple[Any, Any]  # images, uint8 (n, h, w, c), and labels, int32 (n,)


class LossOfCompile(keras.Model):
    """A model that is trained on the loss of `compile` alone, without those that a user's layers add."""

    @property
    def losses(self) -> list[Any]:
        """Nothing: Keras' steps add to the loss what is listed here."""
        return []


class Training:
    """A compiled Keras model around `network`, which takes rescaled images; this one takes them as uint8.

    The defaults of `compile` alone decide how a step executes.
    """

    def __init__(
        self,
        network: keras.Model,
        workload: Workload,
        rule: keras.optimizers.Optimizer,
        inner: keras.optimizers.Optimizer,
    ) -> None:
        entering = keras.Input(workload.input_shape, dtype="uint8", name="bytes.")
        self.model = LossOfCompile(entering, network(Scaled(workload.scale, name="scaled.")(entering)))
        self.model.compile(optimizer=rule, loss=LOSSES[workload.loss]())
        self.inner, self.last_rate = inner, float("nan")  # equal to none
        self.keeps_last = False

    def train_on_batches(self, batches: Iterable[Batch], rates: Floats | None, part: int | None) -> list[float]:
        """Make one update per batch, and return their losses. `rates` (updates,) are their learning rates.

        Raises Unsupported if updates have parts.
        """
        refuse_any_parts(part)
        losses = []
        for number, (images, labels) in enumerate(batches):
            if rates is not None:
                self.set_rate(rates[number])
            losses.append(self.model.train_on_batch(images, labels[:, None]))
        return losses

    def set_rate(self, rate: float) -> None:
        """Set the rate of the following steps; where it is the last one, nothing is done, for that takes time."""
        if rate != self.last_rate:
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()  # on JAX the state of `fit` is outside of the variables until then
            optimizers.set_rate(self.inner, rate)
            self.last_rate = rate

    def fit(self, images: Images, labels: Labels, order: Order, rates: Floats | None, part: int | None) -> list[float]:
        """Make one update per row of `order` (updates, batch), indices into the split, by one `fit` over the images.

        `rates` (updates,) are their learning rates. Returns their losses. Raises Unsupported if updates have parts.
        """
        refuse_any_parts(part)
        if not self.keeps_last:  # `train_on_batch` sets the metric back by itself, which takes time
            self.keeps_last = True
            for metric in self.model.metrics:
                if metric.name == "loss":
                    keep_last(metric)
        ordered = np.empty((order.size, *images.shape[1:]), images.dtype)  # filled in place: Keras copies it twice more
        for first, rows in zip(range(0, order.size, order.shape[1]), order, strict=True):
            ordered[first : first + len(rows)] = images[rows]
        losses = BatchLosses(len(order))
        changing = [] if rates is None else [Rates(rates, self)]
        self.model.fit(
            ordered,
            labels[order.ravel(), None],
            batch_size=order.shape[1],
            shuffle=False,  # the order is the caller's
            verbose=0,
            callbacks=[losses, *changing],
        )
        return losses.values.tolist()


def refuse_any_parts(part: int | None) -> None:
    """Raise Unsupported if updates have parts."""
    if part is not None:
        raise Unsupported(NO_PARTS)


class BatchLosses(keras.callbacks.Callback):
    """Keeps the loss of each batch, (updates,). Keras may call it in its own thread, because it waits for the loss."""

    async_safe = True

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.values = np.full(updates, np.nan, np.float32)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the loss of batch number `batch`."""
        self.values[batch] = (logs or {})["loss"]


class Rates(keras.callbacks.Callback):
    """Sets the learning rate before each batch."""

    async_safe = True

    def __init__(self, rates: Floats, training: Training) -> None:
        super().__init__()
        self.rates, self.training = rates, training

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the rate of batch number `batch`."""
        self.training.set_rate(float(self.rates[batch]))


def keep_last(metric: keras.metrics.Mean) -> None:
    """Make the metric the last batch's, in place of the mean since the epoch began."""

    def update_state(values: Any, sample_weight: Any = None) -> None:
        metric.reset_state()
        keras.metrics.Mean.update_state(metric, values, sample_weight)

    metric.update_state = update_state
