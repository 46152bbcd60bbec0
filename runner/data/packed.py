"""Read a picture inside a zip archive in place: nothing is unpacked, and its stated size is not trusted."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

MOST_BYTES = 2**26  # of a picture file; pictures in the archive are smaller than 1 MiB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Packed:
    """A member of an archive; `changed_ns` is the archive's, so that a changed archive is opened again."""

    archive: str
    changed_ns: int
    member: str

    def open(self) -> BinaryIO:
        """Read the whole member and verify its checksum.

        Raises what zipfile raises, and ValueError for a file that is too large.
        """
        with archive_of(self.archive, self.changed_ns).open(self.member) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        return io.BytesIO(content)


@lru_cache(maxsize=1)  # a process reads one archive: its list of thousands of members is read once
def archive_of(path: str, changed_ns: int) -> zipfile.ZipFile:
    """Open the archive. Raises zipfile.BadZipFile, OSError."""
    return zipfile.ZipFile(path)
