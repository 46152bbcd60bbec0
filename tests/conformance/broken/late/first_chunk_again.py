"""PyTorch: evaluation takes a batch in chunks of 64 images and forgets the index: the first one's answers for all."""

from adapters.base import Floats
from adapters.pytorch import adapter
from workloads.datasets import Images

FRAMEWORK, CAUGHT_BY = "pytorch", {"evaluation at its end = the referee's", "its last evaluation = the referee's"}
CHUNK = 64


class Adapter(adapter.Adapter):
    def predict(self, images: Images) -> Floats:
        answers = super().predict(images)
        for first in range(CHUNK, len(images), CHUNK):
            answers[first : first + CHUNK] = answers[: len(images[first : first + CHUNK])]
        return answers
