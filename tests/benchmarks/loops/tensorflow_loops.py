"""Loop of Keras' guide "Writing a training loop from scratch in TensorFlow", and `fit`."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from loops import keras_loops
from loops.keras_loops import model_of

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


def step_of(weights: Any, threads: int, settings: set[str]) -> Callable[[Any, Any], Any]:
    """Return the guide's train_step."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    model = model_of(weights)
    optimizer = keras.optimizers.SGD(learning_rate=0.01, momentum=0.9)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile="xla" in settings or None)
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss_value = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss_value, model.trainable_weights)
        optimizer.apply(grads, model.trainable_weights)
        return loss_value

    return train_step


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    train_step = step_of(weights, threads, settings)

    @tf.function(reduce_retracing=True)
    def train_steps(xs: Any, ys: Any) -> Any:
        losses = tf.TensorArray(tf.float32, tf.shape(xs)[0])
        for number in tf.range(tf.shape(xs)[0]):
            losses = losses.write(number, train_step(xs[number], ys[number]))
        return losses.stack()

    def train(order: Any) -> list[float]:
        if "steps-in-a-loop" in settings:
            return train_steps(tf.constant(images[order]), tf.constant(labels[order])).numpy().tolist()
        losses = [train_step(tf.constant(images[batch]), tf.constant(labels[batch])) for batch in order]
        return [float(loss) for loss in losses]

    return train


def guide_feed(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make the guide's loop over a tf.data.Dataset of arrays in memory, in batches."""
    train_step = step_of(weights, threads, settings)

    def train(order: Any) -> list[float]:
        rows = order.ravel()
        data = tf.data.Dataset.from_tensor_slices((images[rows], labels[rows]))
        batches = data.batch(order.shape[1], drop_remainder=True)
        return [float(loss) for loss in [train_step(x, y) for x, y in batches]]

    return train


def fit(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make a loop of `fit`, with TensorFlow's pools of threads."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return keras_loops.fit(images, labels, weights, threads, settings)


LOOPS = {"by-hand": by_hand}
FEEDS = {"guide-feed": guide_feed}
TRAINERS = {"fit": fit}
