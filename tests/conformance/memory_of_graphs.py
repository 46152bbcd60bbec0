"""Print what PyTorch's memory worker says of a card with, and without, a CUDA graph's pool: a stand-in for the card's
allocator, whose pages the adapter reads.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from adapters.base import Unsupported
from adapters.pytorch.adapter import Adapter
from workloads import weights
from workloads.catalogue import OSU_CNN
from workloads.spec import OptimizerSpec

MIB = 2**20
SHARED = {"segment_pool_id": (0, 0), "total_size": 20 * MIB}
PRIVATE = {"segment_pool_id": (0, 1), "total_size": 6 * MIB}

adapter: Any = Adapter()
order = np.arange(4, dtype=np.int32)[None]
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
adapter.load(np.zeros((4, *OSU_CNN.input_shape), np.uint8), np.zeros(4, np.int32))
adapter.build(OSU_CNN, OptimizerSpec.named("sgd"), weights.draw(OSU_CNN, 0), 0)
counted = adapter.memory_use(order).held
told: dict[str, bool | str] = {}
adapter.device = torch.device("cuda")
torch.cuda.synchronize = lambda: None
torch.cuda.reset_peak_memory_stats = lambda: None
torch.cuda.memory_allocated = torch.cuda.max_memory_allocated = lambda: counted
adapter._gathered = lambda batch: (torch.from_numpy(adapter.images[batch]), torch.from_numpy(adapter.labels[batch]))
for name, segments in {"shared": [SHARED], "private": [SHARED, PRIVATE, PRIVATE]}.items():
    torch.cuda.memory_snapshot = lambda segments=segments: segments
    try:
        told[name] = adapter.memory_use(order).before == counted
    except Unsupported as error:
        told[name] = str(error)
print(json.dumps(told))
