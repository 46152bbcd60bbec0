"""Stored trials as a run and a plan read them: all of a folder, or the newest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from conftest import make_spec

from runner.storage import read_trials
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.result import TrialResult
from workloads.records.status import Status


def store(results: Path, **changes: Any) -> Path:
    """Store a result; return its path."""
    result = TrialResult(make_spec(**changes), Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0)
    path = results / "trials" / result.spec.id / RESULT_FILE
    path.parent.mkdir(parents=True)
    write_json(path, result.to_json())
    return path


def sizes(results: Path, most: int | None = None) -> list[int]:
    """Batch sizes of the trials that are read."""
    return sorted(result.spec.cell.batch_size for result in read_trials(results, most).results.values())


def test_all_trials_are_read_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    assert read_trials(tmp_path).results == {}
    first, second, third = (store(tmp_path, batch_size=size) for size in (8, 16, 32))
    first.unlink()
    second.write_text("{")
    third.parent.rename(third.parent.with_name("another"))
    store(tmp_path, batch_size=64)
    found = read_trials(tmp_path)
    assert sizes(tmp_path) == [64] and found.unfinished == (first.parent,)
    reasons = {item.path.parent.name: item.reason for item in found.unreadable}
    assert reasons.keys() == {"another", second.parent.name}
    assert "in the wrong folder" in reasons["another"]


def test_the_newest_are_those_that_were_written_last(tmp_path: Path) -> None:
    for moment, size in enumerate((32, 8, 16)):
        os.utime(store(tmp_path, batch_size=size), (moment, moment))
    assert sizes(tmp_path, 2) == [8, 16]


def test_trials_of_a_group_are_those_with_the_same_task_and_inputs(tmp_path: Path) -> None:
    alike = [store(tmp_path, batch_size=size).parent.name for size in (8, 16)]
    store(tmp_path, batch_size=8, workload="lenet-5")
    found = read_trials(tmp_path)
    assert found.of_groups([make_spec()]).keys() == {*alike}
    assert found.of_groups([make_spec()], besides=alike[:1]).keys() == {alike[1]}
