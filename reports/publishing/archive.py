"""The raw trials of a results folder as one archive: all that a report is made from, and nothing else.

Published of each attempt at a trial: what was asked, events, samples, meter, log, result and what it can be made of; of
`inputs/` the networks, which are ours to give. Not published: the rest of `inputs/` (data sets belong to their
publishers; the checksums of what every worker read are in its job.json), and any file that no report reads, whatever it
is and wherever it came from. No file holds an environment variable but those that can change a figure, or the name of
the host. A log is free text, and may name both a home directory and a host (a traceback does, TensorFlow does where it
finds no GPU): these are replaced in it, `/home/NAME` by `~`, and the host by `HOST`. All other files stay as they are
byte for byte, because figures and ids are computed from them again; those that name a home directory are told.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from workloads.datasets import file_digest
from workloads.records import files
from workloads.records.blocks import BLOCKS_FILE
from workloads.temporary import temporary_folder

from .. import load
from ..load import ReportError, Stored
from .checksums import CHECKSUMS
from .cleaning import nameless, tells

ARCHIVE = "results.tar.xz"
MOST_BYTES, MOST_FILES = 4 * 2**30, 1_000_000  # of what is unpacked: ten times the largest study's
MOST_MEMORY_BYTES, PIECE_BYTES = 256 * 2**20, 2**16  # xz's own highest preset takes 65 MiB

FOLDERS = ("trials", files.ATTEMPTS, "memory", "probes", "disturbed", "blocks")
FILES = ("stable.json",)
TRIAL_FILES = (
    files.JOB_FILE, files.EVENTS_FILE, files.SAMPLES_FILE, files.DRIVER_SAMPLES_FILE,
    files.METER_FILE, files.LOG_FILE, files.SAMPLER_LOG_FILE, files.RESULT_FILE, files.ATTEMPT_FILE,
    BLOCKS_FILE,
)  # fmt: skip
OF_OTHER_GPU = re.compile(r"(driver_)?samples-gpu\d{1,2}\.csv")
LOGS = (files.LOG_FILE, files.SAMPLER_LOG_FILE)  # free text
NOT_READ = ("report", "jobs", files.CACHE_FOLDER, files.INDEX_FILE)  # known, and left out without a word
NETWORK = re.compile(r".+-network-(?P<digest>[0-9a-f]{12})\.json")  # in INPUTS, named by its content
INPUTS = "inputs"


def copy(results: Path, into: Path) -> list[str]:
    """Copy what is published of `results`, logs without names; returns the paths of what is left out.

    Raises ReportError where something cannot be read or written.
    """
    left_out = []
    try:
        for path in sorted(results.iterdir()):
            if path.name == INPUTS:
                _copy_networks(path, into / INPUTS)
            elif path.name in FILES and _is_plain(path):
                _write(into / path.name, path.read_bytes())
            elif path.name in FOLDERS and path.is_dir() and not path.is_symlink():
                left_out += _copy_trials(path, into / path.name)
            elif path.name not in NOT_READ and not path.match(files.LOCK_FILES):
                left_out.append(str(path))
    except OSError as error:
        raise ReportError(f"{error.filename}: {error.strerror}: cannot be copied for publishing") from error
    return left_out


def _copy_networks(inputs: Path, into: Path) -> None:
    for path in sorted(inputs.glob("*-network-*.json")):
        named = NETWORK.fullmatch(path.name)
        if named and _is_plain(path):
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest().startswith(named["digest"]):
                _write(into / path.name, content)


def _copy_trials(folder: Path, into: Path) -> list[str]:
    left_out = []
    for trial_dir in sorted(folder.iterdir()):
        if not trial_dir.is_dir() or trial_dir.is_symlink():
            left_out.append(str(trial_dir))
            continue
        (into / trial_dir.name).mkdir(parents=True)  # an empty one is an unfinished trial, and shown as such
        for path in sorted(trial_dir.iterdir()):
            if (path.name in TRIAL_FILES or OF_OTHER_GPU.fullmatch(path.name)) and _is_plain(path):
                content = path.read_bytes()
                _write(into / trial_dir.name / path.name, nameless(content) if path.name in LOGS else content)
            else:
                left_out.append(str(path))
    return left_out


def _is_plain(path: Path) -> bool:
    """A link may lead to anything on this machine."""
    return path.is_file() and not path.is_symlink()


def naming_homes(folder: Path) -> list[str]:
    """Files of a copied folder that name a home directory, or hold what looks like a secret."""
    return [str(path) for path in _files(folder) if tells(path.read_bytes())]


def pack(folder: Path, archive: Path) -> None:
    """`folder` as .tar.xz, the same bytes for the same content: sorted, no times, no owners."""
    with tarfile.open(archive, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as packed:
        for path in _files(folder):
            entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                packed.addfile(entry, file)


def packed(results: Path) -> Path | None:
    """The archive of a published folder, or of its file; None for a results folder.

    Raises ReportError where the checksums beside it are of other bytes, or cannot be read.
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
        raise ReportError(f"{found}: changed since it was published: {CHECKSUMS} tells another checksum; get it anew")
    return found


def stored(results: Path) -> Stored:
    """What a results folder, a published one or an archive holds; paths of an archive's files begin with its own.

    Raises ReportError.
    """
    archive = packed(results)
    if archive is None:
        return load.read(results)
    try:
        with temporary_folder("batchwise-") as stage:
            folder = unpack(archive, stage)
            try:
                found = load.read(folder)
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
    """What an archive holds, read in pieces: no more of it, and by no more memory, than a results folder takes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, MOST_BYTES
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while not self._decompressor.eof:
            piece = self._file.read(PIECE_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not piece:
                raise EOFError("it ends too early")
            content = self._decompressor.decompress(piece, size)
            self._left -= len(content)
            if self._left < 0:
                raise ValueError(f"it holds more than {MOST_BYTES:,} bytes")
            if content:
                return content
        return b""


def _as_tar(content: _Decompressed) -> tarfile.TarFile:
    """As a stream, read once from front to back."""
    return tarfile.open(fileobj=content, mode="r|")  # type: ignore[call-overload,no-any-return]


def unpack(archive: Path, into: Path) -> Path:
    """The results folder of a packed archive, below `into`; anyone's: no link leads out of it, and it has limits.

    Raises ReportError for anything else.
    """
    try:
        with archive.open("rb") as file, _as_tar(_Decompressed(file)) as unpacked:
            for number, member in enumerate(unpacked, start=1):
                if number > MOST_FILES:
                    raise ValueError(f"it holds more than {MOST_FILES:,} files")
                unpacked.extract(member, into, filter="data")  # refuses links and paths that lead out of `into`
        found = [path for path in into.iterdir() if path.is_dir()] if into.is_dir() else []
        if len(found) != 1:
            raise ValueError(f"it holds {len(found)} folders, not one")
    except (OSError, EOFError, ValueError, lzma.LZMAError, tarfile.TarError) as error:
        reason = " ".join(str(error).split())
        raise ReportError(f"{archive}: not the archive of a results folder: {reason}; give one of `publish`") from error
    return found[0]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
