"""The control groups of a process, of both versions (cgroups(7)): its own and all above it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def folders(controller: str, groups: Path | None = None) -> Iterator[Path]:
    """Yield the folders of a process's group and of all above it; a container sees its group as the root of the tree.

    `groups` is /proc/PID/cgroup of another process; None: this one's.
    """
    try:
        lines = (groups or OWN).read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        if not root.is_dir():
            root = CGROUPS / controller
        folder = root / path.lstrip("/")
        while folder != root:
            yield folder
            folder = folder.parent
        yield root
