"""Extent of the masks in the user's own Keras model: the proof compares it with the network's."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import ROOT

PYTHON = ROOT / ".envs" / "tensorflow-cpu" / "bin" / "python"
CODE = """
import json, keras
from adapters.keras_shared.source import find_covered
shapes = (None, (None, 1, 1, 1), (None, 1, 1, 8), (1, 1, 1, 1), (4, 1, 1, 1))
layers = [keras.layers.Dropout(0.5, noise_shape=shape) for shape in shapes]
print(json.dumps([find_covered(each) for each in (*layers, keras.layers.SpatialDropout2D(0.5))]))
"""

pytestmark = pytest.mark.real


def test_a_mask_of_one_number_for_the_whole_batch_is_not_taken_for_one_per_image() -> None:
    done = subprocess.run([PYTHON, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == ["value", "image", "channel", "batch", "batch", "channel"]
