"""PyTorch: an evaluation gives its memory back to the kernel, and from then on so does every step."""

import ctypes

from adapters.base import Floats
from adapters.pytorch import adapter
from workloads.datasets import Images

FRAMEWORK, CAUGHT_BY = "pytorch", ("evaluation", "page_faults")
TRIM_THRESHOLD, MMAP_THRESHOLD, INITIAL_BYTES = -1, -3, 128 * 1024  # mallopt(3)


class Adapter(adapter.Adapter):
    def predict(self, images: Images) -> Floats:
        for threshold in (TRIM_THRESHOLD, MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, INITIAL_BYTES)
        return super().predict(images)
