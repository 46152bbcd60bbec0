"""Run a block on a node of the cluster, and ship its finished trials back.

Ray's worker calls `run`. The process that computes is `python -m runner.cluster`, which ends with that worker. A trial
comes back as one checked parcel, its folder and its probe's, which arrives whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import owned
from runner.input_files import INPUTS, place_file
from runner.log import read_last_lines
from runner.project import XDG_VARIABLE, Project, find_user_cache
from runner.request.block import BLOCK_FILE, TrialBlock
from workloads.own_names import name_node, remove_own_names
from workloads.program import build_environment
from workloads.records import stored
from workloads.records.files import (
    EVENTS_FILE,
    LOG_FILE,
    LOGS,
    attempts_of,
    next_attempt_path,
    read_bytes,
    settle,
    sync,
    without_nan,
    write_json,
)
from workloads.records.job import ID, ROOMS, InputFile, Kind
from workloads.records.result import TrialResult
from workloads.temporary import temporary_folder
from workloads.unpacking import extract_all

WORK = "block-"
COMPUTER = ("cpu_model", "cpu_flags", "memory_bytes", "gpus")  # of a description: they name the folder of answers
Fetch = Callable[[InputFile], bytes]


class BlockFailed(Exception):
    """The block did not come to its end on this node; the message is one line: what ended it."""


def find_node_folder() -> Path:
    """Return the folder where this user's sweeps keep what the next one needs again. Raises BlockFailed."""
    folder = find_user_cache() or Path(os.path.expanduser("~/.cache/batchwise"))
    if not folder.is_absolute():
        raise BlockFailed(f"{name_node()}: this user has no home directory: set {XDG_VARIABLE} to an absolute path")
    return folder


def build_project(root: Path) -> Project:
    """Return the project at `root`, with the environments that this node keeps for such definitions.

    Other code with the same definitions shares the environments.
    """
    project = Project.at(root)
    definitions = b"\0".join(project.definition(name).read_bytes() for name in project.frameworks)
    name = hashlib.sha256(definitions).hexdigest()[:12]
    return Project(root, find_node_folder() / "environments" / name)


def find_host_folder() -> Path:
    """Return the folder of this machine only, because many machines may share a home directory."""
    return find_node_folder() / "hosts" / name_node()


def make_answers_folder(machine: dict[str, Any]) -> Path:
    """Make and return the folder for what frameworks answer on this computer with this card: probes, memory contents.

    In a sweep the ids of answers name no card, and several machines may have the same name.
    """
    host = find_host_folder()
    computer = json.dumps({name: machine[name] for name in COMPUTER}, sort_keys=True)
    folder = host / "answers" / hashlib.sha256(computer.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / INPUTS).symlink_to(Path("..", "..", INPUTS))
    return folder


