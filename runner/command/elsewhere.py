"""--ray: the plan's trials on other machines."""

from __future__ import annotations

import importlib.util

from runner.command.cli import Request
from runner.command.parser import BadInput
from runner.command.plan import Plan
from runner.session import Session
from workloads.records.result import TrialResult

REQUIREMENTS = "requirements-ray.txt"


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


def run(session: Session, plan: Plan) -> list[TrialResult]:
    """As Session.run. Raises BadInput where there is no such cluster."""
    from runner.cluster.engine import EngineUnavailable
    from runner.cluster.ray_engine import RayEngine  # a run at home needs no Ray
    from runner.cluster.sweep import Sweep

    request = session.request
    assert request.ray is not None
    try:
        engine = RayEngine(request.ray, request.project, request.results, request.placement.threads)
    except EngineUnavailable as error:
        raise BadInput(str(error)) from error
    try:
        return Sweep(session, plan, engine).run()
    finally:
        engine.close()
