"""Print bytes at the peak of a step of osu-cnn with Adam, by PyTorch's own tracker: tracked_by_pytorch.py
BATCH_SIZE."""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.distributed._tools.mem_tracker import MemTracker

from adapters.pytorch.adapter import Adapter
from workloads import weights
from workloads.catalogue import OSU_CNN
from workloads.spec import OptimizerSpec

batch_size = int(sys.argv[1])
adapter = Adapter()
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
images = np.zeros((batch_size, *OSU_CNN.input_shape), np.uint8)
adapter.load(images, np.zeros(batch_size, np.int32))
adapter.build(OSU_CNN, OptimizerSpec.named("adam"), weights.draw(OSU_CNN, 0), 0)
order = np.arange(batch_size, dtype=np.int32)[None]
adapter.train(order)
adapter.optimizer.zero_grad()
tracker = MemTracker()
tracker.track_external(adapter.model, adapter.optimizer)
with tracker:
    adapter.train(order)
print(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])
