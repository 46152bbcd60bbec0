"""Check what a run needs of this checkout: environments, data, disk, permissions."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from runner.doctor.machine import Finding, State, mib
from runner.environments import definition
from runner.environments.definition import BadDefinition, EnvironmentUnavailable
from runner.project import Project
from runner.storage import TRIALS
from workloads.datasets import DATASETS, DataError, Dataset, verify

TRIED_S = 30.0
LITTLE_BYTES, SCARCE_BYTES = 50 * 2**20, 2**30  # free: too little to start a run; too little for one of an hour
FEW_FILES = 10_000  # free
PROBE_BYTES = 4 * 2**20
SLOW_S = 1.0  # to write the probe to the disk
PROBE_FILE = ".doctor-{}"  # with a process id
MAKE = "python -m runner.environments {kind} {framework}"


def check_environments(project: Project, device_kind: str) -> Iterator[Finding]:
    """Check the environments for this kind of device: made, up to date, complete. Those that runs make only
    by name are left out until they are made.
    """
    for framework in project.frameworks:
        name = f"environment {framework}"
        try:
            environment = definition.read(project, framework, device_kind)
        except EnvironmentUnavailable as error:
            yield Finding(name, State.UNKNOWN, str(error))
            continue
        except BadDefinition as error:
            yield Finding(name, State.PROBLEM, str(error), "fix the definition")
            continue
        try:
            state = environment.state
        except OSError as error:
            yield Finding(name, State.PROBLEM, f"{environment.folder}: {error.strerror}", "chown it to yourself")
            continue
        if not environment.is_made and not definition.is_core(project, framework):
            continue  # the run that names it makes it
        command = MAKE.format(kind=environment.device_kind, framework=framework)
        if state != "ready" and not _is_writable(project.environments):
            text = f"{state}: {environment.folder}, in a folder that is not writable"
            yield Finding(name, State.PROBLEM, text, f"chown {project.environments} to yourself")
        elif state != "ready":
            advice = f"{command} makes it again; the next run would, too"
            yield Finding(name, State.WARNING, f"{state}: {environment.folder}", advice)
        elif missing := _missing(environment):
            advice = f"remove {environment.folder} and make it again: {command}"
            yield Finding(name, State.PROBLEM, missing, advice)
        else:
            yield Finding(name, State.OK, f"whole: {environment.folder}")


def _missing(environment: definition.Environment) -> str:
    """Return the modules of the framework that its interpreter does not find; "" if it finds all. Imports nothing."""
    code = f"import importlib.util as u; print(*(n for n in {list(environment.imports)} if u.find_spec(n) is None))"
    command = [str(environment.interpreter), "-I", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIED_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its Python does not run: {error}"
    if done.returncode:
        return f"its Python ends with exit code {done.returncode}"
    return f"it has no {done.stdout.strip()}" if done.stdout.strip() else ""


def check_data(folder: Path) -> Finding:
    """Check the published data sets, each file by its checksum."""
    words, state = [], State.OK
    for dataset in DATASETS.values():
        if dataset.files:
            present = [file for file in dataset.files if (folder / file.path).is_file()]
            damaged = _damaged(dataset, folder) if len(present) == len(dataset.files) else ""
            words.append(f"{dataset.name} {damaged or ('complete' if present else 'missing')}")
            if 0 < len(present) < len(dataset.files):
                words[-1] = f"{dataset.name} incomplete, {len(present)} of {len(dataset.files)} files"
            state = State.PROBLEM if damaged else state
    advice = f"remove the damaged files below {folder}: the next run fetches it again" if state is State.PROBLEM else ""
    return Finding("data", state, f"{folder}: {', '.join(words)}; missing data sets are fetched when needed", advice)


def _damaged(dataset: Dataset, folder: Path) -> str:
    try:
        for file in dataset.files:
            verify(folder / file.path, file.md5)
    except (DataError, OSError):
        return f"damaged ({file.path})"
    return ""


def check_disk(results: Path) -> Finding:
    """Check the free space for results, and how long a small file takes to be written safely there; it is removed."""
    status = os.statvfs(_existing(results))
    free = status.f_bavail * status.f_frsize
    text, advice = f"{mib(free)} free for {results}", "free some space there, or name another folder with --results"
    if free < LITTLE_BYTES:
        return Finding("disk", State.PROBLEM, text, advice)
    if free < SCARCE_BYTES or (status.f_files and status.f_favail < FEW_FILES):
        return Finding("disk", State.WARNING, f"{text}, {status.f_favail:,} files", advice)
    if not results.is_dir() or not os.access(results, os.W_OK | os.X_OK):
        return Finding("disk", State.OK, f"{text}; its speed was not measured: the folder is missing, or not yours")
    seconds = _write_s(results / PROBE_FILE.format(os.getpid()))
    if isinstance(seconds, OSError):
        return Finding("disk", State.PROBLEM, f"{text}; a write fails: {seconds.strerror}", advice)
    text = f"{text}; {mib(PROBE_BYTES)} are written and synced in {1e3 * seconds:,.0f} ms"
    if seconds > SLOW_S:
        return Finding("disk", State.WARNING, text, "a slow disk delays each trial's end: a local folder is better")
    return Finding("disk", State.OK, text)


def _write_s(path: Path) -> float | OSError:
    """Return the seconds that it took, or the error where it could not be written, as over a quota."""
    began_s = time.monotonic()
    try:
        with path.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    finally:
        path.unlink(missing_ok=True)
    return time.monotonic() - began_s


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest parent that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _is_writable(folder: Path) -> bool:
    """True if the user may write there, or may make the folder."""
    return os.access(_existing(folder.absolute()), os.W_OK | os.X_OK)


def check_permissions(results: Path, data_folder: Path, environments_folder: Path) -> Finding:
    """Check that the user may write where every run writes, and where one downloads data.

    Nothing is written to environments that are ready: `check_environments` names those that cannot be made.
    """
    refused = [str(folder) for folder in (results, results / TRIALS) if not _is_writable(folder)]
    user = "root: its files will belong to root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    if refused:
        advice = "chown them to yourself, or name a folder of your own with --results"
        return Finding("permissions", State.PROBLEM, f"{user}; not writable: {', '.join(refused)}", advice)
    if not _is_writable(data_folder):
        advice = "no data set can be downloaded there: name a folder that has those you need with --data-dir"
        return Finding("permissions", State.WARNING, f"{user}; not writable: {data_folder}", advice)
    if not _is_writable(environments_folder):
        return Finding("permissions", State.OK, f"{user}; results and data are writable, environments only readable")
    return Finding("permissions", State.OK, f"{user}; results, data and environments are writable")
