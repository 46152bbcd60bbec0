"""Gluon: the optimizer's weight decay is left at the 5e-4 of many a recipe."""

from typing import Any

from adapters.mxnet import adapter

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("plain-momentum", "batchnorm-momentum"), {"weights"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.trainer._optimizer.wd = 5e-4
