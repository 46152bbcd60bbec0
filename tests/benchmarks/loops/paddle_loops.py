"""Loop of PaddlePaddle's beginner's guide: forward, backward, step, clear_grad."""

from collections.abc import Callable
from typing import Any

import paddle
from paddle import nn
from paddle.base import core

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2D(3, 32, 3), nn.Conv2D(32, 64, 3), nn.Conv2D(64, 64, 3)
        self.dense1, self.dense2 = nn.Linear(1024, 64), nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = nn.functional.max_pool2d(nn.functional.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(nn.functional.relu(self.conv2(x)), 2)
        x = nn.functional.relu(self.conv3(x)).flatten(1)
        return self.dense2(nn.functional.relu(self.dense1(x)))


def with_weights(net: Any, weights: Any) -> Any:
    for key, array in weights.items():
        layer, role = key.split("/")
        value = array
        if layer == "dense1" and role == "kernel":  # canonical: rows by height, width, channel
            value = array.reshape(4, 4, 64, -1).transpose(2, 0, 1, 3).reshape(1024, -1)
        value = value.transpose(3, 2, 0, 1) if value.ndim == 4 else value
        getattr(getattr(net, layer), "bias" if role == "bias" else "weight").set_value(value.copy())
    return net


def step_of(net: Any) -> Callable[[Any, Any], Any]:
    """Return the guide's step: inputs as float32 and int64 targets -> the loss."""
    optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=net.parameters())
    loss_fn = nn.CrossEntropyLoss()

    def step(inputs: Any, targets: Any) -> Any:
        loss = loss_fn(net(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.detach()

    return step


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    core.set_num_threads(threads)
    step = step_of(with_weights(Net(), weights))

    def train(order: Any) -> list[float]:
        losses = []
        for batch in order:
            inputs = paddle.to_tensor(images[batch]).transpose([0, 3, 1, 2]).astype("float32") / 255
            losses.append(step(inputs, paddle.to_tensor(labels[batch]).astype("int64")))
        return [float(loss) for loss in losses]

    return train


def guide_feed(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make the guide's loop over a DataLoader of a TensorDataset, which was converted to float once."""
    core.set_num_threads(threads)
    step = step_of(with_weights(Net(), weights))
    inputs = paddle.to_tensor(images).transpose([0, 3, 1, 2]).astype("float32") / 255
    data = paddle.io.TensorDataset([inputs, paddle.to_tensor(labels).astype("int64")])

    def train(order: Any) -> list[float]:
        rows = paddle.io.Subset(data, order.ravel().tolist())
        loader = paddle.io.DataLoader(rows, batch_size=order.shape[1], shuffle=False)
        return [float(loss) for loss in [step(x, y) for x, y in loader]]

    return train


LOOPS = {"by-hand": by_hand}
FEEDS = {"guide-feed": guide_feed}
TRAINERS: dict[str, Any] = {}
