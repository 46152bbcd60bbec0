"""--ray: trials on other machines."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from runner.cluster.engine import Engine, EngineUnavailable
from runner.command.cli import Request
from runner.command.parser import BadInput

REQUIREMENTS = "requirements-ray.txt"
AUTO = "auto"
ANSWER_S = 5.0  # Ray itself would try for minutes


def check(request: Request) -> None:
    """Raises BadInput for what cannot be handed out, before anything is started."""
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"--ray: this Python has no ray: .venv/bin/python -m pip install -r {REQUIREMENTS}")
    if request.study.blocks:
        raise BadInput("--ray: blocks of steps are measured on this machine alone: leave it out")
    if request.placement.device != "cpu":
        raise BadInput("--ray: trials on other machines run on CPUs so far: give --device cpu")
    if request.isolation != "venv" or request.interpreters:
        raise BadInput("--ray: nodes make the project's own environments: leave --isolation and --python out")
    if request.project.adapters_outside:
        raise BadInput("--ray: only the project's own frameworks travel: leave --adapters out")
    if request.placement.memory_limit_bytes is not None:
        raise BadInput("--ray: what a limit is made of is this machine's: leave --memory-limit out")


@contextmanager
def engine_of(request: Request) -> Iterator[Engine | None]:
    """Connected to the cluster that is asked for; None where trials run here. Raises BadInput."""
    if request.ray is None:
        yield None
        return
    _answers(request.ray)
    from runner.cluster.ray_engine import RayEngine  # a run at home needs no Ray

    try:
        engine = RayEngine(request.ray, request.project, request.results, request.placement.threads)
    except EngineUnavailable as error:
        raise BadInput(str(error)) from error
    try:
        yield engine
    finally:
        engine.close()


def _answers(address: str) -> None:
    """Raises BadInput where nobody listens there."""
    host, _, port = address.rpartition(":")
    if address == AUTO:
        return
    if not host or not port.isdecimal():
        raise BadInput(f"--ray {address}: neither auto nor HOST:PORT")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {address}: nobody answers there ({error}); start one with `ray start --head`") from error
