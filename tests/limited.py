"""A control group of this kernel, of either version, to test a limit's effect."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from workloads.control_groups import CGROUPS


@contextmanager
def control_group(controllers: Sequence[str], limits: Mapping[str, str]) -> Iterator[Path]:
    """Make a group below the first existing hierarchy of version 1, else below the only one of version 2.

    `limits` maps the file of each version to what is written; the first file that the group has is used. Without
    permission to make one, or without any of the files, the test is skipped. The group is removed when its processes
    have ended.
    """
    root = next((CGROUPS / name for name in controllers if (CGROUPS / name).is_dir()), CGROUPS)
    group = root / f"batchwise-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("this user may make no control group")
    try:
        name = next((name for name in limits if (group / name).exists()), None)
        if name is None:
            pytest.skip(f"its control groups have none of {', '.join(limits)}")
        (group / name).write_text(limits[name])
        yield group
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        group.rmdir()
