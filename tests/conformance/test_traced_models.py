"""Networks of PyTorch code are traced in PyTorch's own interpreter: what they become, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from each import for_each

from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array, Pass
from workloads import layers
from workloads.records.network import OwnCode
from workloads.source.graph import ImportRefused
from workloads.source.imported import Imported
from workloads.source.traced import read_traced

PYTHON = ROOT / ".envs" / "pytorch-cpu" / "bin" / "python"
SHAPE, CLASSES = (12, 10, 3), 5  # as in traced_models.py
TOLERANCE = 1e-6  # of the largest logit; weights are rounded to float32, all else is float64

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("traced-models")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of traced_models.py, traced in one process."""
    made = tmp_path_factory.mktemp("traced")
    np.save(made / "pixels.npy", np.random.default_rng(3).integers(0, 256, (3, *SHAPE), dtype=np.uint8))
    subprocess.run([PYTHON, ROOT / "tests/conformance/traced_models.py", made], check=True, timeout=300)
    return made


def read(folder: Path, name: str) -> Imported:
    return read_traced(folder / name, OwnCode("pytorch", "net.py", name, "0" * 12, CLASSES, SHAPE), b"", "net")


def compute_logits(imported: Imported, pixels: Array) -> Array:
    """Return the referee's logits in float64, with the source's weights."""
    assert imported.weights is not None
    weights = {key: array.astype(np.float64) for key, array in imported.weights.items()}
    run = Pass(weights, training=False, generator=np.random.default_rng(0))
    return sequence(imported.workload.layers, pixels.astype(np.float64) * imported.workload.scale, run)[0]


IMPORTED = (
    "vit", "conv-next", "squeeze-excite", "dense-block", "in-place", "activations", "branch-on-shape", "normalised",
    "flattened", "pools", "groups", "dropouts", "norm-as-function", "tokens-mean", "one-module-many-times",
    "cloned", "numbers-first", "whole-slices", "bare", "attention-of-timm",
    "own-drop-paths",
)  # fmt: skip


@for_each("name", IMPORTED)
def test_an_imported_network_has_the_logits_of_its_source(name: str, folder: Path) -> None:
    truth = np.load(folder / name / "logits.npy")
    found = compute_logits(read(folder, name), np.load(folder / "pixels.npy"))
    assert found.shape == truth.shape == (3, CLASSES)
    assert float(np.abs(found - truth).max()) <= TOLERANCE * float(np.abs(truth).max())


REFUSED = {
    "branch-on-values": "the model (Computes): its forward pass branches on the values of a tensor",
    "reads-a-value": "the model (Computes): its forward pass reads a tensor's values (item)",
    "module-twice": "same (Conv2d): is used 2 times, with the same weights each time: give each use its own",
    "tied": "more.weight is also conv.weight: each layer needs its own weights",
    "two-inputs": "the model (TwoInputs): its forward pass has several inputs (x, y); give it one: images",
    "two-outputs": "its forward pass returns a tuple; let it return one tensor: the logits",
    "dictionary": "its forward pass returns a dict; let it return one tensor: the logits",
    "images-as-output": "it returns 8 x 10 x 8 numbers per image; let it return one logit per class",
    "unknown-module": "act (PReLU): there is no layer record for it",
    "unknown-function": "the model (cumsum): there is no layer record for it",
    "transposed-convolution": "up (ConvTranspose2d): there is no layer record for it",
    "padding-mode": "conv (Conv2d): padding_mode reflect: a layer record pads with zeros",
    "stride-of-two-numbers": "conv (Conv2d): stride 1 x 2: a layer record has one for both axes",
    "average-of-padding": "counts the padding as pixels; the layer record does not: use count_include_pad=False",
    "divisor": "divides by its own number (divisor_override)",
    "batch-norm-without-statistics": "bn (BatchNorm2d): track_running_stats=False",
    "batch-norm-without-momentum": "bn (BatchNorm2d): momentum=None",
    "norm-without-parameters": "norm (LayerNorm): has no scale or no shift of its own: the record of",
    "norm-without-shift": "norm (LayerNorm): has no scale or no shift of its own: the record of",
    "norm-as-a-function": "(layer_norm): has no scale or no shift of its own: the record of",
    "norm-of-rows": "norm (LayerNorm): is over axes of (8, 10, 8)",
    "frozen": "conv (Conv2d): parameter conv.weight is not trained (requires_grad=False)",
    "hooked": "conv (Conv2d): it has forward hooks, which change what it computes: remove them",
    "unused": "more (Conv2d): parameter more.weight is not used by the forward pass: remove it from the model",
    "mode": "computes different things in training and evaluation: remove the branch on the mode",
    "dropout-in-evaluation": "drops values in evaluation, too: pass it training=self.training",
    "whole-batches-dropped": "drop (StochasticDepth): drops whole batches",
    "rate-elsewhere": "drop (DropPath): its rate is not the number drop_prob",
    "path-in-evaluation": "drop (DropPath): changes its input in evaluation, too; copy timm's DropPath or",
    "path-with-a-copied-rate": "drop (DropPath): drops images while drop_prob is 0, so its rate is elsewhere; copy",
    "path-of-rate-1": "drop (DropPath): its rate drop_prob is 1: it must be at least 0 and below 1",
    "path-of-one-coin": "drop (DropPath): does not set each image to 0 or divide it by 1 - drop_prob = 0.75; copy",
    "path-of-one-coin-rescaled": "of 4096 images, not each with probability drop_prob = 0.25; copy",
    "path-not-rescaled": "drop (DropPath): does not set each image to 0 or divide it by 1 - drop_prob = 0.75; copy",
    "path-of-channels": "drop (DropPath): does not set each image to 0 or divide it by 1 - drop_prob = 0.75; copy",
    "path-that-keeps-the-rate": "of 4096 images, not each with probability drop_prob = 0.25; copy",
    "path-of-another-shape": "drop (DropPath): changes the shape of its input; copy",
    "path-of-one-size": "drop (DropPath): cannot be tested on other images: RuntimeError",
    "forward-replaced": "drop (Dropout): its forward is replaced, so its class does not say what it computes",
    "wrapped-by-a-name": "(dropout): stays whole by torch.fx.wrap, so its code is not read: remove the wrap",
    "coin-per-batch": "the model (Computes): its forward pass draws random numbers by itself: use nn.Dropout",
    "channels-exchanged": "(getitem): takes a part of a tensor",
    "softmax-at-the-end": "it returns probabilities; the loss is computed from logits: remove its last softmax",
    "sigmoid-at-the-end": "the loss is computed from logits: remove its last sigmoid",
    "cropped": "pad (ZeroPad2d): its padding is negative, which cuts rows or columns off",
    "attention-not-batch-first": "attention (MultiheadAttention): batch_first=False",
    "reshape-of-channels": "changes 2 x 8 x 10 x 8 to 2 x 2 x 4 x 10 x 8: images can become tokens or be flattened",
    "module-made-in-forward": "calls a ReLU that is not in the model: make it in __init__",
    "other-size": "the model (Computes): fails on images of",
}


