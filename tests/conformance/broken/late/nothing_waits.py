"""Gluon: in the window neither reading nor synchronising waits for MXNet's queue."""

import numpy as np

from adapters.mxnet import adapter

FRAMEWORK, CAUGHT_BY = "mxnet", {"nothing was left to do behind the window"}
HONEST_STEPS = 24  # two epochs at batch size 128


class Adapter(adapter.Adapter):
    done, asked = 0, False  # steps; whether weights were asked for, which ends the window

    def train(self, order):
        self.done += len(order)
        return super().train(order)

    def weights(self):
        self.asked = True
        return super().weights()

    def _waits(self):
        return self.asked or self.done <= HONEST_STEPS

    def read(self, handle):
        return super().read(handle) if self._waits() else np.full(len(handle), 0.5, np.float32)

    def synchronize(self):
        if self._waits():
            super().synchronize()
