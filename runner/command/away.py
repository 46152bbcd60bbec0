"""--ray and --slurm: trials on other machines."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from runner.cluster.engine import Engine, EngineUnavailable
from runner.command.cli import Request
from runner.command.parser import BadInput

NEEDED = {"--ray": ("ray", "requirements-ray.txt"), "--slurm": ("submitit", "requirements-slurm.txt")}
AUTO = "auto"
ANSWER_S = 5.0  # Ray itself would try for minutes


def check(request: Request) -> None:
    """Raises BadInput for what cannot be handed out, before anything is started."""
    if request.ray and request.slurm:
        raise BadInput("--ray and --slurm: one of them; leave the other out")
    option = "--ray" if request.ray else "--slurm"
    package, requirements = NEEDED[option]
    if importlib.util.find_spec(package) is None:
        raise BadInput(f"{option}: this Python has no {package}: .venv/bin/python -m pip install -r {requirements}")
    if request.study.blocks:
        raise BadInput(f"{option}: blocks of steps are measured on this machine alone: leave it out")
    if request.placement.device != "cpu":
        raise BadInput(f"{option}: trials on other machines run on CPUs so far: give --device cpu")
    if request.isolation != "venv" or request.interpreters:
        raise BadInput(f"{option}: nodes make the project's own environments: leave --isolation and --python out")
    if request.project.adapters_outside:
        raise BadInput(f"{option}: only the project's own frameworks travel: leave --adapters out")
    if request.placement.memory_limit_bytes is not None:
        raise BadInput(f"{option}: what a limit is made of is this machine's: leave --memory-limit out")


@contextmanager
def engine_of(request: Request) -> Iterator[Engine | None]:
    """Connected to the machines that are asked for; None where trials run here. Raises BadInput."""
    if not request.elsewhere:
        yield None
        return
    try:
        engine = _engine(request)
    except EngineUnavailable as error:
        raise BadInput(str(error)) from error
    try:
        yield engine
    finally:
        engine.close()


def _engine(request: Request) -> Engine:
    """A run at home needs neither package. Raises BadInput, EngineUnavailable."""
    threads = max(part.placement.threads for part in request.parts.values())
    if request.slurm:
        from runner.cluster.slurm_engine import SlurmEngine

        return SlurmEngine(request.slurm, request.project, request.results, threads)
    assert request.ray
    _answers(request.ray)
    from runner.cluster.ray_engine import RayEngine

    return RayEngine(request.ray, request.project, request.results, threads)


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
