"""MXNet: images of an evaluation are copied by a second team of threads, in the thread that called."""

import ctypes
import os
from typing import Any

import mxnet as mx
from mxnet.base import _LIB

from adapters.base import Floats
from adapters.mxnet import adapter
from adapters.mxnet.layers import turned
from workloads.datasets import Images

FRAMEWORK, CAUGHT_BY = "mxnet", ("evaluation", "threads")


class Adapter(adapter.Adapter):
    def open(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        facts = super().open(*arguments, **named)
        _LIB.MXSetNumOMPThreads(ctypes.c_int(int(os.environ["OMP_NUM_THREADS"])))
        return facts

    def predict(self, images: Images) -> Floats:
        return self.net(mx.nd.array(turned(images), self.context, dtype=images.dtype)).asnumpy()
