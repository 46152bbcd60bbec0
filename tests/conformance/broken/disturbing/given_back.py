"""PyTorch: a probe lowers what the heap keeps at its top: enough for a step, but less than a settled heap keeps."""

import ctypes

from adapters.base import Probe
from adapters.pytorch import adapter
from workloads.datasets import Images, Labels

FRAMEWORK, CAUGHT_BY = "pytorch", ("probe", "given_back_mib")
TRIM_THRESHOLD, KEPT_BYTES = -1, 16 * 2**20  # mallopt(3)


class Adapter(adapter.Adapter):
    def probe(self, images: Images, labels: Labels) -> Probe:
        ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, KEPT_BYTES)
        return super().probe(images, labels)
