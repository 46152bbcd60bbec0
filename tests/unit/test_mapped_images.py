"""Workers see the images as a map of their file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pictured import noise

from adapters.worker import prepare, refused_memory
from adapters.worker.prepare import images_of
from workloads import control_groups

IMAGES = np.stack([noise(37, 41, seed) for seed in range(30)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "images.npy", IMAGES)
    return tmp_path / "images.npy"


def test_with_the_host_they_are_a_read_only_map_and_a_plain_array(file: Path) -> None:
    images, ahead = images_of(file, "host")
    assert type(images) is np.ndarray and not images.flags.writeable and ahead is None
    assert isinstance(images.base, np.memmap) and np.array_equal(images, IMAGES)
    batch = images[np.array([3, 1, 3])]
    assert batch.flags.writeable and np.array_equal(batch, IMAGES[[3, 1, 3]])


def test_for_the_device_they_are_read(file: Path) -> None:
    images, ahead = images_of(file, "device")
    assert images.flags.writeable and ahead is None and np.array_equal(images, IMAGES)


def test_what_memory_has_no_room_for_is_asked_of_the_disk_batch_by_batch(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "room_bytes", lambda: IMAGES.nbytes)
    assert images_of(file, "host")[1] is not None
    monkeypatch.setattr(prepare, "room_bytes", lambda: IMAGES.nbytes + 1)
    assert images_of(file, "host")[1] is None
    monkeypatch.setattr(prepare, "room_bytes", lambda: 0)
    images, ahead = images_of(file, "host")
    assert ahead is not None
    ahead(np.array([[0, 29], [7, 7]], np.int32))
    assert np.array_equal(images, IMAGES)


@pytest.mark.parametrize("group", ["/", "/system.slice/slurmstepd.scope/job_1"])
@pytest.mark.parametrize(("limit", "room"), [("max", 2048), ("1000", 1000), ("99999", 2048), (None, 2048)])
def test_room_is_what_is_available_and_what_a_container_or_a_job_may_have(
    limit: str | None, room: int, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       2 kB\n")
    (tmp_path / "own").write_text(f"0::{group}\n")
    folder = tmp_path / "cgroup" / group.lstrip("/")
    folder.mkdir(parents=True)
    if limit is not None:
        (folder / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(refused_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    assert prepare.room_bytes() == room
