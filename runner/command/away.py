"""--ray and --slurm: trials on other machines."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.cluster.engine import Engine, EngineUnavailable, Wanted
from runner.command.cli import Request
from runner.command.parser import BadInput
from workloads.records.job import ANY_GPU

if TYPE_CHECKING:
    from runner.cluster.ray_engine import RayEngine

NEEDED = {"--ray": ("ray", "requirements-ray.txt"), "--slurm": ("submitit", "requirements-slurm.txt")}
AUTO = "auto"
ANSWER_S = 5.0  # Ray itself would try for minutes


def check(request: Request) -> None:
    """Raises BadInput for what cannot be handed out, before anything is started."""
    named = {"--ray": request.ray, "--slurm": request.slurm, "--node": request.node}
    if empty := [option for option, value in named.items() if value == ""]:
        raise BadInput(f"{empty[0]}: it is given nothing: is a variable not set?")
    if (request.per_node_type or request.node) and not request.ray:
        raise BadInput("--per-node-type, --node: they are of a Ray cluster: give --ray, or leave them out")
    if not request.elsewhere:
        return
    if request.ray and request.slurm:
        raise BadInput("--ray and --slurm: one of them; leave the other out")
    option = "--ray" if request.ray else "--slurm"
    package, requirements = NEEDED[option]
    if importlib.util.find_spec(package) is None:
        raise BadInput(f"{option}: this Python has no {package}: .venv/bin/python -m pip install -r {requirements}")
    if request.study.blocks:
        raise BadInput(f"{option}: blocks of steps are measured on this machine alone: leave it out")
    if request.isolation != "venv" or request.interpreters:
        raise BadInput(f"{option}: nodes make the project's own environments: leave --isolation and --python out")
    if request.project.adapters_outside:
        raise BadInput(f"{option}: only the project's own frameworks travel: leave --adapters out")
    if request.placement.memory_limit_bytes is not None:
        raise BadInput(f"{option}: what a limit is made of is this machine's: leave --memory-limit out")


def types_of(request: Request) -> dict[str, str]:
    """{type: a node of it} of the cluster that is asked for. Raises BadInput."""
    try:
        engine = _ray(request)
    except EngineUnavailable as error:
        raise BadInput(str(error)) from error
    try:
        return engine.node_types()
    finally:
        engine.close()


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
    if request.slurm is None:
        return _ray(request)
    from runner.cluster.slurm_engine import SlurmEngine

    return SlurmEngine(request.slurm, request.project, request.results, _wanted(request))


def _ray(request: Request) -> RayEngine:
    """Raises BadInput, EngineUnavailable."""
    assert request.ray
    _answers(request.ray)
    from runner.cluster.ray_engine import RayEngine

    return RayEngine(request.ray, request.project, request.results, _wanted(request), request.node)


def _wanted(request: Request) -> Wanted:
    """The most that a trial of any of its series needs."""
    places = [part.placement for part in request.parts.values()]
    return Wanted(max(place.threads for place in places), max(int(place.device == ANY_GPU) for place in places))


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
