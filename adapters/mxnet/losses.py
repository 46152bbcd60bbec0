"""The loss of each image, and network and loss as one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet import gluon

from workloads.spec import Workload


def losses_of(workload: Workload) -> Callable[[mx.nd.NDArray, mx.nd.NDArray], mx.nd.NDArray]:
    """Return the loss of each image: Trainer.step divides the gradient of their sum by the batch size."""
    if workload.loss == "binary-cross-entropy":
        binary = gluon.loss.SigmoidBinaryCrossEntropyLoss()
        return lambda logits, labels: binary(logits, labels.astype("float32"))
    return gluon.loss.SoftmaxCrossEntropyLoss()


def float32(F: Any, values: Any) -> Any:
    """Return the same numbers in float32, from a precision that numpy lacks."""
    return F.amp_cast(values, dtype="float32")


class Losses(gluon.HybridBlock):
    """(images, labels) -> the loss of each image: network and loss as one graph."""

    def __init__(self, net: gluon.HybridBlock, loss: Callable[[Any, Any], Any]) -> None:
        super().__init__(prefix="")
        with self.name_scope():
            self.net = net
        self.loss = loss

    def hybrid_forward(self, F: Any, images: Any, labels: Any) -> Any:
        """Compute the losses; Gluon calls this."""
        return self.loss(self.net(images), labels)
