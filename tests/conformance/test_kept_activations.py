"""Activations that every real framework keeps between forward and backward, compared with the network's mathematics."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, ROOT

from runner.environments.definition import build_worker_variables, read
from workloads.activations import activation_bytes, pooled_values
from workloads.catalogue import CATS_DOGS_CNN, LENET_5, MOBILENET_V3_LARGE, OSU_CNN, RESNET_18, VIT_TINY
from workloads.layers import Conv2D, DepthwiseConv2D, Dropout, HardSigmoid, MultiHeadAttention, Relu
from workloads.networks import WORKLOADS
from workloads.spec import Workload

LABEL = 8  # PyTorch's loss takes the labels in as int64, or as float32 for one logit
LOSS, WEIGHT = 4, 4  # PyTorch's mean loss, and the sum of its labels' weights
EXTRA = 0.05  # MXNet, above values and places: the softmax kept with the logits, a loss per image, at times a batch
CHUNK = 2.0  # the largest chunk that TensorFlow's allocator gives for what was asked for


def kept(framework: str, workload: Workload, batch_size: int, folder: Path) -> tuple[int, dict[str, Any]]:
    """(activations in bytes as the memory worker divides them, the whole MemoryUse)."""
    environment = read(PROJECT, framework, "cpu")
    script = str(Path(__file__).parent / "kept_by_framework.py")
    fixed = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [str(environment.interpreter), script, framework, workload.name, str(batch_size), str(folder)],
        env=build_worker_variables(environment) | fixed,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    use = json.loads(done.stdout.splitlines()[-1])
    return use["held"] - use["before"] - use["inputs"], use


SETTINGS = [(OSU_CNN.name, 128), (CATS_DOGS_CNN.name, 2)]


@pytest.mark.parametrize(("name", "batch_size"), [*SETTINGS, (LENET_5.name, 8)])
def test_pytorch_keeps_the_exact_count_the_places_and_the_labels_to_the_byte(
    name: str, batch_size: int, tmp_path: Path
) -> None:
    """The batch itself, which lies in numpy's memory on a CPU, is then neither counted as an activation nor missing."""
    workload = WORKLOADS[name]
    activations, use = kept("pytorch", workload, batch_size, tmp_path)
    binary = workload.loss == "binary-cross-entropy"
    loss = (4 * batch_size + LOSS) if binary else (LABEL * batch_size + LOSS + WEIGHT)
    assert use["pool_indices"] == 8 * batch_size * pooled_values(workload)
    assert activations == activation_bytes(workload, batch_size) + use["pool_indices"] + loss
    assert use["in_chunks"] is use["runs_ahead"] is False
    counted = use["before"] + use["inputs"] + activations
    assert counted <= use["step_peak"]  # the peak holds the batch, too


@pytest.mark.parametrize(("name", "batch_size"), SETTINGS)
def test_mxnet_keeps_the_exact_count_the_places_and_little_more(name: str, batch_size: int, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    activations, use = kept("mxnet", workload, batch_size, tmp_path)
    exact = activation_bytes(workload, batch_size)
    assert use["pool_indices"] == 4 * batch_size * pooled_values(workload)
    assert 0 <= activations - exact - use["pool_indices"] <= EXTRA * exact
    assert use["runs_ahead"] is True and use["in_chunks"] is False


@pytest.mark.parametrize(("name", "batch_size"), SETTINGS)
def test_tensorflow_keeps_at_least_the_exact_count_and_at_most_its_chunks_of_it(
    name: str, batch_size: int, tmp_path: Path
) -> None:
    workload = WORKLOADS[name]
    activations, use = kept("tensorflow", workload, batch_size, tmp_path)
    exact = activation_bytes(workload, batch_size)
    assert exact <= activations <= CHUNK * (exact + use["inputs"])
    assert isinstance(use["pool_indices"], str)
    assert use["in_chunks"] is True and use["runs_ahead"] is False


def padded_beside(workload: Workload) -> int:
    """Values per image beyond the exact count that a framework keeps which pads unevenly by hand. It keeps a padded
    copy of what a ReLU keeps anyway, else the padding alone."""
    more, before = 0, None
    for layer, shape in workload.walk():
        if isinstance(layer, Conv2D | DepthwiseConv2D):
            (above, below), (left, right) = layer.margins(shape)
            if (above, left) != (below, right):
                padded = (shape[0] + above + below) * (shape[1] + left + right) * shape[2]
                more += padded if isinstance(before, Relu) else padded - math.prod(shape)
        before = layer
    return more


def test_pytorchs_count_of_a_deep_network_is_explained_to_the_byte(tmp_path: Path) -> None:
    """BatchNorm, HardSwish, Multiply, Add and Dropout: mobilenet-v3-large has them all."""
    activations, _ = kept("pytorch", MOBILENET_V3_LARGE, 1, tmp_path)
    walked = list(MOBILENET_V3_LARGE.walk())
    gates = sum(math.prod(shape) for layer, shape in walked if isinstance(layer, HardSigmoid))  # it keeps the input
    dropped = sum(math.prod(shape) for layer, shape in walked if isinstance(layer, Dropout))  # a float32 each, not 1 B
    more = 4 * (padded_beside(MOBILENET_V3_LARGE) + gates) + 3 * dropped + LABEL + LOSS + WEIGHT
    assert activations == activation_bytes(MOBILENET_V3_LARGE, 1) + more


def test_pytorchs_count_of_projected_shortcuts_is_explained_to_the_byte(tmp_path: Path) -> None:
    """Its margins are alike on both sides, so PyTorch copies nothing to pad it."""
    activations, use = kept("pytorch", RESNET_18, 2, tmp_path)
    assert padded_beside(RESNET_18) == 0 < use["pool_indices"] == 8 * 2 * pooled_values(RESNET_18)
    assert activations == activation_bytes(RESNET_18, 2) + use["pool_indices"] + 2 * LABEL + LOSS + WEIGHT


def test_pytorchs_attention_keeps_a_logarithm_for_each_query_and_computes_the_softmax_again(tmp_path: Path) -> None:
    activations, _ = kept("pytorch", VIT_TINY, 2, tmp_path)
    attentions = [(layer, shape) for layer, shape in VIT_TINY.walk() if isinstance(layer, MultiHeadAttention)]
    softmax, logarithms = (sum(layer.heads * shape[0] ** power for layer, shape in attentions) for power in (2, 1))
    more = 2 * (4 * (logarithms - softmax) + LABEL) + LOSS + WEIGHT
    assert activations == activation_bytes(VIT_TINY, 2) + more
