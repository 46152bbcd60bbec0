"""Limits that keep the suite quick, and cases that share a test."""

from __future__ import annotations

import os
import re
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import cpu_time
import pytest
from conftest import ROOT
from each import for_each


def test_all_cases_run_and_a_failure_names_each_that_failed() -> None:
    seen = []

    @for_each("number, allowed", [(1, 1), (2, 1), (3, 5), (4, 1)])
    @for_each("sign", [1, -1])
    def check(sign: int, number: int, allowed: int, where: str) -> None:
        seen.append((sign, number, where))
        assert sign * number <= allowed, "too large"

    with pytest.raises(AssertionError, match=r"2 of 4 cases failed") as failed:
        check(where="here")
    assert len(seen) == 8 and set(seen) == {(sign, number, "here") for sign in (1, -1) for number in range(1, 5)}
    said = str(failed.value)
    assert "'number': 2" in said and "'number': 4" in said and "'number': 3" not in said
    assert "'sign': 1" in said and "'sign': -1" not in said and "too large" in said


def test_an_error_in_a_case_says_in_which() -> None:
    @for_each("number", [1, 0])
    def divide(number: int) -> None:
        assert 1 / number

    with pytest.raises(ZeroDivisionError) as failed:
        divide()
    assert failed.value.__notes__ == ["in the case {'number': 0}"]


def limited(marker: str = "", cov_source: list[str] | None = None, waits_s: float = 0.0) -> None:
    """Run a call of about 30 ms of CPU time as that of a test with this marker."""
    markers = [SimpleNamespace(name=marker)]
    config = SimpleNamespace(getoption=lambda name, default: cov_source)
    item: Any = SimpleNamespace(iter_markers=lambda: iter(markers), config=config)
    with cpu_time.limit_cpu_time(item):
        time.sleep(waits_s)
        until_s = time.process_time() + 0.03
        while time.process_time() < until_s:
            pass


@contextmanager
def alone() -> Iterator[pytest.MonkeyPatch]:
    """Pretend that this process has a core to itself, where 15 ms are allowed; only while the test itself is not
    judged."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "sched_getaffinity", lambda process: {0})
        patched.setattr(sys, "dont_write_bytecode", False)
        patched.setattr(cpu_time, "measure_slowness", lambda: 2.0)
        patched.setattr(cpu_time, "LIMIT_S", 0.005)
        patched.setattr(cpu_time, "SHARE", 0.01)  # whatever else computes while this is tested
        yield patched


def test_a_test_over_the_limit_of_cpu_time_fails_unless_it_is_marked() -> None:
    with alone(), pytest.raises(pytest.fail.Exception, match=r"may take 0\.0 s on this machine.*@pytest\.mark\.slow"):
        limited()
    with alone():
        for marker in cpu_time.SLOW:
            limited(marker)


def test_a_test_is_not_judged_where_its_cpu_time_says_little() -> None:
    with alone():
        limited(cov_source=["runner"])
    with alone() as disturbed:
        disturbed.setattr(cpu_time, "SHARE", 0.8)
        limited(waits_s=0.1)
    with alone() as slower:
        slower.setattr(cpu_time, "measure_slowness", lambda: 100.0)
        limited()
    with alone() as shared:
        shared.setattr(os, "sched_getaffinity", lambda process: {0, 1})
        limited()
    with alone() as uncompiled:
        uncompiled.setattr(sys, "dont_write_bytecode", True)
        limited()


def test_a_machine_is_never_taken_as_faster_than_the_limits() -> None:
    assert cpu_time.measure_slowness() >= 1.0


def test_make_test_leaves_out_what_is_marked_as_slow_and_nothing_else() -> None:
    makefile = (ROOT / "Makefile").read_text()
    left_out = re.search(r"^SLOW = (.+)$", makefile, re.MULTILINE)
    assert left_out and set(left_out[1].split(" or ")) == cpu_time.SLOW - {"smoke"}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {marker.partition(":")[0] for marker in settings["markers"]} == cpu_time.SLOW
    quick, rest = re.findall(r"\$\(TESTS\) -m \"(.+)\" --ignore=tests/images$", makefile, re.MULTILINE)
    assert (quick, rest) == ("smoke or not ($(SLOW))", "not smoke and ($(SLOW))")
