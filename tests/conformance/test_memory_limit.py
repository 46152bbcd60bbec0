"""Each real framework under a limit of its process's memory: what fits, and how it ends beyond the limit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from measure_largest import step_trials
from suite import FRAMEWORKS, REFEREE

from runner.batch_size.largest import SearchState
from runner.batch_size.memory_limit import attempts
from workloads.records.batch_answers import Fit
from workloads.records.status import Status

LIMITS_MIB = {"mxnet": 700}  # it needs more itself
SMALL, BEYOND = 16, 1500  # 0.3 to 1.5 MB per image


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != REFEREE])
def test_a_batch_beyond_the_limit_does_not_fit_and_its_end_is_told(framework: str, tmp_path: Path) -> None:
    """It may crash without a word, as TensorFlow and MXNet do: then the same trial with more memory shows the cause."""
    bound, trials = step_trials(tmp_path, LIMITS_MIB.get(framework, 520), framework)
    attempt, lifted = attempts(trials, framework, bound)
    search = SearchState(attempt, bound, {}, lifted)
    assert (search.ask(SMALL), search.ask(BEYOND)) == (Fit.FITS, Fit.TOO_LARGE)
    peak_bytes = search.tried[0].peak_bytes
    assert peak_bytes is not None and 0.2 * bound.limit_bytes < peak_bytes <= bound.limit_bytes
    for told in (json.loads(path.read_text()) for path in tmp_path.glob("steps/*/result.json")):
        if told["status"] == Status.OUT_OF_MEMORY and not told["reason"].startswith("terminate"):  # it could say so
            asked = "amount requested unknown" if framework == "mxnet" else r"[\d,.]+ MiB requested"
            assert re.match(rf"{asked}, [\d,.]+ MiB available of its limit of private memory", told["reason"])
