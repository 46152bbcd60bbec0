"""MXNet: the training split is copied by a second team of threads, before anything is trained."""

from typing import Any

import mxnet as mx
from broken.disturbing import second_team

from adapters.mxnet import adapter
from adapters.mxnet.layers import turned
from workloads.datasets import Images, Labels

FRAMEWORK, CAUGHT_BY = "mxnet", ("training", "threads")


class Adapter(second_team.Adapter):
    predict: Any = adapter.Adapter.predict

    def load(self, images: Images, labels: Labels) -> None:
        mx.nd.array(turned(images), self.context, dtype=images.dtype).wait_to_read()
        super().load(images, labels)
