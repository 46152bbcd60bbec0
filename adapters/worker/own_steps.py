"""Steps for the checks of custom code: evaluate some images again, and train the first steps again.

The runner compares both with what the same trial did before. No framework is compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adapters.base import Adapter, Order
from adapters.worker.prepare import Prepared
from adapters.worker.trainer import Trainer
from workloads.datasets import Images

AGAIN = 4  # test images


def evaluate_again(adapter: Adapter, images: Images) -> dict[str, Any]:
    """Return the logits of a few images (n, h, w, c) in a batch of their own, the last image first."""
    chosen = np.unique(np.linspace(len(images) - 1, 0, AGAIN).astype(int))[::-1]
    logits = adapter.predict(np.array(images[chosen]))
    return {"images": chosen.tolist(), "logits": logits.astype(float).tolist()}


def train_again(adapter: Adapter, prepared: Prepared, batches: Order, part: int | None) -> dict[str, Any]:
    """Build the model again from the same seed; return its losses over `batches` (steps, batch), one step per call."""
    prepared.build(adapter)
    trainer = Trainer(adapter, None, prepared.rates, prepared.ahead, part)
    trainer.run(batch[None] for batch in batches)
    return {"losses": trainer.losses}
