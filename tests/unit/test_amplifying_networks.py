"""Evidence of correct frameworks for networks that amplify rounding, gathered on a CPU and stored. None is flagged,
however small the referee's own rounding was, and a mistake in the same networks still is.

For each: the referee in float64, the frameworks and the referee in float32, and the referee in float32 from disturbed
weights. Every fourth layer of MobileNetV3 at 75 x 67 (random images), every other one of VGG-11 (digits). And the first
losses of trials of VGG-11: 64 digits at batch size 16, three seeds.
"""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from probed import moved

from runner.gate.rounding import compute_loss_shifts
from runner.gate.tolerances import DeviationKind, Truth, compare_losses, compute_deviations, find_difference
from workloads.records.evidence import EVALUATED_STEPS, Evidence

FOLDER = Path(__file__).parent / "evidence"
NETWORKS = ("vgg-11", "mobilenet-v3-large-75x67")
FRAMEWORKS = ("mxnet", "numpy", "pytorch", "tensorflow")


@cache
def stored(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return loaded


def calm(network: str) -> Truth:
    """Truth as if rounding had met no kink in the referee."""
    expected = Evidence.from_json(stored(network)["expected"])
    return Truth(expected, expected)


def measured(network: str) -> Truth:
    truth = calm(network)
    return replace(
        truth, disturbed=tuple((truth.expected, Evidence.from_json(each)) for each in stored(network)["disturbed"])
    )


def of(framework: str, network: str) -> Evidence:
    return Evidence.from_json(stored(network)["frameworks"][framework])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_right_framework_is_not_suspected_once_it_is_known_what_rounding_does_there(
    network: str, framework: str
) -> None:
    assert find_difference(of(framework, network), measured(network)) is None
    assert max(each.ratio for each in compute_deviations(of(framework, network), measured(network))) < 0.5


@pytest.mark.parametrize(("network", "framework"), [("vgg-11", "numpy"), ("mobilenet-v3-large-75x67", "tensorflow")])
def test_without_that_one_is(network: str, framework: str) -> None:
    assert find_difference(of(framework, network), calm(network)) is not None


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_gradient_that_is_wrong_by_a_twentieth_is_still_caught_wherever_it_is(network: str, framework: str) -> None:
    right = of(framework, network)
    told = [each for each in compute_deviations(right, measured(network)) if each.kind is DeviationKind.GRADIENTS]
    norms = {key: fingerprint[0] for key, fingerprint in right.gradients.items()}
    weighty = [key for key in norms if norms[key] > 0.01 * max(norms.values())]
    assert len(weighty) > len(norms) / 2 and {each.key for each in told} == norms.keys()
    for key in weighty:
        said = find_difference(moved(right, "gradients", key, 0.05), measured(network))
        assert said is not None and f"the gradient of {key} differs" in said


@pytest.mark.parametrize("network", NETWORKS)
def test_an_update_that_is_twice_as_large_and_a_layer_that_is_off_by_a_thousandth_are_still_caught(
    network: str,
) -> None:
    right = of("pytorch", network)
    doubled = moved(right, "updates", next(reversed(right.gradients)), 1.0)
    assert "over 1 step differs" in str(find_difference(doubled, measured(network)))
    for layer in right.outputs:
        off = moved(right, "outputs", layer, 1e-3)
        assert f"layer that differs: {layer}" in str(find_difference(off, measured(network)))


RUNS = {run["seed"]: run["frameworks"] for run in json.loads((FOLDER / "vgg-11-losses.json").read_text())}


@pytest.mark.parametrize("seed", RUNS)
def test_first_losses_of_correct_trials_are_ok_once_it_is_known_what_rounding_does_there(seed: int) -> None:
    """Compare two losses: of a network this large the probe makes two steps."""
    known = measured("vgg-11")
    moved_losses, rounding = compute_loss_shifts(known.disturbed), [0.0] * EVALUATED_STEPS
    pairs = list(itertools.combinations(RUNS[seed].values(), 2))
    assert any(compare_losses(one, other, rounding) for one, other in pairs)
    assert not any(compare_losses(one, other, rounding, moved_losses) for one, other in pairs)
    doubled = [[loss * 1.01 for loss in one] for one, _ in pairs]
    assert all(
        compare_losses(far, other, rounding, moved_losses) for far, (_, other) in zip(doubled, pairs, strict=True)
    )
