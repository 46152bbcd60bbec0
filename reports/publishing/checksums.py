"""Write and check SHA256SUMS of a publication: every other file in it, as `sha256sum -c` reads it."""

from __future__ import annotations

import re
from pathlib import Path

from workloads.datasets import file_digest

CHECKSUMS = "SHA256SUMS"
LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^/\0]+)")


def text(folder: Path) -> str:
    """Format the checksums of the folder's files, except for the list itself."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != CHECKSUMS]
    return "".join(f"{file_digest(path, 'sha256')}  {path.name}\n" for path in paths)


def differences(folder: Path) -> list[str]:
    """List each file that is changed, missing, or not in the list. Raises OSError."""
    listed: dict[str, str] = {}
    for number, line in enumerate((folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not (named := LINE.fullmatch(line)):
            return [f"{folder / CHECKSUMS}: line {number}: neither a checksum nor a name"]
        listed[named["name"]] = named["sha256"]
    there = {path.name for path in folder.iterdir() if path.name != CHECKSUMS}
    gone = [f"{folder / name}: in {CHECKSUMS}, and not there" for name in sorted(listed.keys() - there)]
    more = [f"{folder / name}: not in {CHECKSUMS}" for name in sorted(there - listed.keys())]
    changed = [
        f"{folder / name}: changed since it was published: its checksum is another one"
        for name in sorted(listed.keys() & there)
        if not (folder / name).is_file() or file_digest(folder / name, "sha256") != listed[name]
    ]
    return [*changed, *gone, *more]
