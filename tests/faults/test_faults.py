"""A few points of `make measure-faults`, chosen by a seed, through the real command line."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from faulted import FAULTS, OF_REPORTS, ROLES, Faults

SEED = 16


def can_trace() -> bool:
    """True if strace is installed and may trace: a container may forbid it."""
    return bool(shutil.which("strace")) and not subprocess.run(["strace", "-qq", "-o", os.devnull, "true"]).returncode


WITH_STRACE = pytest.mark.skipif(
    not can_trace(), reason="no call can be made to fail: strace is missing, or may not trace"
)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


@WITH_STRACE
@pytest.mark.parametrize("fault", FAULTS)
def test_a_writing_call_that_fails_or_kills_its_process_loses_nothing_that_was_measured(
    fault: str, faults: Faults
) -> None:
    """Every file of a trial meets one of the faults."""
    for point in faults.at_calls(fault, SEED):
        assert not faults.violations(point), point
    assert faults.met


@pytest.mark.parametrize("role", [*ROLES, *OF_REPORTS])
def test_a_signal_leaves_no_process_and_loses_nothing_that_was_measured(role: str, faults: Faults) -> None:
    point = faults.signalled(role, SEED)
    assert not faults.violations(point), point


def test_the_faults_find_something_where_there_is_something(faults: Faults) -> None:
    """The checks after each fault find what is wrong where something is."""
    faults.lay_out(1)
    before, measured = faults.finished(), faults.measured()
    assert len(before) == 1 and len(measured) >= 2
    (trial,) = faults.results.glob("trials/*")
    (trial / "samples.csv").write_text("")
    assert faults.finished() != before and measured - faults.measured()
