"""Handle --ray, --shard and --per-node-type: trials on other machines, and a study on one of each type."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from rich.console import Console

from runner import owned
from runner.owned import ENDING_S, KILLED, Owned
from runner.request.cli import Request
from runner.request.parser import BadInput
from workloads.program import build_environment
from workloads.records.job import ANY_GPU

if TYPE_CHECKING:
    from runner.cluster.ray_engine import RayEngine

AUTO = "auto"
INSTALL = ".venv/bin/python -m pip install --no-deps --require-hashes -r requirements-ray.txt"
ANSWER_S = 5.0  # Ray itself would try for minutes


def check(request: Request) -> None:
    """Raises BadInput for what cannot be handed out, before anything is started."""
    named = {"--ray": request.ray, "--node": request.node}
    if empty := [option for option, value in named.items() if value == ""]:
        raise BadInput(f"{empty[0]}: it has no value: is a variable not set?")
    if (request.per_node_type or request.node) and not request.ray:
        raise BadInput("--per-node-type, --node: they need a Ray cluster: give --ray, or leave them out")
    if request.shard:
        _check_shard(request)
    if not request.elsewhere:
        return
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"--ray: this Python has no ray: {INSTALL}")
    if request.study.blocks:
        raise BadInput("--ray: blocks of steps are measured on this machine alone: leave it out")
    if request.isolation != "venv" or request.interpreters:
        raise BadInput("--ray: nodes make the project's own environments: leave --isolation and --python out")
    if request.project.adapters_outside:
        raise BadInput("--ray: nodes get only the project's own frameworks: leave --adapters out")
    if request.placement.memory_limit_bytes is not None:
        raise BadInput("--ray: a memory limit depends on this machine: leave --memory-limit out")


def _check_shard(request: Request) -> None:
    """Raises BadInput for a plan that cannot be divided into shards."""
    others = {
        "--ray": (request.elsewhere, "Ray hands out the whole plan"),
        "--until-stable": (request.until_stable is not None, "its number of repeats needs the speeds of all shards"),
        "--blocks": (bool(request.study.blocks), "blocks of steps are measured on one machine"),
    }
    for option, (given, why) in others.items():
        if given:
            raise BadInput(f"--shard {request.shard} and {option}: {why}; leave one of them out")


def find_types(request: Request) -> dict[str, str]:
    """Return {type: a node of it} of the requested cluster, and print which nodes are too small. Raises BadInput."""
    with connect_engine(request) as engine:
        assert engine
        if small := engine.list_too_small():
            what = f"a trial needs {engine.needed} (see --threads)"
            print(f"runner: --per-node-type leaves out {', '.join(small)}: {what}", file=sys.stderr)
        return engine.node_types()


@contextmanager
def connect_engine(request: Request) -> Iterator[RayEngine | None]:
    """Connect to the requested machines, and yield the engine; None where trials run here. Raises BadInput."""
    if not request.elsewhere:
        yield None
        return
    engine = _ray(request)
    try:
        yield engine
    finally:
        engine.close()


def _ray(request: Request) -> RayEngine:
    """Connect to the cluster; a local run needs no Ray. Raises BadInput."""
    assert request.ray
    _answers(request.ray)
    from runner.cluster.ray_engine import RayEngine

    return RayEngine(request.ray, request.project, request.results, _wanted(request), request.node)


def _wanted(request: Request) -> dict[str, int]:
    """Return the most that a trial of any of its series needs, by Ray's names."""
    places = [part.placement for part in request.parts.values()]
    cpus = {"CPU": max(place.threads for place in places)}
    return cpus | ({"GPU": 1} if any(place.device == ANY_GPU for place in places) else {})


def _answers(address: str) -> None:
    """Raises BadInput where nothing answers at the address."""
    host, _, port = address.rpartition(":")
    if address == AUTO:
        return
    if not host or not port.isdecimal():
        raise BadInput(f"--ray {address}: give auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {address}: no answer there ({error}); start one with `ray start --head`") from error


def run_per_type(request: Request, arguments: Sequence[str], nodes: dict[str, str], console: Console) -> int:
    """Run the study on each {type: a node of it}, and return the largest exit code of the studies and the report.

    Each type has its own results folder below the request's. Raises OSError, KeyboardInterrupt.
    """
    for name, node in nodes.items():
        console.print(f"{name}: node {node}, into {request.results / name}")
    studies = {name: begin_study(request, arguments, name, node) for name, node in nodes.items()}
    try:
        show_lines(studies, console)
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
    return max([*(code if code >= 0 else KILLED for code in codes), report_types(request, list(nodes))])


def begin_study(request: Request, arguments: Sequence[str], name: str, node: str) -> Owned:
    """Start the given command on this node only."""
    chosen = ("--node", node, "--results", str(request.results / name))  # the last value of an option counts
    study = Owned(
        [sys.executable, "-P", "-m", "runner", *arguments, *chosen],  # -P: nothing of the caller's folder
        env=build_environment(os.environ, request.project.root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    study.go()
    return study


def show_lines(studies: dict[str, Owned], console: Console) -> None:
    """Print their lines as they come, each prefixed by its type, until the last study has ended."""

    def show(name: str, study: Owned) -> None:
        for line in study.stdout or ():
            console.print(f"{name}: {line.rstrip()}")

    threads = [Thread(target=show, args=each, daemon=True) for each in studies.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def report_types(request: Request, names: Sequence[str]) -> int:
    """Write a report with a chapter for each type, and all figures in one table; return its exit code."""
    folders = [str(request.results / name) for name in names if any((request.results / name).glob("trials/*"))]
    if not folders:
        return 1
    beside = ["--columns"] if len(folders) > 1 else []
    out = str((request.results / "report").resolve())
    command = [sys.executable, "-P", "-m", "reports", *folders, *beside, "--out", out]
    return int(owned.run(command, env=build_environment(os.environ, request.project.root)).returncode)
