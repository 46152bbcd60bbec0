"""Several devices, every adapter that has them: N x b is the update of one batch, by the referee in float64."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from accumulated import NORMALISED, RULES
from conftest import PROJECT, once
from divided import every
from settings import DROPOUT_SIGMAS, LOSSES, PLAIN, WEIGHTS, Arrays
from suite import FRAMEWORKS, HERE, Found, apart, load, run_in, under

from adapters.numpy import adapter as referee
from adapters.shared import FILLED, shares

DEVICES = {2: ("momentum", NORMALISED), 4: tuple(RULES)}  # {devices: rules}: all are compared once
ALIKE = 1e-5  # relative of losses, absolute of weights, which are of size 0.1 to 1; seen: 5e-7 and 2e-7
APART = 1e-3  # BatchNorm's effect with the statistics of each device is larger
PARALLEL = [name for name in FRAMEWORKS if (PROJECT.folder(name) / "data_parallel.py").is_file()]


class Divided(referee.Adapter):
    """The referee on so many devices."""

    def __init__(self, devices: int) -> None:
        super().__init__("float64")
        self.devices = devices

    def accumulate(
        self, images: np.ndarray, labels: np.ndarray, part: int | None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Compute shares in place of parts."""
        return self.divide(images, labels, self.devices)


@cache
def truth(devices: int) -> Arrays:
    """Compute every rule on so many devices in float64."""
    return every(Divided(devices) if devices > 1 else referee.Adapter("float64"))


def divided(
    found: Found, framework: str, devices: int, mode: Sequence[str] = ("default", "host"), rules: Sequence[str] = ()
) -> Arrays:
    out = found.folder / f"divided-{framework}-{devices}-{'-'.join(mode)}.npz"
    arguments = (str(out), framework, str(devices), *mode, *(rules or DEVICES[devices]))
    once(out, lambda: run_in(framework, HERE / "divided.py", *arguments))
    return load(out)


def differences(arrays: Arrays, expected: Arrays, rule: str) -> tuple[float, float]:
    """(largest relative difference of losses, largest difference of weights and logits)."""
    one, other = (under(each, f"{rule}/") for each in (arrays, expected))
    losses = float(np.abs(one.pop("losses") / other.pop("losses") - 1).max())
    return losses, apart(one, other, scale=1.0)[0]


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("framework", PARALLEL)
def test_updates_of_several_devices_are_those_of_one_with_all_images(
    framework: str, devices: int, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last updates are smaller, and the very last leaves one of four devices without an image."""
    arrays = divided(found, framework, devices)
    told = {rule: differences(arrays, truth(1), rule) for rule in DEVICES[devices] if rule != NORMALISED}
    losses, weights = (max(each) for each in zip(*told.values(), strict=True))
    with capsys.disabled():
        print(f"\n{framework}, {devices} devices against one: losses {losses:.1e}, weights {weights:.1e}", end="")
    assert max(losses, weights) <= ALIKE, told


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("framework", PARALLEL)
def test_batchnorm_is_of_each_device_and_its_running_statistics_are_the_first_ones(
    framework: str, devices: int, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = divided(found, framework, devices)
    alike = differences(arrays, truth(devices), NORMALISED)
    losses, weights = differences(arrays, truth(1), NORMALISED)
    with capsys.disabled():
        print(f"\n{framework}, BatchNorm on {devices} devices: losses {losses:.1e}, weights {weights:.1e}", end="")
    assert alike[0] <= LOSSES and alike[1] <= 10 * WEIGHTS
    assert APART < losses < 0.1 and APART < weights < 1


@pytest.mark.parametrize("framework", PARALLEL)
def test_updates_in_parts_are_refused_with_a_reason(framework: str, found: Found) -> None:
    (devices, *_) = DEVICES
    said = str(divided(found, framework, devices)["refused"])
    assert said.endswith("on several devices cannot accumulate gradients here: leave --accumulate or --devices out")


@pytest.mark.parametrize("framework", PARALLEL)
def test_each_device_draws_masks_of_its_own(framework: str, found: Found) -> None:
    """A row of the kernel after a dropout is unchanged where all devices drop its value."""
    devices, out = 2, found.folder / f"masks-{framework}.npz"
    once(out, lambda: run_in(framework, HERE / "masks.py", str(out), framework, str(devices)))
    arrays = load(out)
    untouched = (arrays["before"] == arrays["after"]).all(axis=1)
    share = 0.5**devices
    sigma = (share * (1 - share) / len(untouched)) ** 0.5
    assert abs(untouched.mean() - share) < DROPOUT_SIGMAS * sigma


@pytest.mark.skipif("mxnet" not in PARALLEL, reason="MXNet's contexts")
def test_weights_and_memory_are_read_from_devices_other_than_mxnets_current_one(found: Found) -> None:
    """The current one is the first CPU, which is among the devices of every other test. No GPU is current."""
    out = found.folder / "divided-other-contexts.npz"
    once(out, lambda: run_in("mxnet", HERE / "other_contexts.py", str(out), "momentum"))
    arrays = load(out)
    memory = json.loads(str(arrays["memory"]))
    assert max(differences(arrays, truth(1), "momentum")) <= ALIKE
    assert memory["parameters"] == memory["gradients"] == 4 * PLAIN.parameter_count


@pytest.mark.parametrize("mode", [("tuned", "host"), ("default", "device")])
def test_pytorchs_ranks_are_right_in_its_other_modes(mode: tuple[str, str], found: Found) -> None:
    arrays = divided(found, "pytorch", 2, mode, ("momentum",))
    assert max(differences(arrays, truth(1), "momentum")) <= ALIKE


@pytest.mark.parametrize(("images", "devices", "sizes"), [(64, 2, [32, 32]), (37, 2, [19, 18]), (9, 4, [3, 2, 2, 2])])
def test_images_are_divided_as_evenly_as_can_be(images: int, devices: int, sizes: list[int]) -> None:
    divided = shares(np.arange(images, dtype=np.int32), devices)
    assert [len(share.rows) for share in divided] == sizes
    assert np.array_equal(np.concatenate([share.rows for share in divided]), np.arange(images))
    assert sum(share.weight for share in divided) == pytest.approx(1)
    assert [share.weight for share in divided] == pytest.approx([size / images for size in sizes])


def test_a_device_without_images_has_no_weight_but_work() -> None:
    divided = shares(np.array([5, 7, 9], np.int32), 4)
    assert [share.weight for share in divided] == [1 / 3, 1 / 3, 1 / 3, 0]
    assert len(divided[-1].rows) == FILLED and set(divided[-1].rows) <= {5, 7, 9}
