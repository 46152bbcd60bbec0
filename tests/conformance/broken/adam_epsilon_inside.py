"""PyTorch: Adam's epsilon stays where PyTorch has it, inside the bias correction."""

from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-adam", "batchnorm-adam"), {"losses", "weights"}


class Adapter(adapter.Adapter):
    def _translate_epsilon(self) -> None:
        pass
