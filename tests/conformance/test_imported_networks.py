"""Networks of keras.applications, imported from their files, are those that Keras computes with."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array, Pass
from workloads import networks
from workloads.source.files import Imported

NAMES = ("ResNet50", "MobileNetV3Large", "EfficientNetB0", "ConvNeXtTiny", "DenseNet121")
OWN = ("patches", "mixed", "ended")  # of keras_sources.py
TOLERANCE = 1e-5  # of the largest logit; both compute in float64

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("imported-networks")]


@dataclass(frozen=True)
class Sources:
    folder: Path
    facts: dict[str, Any]
    logits: dict[str, Array]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("sources")
    python, program = ROOT / ".envs/tensorflow-cpu/bin/python", ROOT / "tests/conformance/keras_sources.py"
    subprocess.run([python, program, folder, *NAMES, *OWN], check=True, timeout=600)
    with np.load(folder / "logits.npz") as logits:
        return Sources(folder, json.loads((folder / "facts.json").read_text()), dict(logits))


def compute_logits(imported: Imported, pixels: Array) -> Array:
    """Return the referee's logits in float64, with the source's weights."""
    assert imported.weights is not None
    workload = imported.workload
    weights = {key: array.astype(np.float64) for key, array in imported.weights.items()}
    run = Pass(weights, training=False, generator=np.random.default_rng(0))
    return sequence(workload.layers, pixels.astype(np.float64) * workload.scale, run)[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_json_gives_a_network_with_as_many_parameters(name: str, sources: Sources) -> None:
    workload = networks.find(str(sources.folder / f"{name}.json"))
    assert workload.parameter_count == sources.facts[name]["trained"]
    assert sum(math.prod(shape) for shape in workload.statistic_shapes().values()) == sources.facts[name]["running"]
    assert workload.input_shape == (64, 64, 3) and workload.output_shape == (1000,)


@pytest.mark.parametrize("name", [*NAMES, *OWN])
def test_the_file_gives_a_network_whose_logits_are_those_of_keras(name: str, sources: Sources) -> None:
    imported = networks.find_imported(str(sources.folder / f"{name}.keras"))
    truth = sources.logits[name]
    found = compute_logits(imported, sources.logits["pixels"])
    assert float(np.abs(found - truth).max()) <= TOLERANCE * float(np.abs(truth).max())


def test_the_logits_depend_on_every_weight_of_the_source(sources: Sources) -> None:
    """A test of the test: were two weights of one shape exchanged, the logits would say so."""
    imported = networks.find_imported(str(sources.folder / "MobileNetV3Large.keras"))
    assert imported.weights is not None
    first, second = "expanded_conv_depthwise_bn/running_mean", "expanded_conv_depthwise_bn/beta"
    exchanged = imported.weights | {first: imported.weights[second], second: imported.weights[first]}
    wrong = compute_logits(Imported(imported.workload, exchanged), sources.logits["pixels"])
    truth = sources.logits["MobileNetV3Large"]
    assert float(np.abs(wrong - truth).max()) > 10 * TOLERANCE * float(np.abs(truth).max())
