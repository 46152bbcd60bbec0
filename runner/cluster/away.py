"""Handle --ray and --shard: trials on other machines."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.cluster.engine import Engine, EngineUnavailable, Wanted
from runner.request.cli import Request
from runner.request.parser import BadInput
from workloads.records.job import ANY_GPU

if TYPE_CHECKING:
    from runner.cluster.ray_engine import RayEngine

AUTO = "auto"
ANSWER_S = 5.0  # Ray itself would try for minutes


def check(request: Request) -> None:
    """Raises BadInput for what cannot be handed out, before anything is started."""
    named = {"--ray": request.ray, "--node": request.node}
    if empty := [option for option, value in named.items() if value == ""]:
        raise BadInput(f"{empty[0]}: it is given nothing: is a variable not set?")
    if (request.per_node_type or request.node) and not request.ray:
        raise BadInput("--per-node-type, --node: they are of a Ray cluster: give --ray, or leave them out")
    if request.shard:
        _check_shard(request)
    if not request.elsewhere:
        return
    if importlib.util.find_spec("ray") is None:
        raise BadInput("--ray: this Python has no ray: .venv/bin/python -m pip install -r requirements-ray.txt")
    if request.study.blocks:
        raise BadInput("--ray: blocks of steps are measured on this machine alone: leave it out")
    if request.isolation != "venv" or request.interpreters:
        raise BadInput("--ray: nodes make the project's own environments: leave --isolation and --python out")
    if request.project.adapters_outside:
        raise BadInput("--ray: only the project's own frameworks travel: leave --adapters out")
    if request.placement.memory_limit_bytes is not None:
        raise BadInput("--ray: what a limit is made of is this machine's: leave --memory-limit out")


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


def types_of(request: Request) -> dict[str, str]:
    """Return {type: a node of it} of the requested cluster. Raises BadInput."""
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
    """Connect to the requested machines, and yield the engine; None where trials run here. Raises BadInput."""
    if not request.elsewhere:
        yield None
        return
    try:
        engine = _ray(request)
    except EngineUnavailable as error:
        raise BadInput(str(error)) from error
    try:
        yield engine
    finally:
        engine.close()


def _ray(request: Request) -> RayEngine:
    """Connect to the cluster; a local run needs no Ray. Raises BadInput, EngineUnavailable."""
    assert request.ray
    _answers(request.ray)
    from runner.cluster.ray_engine import RayEngine

    return RayEngine(request.ray, request.project, request.results, _wanted(request), request.node)


def _wanted(request: Request) -> Wanted:
    """Return the most that a trial of any of its series needs."""
    places = [part.placement for part in request.parts.values()]
    return Wanted(max(place.threads for place in places), max(int(place.device == ANY_GPU) for place in places))


def _answers(address: str) -> None:
    """Raises BadInput where nothing answers at the address."""
    host, _, port = address.rpartition(":")
    if address == AUTO:
        return
    if not host or not port.isdecimal():
        raise BadInput(f"--ray {address}: neither auto nor HOST:PORT")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {address}: nobody answers there ({error}); start one with `ray start --head`") from error
