"""Weights of the chain of matrix products that a memory worker times."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.worker.memory_steps import WIDTHS, draw_products, product_chain
from workloads import weights


@pytest.mark.parametrize("width", [64, 2 * WIDTHS[0]])
def test_a_chain_of_products_has_its_shapes_and_the_spread_of_drawn_weights(width: int) -> None:
    workload = product_chain(width)
    found, drawn = draw_products(workload, width), weights.draw(product_chain(min(width, WIDTHS[0])), 0)
    assert {key: array.shape for key, array in found.items()} == workload.weight_shapes()
    assert all(array.dtype == np.float32 for array in found.values())
    expected = np.std(drawn["product0/kernel"]) * np.sqrt(min(width, WIDTHS[0]) / width)
    assert np.std(found["product3/kernel"]) == pytest.approx(expected, rel=1e-3)
