"""Gluon: in the window neither reading nor synchronising waits for MXNet's queue."""

import numpy as np

from adapters.mxnet import adapter

FRAMEWORK, CAUGHT_BY = "mxnet", {"nothing was left to do behind the window"}
HONEST_STEPS = 24  # two epochs at batch size 128


class Adapter(adapter.Adapter):
    done = 0  # steps; asked to synchronise before anything is built

    def train(self, order):
        self.done += len(order)
        return super().train(order)

    def read(self, handle):
        if self.done > HONEST_STEPS and len(handle) > 1:
            return np.full(len(handle), 0.5, np.float32)
        return super().read(handle)

    def synchronize(self):
        if self.done <= HONEST_STEPS:
            super().synchronize()
