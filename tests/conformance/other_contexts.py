"""Run inside MXNet's environment: python other_contexts.py OUT_FILE RULE...

Trains on two contexts of which none is MXNet's current one, as GPUs never are. Writes what `divided.py` does, and the
adapter's count of memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

from divided import every  # noqa: E402

from adapters.worker.__main__ import adapter_for  # noqa: E402

adapter: Any = adapter_for("mxnet", 2)
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
adapter.contexts = [type(adapter.context)("cpu", number) for number in (1, 2)]
adapter.context = adapter.contexts[0]
arrays = every(adapter, sys.argv[2:]) | {"memory": np.array(json.dumps(adapter.memory()))}
np.savez(sys.argv[1], **arrays)  # type: ignore[arg-type]  # numpy's allow_pickle is no key of these
