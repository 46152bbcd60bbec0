"""resnet-18 is torchvision's: the same logits, loss, gradients and parameters from the same weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from settings import GRADIENTS, Arrays, batch_statistics
from suite import HERE, apart, run_in, under

from adapters.numpy.adapter import Adapter
from workloads import weights
from workloads.catalogue import RESNET_18
from workloads.layers import Dense
from workloads.records.build import FLOAT64
from workloads.spec import OptimizerSpec

IMAGES = (4, 65, 62, 3)  # rows and columns are odd and even where convolutions stride
NETWORK = replace(RESNET_18, input_shape=IMAGES[1:], layers=(*RESNET_18.layers[:-1], Dense("dense", 1000)))


@pytest.fixture(scope="module")
def given() -> Arrays:
    """Images, labels and weights. Gammas and betas differ from the 1 and 0 at which mistakes hide; statistics are those
    of the images, as in a trained network: with others its activations grow until rounding is large."""
    generator = np.random.default_rng(18)
    initial = weights.draw(NETWORK, seed=18)
    for key, array in initial.items():
        if array.ndim == 1:
            initial[key] = (array + generator.uniform(0, 0.25, array.shape)).astype(np.float32)
    images = generator.integers(0, 256, IMAGES, dtype=np.uint8)
    initial |= batch_statistics(NETWORK, initial, images)
    return {"images": images, "labels": generator.integers(0, 1000, len(images)).astype(np.int32), **initial}


@pytest.fixture(scope="module")
def told(given: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Answers of the network in plain torch.nn, and of PyTorch's adapter."""
    folder: Path = tmp_path_factory.mktemp("resnet")
    np.savez(folder / "given.npz", **given)  # type: ignore[arg-type]  # numpy's allow_pickle is no key of these
    run_in("pytorch", HERE / "resnet_of_torch.py", str(folder / "given.npz"), str(folder / "told.npz"))
    with np.load(folder / "told.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_pytorchs_adapter_has_torchvisions_logits_loss_and_gradients(told: Arrays) -> None:
    assert apart({"": told["ours"]}, {"": told["logits"]})[0] <= 1e-6
    assert abs(told["our_loss"] / told["loss"] - 1) <= 1e-6
    expected = under(told, "gradients/")
    largest = max(float(np.abs(array).max()) for array in expected.values())
    assert apart(under(told, "our_gradients/"), expected, largest)[0] <= GRADIENTS
    assert int(told["count"]) == NETWORK.parameter_count == 11_689_512


def test_the_referee_has_torchvisions_logits(given: Arrays, told: Arrays) -> None:
    referee = Adapter(FLOAT64)
    initial = {key: array for key, array in given.items() if "/" in key}
    referee.build(NETWORK, OptimizerSpec("sgd", 0.01), initial, 0)
    assert apart({"": referee.predict(given["images"])}, {"": told["exact"]})[0] <= 1e-6
