"""Notice that our code or the packages of a framework change during a run.

A worker starts from what is there at that moment. After a change its trial would be stored under the identity of the
code or the packages before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner.environments.code import code_digest, worker_modules
from runner.launch import Local
from runner.project import Project
from workloads.records.build import column_of
from workloads.records.job import TrialSpec

Looks = dict[Path, tuple[int, int] | None]  # by file or folder: see `look_at`


class InstallationWatch:
    """Compares what is installed with what trials say; computes digests only after one of the files has changed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Looks] = {}  # by build and digest: how the files were when it held

    def find_change(self, spec: TrialSpec, launcher: Local) -> str | None:
        """Return what is no longer as `spec.installation` says, the first changed file if it is known, else None."""
        if launcher.packages is None:
            return None
        build, digest = column_of(spec.cell.framework).installed, spec.installation.environment
        seen = self._seen.get((build, digest), {})
        changed = [path for path, look in seen.items() if look_at(path) != look]
        if seen and not changed:
            return None
        try:
            # Before the digests, so that a change while they are computed is noticed by the next call.
            looks = look_at_all((*list_code(launcher.project, build), *launcher.packages.files))
            now = f"{launcher.packages.digest()}-{code_digest(launcher.project, build)}"
        except (OSError, ValueError, SyntaxError):  # in the middle of a change
            now = None
        if now == digest:
            self._seen[build, digest] = looks
            return None
        return str(changed[0]) if changed else f"the code or the packages of {build}"


def list_code(project: Project, framework: str) -> list[Path]:
    """Return the files of our code that its workers import, then the folders where another could take their place."""
    modules = sorted(worker_modules(project, framework).values())
    return [*modules, *sorted({*project.adapters, *(path.parent for path in modules)})]


def look_at(path: Path) -> tuple[int, int] | None:
    """Return (inode, time of its last change in ns, which no program can set); None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def look_at_all(paths: Iterable[Path]) -> Looks:
    """Return {path: `look_at`}."""
    return {path: look_at(path) for path in paths}
