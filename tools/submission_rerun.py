"""Run a submitted trial again, here: a study of its one cell, by the runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from runner.project import Project
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


def run_again(spec: TrialSpec, results: Path) -> TrialResult:
    """Run the trial into this folder, which is emptied before; return its result. Raises CannotRun, also where it did
    not end ok, and OSError.

    What lies in the folder may be from another version of ours, or from the submitter: it is never read.
    """
    if reason := explain_not_runnable(spec):
        raise CannotRun(reason)
    if results.is_symlink() or results.is_file():
        results.unlink()
    elif results.exists():
        shutil.rmtree(results)
    results.mkdir(parents=True)
    study = results / f"{STUDY}.toml"
    study.write_text(write_study(spec), encoding="utf-8")
    words = ["-P", "-m", "runner", "--study", str(study), "--results", str(results), "--retry", "contended"]
    environment = build_environment(os.environ)
    ran = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    found = [read_result(path) for path in sorted(results.glob("trials/*/result.json"))]
    again = [result for result in found if (result.spec.cell, result.spec.draw.seed) == (spec.cell, spec.draw.seed)]
    if not again:
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines() or ["nothing was printed"]
        raise CannotRun(f"the runner ended with exit code {ran.returncode}: {said[-1]}")
    if (again[-1].spec.task, again[-1].spec.passes) != (spec.task, spec.passes):
        raise CannotRun("its task cannot be repeated here as it was")
    if again[-1].status is not Status.OK:
        raise CannotRun(f"here it ended {again[-1].status}: {again[-1].reason}")
    return again[-1]
