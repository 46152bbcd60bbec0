"""Keras on JAX and on PyTorch, compared with the referee in float64: Keras' own step, and its fit.

Their environments are made here, on first use: no set-up makes them. TensorFlow's fit is among the suite's own cases.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import PROJECT, once, shared
from settings import CASES, TRUTH
from suite import HERE, Found, Seen, checks_of, imports_of_others, load, run_in
from test_jax_conformance import PLAINLY

from runner.environments import venv
from runner.environments.definition import read
from workloads.records.evidence import Evidence

# JAX compiles each build of a case anew, for half a minute of a core: what is not here is Keras' own, and tried on
# TensorFlow. It does so without XLA's optimizations: test_jax_conformance.py says why.
BOTH = ("branches", "plain-momentum-changing", "plain-momentum-changing-fit")
ASKED = {"keras_jax": BOTH, "keras_torch": (*BOTH, "transformer", "norm-of-one", "stochastic-depth", "plain-partial")}


LARGEST = 2**31 - 1  # of the seeds that a study may have


def make_environment(framework: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = read(PROJECT, framework, "cpu")
    once(shared(tmp_path_factory) / f"made-{framework}", lambda: venv.make(environment, print))


@pytest.mark.parametrize("framework", ASKED)
def test_masks_follow_the_seed_up_to_the_largest(
    framework: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_environment(framework, tmp_path_factory)
    seeds = LARGEST, LARGEST, LARGEST - 1
    run_in(framework, HERE / "masks.py", str(tmp_path / "masks.npz"), framework, "1", *map(str, seeds), **PLAINLY)
    first, again, other = load(tmp_path / "masks.npz")["of_seeds"]
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_keras_on_jax_compiles_nothing_anew_for_a_probe_like_an_earlier_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The gradient noise scale takes 4,000 of them, for custom code by parameter."""
    make_environment("keras_jax", tmp_path_factory)
    told = json.loads(run_in("keras_jax", HERE / "compiled_probes.py", **PLAINLY).splitlines()[-1])
    assert told["probe"][0] > 0, "the listener hears of nothing"
    assert (told["probe"][2], told["parameter_gradients"][2]) == (0, 0), told


@pytest.mark.parametrize("framework", ASKED)
def test_kerass_own_step_and_fit_agree_with_the_referee_on(
    framework: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_environment(framework, tmp_path_factory)
    cases = {name: CASES[name] for name in ASKED[framework]}
    answers = Found(tmp_path / "cases", cases, **PLAINLY)
    wrong: dict[tuple[str, str], str] = {}
    for name, case in cases.items():
        seen = Seen(case, answers.of(framework, case), answers.of(TRUTH, case), answers.initial(case))
        wrong |= {(name, check): said for check, ask in checks_of(case).items() if (said := ask(seen))}
    assert not wrong
    assert not answers.modules(framework) & imports_of_others(framework)
    evidence = Evidence.from_json(json.loads((answers.folder / framework / "branches.json").read_text()))
    layers = [layer.name for layer, _ in cases["branches"].workload.walk()]
    assert list(evidence.outputs) == layers  # so that the gate can name the first that differs
