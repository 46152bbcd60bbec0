"""Divide a global batch that does not fit into parts that go through the network one after the other."""

from __future__ import annotations


def parts_of(global_batch: int, largest: int) -> tuple[int, int]:
    """Return (parts K, images b of each): the fewest parts of no more than `largest` images, as even as possible. The
    last is smaller if K does not divide the global batch, and then a study's K x b exceeds it, by less than K.

    Raises ValueError if one of them is less than 1.
    """
    if global_batch < 1 or largest < 1:
        raise ValueError(f"a global batch of {global_batch} in parts of at most {largest}: both must be 1 or more")
    parts = -(-global_batch // largest)
    return parts, -(-global_batch // parts)
