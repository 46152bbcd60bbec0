"""A table of stored results, so that a plan need not read them all: the files always count, not the table."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, make_spec

from runner import stored
from workloads.records.figures import Figure
from workloads.records.files import INDEX_FILE, RESULT_FILE, write_json
from workloads.records.result import TrialResult
from workloads.records.status import Status

PEAK = {"host_memory_peak_bytes": Figure(2.0**28, "the kernel")}


def store(results: Path, **changes: Any) -> Path:
    """Store a result; return its path."""
    result = TrialResult(make_spec(**changes), Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=PEAK)
    path = results / "trials" / result.spec.id / RESULT_FILE
    path.parent.mkdir(parents=True)
    write_json(path, result.to_json())
    return path


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A folder of three trials, with its table."""
    for size in (8, 16, 32):
        store(tmp_path, batch_size=size)
    stored.read(tmp_path, PROJECT)
    return tmp_path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose results are read."""
    names: list[str] = []
    original = stored._read

    def note(folder: Path) -> TrialResult | ValueError | None:
        names.append(folder.name)
        return original(folder)

    monkeypatch.setattr(stored, "_read", note)
    return names


def test_what_has_not_changed_is_not_read_again(indexed: Path, read: list[str]) -> None:
    entries = stored.read(indexed, PROJECT).entries
    assert read == []
    assert [(entry.status, entry.batch_size, entry.peak_bytes) for entry in entries.values()] == [
        ("ok", size, 2.0**28) for size in (8, 16, 32)
    ]


def test_a_result_that_was_written_again_is_read_also_where_its_size_and_time_are_the_same(
    indexed: Path, read: list[str]
) -> None:
    path = sorted(indexed.glob(f"trials/*/{RESULT_FILE}"))[0]
    before = path.stat()
    data = json.loads(path.read_text())
    write_json(path, data | {"status": "failed", "reason": "", "wall_s": 1})  # as long as it was
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert stored.read(indexed, PROJECT).entries[path.parent.name].status == "failed"
    assert read == [path.parent.name]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"no table at all"),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(b""),
    ],
)
def test_a_table_that_is_gone_or_broken_is_made_again(
    indexed: Path, read: list[str], spoil: Callable[[Path], object]
) -> None:
    entries = stored.read(indexed, PROJECT).entries
    spoil(indexed / INDEX_FILE)
    assert stored.read(indexed, PROJECT).entries == entries
    assert len(read) == 3
    stored.read(indexed, PROJECT)
    assert len(read) == 3, "it was not made again"


def test_a_table_of_other_code_is_not_believed(indexed: Path, read: list[str]) -> None:
    with sqlite3.connect(indexed / INDEX_FILE) as table:
        table.execute("UPDATE made_by SET code = 'another'")
    stored.read(indexed, PROJECT)
    assert len(read) == 3


def test_trials_come_and_go(indexed: Path, read: list[str]) -> None:
    first, second, _ = sorted(indexed.glob(f"trials/*/{RESULT_FILE}"))
    first.unlink()
    second.write_text("{")
    added = store(indexed, batch_size=64).parent.name
    for _ in range(2):
        found = stored.read(indexed, PROJECT)
        assert [entry.batch_size for entry in found.entries.values()] == [32, 64]
        assert found.unfinished == (first.parent,)
        assert [item.path for item in found.unreadable] == [second]
    assert read == [second.parent.name, added, second.parent.name]


def test_a_folder_that_cannot_be_written_is_read(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    (indexed / INDEX_FILE).unlink()
    monkeypatch.setattr(sqlite3, "connect", refuse)
    assert len(stored.read(indexed, PROJECT).entries) == 3
    assert stored.read(indexed / "nowhere", PROJECT).entries == {}


def test_a_plan_that_has_no_inputs_knows_stored_trials_by_all_else(tmp_path: Path) -> None:
    path = store(tmp_path, batch_size=8)
    spec = make_spec(batch_size=8)
    data = json.loads(path.read_text())
    data["spec"]["inputs"] = {"order": {"path": "inputs/order", "sha256": "00"}}
    other = replace(spec, inputs=TrialResult.from_json(data).spec.inputs)
    path.parent.rename(path.parent.with_name(other.id))
    write_json(tmp_path / "trials" / other.id / RESULT_FILE, data)
    assert list(stored.read(tmp_path, PROJECT).planned([spec])) == [other.id]


def test_those_of_another_group_are_left_alone(indexed: Path, read: list[str]) -> None:
    store(indexed, batch_size=8, workload="lenet-5")
    found = stored.read(indexed, PROJECT)
    read.clear()
    assert len(found.of_groups([make_spec()])) == 3
    assert len(read) == 3
