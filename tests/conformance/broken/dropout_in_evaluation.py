"""PyTorch: the model is not put into evaluation mode, as far as dropout goes."""

from typing import Any

import torch

from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("dropout",), {"dropout"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        for block in self.model.modules():
            if isinstance(block, torch.nn.Dropout):
                block.eval = block.train
                block.train = lambda mode=True, block=block: block
