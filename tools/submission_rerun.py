"""Run a submitted trial again, here: a study of its one cell, by the runner."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runner.environments import definition
from runner.gate.probes import lacks_evidence
from runner.project import Project
from workloads.conditions import NOT_REPORTED
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.program import build_environment
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored import read_result
from workloads.spec import DECAYING

STUDY = "rerun"
MOST_S = 3600.0  # time limit of a trial: whoever submits does not decide how long it keeps us busy
COMPARED = (Status.OK, Status.DIVERGED, Status.UNVERIFIED)  # with the submitted ending; others are faults of a machine


class CannotRun(Exception):
    """A trial that cannot be run here; the message says why."""


def explain_not_runnable(spec: TrialSpec) -> str | None:
    """Return why this trial cannot be asked for here; None if it can."""
    task, placement = spec.task, spec.placement
    column = spec.cell.column
    if task.own_code or task.workload not in WORKLOADS or column.framework != column.installed:
        return "its network or its build of the framework is not part of this repository"
    if column.framework not in Project.of_this_code().frameworks:
        return f"no framework is called {ascii(column.framework)[:40]} here"
    if task.source is not None or task.dataset not in DATASETS:
        return "its images are not those of a published data set"
    if placement.device != "cpu" or placement.devices > 1:
        return "it ran on a GPU, or on several devices"
    if placement.memory_limit_bytes is not None or spec.installation.isolation not in ("venv", "here"):
        return "it had a memory limit or a container"
    if placement.variables:  # never handed on: a stranger's variables could load a stranger's library
        return f"it had variables of its caller: {', '.join(sorted(placement.variables))}"
    if placement.threads > len(os.sched_getaffinity(0)):
        return f"it had {placement.threads} cores, here are {len(os.sched_getaffinity(0))}"
    return None


def explain_other_software(submitted: TrialResult) -> str | None:
    """Return which package that its framework needs had another version than would run here; None if none had."""
    framework, had = submitted.spec.cell.column.framework, submitted.facts.get("packages", {})
    versions = {_normalise(name): version for name, version in had.items()}
    for required in definition.read(Project.of_this_code(), framework, "cpu").requires:
        name, _, here = required.partition("==")
        if here and (version := versions.get(_normalise(name))) != here:
            return f"its {name} is {ascii(version or NOT_REPORTED)[1:-1][:40]}, here {here}"
    return None


def _normalise(name: str) -> str:
    """Return a package's name as indexes compare it: a definition and the package itself may spell it differently."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_study(spec: TrialSpec) -> str:
    """Write the study that asks for this trial alone, as TOML."""
    task, rule = spec.task, spec.task.optimizer
    keys = {
        "summary": "a submitted trial, run again",
        "workload": task.workload,
        "dataset": task.dataset,
        "frameworks": [spec.cell.column.framework],
        "batch_sizes": [spec.cell.batch_size],
        "epochs": spec.passes.epochs,
        "last_batch": spec.passes.last_batch,
        "repeats": 1,
        "seed": spec.draw.seed,
        "optimizer": rule.name,
        "learning_rate": rule.learning_rate,
        "schedule": rule.schedule,
        "warm_up": rule.warm_up,
        "scale_learning_rate": rule.scale,
        "augment": task.augment,
        "accumulate": task.accumulate,
        "profiles": [task.profile],
        "precisions": [task.precision],
        "deterministic": task.deterministic,
        "feed": task.feed,
        "device": "cpu",
        "threads": spec.placement.threads,
        "window_s": spec.window_s,
        "timeout_s": MOST_S,
    }
    if rule.name in DECAYING:
        keys["weight_decay"] = rule.weight_decay
    if rule.scale != "none":
        keys["base_batch_size"] = rule.base_batch_size
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def run_again(submitted: TrialResult, results: Path) -> TrialResult:
    """Run the trial into this folder, which is emptied before; return its result, whose ending may contradict that of
    the submitted one. Raises CannotRun, also where it ended by a fault of this machine, and OSError.

    What lies in the folder may be from another version of ours, or from the submitter: it is never read.
    """
    spec = submitted.spec
    if reason := explain_not_runnable(spec) or explain_other_software(submitted):
        raise CannotRun(reason)
    if results.is_symlink() or results.is_file():
        results.unlink()
    elif results.exists():
        shutil.rmtree(results)
    results.mkdir(parents=True)
    study = results / f"{STUDY}.toml"
    study.write_text(write_study(spec), encoding="utf-8")
    # A process that was stopped for a moment can leave a trial unverified once, but not each time.
    words = ["--study", str(study), "--results", str(results), "--retry", Status.CONTENDED, Status.UNVERIFIED]
    command, environment = [sys.executable, "-P", "-m", "runner", *words], build_environment(os.environ)
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = [read_result(path) for path in sorted(results.glob("trials/*/result.json"))]
    again = [result for result in found if (result.spec.cell, result.spec.draw.seed) == (spec.cell, spec.draw.seed)]
    if not again:
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines() or ["nothing was printed"]
        raise CannotRun(f"the runner ended with exit code {ran.returncode}: {said[-1]}")
    if (again[-1].spec.task, again[-1].spec.passes) != (spec.task, spec.passes):
        raise CannotRun("its task cannot be repeated here as it was")
    if again[-1].status not in COMPARED or lacks_evidence(again[-1]):
        raise CannotRun(f"here it ended {again[-1].status}: {again[-1].reason}")
    return again[-1]
