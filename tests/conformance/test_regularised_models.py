"""A user's Keras model that adds losses of its own: no column trains with them, so all columns train the same."""

from __future__ import annotations

import json

import pytest
from conftest import PROJECT, once, shared
from suite import HERE, run_in

from runner.environments import venv
from runner.environments.definition import read


@pytest.mark.real
@pytest.mark.parametrize("profile", ["default", "fit"])
@pytest.mark.parametrize("framework", ["tensorflow", "keras_jax", "keras_torch"])
def test_losses_that_layers_add_are_left_out_by_every_profile(
    framework: str, profile: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = read(PROJECT, framework, "cpu")
    once(shared(tmp_path_factory) / f"made-{framework}", lambda: venv.make(environment, print))
    losses = json.loads(run_in(framework, HERE / "regularised.py", framework, profile).splitlines()[-1])
    assert losses["adding"] == pytest.approx(losses["plain"], rel=1e-5)
