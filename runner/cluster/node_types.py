"""Handle --per-node-type: a study on one machine of each type of a cluster, at the same time, and a report over all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from rich.console import Console

from runner import owned
from runner.owned import ENDING_S, KILLED, Owned
from runner.request.cli import Request

Lines = SimpleQueue[tuple[str, str | None]]  # lines of each type's study; None after its last line


def run(request: Request, arguments: Sequence[str], nodes: dict[str, str], console: Console) -> int:
    """Run the study on each {type: a node of it}, and return the largest exit code of the studies and the report.

    Each type has its own results folder below the request's. Raises OSError, KeyboardInterrupt.
    """
    for name, node in nodes.items():
        console.print(f"{name}: node {node}, into {request.results / name}")
    studies = {name: begun(request, arguments, name, node) for name, node in nodes.items()}
    try:
        show(studies, console)
        codes = [study.wait() for study in studies.values()]
    except KeyboardInterrupt:
        until = time.monotonic() + ENDING_S
        for study in studies.values():
            study.terminate()  # SIGINT is ignored by processes started in the background of a script
        for study in studies.values():
            with suppress(subprocess.TimeoutExpired):
                study.wait(max(0.0, until - time.monotonic()))
        raise
    finally:
        for study in studies.values():
            study.end()
    return max([*(code if code >= 0 else KILLED for code in codes), reported(request, list(nodes))])


def begun(request: Request, arguments: Sequence[str], name: str, node: str) -> Owned:
    """Start the given command on this node only."""
    chosen = ("--node", node, "--results", str(request.results / name))  # the last value of an option counts
    study = Owned(
        [sys.executable, "-m", "runner", *arguments, *chosen],
        env=os.environ | {"PYTHONPATH": str(request.project.root)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    study.go()
    return study


def show(studies: dict[str, Owned], console: Console) -> None:
    """Print their lines as they come, each prefixed by its type, until the last study has ended."""
    lines: Lines = SimpleQueue()
    for name, study in studies.items():
        Thread(target=follow, args=(name, study, lines), daemon=True).start()
    left = set(studies)
    while left:
        name, line = lines.get()
        if line is None:
            left.discard(name)
        else:
            console.print(f"{name}: {line.rstrip()}")


def follow(name: str, study: Owned, lines: Lines) -> None:
    """Queue the lines that the study prints."""
    try:
        for line in study.stdout or ():
            lines.put((name, line))
    finally:
        lines.put((name, None))


def reported(request: Request, names: Sequence[str]) -> int:
    """Write a report with a chapter for each type, and all figures in one table; return its exit code."""
    folders = [str(request.results / name) for name in names if any((request.results / name).glob("trials/*"))]
    if not folders:
        return 1
    beside = ["--columns"] if len(folders) > 1 else []
    command = [sys.executable, "-m", "reports", *folders, *beside, "--out", str((request.results / "report").resolve())]
    return int(owned.run(command, env=os.environ | {"PYTHONPATH": str(request.project.root)}).returncode)
