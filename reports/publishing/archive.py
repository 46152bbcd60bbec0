"""Pack results into one archive, unpack archives with care, and list their checksums. `published_files` says what is in
them.
"""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from workloads.datasets import file_digest
from workloads.temporary import temporary_folder
from workloads.unpacking import extract_member

from .. import load
from ..load import ReportError, Stored
from .published_files import CHECKSUMS as CHECKSUMS
from .published_files import MOST_FILE_BYTES, is_expected, list_files

ARCHIVE = "results.tar.xz"
MOST_BYTES, MOST_FILES = 4 * 2**30, 1_000_000  # of the unpacked content: ten times the largest study's
MOST_MEMBER_BYTES = MOST_FILE_BYTES + 2**20  # with its headers
MOST_MEMORY_BYTES, PIECE_BYTES = 256 * 2**20, 2**16  # the highest preset of xz takes 65 MiB
FILTER = {"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 4, "pb": 0}  # for text: 3 % fewer bytes than the preset alone

SHOWN = 80  # characters of a member's name
CHECKSUM = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\0]+)")  # a line of CHECKSUMS, as `sha256sum -c` reads it


def pack(folder: Path, archive: Path) -> None:
    """Pack `folder` as .tar.xz; the same content gives the same bytes: sorted, no times, no owners.

    Files of one name follow each other, because they resemble each other most.
    """
    with (
        lzma.open(archive, "wb", filters=[FILTER]) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for path in sorted(list_files(folder), key=lambda path: (path.name, path)):
            entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                packed.addfile(entry, file)


def is_results(folder: Path, rooms: Sequence[str] = load.ROOMS) -> bool:
    """True for a results folder with one of these rooms, finished or not, and for a published one. Raises OSError."""
    return any((folder / room).is_dir() for room in rooms) or (folder / ARCHIVE).is_file()


def list_results(folder: Path, rooms: Sequence[str] = load.ROOMS, ending: str = "") -> list[Path]:
    """List the results folders in a folder, sorted, and archives of this ending; itself if it is one, or holds none.

    Raises ReportError if that cannot be read.
    """
    try:
        if is_results(folder, rooms) or not folder.is_dir():
            return [folder]
        inside = [(path, bool(ending) and path.name.endswith(ending) and path.is_file()) for path in folder.iterdir()]
        return sorted(path for path, is_packed in inside if is_packed or is_results(path, rooms)) or [folder]
    except OSError as error:
        raise ReportError(
            f"{error.filename or folder}: cannot be read: {error.strerror}; check its permissions"
        ) from error


def find_archive(results: Path) -> Path | None:
    """Find the archive of a published folder, or of its file; None for a results folder.

    Raises ReportError if its checksum file does not match or cannot be read.
    """
    found = results / ARCHIVE if (results / ARCHIVE).is_file() and not (results / "trials").is_dir() else results
    if not found.is_file():
        return None
    sums = found.parent / CHECKSUMS
    try:
        lines = sums.read_text(encoding="utf-8", errors="replace").splitlines() if sums.is_file() else []
        of_archive = [line for line in lines if line.endswith(f"  {found.name}")]
        changed = bool(of_archive) and of_archive != [f"{file_digest(found, 'sha256')}  {found.name}"]
    except OSError as error:
        raise ReportError(f"{error.filename}: cannot be read: {error.strerror}; check its permissions") from error
    if changed:
        raise ReportError(f"{found}: changed since it was published: {CHECKSUMS} has another checksum; get it again")
    return found


def read_stored(results: Path, read: Callable[[Path], Stored] = load.read) -> Stored:
    """Read a results folder, a published one or an archive, by one of load's functions.

    Paths of an archive's files begin with the archive's path. Raises ReportError.
    """
    archive = find_archive(results)
    if archive is None:
        return read(results)
    try:
        with temporary_folder("batchwise-") as stage:
            folder = unpack(archive, stage)
            try:
                found = read(folder)
            except ReportError as error:
                raise ReportError(str(error).replace(str(folder), str(archive))) from error
    except OSError as error:
        raise ReportError(f"{archive}: cannot be unpacked: {error.strerror}; check the temporary folder") from error
    return replace(
        found,
        unreadable=tuple(replace(item, path=archive / item.path.relative_to(folder)) for item in found.unreadable),
        unfinished=tuple(archive / path.relative_to(folder) for path in found.unfinished),
    )


class _Decompressed:
    """Decompressed content of an archive, read in pieces, with limits on its size, on a member's with its headers,
    which tarfile reads whole, and on memory.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left, self._left_of_member = file, MOST_BYTES, MOST_MEMBER_BYTES
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes; none at the end."""
        while not self._decompressor.eof:
            piece = self._file.read(PIECE_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not piece:
                raise EOFError("it is cut short")
            content = self._decompressor.decompress(piece, size)
            self._left -= len(content)
            self._left_of_member -= len(content)
            if min(self._left, self._left_of_member) < 0:
                raise ValueError(f"it holds more than {MOST_BYTES:,} bytes, or a file of it {MOST_MEMBER_BYTES:,}")
            if content:
                return content
        return b""

    def start_member(self) -> None:
        """Count the bytes of the next member."""
        self._left_of_member = MOST_MEMBER_BYTES


def _as_tar(content: _Decompressed) -> tarfile.TarFile:
    """Open it as a stream, read once from front to back."""
    return tarfile.open(fileobj=content, mode="r|")  # type: ignore[call-overload,no-any-return]


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an archive below `into`; returns its results folder.

    The archive may come from anyone: it holds the files that `copy` copies, each once, and its size is limited. Raises
    ReportError for anything else, as a link, a program or a path that leads elsewhere.
    """
    seen: set[str] = set()
    try:
        with archive.open("rb") as file, _as_tar(content := _Decompressed(file)) as unpacked:
            for number, member in enumerate(unpacked, start=1):
                if number > MOST_FILES:
                    raise ValueError(f"it holds more than {MOST_FILES:,} files")
                _refuse(member, seen)
                extract_member(unpacked, member, into)
                content.start_member()
        found = [path for path in into.iterdir() if path.is_dir()] if into.is_dir() else []
        if len(found) != 1:
            raise ValueError(f"it holds {len(found)} folders, not one")
    except OSError as error:
        told = error.strerror or error
        raise ReportError(
            f"{archive}: cannot be unpacked: {told}; check its permissions, and the space left"
        ) from error
    except (EOFError, ValueError, RecursionError, lzma.LZMAError, tarfile.TarError) as error:
        reason = " ".join(str(error).split())
        raise ReportError(
            f"{archive}: not the archive of a results folder: {reason}; give one that `publish` made"
        ) from error
    return found[0]


def _refuse(member: tarfile.TarInfo, seen: set[str]) -> None:
    """Raise ValueError for a member that is not a results file; otherwise add its name to `seen`."""
    name = ascii(member.name)[1:-1][:SHOWN]
    if not member.isreg():
        raise ValueError(f"{name} is not a plain file")
    if not is_expected(member.name):
        raise ValueError(f"{name} is not a results file")
    if member.name in seen:
        raise ValueError(f"{name} is contained twice")
    if member.size > MOST_FILE_BYTES:
        raise ValueError(f"{name} has {member.size:,} bytes, at most {MOST_FILE_BYTES:,} are read")
    seen.add(member.name)


def format_checksums(folder: Path) -> str:
    """Format the checksums of the folder's files, except for the list itself."""
    return "".join(f"{file_digest(path, 'sha256')}  {name}\n" for name, path in _named(folder).items())


def _named(folder: Path) -> dict[str, Path]:
    """Return {path below the folder: file} of all files except CHECKSUMS."""
    named = {path.relative_to(folder).as_posix(): path for path in list_files(folder)}
    return {name: path for name, path in named.items() if name != CHECKSUMS}


def find_changed_files(folder: Path) -> list[str]:
    """List each file that is changed, missing, or not in the list. Raises OSError."""
    listed: dict[str, str] = {}
    for number, line in enumerate((folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not (named := CHECKSUM.fullmatch(line)):
            return [f"{folder / CHECKSUMS}: line {number}: neither a checksum nor a name"]
        listed[named["name"]] = named["sha256"]
    there = _named(folder)
    gone = [f"{folder / name}: missing, but listed in {CHECKSUMS}" for name in sorted(listed.keys() - there)]
    more = [f"{folder / name}: not in {CHECKSUMS}" for name in sorted(there.keys() - listed.keys())]
    changed = [
        f"{folder / name}: changed since it was published: its checksum differs"
        for name in sorted(listed.keys() & there.keys())
        if file_digest(there[name], "sha256") != listed[name]
    ]
    return [*changed, *gone, *more]
