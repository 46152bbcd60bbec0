"""Classify a framework's errors: `python said.py FRAMEWORK < rows` inside its environment, as JSON.

A row is [type, message], the type as MODULE.NAME. An answer is "memory", "where memory is short" or "failed".
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapters.base import Adapter
from adapters.worker import refused_memory
from adapters.worker.refused_memory import out_of_memory
from workloads.records.events import MemoryBound


def made(kind: str, message: str) -> BaseException:
    """An error of this type; TensorFlow's also take a node and an operation."""
    module, _, name = kind.rpartition(".")
    type_of: Any = getattr(import_module(module), name)
    error: BaseException = type_of(None, None, message) if module == "tensorflow.errors" else type_of(message)
    return error


def explained(error: BaseException, left: float) -> bool:
    """True if memory explains the error where this share of a limit and of the GPU was left."""
    refused_memory.shares_left = lambda: iter([(MemoryBound.DATA, left)])
    refused_memory.is_device_short = lambda: left < refused_memory.SHORT_OF_DEVICE
    return any(refused_memory.ran_out(error, device, preallocates=False) for device in ("cpu", "GPU-1"))


def verdict(adapter: Adapter, error: BaseException) -> str:
    """Return the worker's reading of the error."""
    if out_of_memory(error, adapter) or explained(error, left=0.9):
        return "memory"
    return "where memory is short" if explained(error, left=0.01) else "failed"


if __name__ == "__main__":
    adapter = import_module(f"adapters.{sys.argv[1]}.adapter").Adapter()
    print(json.dumps([verdict(adapter, made(*row)) for row in json.load(sys.stdin)]))
