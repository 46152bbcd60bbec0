"""PyTorch: BatchNorm's running variance stays the unbiased one."""

from typing import Any

from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("statistics-2", "statistics-32"), {"weights", "evaluation"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.norms = []
