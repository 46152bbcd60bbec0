"""Prepare code, inputs and a folder for a block on the node of an engine; a separate process then runs the block.

The engine's worker calls `run`. The process that computes is `python -m runner.cluster`, which ends with that worker.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.cluster.ship import Parcel
from runner.input_files import INPUTS, placed
from runner.log import last_lines
from runner.owned import Owned
from runner.project import Project
from runner.request.block import BLOCK_FILE, TrialBlock
from workloads.program import of_ours
from workloads.records.files import LOG_FILE, write_json
from workloads.records.job import InputFile
from workloads.temporary import temporary_folder

WORK = "block-"
Fetch = Callable[[InputFile], bytes]


class BlockFailed(Exception):
    """The block did not come to its end on this node; the message is one line: what ended it."""


def node_folder() -> Path:
    """Return the folder where this user's sweeps keep what the next one needs again."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "batchwise"


def project_of(root: Path) -> Project:
    """Return the project at `root`, with the environments that this node keeps for such definitions.

    Other code with the same definitions shares the environments.
    """
    project = Project.at(root)
    definitions = b"\0".join(project.definition(name).read_bytes() for name in project.frameworks)
    name = hashlib.sha256(definitions).hexdigest()[:12]
    return Project(root, node_folder() / "environments" / name)


def host_folder() -> Path:
    """Return the folder of this machine only, because many machines may share a home directory."""
    return node_folder() / "hosts" / platform.node()


def run(block: TrialBlock, root: Path, fetch: Fetch) -> Iterator[Parcel]:
    """Run the block and yield each trial as soon as it is finished. Raises BlockFailed, OSError.

    `root` is the folder of the project's code on this node. `fetch` brings an input that is not here yet.
    """
    host = host_folder()
    for folder in (host / INPUTS, host / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in block.inputs.values():
        bring(file, host, fetch)
    with temporary_folder(WORK, host / "work") as work:
        (work / INPUTS).symlink_to(host / INPUTS)
        write_json(work / BLOCK_FILE, block.to_json())
        with (work / LOG_FILE).open("wb") as log:
            process = Owned(
                [sys.executable, "-m", "runner.cluster", str(work)],
                cwd=root,
                env=of_ours(os.environ, root),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        with process:
            try:
                process.go()
                assert process.stdout
                for line in process.stdout:
                    told = json.loads(line)
                    yield Parcel.of(told["result"], told["evidence"], Path(told["trial"]), Path(told["probe"]))
                exit_code = process.wait()
            finally:
                process.end()
        if exit_code:
            lines = [line for line in last_lines(work / LOG_FILE) if line.strip()]
            raise BlockFailed(f"{platform.node()}: exit code {exit_code}: {lines[-1] if lines else 'no output'}")


def bring(file: InputFile, host: Path, fetch: Fetch) -> None:
    """Fetch the input once per node, whichever block asks first, and check it. Raises BlockFailed, OSError."""

    def make(path: Path) -> None:
        content = fetch(file)
        if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
            raise BlockFailed(f"{file.path}: sha256 expected {file.sha256}, {found} arrived")
        path.write_bytes(content)

    placed(host, Path(file.path).name, file.sha256, make)
