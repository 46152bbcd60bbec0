"""Sentences of a run about trials that other processes disturbed."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from conftest import make_spec
from rich.console import Console

from runner import progress
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import HARMLESS, Status

GPU = make_spec(device="GPU-0")
PASSIVE = make_spec(variables={"OMP_WAIT_POLICY": "PASSIVE"})
NEW = "these are then new trials"  # for these are conditions
END, SLEEP = "stop other work on the CPU", f"OMP_WAIT_POLICY=PASSIVE before the command (waiting threads sleep; {NEW})"
FEWER, AT_ONCE = f"fewer --threads than 2 (a core is left to others; {NEW})", "--retry contended (tries again at once)"


def result(status: Status, spec: TrialSpec = PASSIVE) -> TrialResult:
    return TrialResult(spec, status, None if status is Status.OK else "others took 40 %", "", 1.0)


@pytest.mark.parametrize(
    ("spec", "retried", "means"),
    [
        (make_spec(), False, [END, SLEEP, FEWER, AT_ONCE]),
        (make_spec(threads=1), True, [END, SLEEP]),
        (PASSIVE, False, [END, FEWER, AT_ONCE]),
        (GPU, True, ["stop the other processes on the GPU (nvidia-smi lists them)", f"another --device ({NEW})"]),
    ],
)
def test_what_helps_is_what_the_trial_does_not_have_yet(spec: TrialSpec, retried: bool, means: list[str]) -> None:
    assert progress.suggest_help(spec, retried) == means


def test_what_helps_is_said_once_and_only_behind_a_disturbed_trial() -> None:
    shown = StringIO()
    advice = progress.Advice(Console(file=shown, width=300), ())
    advice.give(result(Status.OK))
    assert not shown.getvalue()
    for _ in range(3):
        advice.give(result(Status.CONTENDED))
    assert shown.getvalue().count("What helps: ") == 1


def test_disturbed_trials_are_one_line_with_an_example_and_no_failure() -> None:
    results = [result(Status.OK), *[replace(result(Status.CONTENDED), wall_s=s) for s in (1.0, 2.0)]]
    line = progress.summarise_disturbed(results) or ""
    assert line.startswith("2 of 3 trials contended: ") and f"({PASSIVE.id}: others took 40 %)" in line
    assert progress.summarise_disturbed(results[:1]) is None
    assert (progress.summarise_disturbed(results[1:2]) or "").startswith("1 of 1 trial contended: ")
    assert "figures that this may have changed are withheld: speed, usage, energy, power, times, memory of the" in line
    assert {*Status} - {*HARMLESS} == {Status.FAILED, Status.TIMEOUT, Status.UNSUPPORTED, Status.UNVERIFIED}
