"""Keras on JAX and on PyTorch, compared with the referee in float64: Keras' own step, and its fit.

Their environments are made here, on first use: no set-up makes them. TensorFlow's fit is among the suite's own cases.
"""

from __future__ import annotations

import json

import pytest
from conftest import PROJECT, once, shared
from settings import CASES, FITTED, TRUTH
from suite import Found, Seen, checks_of, imports_of_others

from runner.environments import venv
from runner.environments.definition import read
from workloads.records.evidence import Evidence

# Together they have each kind of layer, each rule, rates that change, partial batches, and batches of one image. JAX
# compiles each for seconds: the rest is Keras' own and tried on TensorFlow.
NAMES = ("batchnorm-adamw", "transformer", "branches", "norm-of-one", "plain-momentum-changing", "stochastic-depth")
FITS = tuple(f"{name}-fit" for name in FITTED if name in ("plain-momentum-changing", "plain-partial"))
ASKED = {name: CASES[name] for name in (*NAMES, "plain-partial", *FITS)}  # a twin's inputs are needed, too


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(shared(tmp_path_factory) / "keras-backends", ASKED)


@pytest.mark.parametrize("framework", ["keras_jax", "keras_torch"])
def test_kerass_own_step_and_fit_agree_with_the_referee_on(
    framework: str, answers: Found, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = read(PROJECT, framework, "cpu")
    once(shared(tmp_path_factory) / f"made-{framework}", lambda: venv.make(environment, print))
    wrong = {}
    for name, case in ASKED.items():
        seen = Seen(case, answers.of(framework, case), answers.of(TRUTH, case), answers.initial(case))
        wrong |= {(name, check): said for check, ask in checks_of(case).items() if (said := ask(seen))}
    assert not wrong
    assert not answers.modules(framework) & imports_of_others(framework)
    evidence = Evidence.from_json(json.loads((answers.folder / framework / "branches.json").read_text()))
    layers = [layer.name for layer, _ in ASKED["branches"].workload.walk()]
    assert list(evidence.outputs) == layers  # so that the gate can name the first that differs
