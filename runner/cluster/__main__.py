"""Run the trials of FOLDER/block.json on this machine, one after another, on cores reserved for them.

python -m runner.cluster FOLDER

Each finished trial gives one JSON line on standard output: its result, its framework's evidence, and the folders of the
trial and of the probe. Exit code 0 if each trial has its line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.cluster.node import build_project, make_answers_folder, probe_folder
from runner.doctor import command as doctor
from runner.environments import definition, venv
from runner.environments.definition import EnvironmentUnavailable
from runner.gate.judge import Gate
from runner.launch import Launcher, Local, Unavailable
from runner.machine import allotment, description, locks
from runner.machine.description import LIBRARY_PATH, Gpu
from runner.project import Project
from runner.request.block import BLOCK_FILE, TrialBlock
from runner.setup import build_local_launcher, build_unavailable, choose_environment, find_refusal
from runner.spare import Spare
from runner.trial import MemoryWorker, format_now, run_trial
from workloads import program
from workloads.own_names import name_node
from workloads.records.build import column_of
from workloads.records.job import ROOMS, Kind, TrialSpec
from workloads.records.result import TrialResult

VENV = "venv"  # the isolation of every trial here


def main(work: Path) -> None:
    """Run the block. Raises what the runner's own parts raise: the engine's worker reports the last line of the log."""
    program.interrupt_in_order()
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # anything else that is printed goes to the log
    block = TrialBlock.from_json(json.loads((work / BLOCK_FILE).read_text(encoding="utf-8")))
    project = build_project(Path(__file__).resolve().parents[2])
    gpu = find_gpu() if block.on_gpu else None
    spare = Spare()
    launchers = build_launchers(project, block.trials, gpu, spare)
    # Before the process is limited to its cores.
    machine = description.describe(project, *((gpu.uuid, [gpu]) if gpu else ("cpu", [])))
    machine |= {"commit": block.commit, "node": name_node()}
    with locks.free_gpu(gpu.uuid) if gpu else nullcontext(), locks.free_cores(block.threads) as cores, spare:
        os.sched_setaffinity(0, cores)
        machine |= doctor.measure_noise(cores, block.trials[0].window_s)
        for told in run_trials(block, launchers, project, work, machine):
            print(json.dumps(told), file=answer, flush=True)


def find_gpu() -> Gpu:
    """Return the GPU that was given to this block. Raises UnclearGpus, where none was, too."""
    gpu = allotment.find_given_gpu()
    if gpu is None:
        said = os.environ.get(allotment.VISIBLE)
        why = "" if said is None else f": {allotment.VISIBLE}={said!r}"
        raise allotment.UnclearGpus(f"no GPU with a working driver was given to this block{why}")
    return gpu


def build_launchers(
    project: Project, trials: Sequence[TrialSpec], gpu: Gpu | None, spare: Spare
) -> dict[str, Launcher | Unavailable]:
    """Return {column: how its workers are started here, or why they cannot be}; missing environments are made."""
    kind = trials[0].placement.device_kind
    columns = dict.fromkeys(spec.cell.framework for spec in trials)
    found: dict[str, Launcher | Unavailable] = {}
    environments = {}
    for name in dict.fromkeys(column_of(column).installed for column in columns):
        try:
            environments[name] = choose_environment(project, name, kind, gpu, VENV)
            found[name] = add_own_libraries(build_local_launcher(environments[name], VENV, spare))
        except EnvironmentUnavailable as error:
            found[name] = build_unavailable(error)
    not_made = venv.make_side_by_side(environments.values(), lambda line: print(line, flush=True))
    found |= {name: build_unavailable(error) for name, error in not_made.items()}
    return {name: find_refusal(project, name, kind, gpu) or found[column_of(name).installed] for name in columns}


def add_own_libraries(launcher: Local) -> Local:
    """Return the launcher with this node's library path, which no trial from another machine can know."""
    here = os.environ.get(LIBRARY_PATH)
    variables = {LIBRARY_PATH: here} if here else {}
    return replace(
        launcher,
        variables=variables | launcher.variables,  # a definition's own value ends in the node's
        conditions=launcher.conditions | {"node_library_path": here or None},
    )


def run_trials(
    block: TrialBlock,
    launchers: dict[str, Launcher | Unavailable],
    project: Project,
    work: Path,
    machine: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Run the trials and yield the JSON object of each."""
    answers = make_answers_folder(machine)
    gate, memory = Gate(answers, project), MemoryWorker(answers, list(block.trials))
    for spec in block.trials:
        launcher = launchers[spec.cell.framework]
        conditions = machine | {"framework_label": definition.read_label(project, spec.cell.framework)}
        folder, probe = work / ROOMS[Kind.TRIAL] / spec.id, probe_folder(answers, spec.probe_id)
        evidence: dict[str, Any] = {}
        if isinstance(launcher, Unavailable):
            result = TrialResult(spec, launcher.status, launcher.reason, format_now(), 0.0, machine=conditions)
        else:
            evidence = gate.gather(spec, launcher)
            account = memory.gather(spec, launcher)
            result = run_trial(folder, spec, launcher, conditions, account)
        paths = {"trial": str(folder), "probe": str(probe)}
        yield {"result": result.to_json(), "evidence": evidence, **paths}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