def run(block: TrialBlock, root: Path, fetch: Fetch) -> Iterator[Parcel]:
    """Run the block and yield each trial as soon as it is finished. Raises BlockFailed, OSError.

    `root` is the folder of the project's code on this node. `fetch` brings an input that is not here yet.
    """
    host = find_host_folder()
    for folder in (host / INPUTS, host / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in block.inputs.values():
        bring(file, host, fetch)
    with temporary_folder(WORK, host / "work") as work:
        (work / INPUTS).symlink_to(host / INPUTS)
        write_json(work / BLOCK_FILE, block.to_json())
        command, code = [sys.executable, "-m", "runner.cluster", str(work)], build_environment(os.environ, root)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with (
            (work / LOG_FILE).open("wb") as log,
            owned.hold(command, cwd=root, env=code, stderr=log, **pipes) as process,
        ):
            for line in process.stdout or ():
                told = json.loads(line)
                yield Parcel.pack(told["result"], told["evidence"], Path(told["trial"]), Path(told["probe"]))
            exit_code = process.wait()
        if exit_code:
            lines = [line for line in read_last_lines(work / LOG_FILE) if line.strip()]
            last = remove_own_names(lines[-1].encode(errors="replace")).decode() if lines else "no output"
            raise BlockFailed(f"{name_node()}: exit code {exit_code}: {last}")


def bring(file: InputFile, host: Path, fetch: Fetch) -> None:
    """Fetch the input once per node, whichever block asks first, and check it. Raises BlockFailed, OSError."""

    def make(path: Path) -> None:
        content = fetch(file)
        if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
            raise BlockFailed(f"{file.path}: sha256 expected {file.sha256}, {found} arrived")
        path.write_bytes(content)

    place_file(host, Path(file.path).name, file.sha256, make)


ARRIVING = ".arriving-"  # in a results folder; the next run clears what a killed one left
TRIAL, PROBE = "trial", "probe"


class Damaged(ValueError):
    """The parcel is not what was sent."""


@dataclass(frozen=True)
class Parcel:
    """Parcel of one trial.

    `result` is JSON as its node saw it: neither judged nor with evidence of its end. `content` is a tar of TRIAL/, the
    trial's folder, and of PROBE/, the folder of its framework's probe, if there is one.
    """

    trial: str  # its id
    probe: str
    result: dict[str, Any]
    evidence: dict[str, Any]
    content: bytes = field(repr=False)
    sha256: str

    @staticmethod
    def pack(result: dict[str, Any], evidence: dict[str, Any], folder: Path, probe: Path) -> Parcel:
        """Pack a trial's folder and its probe's, with this machine's names removed from logs.

        Either may be missing: the trial was never begun, or the probe not run.
        """
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as packed:
            for name, each in ((TRIAL, folder), (PROBE, probe)):
                if each.is_dir():
                    packed.add(each, name, filter=_leave_out_logs)
                    _add_logs(packed, each, name)
        content = buffer.getvalue()
        return Parcel(folder.name, probe.name, result, evidence, content, hashlib.sha256(content).hexdigest())

    def read_result(self) -> TrialResult:
        """Return the result. Raises Damaged."""
        try:
            result = stored.parse_result(json.dumps(without_nan(self.result)).encode())
        except (ValueError, RecursionError) as error:
            raise Damaged(f"{self.trial}: {error}") from error
        if result.spec.id != self.trial:
            raise Damaged(f"{self.trial}: its result belongs to {result.spec.id}")
        return result


def _leave_out_logs(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.partition("/")[2] in LOGS else entry


def _add_logs(packed: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add the folder's logs without the names of this machine: the one that publishes them cannot know these."""
    for path in (folder / log for log in LOGS):
        if path.is_file():
            content = remove_own_names(path.read_bytes())
            entry = tarfile.TarInfo(f"{name}/{path.name}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


@contextmanager
def arriving(parcel: Parcel, results: Path) -> Iterator[dict[str, Path]]:
    """Return {TRIAL, PROBE: the folder as it arrived}, already on the disk. Raises Damaged, OSError.

    Move each to its final path within the `with` block.
    """
    if hashlib.sha256(parcel.content).hexdigest() != parcel.sha256:
        raise Damaged(f"{parcel.trial}: its sha256 is not the one that was sent")
    if not ID.fullmatch(parcel.trial) or not ID.fullmatch(parcel.probe):
        raise Damaged(f"{parcel.trial[:80]!r}: not a trial's name")
    with temporary_folder(ARRIVING, results) as into:
        try:
            with tarfile.open(fileobj=io.BytesIO(parcel.content)) as packed:
                extract_all(packed, into)
        except tarfile.TarError as error:
            raise Damaged(f"{parcel.trial}: {error}") from error
        found = {name: into / name for name in (TRIAL, PROBE) if (into / name).is_dir()}
        for folder in found.values():
            settle(folder)
        yield found


def place(folder: Path, destination: Path) -> None:
    """Move the folder to a path that does not exist yet. Raises OSError."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(destination)
    sync(destination.parent)


def probe_folder(results: Path, probe: str) -> Path:
    """Return the folder of the probe with this id."""
    return results / ROOMS[Kind.PROBE] / probe


def keep_probe(folder: Path, results: Path, probe: str) -> None:
    """Keep each node's answer of the framework once, those after the first as earlier attempts: a check looks for the
    one that a trial was judged by.
    """
    destination = probe_folder(results, probe)
    kept = [destination, *attempts_of(destination.parent, probe)] if destination.exists() else []
    if any(read_bytes(each / EVENTS_FILE) == read_bytes(folder / EVENTS_FILE) for each in kept):
        shutil.rmtree(folder)
    else:
        place(folder, next_attempt_path(destination.parent, probe) if kept else destination)
