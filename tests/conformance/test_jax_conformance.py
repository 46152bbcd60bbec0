"""JAX, which is made when it is asked for, compared with the referee in float64, and its own translations.

Few cases: each compiles some ten functions, 20 s on one core. On 2026-11-27 all 21 that are no whole network passed.
All but profile tuned's are compiled without XLA's optimizations, which takes less time: what JAX is told to compute is
the same, and that is ours. Optimized it is in profile tuned here, and in `jax_variants.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accumulated import NORMALISED
from conftest import PROJECT, once, shared
from divided import every
from settings import CASES, DROPOUT_SIGMAS, LOSSES, TRUTH, WEIGHTS
from suite import Found, Seen, checks_of, load, run_in
from test_devices import ALIKE, APART, Divided, differences
from test_updates_in_parts import LOOP_OF_WHOLE_UPDATES

from adapters.numpy import adapter as referee
from runner.environments.definition import read
from runner.environments.venv import make_side_by_side

HERE = Path(__file__).parent
PLAINLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # of how XLA compiles, not of what is computed
DEFAULT_CASES = ("plain-adam-changing", "batchnorm-momentum", "branches", "transformer", "dropout", "bare")
TUNED_CASES = ("plain-adam-changing-tuned",)
TWINS = {CASES[name].twin: CASES[CASES[name].twin] for name in TUNED_CASES}
CHOSEN = {name: CASES[name] for name in (*DEFAULT_CASES, *TUNED_CASES)} | TWINS


@pytest.fixture(scope="session")
def jax_found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Answers to these cases, after the environment was made if it was not there."""
    folder = shared(tmp_path_factory) / "jax-conformance"

    def make() -> None:
        assert not make_side_by_side([read(PROJECT, "jax", "cpu")], print)

    once(folder, make)
    return Found(folder, CHOSEN)


@pytest.fixture(scope="session")
def plain_found(jax_found: Found) -> Found:
    """Answers as those of `jax_found`, compiled plainly."""
    return Found(jax_found.folder, CHOSEN, **PLAINLY)


@pytest.mark.parametrize("name", [*DEFAULT_CASES, *TUNED_CASES])
def test_jax_agrees_with_the_referee_in_every_check_of(name: str, jax_found: Found, plain_found: Found) -> None:
    case = CHOSEN[name]
    found = (jax_found if name in TUNED_CASES else plain_found).of("jax", case)
    seen = Seen(case, found, jax_found.of(TRUTH, case), jax_found.initial(case))
    checks = checks_of(case)
    assert checks and not {key: said for key, check in checks.items() if (said := check(seen))}


def test_jax_in_parts_on_the_device_and_in_other_precisions(jax_found: Found) -> None:
    told = json.loads(run_in("jax", HERE / "jax_variants.py"))
    for name, apart in told["apart"].items():
        assert apart <= {"float16": 1e-2, "bfloat16": 5e-2}.get(name, 1e-5), (name, apart)
    assert told["restored"], "the steps after a snapshot was put back are those after a new build, to the bit"
    assert told["scale"] == [1024.0, 64.0] and told["overflow_moves"] == 0.0
    assert told["own_gradients"] > 0 and told["own_losses_fall"]
    memory = told["memory"]
    assert memory["planned"] and memory["before"] < memory["step_peak"] < memory["peak"]
    assert told["card"] == {"allocator_peak": 1028706304, "allocator_reserved": 1073741824}
    assert told["refused"] == [True, False]
    assert told["parts_refused"] == LOOP_OF_WHOLE_UPDATES
    assert len(told["missing"]) == 2 and all("finds no device cuda: " in said for said in told["missing"])


def test_jax_on_several_devices_makes_the_updates_of_one_with_all_images(jax_found: Found) -> None:
    """Four devices: the last update but one is of 10, 9, 9 and 9 images, the last leaves one device without any."""
    out, rules = jax_found.folder / "divided.npz", ("momentum", NORMALISED)
    run_in("jax", HERE / "divided.py", str(out), "jax", "4", "default", "host", *rules, **PLAINLY)
    arrays = load(out)
    one, of_each = every(referee.Adapter("float64"), rules), every(Divided(4), rules)
    assert max(differences(arrays, one, "momentum")) <= ALIKE
    losses, weights = differences(arrays, of_each, NORMALISED)
    assert losses <= LOSSES and weights <= 10 * WEIGHTS
    assert min(differences(arrays, one, NORMALISED)) > APART, "BatchNorm's statistics are of each device"
    assert str(arrays["refused"]).startswith("JAX on several devices cannot accumulate gradients here")


def test_each_device_of_jax_draws_masks_of_its_own(jax_found: Found) -> None:
    """A row of the kernel after a dropout of half is unchanged where both devices drop its value."""
    out = jax_found.folder / "masks.npz"
    run_in("jax", HERE / "masks.py", str(out), "jax", "2", **PLAINLY)
    arrays = load(out)
    untouched = (arrays["before"] == arrays["after"]).all(axis=1)
    sigma = (0.25 * 0.75 / len(untouched)) ** 0.5
    assert abs(untouched.mean() - 0.25) < DROPOUT_SIGMAS * sigma
