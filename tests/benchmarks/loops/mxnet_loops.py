"""Loop of Gluon's guide "Training neural networks" with a hybridized network, and Gluon's Estimator."""

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


def net_of(weights: Any) -> gluon.nn.HybridSequential:
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(32, 3, activation="relu", in_channels=3),
        gluon.nn.MaxPool2D(),
        gluon.nn.Conv2D(64, 3, activation="relu", in_channels=32),
        gluon.nn.MaxPool2D(),
        gluon.nn.Conv2D(64, 3, activation="relu", in_channels=64),
        gluon.nn.Flatten(),
        gluon.nn.Dense(64, activation="relu", in_units=1024),
        gluon.nn.Dense(10, in_units=64),
    )
    net.initialize()
    layers = {"conv1": net[0], "conv2": net[2], "conv3": net[4], "dense1": net[6], "dense2": net[7]}
    for key, array in weights.items():
        name, role = key.split("/")
        if role == "bias":
            layers[name].bias.set_data(mx.nd.array(array))
            continue
        if name == "dense1":  # canonical: rows by height, width, channel
            array = array.reshape(4, 4, 64, -1).transpose(2, 0, 1, 3).reshape(1024, -1)
        layers[name].weight.set_data(mx.nd.array(array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T))
    return net


class WithLoss(gluon.HybridBlock):
    def __init__(self, net: Any, loss: Any) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return self.loss(self.net(x), y)


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    net = net_of(weights)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    static = {"static_alloc": "static" in settings, "static_shape": "static" in settings}
    net.hybridize(**static)
    whole = WithLoss(net, loss_fn)
    if "one-graph" in settings:
        whole.hybridize(**static)

    def train(order: Any) -> list[float]:
        losses = []
        for batch in order:
            x = mx.nd.from_numpy(np.ascontiguousarray(images[batch].transpose(0, 3, 1, 2))).astype("float32") / 255
            y = mx.nd.from_numpy(labels[batch])
            with autograd.record():
                loss = whole(x, y) if "one-graph" in settings else loss_fn(net(x), y)
            loss.backward()
            trainer.step(len(batch))
            losses.append(loss.mean())
        return [loss.asscalar().item() for loss in losses]

    return train


def guide_feed(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make the guide's loop over Gluon's DataLoader, which transforms image by image."""
    net = net_of(weights)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    data = gluon.data.ArrayDataset(mx.nd.array(images, dtype="uint8"), labels)
    data = data.transform_first(gluon.data.vision.transforms.ToTensor())

    def train(order: Any) -> list[float]:
        losses = []
        for x, y in gluon.data.DataLoader(data, batch_sampler=order.tolist()):
            with autograd.record():
                loss = loss_fn(net(x), y)
            loss.backward()
            trainer.step(len(y))
            losses.append(loss.mean())
        return [loss.asscalar().item() for loss in losses]

    return train


def estimator(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make a loop of the Estimator's `fit` on exactly these batches; the loss that it reports is the mean over them."""
    from mxnet.gluon.contrib.estimator import Estimator

    net = net_of(weights)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    fitting = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, context=mx.cpu())
    fitting.logger.handlers.clear()
    inputs = images.transpose(0, 3, 1, 2).astype("float32") / 255

    def train(order: Any) -> list[float]:
        rows = order.ravel()
        data = gluon.data.ArrayDataset(inputs[rows], labels[rows])
        fitting.fit(gluon.data.DataLoader(data, batch_size=order.shape[1]), epochs=1)
        told = dict(metric.get() for metric in fitting.train_metrics)
        return [next(value for name, value in told.items() if name.endswith("loss"))]

    return train


LOOPS = {"by-hand": by_hand}
FEEDS = {"guide-feed": guide_feed}
TRAINERS = {"estimator": estimator}
