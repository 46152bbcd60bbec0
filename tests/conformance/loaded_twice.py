"""Run inside a framework's environment: python loaded_twice.py FRAMEWORK MAKER

Loads a split onto the device twice, as before each epoch of augmented images. MAKER names the adapter's method that
makes an array on the device. Prints how many the second load made, and which of the first split's were held meanwhile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapters.worker.__main__ import adapter_for

IMAGES, LABELS = np.zeros((8, 4, 4, 3), np.uint8), np.zeros(8, np.int32)

framework, maker = sys.argv[1:]
adapter: Any = adapter_for(framework, 1)
adapter.open("cpu", 1, "default", "float32", "device", "on-demand")
adapter.load(IMAGES, LABELS)
make, held = getattr(adapter, maker), list[list[str]]()


def make_and_look(array: np.ndarray) -> Any:
    """Make the array, and note what is held."""
    held.append([name for name in ("images", "labels") if vars(adapter).get(name) is not None])
    return make(array)


setattr(adapter, maker, make_and_look)
adapter.load(IMAGES, LABELS)
print(json.dumps({"made": len(held), "held": sorted({name for each in held for name in each})}))
