"""What a worker's environment says to the C allocator, and that the trial says so too."""

from __future__ import annotations

from conftest import make_spec

from runner.launch import worker_environment
from runner.machine import allocator_variables

SET = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def test_the_callers_allocator_variables_are_not_seen(monkeypatch):
    for name in allocator_variables():
        monkeypatch.delenv(name)
    monkeypatch.setenv("UNRELATED", "1")
    for name, value in SET.items():
        monkeypatch.setenv(name, value)
    assert allocator_variables() == SET


def test_a_worker_runs_under_other_allocator_variables_than_its_trial_says(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")  # set after the plan was made
    given = worker_environment(make_spec(variables=SET), {"KERAS_BACKEND": "tensorflow"})
    assert {name: given[name] for name in SET} == SET
    assert "MALLOC_ARENA_MAX" not in given
    assert given["KERAS_BACKEND"] == "tensorflow"
