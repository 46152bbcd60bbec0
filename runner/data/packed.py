"""A picture inside of a zip archive, read in place: nothing is unpacked, and nobody's word is taken for its size."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

MOST_BYTES = 2**26  # of a picture as a file: one of the archive's has less than 1 MiB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Packed:
    """A member of an archive; `changed_ns` is the archive's, so that another one is opened anew."""

    archive: str
    changed_ns: int
    member: str

    def open(self) -> BinaryIO:
        """All of it, its checksum looked at. Raises what zipfile does, ValueError for what is too large."""
        with archive_of(self.archive, self.changed_ns).open(self.member) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        return io.BytesIO(content)


@lru_cache(maxsize=1)  # a process goes through one: its list of thousands of members is read once
def archive_of(path: str, changed_ns: int) -> zipfile.ZipFile:
    """Raises zipfile.BadZipFile, OSError."""
    return zipfile.ZipFile(path)