@for_each("name, telling", REFUSED.items())
def test_what_is_no_tree_of_layer_records_is_refused_in_one_line(name: str, telling: str, folder: Path) -> None:
    with pytest.raises(ImportRefused) as refused:
        read(folder, name)
    line = str(refused.value)
    assert telling in line and "\n" not in line, line


def find(folder: Path, name: str, kind: type[layers.Layer]) -> list[layers.Layer]:
    return [layer for layer, _ in read(folder, name).workload.walk() if isinstance(layer, kind)]


def test_settings_are_those_of_the_source(folder: Path) -> None:
    (norm,) = find(folder, "activations", layers.BatchNorm)
    assert (norm.momentum, norm.epsilon) == (0.99, 1e-3)  # type: ignore[attr-defined]
    assert [each.rate for each in find(folder, "dropouts", layers.Dropout)] == [0.5, 0.25]  # type: ignore[attr-defined]
    (depth,) = find(folder, "conv-next", layers.StochasticDepth)
    (scale,) = find(folder, "conv-next", layers.ChannelScale)
    assert depth.rate == 0.25 and depth.name == "drop"  # type: ignore[attr-defined]
    assert isinstance(scale.initial, float)  # type: ignore[attr-defined]
    rates = [each.rate for each in find(folder, "own-drop-paths", layers.StochasticDepth)]  # type: ignore[attr-defined]
    assert rates == [1e-6, 0.004, 0.1, 0.5, 0.9, 0.999, 0.5, 0.25]
    (normalise,) = find(folder, "normalised", layers.Normalise)[:1]
    assert normalise.std == (0.25, 0.5, 2.0)  # type: ignore[attr-defined]
    assert find(folder, "vit", layers.Dropout) == []


def test_the_map_gives_every_weight_and_takes_it_back(folder: Path) -> None:
    for name in ("vit", "flattened", "conv-next"):
        imported = read(folder, name)
        assert imported.origin and imported.origin.tensors and imported.weights
        with np.load(imported.origin.tensors) as archive:
            tensors = dict(archive)
        zeros = {key: np.zeros_like(array) for key, array in tensors.items()}
        put = imported.origin.source.put(imported.weights, zeros)
        untouched = {key for key, array in put.items() if not np.array_equal(array, tensors[key])}
        assert all(key.endswith("num_batches_tracked") for key in untouched), untouched


def test_layers_have_the_names_of_the_sources_modules(folder: Path) -> None:
    places = read(folder, "vit").places
    assert places["attention"] == "attention (MultiheadAttention)" and places["dense_0"] == "dense.0 (Linear)"
    assert read(folder, "vit").origin.source.places["norm"] == "norm"  # type: ignore[union-attr]
