"""Random numbers that code draws by itself: see them, and keep what a check draws from changing them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def read_draws() -> tuple[Any, ...]:
    """Return the states of the generators of PyTorch, Python and NumPy, as values that can be compared."""
    name, keys, *others = np.random.get_state(legacy=True)
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (name, np.asarray(keys).tobytes(), *others)


@contextmanager
def keep_draws(seed: int | None = None) -> Iterator[None]:
    """Set the generators back at the end; at the start they get the seed, if there is one."""
    torch_state, python_state, (name, keys, *others) = read_draws()
    try:
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
        yield
    finally:
        torch.set_rng_state(torch.frombuffer(bytearray(torch_state), dtype=torch.uint8))
        random.setstate(python_state)
        np.random.set_state((name, np.frombuffer(keys, np.uint32), *others))
