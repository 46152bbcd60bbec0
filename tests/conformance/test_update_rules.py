"""Every optimizer of the numeric contract, in every real framework, against the numpy referee."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from conftest import REAL_FRAMEWORKS, ROOT

from runner.environments import read, worker_variables
from workloads import weights
from workloads.catalogue import OSU_CNN
from workloads.spec import OptimizerSpec

STEPS, BATCH = 8, 16
THREADS = 2
# Epsilon and betas are such that float32 holds them exactly, and epsilon is large enough to matter: with 1e-7 a rule
# that has it on the wrong side of the bias correction would pass. Adam's rate keeps the run away from divergence.
RULES = {
    "sgd": OptimizerSpec("sgd", 0.01),
    "momentum": OptimizerSpec("momentum", 0.01),
    "nesterov": OptimizerSpec("nesterov", 0.01),
    "adam": OptimizerSpec("adam", 0.001, beta1=0.875, beta2=1 - 2**-10, epsilon=2**-10),
}
# Float32 sums in another order move a loss by some 1e-6 within these steps; the smallest mistake tried (Adam's epsilon
# in the other place) moves it by more than 1e-3.
LOSS_TOLERANCE = 1e-4
WEIGHT_TOLERANCE = 1e-4
LOGIT_TOLERANCE = 1e-3


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    generator = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("probe") / "data.npz"
    images = generator.integers(0, 256, (64, 32, 32, 3), dtype=np.uint8)
    labels = generator.integers(0, 10, 64).astype(np.int32)
    order = generator.integers(0, 64, (STEPS, BATCH)).astype(np.int32)
    np.savez(path, images=images, labels=labels, order=order)
    return path


@pytest.fixture(scope="session")
def probe(data):
    """What a framework makes of a rule; each combination is run once."""
    done = {}

    def run(framework, rule, feed="host"):
        if (framework, rule, feed) not in done:
            request = {
                "data": str(data),
                "workload": "osu-cnn",
                "optimizer": asdict(RULES[rule]),
                "seed": 3,
                "threads": THREADS,
                "feed": feed,
            }
            out = data.with_name(f"{framework}-{rule}-{feed}.npz")
            script = ROOT / "tests" / "conformance" / "probe.py"
            interpreter, variables = sys.executable, {}
            if framework != "numpy":
                environment = read(framework, "cpu")
                interpreter, variables = environment.interpreter, worker_variables(environment)
            subprocess.run(
                [interpreter, script, framework, json.dumps(request), out],
                env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": str(THREADS), **variables},
                check=True,
            )
            with np.load(out) as arrays:
                done[framework, rule, feed] = {name: arrays[name] for name in arrays.files}
        return done[framework, rule, feed]

    return run


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_update_rule_differs_from_the_contract(framework, rule, probe):
    expected, found = probe("numpy", rule), probe(framework, rule)
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=LOSS_TOLERANCE)
    for key in OSU_CNN.parameter_shapes():
        np.testing.assert_allclose(found[f"after/{key}"], expected[f"after/{key}"], atol=WEIGHT_TOLERANCE, err_msg=key)
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=LOGIT_TOLERANCE)


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_weights_come_back_other_than_they_were_given(framework, probe):
    given = weights.draw(OSU_CNN, 3)
    found = probe(framework, "sgd")
    for key, array in given.items():
        np.testing.assert_array_equal(found[f"before/{key}"], array, err_msg=key)


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_data_on_the_device_trains_otherwise(framework, probe):
    host, device = probe(framework, "momentum"), probe(framework, "momentum", "device")
    np.testing.assert_allclose(device["losses"], host["losses"], rtol=1e-6)


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_optimizer_state_is_miscounted(framework, probe):
    """Momentum keeps one number a parameter, Adam two, plus a few scalars; parameters are 4 bytes each."""
    for rule, slots in (("sgd", 0), ("momentum", 1), ("adam", 2)):
        memory = json.loads(str(probe(framework, rule)["memory"]))
        assert memory["parameters"] == 4 * OSU_CNN.parameter_count
        assert 0 <= memory["optimizer"] - slots * memory["parameters"] < 256, rule


def test_rules_cannot_be_told_apart(probe):
    """The probe would not see a rule that is another rule."""
    losses = {rule: probe("numpy", rule)["losses"] for rule in RULES}
    for first in RULES:
        for second in RULES:
            if first != second:
                assert np.abs(losses[first] / losses[second] - 1).max() > 10 * LOSS_TOLERANCE, (first, second)
