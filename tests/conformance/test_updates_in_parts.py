"""Updates in parts: every adapter and rule, compared with the referee's updates of the whole batch, in float64."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from accumulated import NORMALISED, PART, RULES, every
from conftest import once
from settings import LOSSES, WEIGHTS, Arrays
from suite import FRAMEWORKS, HERE, Found, apart, load, run_in, under

from adapters.numpy.adapter import Adapter

ALIKE = 1e-5  # relative of losses, absolute of weights, which are of size 0.1 to 1; seen: 9e-7 and 2e-7
SHOWN, MARGIN = ("sgd", "adam"), 10  # of the wrong ones
APART = 1e-3  # BatchNorm's effect with the statistics of each part is larger
LOOP_OF_WHOLE_UPDATES = "profile tuned trains whole updates in one loop: leave --accumulate or --profile tuned out"
REFUSED = """
import numpy as np
from adapters.base import Unsupported
from adapters.tensorflow.adapter import Adapter
adapter = Adapter()
adapter.open("cpu", 1, "tuned", "float32", "host", "on-demand")
try:
    adapter.train(np.zeros((1, 4), np.int32), part=2)
except Unsupported as error:
    print(error)
"""
BROKEN = {path.stem: path for path in sorted((HERE / "broken" / "accumulated").glob("*.py"))}


@cache
def truth(part: int | None) -> Arrays:
    """Compute every rule in float64."""
    return every(Adapter("float64"), part)


def accumulated(found: Found, who: str, framework: str, module: str, rules: Sequence[str] = tuple(RULES)) -> Arrays:
    out = found.folder / f"accumulated-{who}.npz"
    once(out, lambda: run_in(framework, HERE / "accumulated.py", str(out), module, *rules))
    return load(out)


def differences(arrays: Arrays, expected: Arrays, rule: str) -> tuple[float, float]:
    """(largest relative difference of losses, largest difference of weights)."""
    one, other = (under(each, f"{rule}/") for each in (arrays, expected))
    losses = float(np.abs(one.pop("losses") / other.pop("losses") - 1).max())
    return losses, apart(one, other, scale=1.0)[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_updates_in_parts_are_those_of_the_whole_batch(
    framework: str, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rules are compared; the last part of each update is smaller, and so is the last update."""
    arrays = accumulated(found, framework, framework, f"adapters.{framework}.adapter")
    told = {rule: differences(arrays, truth(None), rule) for rule in RULES if rule != NORMALISED}
    losses, weights = (max(each) for each in zip(*told.values(), strict=True))
    with capsys.disabled():
        print(f"\n{framework}, in parts against whole: losses {losses:.1e}, weights {weights:.1e}", end="")
    assert max(losses, weights) <= ALIKE, told


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_batchnorm_in_parts_is_what_the_referee_has_and_not_as_if_it_were_whole(
    framework: str, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = accumulated(found, framework, framework, f"adapters.{framework}.adapter")
    alike = differences(arrays, truth(PART), NORMALISED)
    losses, weights = differences(arrays, truth(None), NORMALISED)
    with capsys.disabled():
        print(f"\n{framework}, BatchNorm in parts against whole: losses {losses:.1e}, weights {weights:.1e}", end="")
    assert alike[0] <= LOSSES and alike[1] <= WEIGHTS
    assert min(losses, weights) > APART


def test_tensorflows_tuned_loop_of_whole_updates_refuses_parts(tmp_path: Path) -> None:
    (tmp_path / "refused.py").write_text(REFUSED)
    assert run_in("tensorflow", tmp_path / "refused.py").strip() == LOOP_OF_WHOLE_UPDATES


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_accumulation_is_caught_where_it_shows(name: str, found: Found) -> None:
    framework, wrong = errors_of(name)
    arrays = accumulated(found, name, framework, f"broken.accumulated.{name}", SHOWN)
    caught = {rule for rule in SHOWN if max(differences(arrays, truth(None), rule)) > MARGIN * ALIKE}
    assert caught == {rule for rule in SHOWN if wrong in ("every", rule)}


def errors_of(name: str) -> tuple[str, str]:
    """(framework, the rules that show it): read, not imported, as its framework is not here."""
    for node in ast.parse(BROKEN[name].read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            framework, wrong = ast.literal_eval(node.value)
            return framework, wrong
    raise AssertionError(f"{BROKEN[name]} does not say what it breaks")
