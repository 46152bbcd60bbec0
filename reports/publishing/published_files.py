"""Choose what is published of a results folder: all that a report is built from, and nothing else.

Published for each attempt at a trial: what was asked, events, samples, meter, log, result and everything needed to
compute the result. From `inputs/` only the networks are published, because they are ours to give.

Not published: the rest of `inputs/`, because data sets belong to their publishers. The checksums of what every worker
read are in its job.json. Files that no report reads are not published either, whatever they are.

No file holds environment variables, except those that can change a figure, or the name of the host. A log is free text.
It may name a home directory, as a traceback does, and a host, as TensorFlow does if it finds no GPU. Both are replaced
in it, `/home/NAME` by `~`, and the host by `HOST`; a node of a cluster has done so before its log arrived. All other
files stay byte for byte, because figures and ids are computed from them again. Files that name a home directory, or the
host of a cluster's node as older results do, are reported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from workloads.noise_scale import HELD
from workloads.records import files
from workloads.records.batch_answers import ANSWERS_FILE, HOST_LIMIT_FILE
from workloads.records.blocks import BLOCKS_FILE
from workloads.records.job import ID

from ..checking.completeness import Obstacle, count_obstacle
from ..load import OF_SEARCHES, ReportError
from .cleaning import contains_names, names_host, remove_names

CHECKSUMS = "SHA256SUMS"  # `sha256sum -c` reads it
MOST_FILE_BYTES = 64 * 2**20  # of one file: samples of ten hours, or 160 times the largest that was published
FOLDERS = ("trials", files.ATTEMPTS, "memory", "probes", "disturbed", "blocks")
FILES = ("stable.json", CHECKSUMS)  # the checksums are those of a submission
TRIAL_FILES = (
    files.JOB_FILE, files.EVENTS_FILE, files.SAMPLES_FILE, files.DRIVER_SAMPLES_FILE, files.COMPUTER_FILE,
    files.METER_FILE, files.LOG_FILE, files.SAMPLER_LOG_FILE, files.RESULT_FILE, files.ATTEMPT_FILE,
    BLOCKS_FILE,
)  # fmt: skip
OF_OTHER_GPU = re.compile(r"(driver_)?samples-gpu\d{1,2}\.csv")
NOT_READ = ("report", "jobs", files.CACHE_FOLDER, HOST_LIMIT_FILE)  # known, and left out without being reported
NETWORK = re.compile(r".+-network-(?P<digest>[0-9a-f]{12})\.json")  # in INPUTS, named by a digest of its content
INPUTS = "inputs"
WEIGHTS = tuple(f"{name}.npz" for name in HELD)  # of a search of the noise scale, which made them itself


def copy(results: Path, into: Path, searches: bool = True) -> list[str]:
    """Copy what is published of `results`, with names removed from logs; returns the paths of what is left out.

    Without `searches`, the answers of a search of batch sizes and its processes stay out: nothing can judge them again.
    Raises ReportError if something cannot be read or written, or is too large to be read from an archive.
    """
    left_out: list[str] = []
    of_search = {ANSWERS_FILE, *OF_SEARCHES}
    chosen, rooms, unread = {*FILES}, {*FOLDERS}, {*NOT_READ}
    if searches:
        chosen, rooms = chosen | of_search, rooms | of_search
    else:
        unread |= of_search
    try:
        for path in sorted(results.iterdir()):
            if path.name == INPUTS:
                _copy_networks(path, into / INPUTS)
            elif path.name in chosen and _is_plain(path):
                _write_file(into / path.name, _read(path))
            elif path.name in rooms and path.is_dir() and not path.is_symlink():
                left_out += _copy_trials(path, into / path.name)
            elif path.name not in unread and not path.match(files.LOCK_FILES):
                left_out.append(str(path))
    except OSError as error:
        raise ReportError(f"{error.filename}: {error.strerror}: cannot be copied for publishing") from error
    return left_out


def _copy_networks(inputs: Path, into: Path) -> None:
    for path in sorted(inputs.glob("*-network-*.json")):
        named = NETWORK.fullmatch(path.name)
        if named and _is_plain(path):
            content = _read(path)
            if hashlib.sha256(content).hexdigest().startswith(named["digest"]):
                _write_file(into / path.name, content)


def _copy_trials(folder: Path, into: Path) -> list[str]:
    left_out = []
    for trial_dir in sorted(folder.iterdir()):
        if not trial_dir.is_dir() or trial_dir.is_symlink():
            left_out.append(str(trial_dir))
            continue
        (into / trial_dir.name).mkdir(parents=True)  # an empty folder is an unfinished trial, and shown as such
        for path in sorted(trial_dir.iterdir()):
            if _is_of_trial(path.name) and _is_plain(path):
                content = _read(path)
                without_names = remove_names(content) if path.name in files.LOGS else content
                _write_file(into / trial_dir.name / path.name, without_names)
            elif path.name not in WEIGHTS:
                left_out.append(str(path))
    return left_out


def _is_of_trial(name: str) -> bool:
    return name in TRIAL_FILES or OF_OTHER_GPU.fullmatch(name) is not None


def is_expected(name: str) -> bool:
    """True for the path of a file that `copy` copies, below the archive's folder. None of them holds code."""
    _, *parts = name.split("/")
    match parts:
        case [file]:
            return file in (*FILES, ANSWERS_FILE)
        case [room, file] if room == INPUTS:
            return NETWORK.fullmatch(file) is not None
        case [room, trial, file]:
            return room in (*FOLDERS, *OF_SEARCHES) and ID.fullmatch(trial) is not None and _is_of_trial(file)
    return False


def _is_plain(path: Path) -> bool:
    """True for a file that is not a link, because a link may point to anything on this machine."""
    return path.is_file() and not path.is_symlink()


def find_private_files(folder: Path) -> list[Obstacle]:
    """Find files of a copied folder that name a home directory, or seem to hold a secret, and results that contain the
    host name of a cluster's node.
    """
    homes = [str(path) for path in list_files(folder) if contains_names(path.read_bytes())]
    records = (path for path in list_files(folder) if path.name in (files.RESULT_FILE, files.ATTEMPT_FILE))
    hosts = [str(path) for path in records if names_host(path.read_bytes())]
    return [
        *count_obstacle("naming a home directory or what looks like a secret", homes, noun="file"),
        *count_obstacle("naming the host of a cluster's node, which new runs do not store", hosts, noun="file"),
    ]


def list_files(folder: Path) -> Iterator[Path]:
    """List all files below the folder, sorted."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _read(path: Path) -> bytes:
    """Return a file's content. Raises ReportError for one that nobody could unpack from the archive."""
    if (size := path.stat().st_size) > MOST_FILE_BYTES:
        at_most = f"at most {MOST_FILE_BYTES:,} are read from an archive"
        raise ReportError(f"{path}: {size:,} bytes, {at_most}; shorten it if it is a log, else leave out its trial")
    return path.read_bytes()


def _write_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
