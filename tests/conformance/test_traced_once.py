"""Results of TensorFlow's adapter without tracing every build anew are the same as with tracing it anew.

What it has traced is given tensors alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT
from settings import CASES
from suite import HERE, Found, run_in, run_probe

from workloads.records.build import DEFAULT, FLOAT16, FLOAT32, TUNED, Mode

# A rule of two slots with running statistics; one loop of steps, scaled losses, a velocity that knows its rate, after a
# case of the same network and rule with other weights at one rate.
ASKED: dict[str, tuple[Mode, tuple[str, ...]]] = {
    "batchnorm-adam": (Mode(DEFAULT, FLOAT32), ()),
    "plain-momentum-changing-tuned": (Mode(TUNED, FLOAT16), ("plain-blank-tuned",)),
}
# A class of another module, so that probe.py lets it build.
ANEW = "from adapters.tensorflow.adapter import Adapter as Right\n\n\nclass Adapter(Right):\n    pass\n"


@pytest.mark.parametrize("framework", ["tensorflow"])  # it names the group
@pytest.mark.parametrize("name", ASKED)
def test_a_build_that_is_restored_is_a_new_one_to_the_bit(
    framework: str, name: str, found: Found, tmp_path: Path
) -> None:
    case, restored, anew = CASES[name], tmp_path / "restored", tmp_path / "built"
    mode, before = ASKED[name]
    cases = [*(CASES[each] for each in before), case]
    (tmp_path / "anew.py").write_text(ANEW)
    run_probe(framework, f"adapters.{framework}.adapter", mode, found.inputs, restored, cases)
    run_probe(framework, "anew", mode, found.inputs, anew, [case], PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert (restored / f"{name}.json").read_text() == (anew / f"{name}.json").read_text()


def test_a_compiled_function_is_given_tensors_which_it_takes_faster_than_numpys_arrays() -> None:
    told = json.loads(run_in("tensorflow", HERE / "given_to_steps.py").splitlines()[-1])
    assert told == dict.fromkeys(("logits", "train_step", "train_step_at", "add", "apply_at"), True)
