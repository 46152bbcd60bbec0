"""Limits of a container or a service, read as both versions of control groups write them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from conftest import PROJECT, ROOT, make_spec

from runner import family
from runner.batch_size.memory_limit import compute_host_limit_bytes
from runner.doctor.command import collect_findings
from runner.doctor.machine import State
from runner.family import PREFIX, MemoryGroup
from runner.launch import Local
from runner.machine import description
from runner.owned import Owned
from runner.results import memory
from workloads import control_groups
from workloads.control_groups import CGROUPS
from workloads.records.job import Job, Kind

MIB, GIB = 2**20, 2**30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str], str], None]:
    """write({file: content}, lines of /proc/self/cgroup)."""
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")

    def write(files: dict[str, str], own: str) -> None:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "own").write_text(own)

    return write


NEW = "0::/system.slice/job\n"
OLD = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("files", "own", "cores", "memory"),
    [
        ({"cpu.max": "150000 100000\n", "memory.max": f"{300 * MIB}\n"}, "0::/\n", 1.5, 300 * MIB),
        ({"system.slice/job/cpu.max": "max 100000\n", "system.slice/job/memory.max": "max\n"}, NEW, None, None),
        ({"system.slice/job/cpu.max": "max 100000\n", "system.slice/cpu.max": "50000 100000\n"}, NEW, 0.5, None),
        ({"system.slice/job/memory.max": "9000000\n", "system.slice/memory.max": "7000000\n"}, NEW, None, 7000000),
        (
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": f"{300 * MIB}\n",
            },
            OLD,
            2.0,
            300 * MIB,
        ),
        (
            {
                "cpu/docker/abc/cpu.cfs_quota_us": "-1\n",
                "cpu/docker/abc/cpu.cfs_period_us": "100000\n",
                "memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n",
            },
            OLD,
            None,
            None,
        ),
        ({}, "", None, None),
    ],
)  # fmt: skip
def test_a_limit_is_neither_overlooked_nor_made_up(
    groups: Callable[[dict[str, str], str], None],
    files: dict[str, str],
    own: str,
    cores: float | None,
    memory: int | None,
) -> None:
    groups(files, own)
    assert (control_groups.cpu_limit(), control_groups.memory_limit_bytes()) == (cores, memory)


def test_no_more_cores_are_used_and_no_more_memory_is_promised_than_allowed(
    groups: Callable[[dict[str, str], str], None],
) -> None:
    groups({"cpu.max": "120000 100000\n", "memory.max": f"{300 * MIB}\n"}, "0::/\n")
    assert description.count_cores() == 1
    assert memory.find_capacity_bytes("cpu", ()) == 300 * MIB
    assert memory.find_capacity_bytes("cpu", (), 200 * MIB) == 200 * MIB
    described = description.describe(PROJECT, "cpu", [])
    assert (described["cpu_limit_cores"], described["memory_limit_bytes"]) == (1.2, 300 * MIB)


def test_what_a_control_group_holds_already_is_not_available(
    groups: Callable[[dict[str, str], str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container of 8 GiB in which a notebook holds 7 GiB, on a machine with more."""
    free = SimpleNamespace(total=64 * GIB, available=60 * GIB)
    monkeypatch.setattr("runner.machine.description.psutil.virtual_memory", lambda: free)
    stat = f"anon {6 * GIB}\ninactive_file {GIB // 2}\n"
    groups({"memory.max": f"{8 * GIB}\n", "memory.current": f"{7 * GIB}\n", "memory.stat": stat}, "0::/\n")
    assert compute_host_limit_bytes(tmp_path, stored=False) == round(0.85 * 1.5 * GIB)
    said = next(each for each in collect_findings(PROJECT, tmp_path, tmp_path) if each.name == "memory")
    assert said.state is State.WARNING and said.text.startswith("1,536 MiB available of 65,536 MiB")


def test_half_a_core_counts_as_one(groups: Callable[[dict[str, str], str], None]) -> None:
    groups({"cpu.max": "50000 100000\n"}, "0::/\n")
    assert description.count_cores() == 1


def test_a_real_limit_of_this_kernel_is_seen() -> None:
    """The test makes a separate group, where this user may."""
    root = next((path for path in (CGROUPS / "memory", CGROUPS) if os.access(path, os.W_OK)), None)
    group = root and root / f"batchwise-test-{os.getpid()}"
    name = "memory.limit_in_bytes" if root and root.name == "memory" else "memory.max"
    try:
        assert group
        group.mkdir()
        (group / name).write_text(str(512 * MIB))
    except (AssertionError, OSError):
        pytest.skip("this user may make no control group with a memory limit")
    try:
        code = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); " \
               "from workloads import control_groups; print(control_groups.memory_limit_bytes())"  # fmt: skip
        command = [sys.executable, "-c", code, str(group / "cgroup.procs")]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    finally:
        group.rmdir()
    assert told.stdout.strip() == str(512 * MIB) and psutil.virtual_memory().total > 512 * MIB


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """A real memory group of 200 MiB."""
    if not family.can_limit_memory():
        pytest.skip("this user may make no control group with a memory limit")
    group = MemoryGroup.make(200 * MIB)
    yield group
    group.remove()
    assert not group.folder.exists()


@pytest.mark.parametrize(("size", "code"), [(100 * MIB, 0), (300 * MIB, -signal.SIGKILL)])
def test_a_worker_and_its_children_take_no_more_than_their_control_group(
    group: MemoryGroup, size: int, code: int
) -> None:
    kills = description.count_memory_kills() or 0
    child = Owned([sys.executable, "-c", f"bytearray({size})[::4096].count(0)"])
    group.take(child.pid)
    child.go()
    assert child.wait(20) == code
    child.end()
    # The kernel counts kills of the whole machine, so without a kill of this child others may still raise the count.
    assert code == 0 or (description.count_memory_kills() or 0) > kills


def test_a_worker_of_a_limited_trial_runs_in_a_control_group_and_leaves_none(tmp_path: Path) -> None:
    if not family.can_limit_memory():
        pytest.skip("this user may make no control group with a memory limit")
    spec = make_spec()
    spec = replace(spec, placement=replace(spec.placement, memory_limit_bytes=300 * MIB, control_group=True))
    with (tmp_path / "log").open("wb") as log:
        worker = Local(sys.executable, {}, PROJECT).start(tmp_path, Job(Kind.TRIAL, spec), log)
    held = Path(f"/proc/{worker.pid}/cgroup").read_text()
    parent = next(control_groups.folders("memory"))
    made = [path for path in parent.iterdir() if path.name.startswith(PREFIX) and path.name in held]
    assert len(made) == 1
    worker.end()
    assert not made[0].exists()


def test_what_a_dead_runner_left_is_cleared_by_the_next_group(group: MemoryGroup) -> None:
    left = group.folder.with_name(re.sub(r"-\d+-\d+-", "-4194304-1-", group.folder.name))
    left.mkdir()
    MemoryGroup.make(200 * MIB).remove()
    assert not left.exists() and group.folder.exists()


def test_where_no_group_can_be_made_the_data_segment_is_limited(
    groups: Callable[[dict[str, str], str], None], tmp_path: Path
) -> None:
    groups({"system.slice/job/memory.max": "max\n"}, NEW)  # a folder in it gets no files
    assert family.can_limit_memory() is False
    assert [path.name for path in (tmp_path / "cgroup/system.slice/job").iterdir()] == ["memory.max"]
