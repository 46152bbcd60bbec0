"""Gradients by parameter, which own code's noise scale rests on: every framework's are those of its layers."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import REAL_FRAMEWORKS, once
from suite import HERE, Found, load, run_in

ALIKE = 1e-5


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_gradients_by_parameter_are_those_by_layer_and_asking_for_them_changes_nothing(
    framework: str, found: Found
) -> None:
    """BatchNorm's running statistics stay, and so do what momentum keeps and the weights."""
    out = found.folder / f"own-gradients-{framework}.npz"
    once(out, lambda: run_in(framework, HERE / "own_gradients.py", str(out), framework))
    arrays = load(out)
    assert len(arrays["by_parameter"]) == len(arrays["by_layer"]) and arrays["by_layer"].min() > 0
    assert np.allclose(arrays["by_parameter"], arrays["by_layer"], rtol=ALIKE, atol=1e-7)
    assert arrays["losses"][0] == arrays["losses"][1] and arrays["moved"] == 0
