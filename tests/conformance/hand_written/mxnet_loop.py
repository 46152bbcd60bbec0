"""The same training with MXNet's symbols-free NDArray API, by hand: no line of Batchwise, only its input files."""

import json
import sys

import mxnet as mx
import numpy as np

request = json.loads(sys.argv[1])
train_images, train_labels, test_images, test_labels, order = (
    np.load(request[name]) for name in ("train_images", "train_labels", "test_images", "test_labels", "order")
)
initial = np.load(request["weights"])

weights = {}
for key in initial.files:
    value = initial[key]
    weights[key] = mx.nd.array(
        value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T if value.ndim == 2 else value
    )
    weights[key].attach_grad()
velocity = {key: mx.nd.zeros_like(value) for key, value in weights.items()}


def convolve(x: mx.nd.NDArray, name: str, filters: int) -> mx.nd.NDArray:
    return mx.nd.relu(
        mx.nd.Convolution(x, weights[f"{name}/kernel"], weights[f"{name}/bias"], kernel=(3, 3), num_filter=filters)
    )


def pool(x: mx.nd.NDArray) -> mx.nd.NDArray:
    return mx.nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")


def dense(x: mx.nd.NDArray, name: str, units: int) -> mx.nd.NDArray:
    return mx.nd.FullyConnected(x, weights[f"{name}/kernel"], weights[f"{name}/bias"], num_hidden=units)


def logits(images: np.ndarray) -> mx.nd.NDArray:
    x = mx.nd.array(images.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    x = convolve(pool(convolve(pool(convolve(x, "conv1", 32)), "conv2", 64)), "conv3", 64)
    x = mx.nd.flatten(x.transpose((0, 2, 3, 1)))  # channels last, so the dense weights fit as they are
    return dense(mx.nd.relu(dense(x, "dense1", 64)), "dense2", 10)


losses = []
for epoch in range(request["epochs"]):
    for batch in np.split(order[epoch], range(request["batch_size"], len(order[epoch]), request["batch_size"])):
        with mx.autograd.record():
            log_probabilities = mx.nd.log_softmax(logits(train_images[batch]))
            loss = -mx.nd.pick(log_probabilities, mx.nd.array(train_labels[batch])).mean()
        loss.backward()
        for key, weight in weights.items():
            velocity[key] = 0.9 * velocity[key] + weight.grad
            weight[:] = weight - 0.01 * velocity[key]
        losses.append(loss.asscalar().item())
accuracy = (logits(test_images).asnumpy().argmax(1) == test_labels).mean()
print(json.dumps({"first_losses": losses[:10], "test_accuracy": float(accuracy)}))
