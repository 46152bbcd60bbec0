"""Faults of the real command line: one run with a fault at one point, what it left, and the same command once more.

A point is a writing system call of a run, which fails (ENOSPC, EIO) or kills its process (strace's inject). Or it is a
signal to a process of a run at some moment. The run has a results folder in which one trial is finished, or an empty
one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from copied import copy_project, ignore_neighbours, without_reports

from workloads.records.events import Event
from workloads.records.files import ATTEMPT_FILE, ATTEMPTS, EVENTS_FILE, RESULT_FILE, SAMPLES_FILE
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS
from workloads.records.stored import read_result

ROOT = Path(__file__).resolve().parents[2]
SIZES = (32, 64)
RUN = (
    *("-m", "runner", "--framework", "numpy", "--isolation", "here", "--device", "cpu", "--threads", "1"),
    *("--workload", "tiny", "--dataset", "digits-64", "--epochs", "1", "--window", "0.2"),
)
WRITING = ("write", "pwrite64", "openat", "rename", "mkdir", "fsync", "unlink", "rmdir", "ftruncate")
CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<arguments>.*)")
OPEN_FOR_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
QUOTED, OF_DESCRIPTOR = re.compile(r'"(/[^"]*)"'), re.compile(r"^\d+<(/[^>]*)>")
MOVING = re.compile(r"/\.(report|probe)-|tmp\w{8}")  # names that differ in every run
ENDS = {0, 1, 2, 130, *(-s for s in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)), 128 + 9, 128 + 15}
PYTHON_S = 0.1  # until our first line of code; Ctrl-C before it is handled by Python
ENDED_WITHIN_S, PATIENCE_S = 20.0, 120.0
MET = re.compile(r"\(INJECTED\)|killed by SIGKILL|--- SIGKILL")  # in strace's output: the fault happened
OF_TRIALS = ("trials/", f"{ATTEMPTS}/")
FAULTS = ("error=ENOSPC", "error=EIO", "signal=KILL")
PUBLISHED = "published"  # next to the results folder
OF_REPORTS = {  # commands on finished trials, and the file that each writes
    "report": (("-m", "reports"), "results/report/report.html"),
    "publish": (
        ("-m", "reports", "publish", "--anyway", "--author", "A", "--name", "name", "--into"),
        f"{PUBLISHED}/name/report.html",
    ),
}
ROLES = {"runner": "", "worker": "adapters.worker", "sampler": "runner.sampler"}


@dataclass(frozen=True)
class Call:
    """The `number`-th system call of this name on a path below the results folder, from 1."""

    name: str
    path: str
    number: int


@dataclass(frozen=True)
class Kept:
    """All files of a finished trial, by their names."""

    files: dict[str, bytes]

    @staticmethod
    def of(folder: Path) -> Kept:
        """Read the files of a trial's folder."""
        return Kept({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    def is_in(self, after: Kept, judged_again: bool) -> bool:
        """True if the files are the same byte for byte. Checks may differ where it was judged again. Figures may be new
        where it still waited for its account of memory."""
        if self.files == after.files:
            return True
        waits = ATTEMPT_FILE in self.files and json.loads(self.files[ATTEMPT_FILE])["memory"] is None
        known = {name for name, figure in self._result["figures"].items() if not waits or figure["value"] is not None}
        return self._but_for(known, waits or judged_again, waits) == after._but_for(known, waits or judged_again, waits)

    @property
    def _result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.files[RESULT_FILE])
        return result

    def _but_for(self, known: set[str], checks: bool, memory: bool) -> dict[str, Any]:
        figures = {name: figure for name, figure in self._result["figures"].items() if name in known}
        parts = dict[str, Any](self.files) | {RESULT_FILE: self._result | {"figures": figures}}
        if checks:
            parts[RESULT_FILE]["checks"] = None
        if memory:
            parts[ATTEMPT_FILE] = json.loads(self.files[ATTEMPT_FILE]) | {"memory": None}
        return parts


@dataclass(frozen=True)
class Point:
    """One fault: `fault` at a call; or a signal of this name to a process, `delay_s` after its birth."""

    finished: int  # trials, before
    fault: str
    call: Call | None = None
    role: str = ""
    delay_s: float = 0.0

    def __str__(self) -> str:
        if self.call:
            return f"{self.fault} at {self.call.name} {self.call.number} of {self.call.path}"
        return f"{self.fault} to the {self.role} {1000 * self.delay_s:.1f} ms behind its birth"


class Faults:
    """Templates and points, in a separate folder. The runs have no reports, which take longer than the trials, and
    repeat none for neighbours."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, copy_project(folder / "project")
        without_reports(self.project)
        ignore_neighbours(self.project)
        self.results = folder / "results"
        self.met = 0  # points whose fault came about

    def trials_of(self, sizes: tuple[int, ...] = SIZES) -> list[str]:
        """Return the command that runs the trials, in the project's copy."""
        return [sys.executable, *RUN, "--batch-size", *map(str, sizes), "--results", str(self.results)]

    def report_of(self, role: str) -> list[str]:
        """Return the command of this role, from OF_REPORTS."""
        words, _ = OF_REPORTS[role]
        into = [str(self.folder / PUBLISHED)] if role == "publish" else []
        return [sys.executable, *words, *into, str(self.results)]

    def run(self, command: list[str], project: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command to its end. Raises subprocess.TimeoutExpired."""
        with self.start(command, project) as process:
            try:
                output, errors = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                for each in self.processes():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start(self, command: list[str], project: Path | None = None) -> subprocess.Popen[str]:
        """Start the command of the project's copy, or of another one."""
        return subprocess.Popen(
            command,
            cwd=project or self.project,
            env=os.environ | {"PYTHONPATH": str(project or self.project)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @cached_property
    def templates(self) -> tuple[Path, Path]:
        """Make two results folders: in one the first size is finished, in the other all are."""
        self.lay_out(0)
        folders = []
        for sizes in (SIZES[:1], SIZES):
            if self.resume(sizes).returncode:
                raise RuntimeError(f"trials that never ended well: {self.results}")
            folders.append(shutil.copytree(self.results, self.folder / f"template-{len(sizes)}"))
        return folders[0], folders[1]

    def lay_out(self, finished: int) -> None:
        """Make the results folder anew, with that many finished trials and no publication."""
        template = self.templates[finished - 1] if finished else None
        for folder in (self.results, self.folder / PUBLISHED):
            shutil.rmtree(folder, ignore_errors=True)
        if template:
            shutil.copytree(template, self.results)

    def calls(self, finished: int) -> list[Call]:
        """List all calls that write below the results folder in a run, in order."""
        self.lay_out(finished)
        log = self.folder / "strace.log"
        traced = ["strace", "-f", "-qq", "-y", "-s0", "-o", str(log), "-e", f"trace={','.join(WRITING)}"]
        done = self.run([*traced, *self.trials_of()])
        if done.returncode:
            raise RuntimeError(f"{done.stdout}{done.stderr}")
        seen: Counter[tuple[str, str]] = Counter()
        calls = []
        for line in log.read_text(errors="replace").splitlines():
            if (call := CALL.match(line)) and (path := self._path(call["name"], call["arguments"])):
                seen[call["name"], path] += 1
                calls.append(Call(call["name"], path, seen[call["name"], path]))
        return calls

    def _path(self, name: str, arguments: str) -> str | None:
        """Return a call's path below the results folder; None if it does not write there."""
        if name == "openat" and not OPEN_FOR_WRITING.search(arguments):
            return None
        named = OF_DESCRIPTOR.match(arguments) if name in ("write", "pwrite64", "fsync", "ftruncate") else None
        named = named or QUOTED.search(arguments)
        if not named or not named[1].startswith(f"{self.results}/") or MOVING.search(named[1]):
            return None
        return str(Path(named[1]).relative_to(self.results))

    @cached_property
    def later_calls(self) -> list[tuple[int, Call]]:
        """List (finished trials, call) for the folder in which a trial is finished."""
        return [(1, call) for call in self.calls(1)]

    @cached_property
    def all_calls(self) -> list[tuple[int, Call]]:
        """List (finished trials, call) for both folders; the empty folder adds only what the other already has."""
        return [(0, call) for call in self.calls(0) if not call.path.startswith(OF_TRIALS)] + self.later_calls

    def at_calls(self, fault: str, seed: int) -> list[Point]:
        """Points with this fault at one drawn call of each of its files: every file of a trial meets one of FAULTS.

        `make measure-faults` draws from all files and faults.
        """
        draw = random.Random(f"{fault} {seed}")
        names = sorted({Path(call.path).name for _, call in self.later_calls if call.path.startswith(OF_TRIALS)})
        names = names[FAULTS.index(fault) :: len(FAULTS)]
        drawn = [[(n, call) for n, call in self.later_calls if Path(call.path).name == name] for name in names]
        return [Point(finished, fault, call) for finished, call in (draw.choice(calls) for calls in drawn)]

    def signalled(self, role: str, seed: int) -> Point:
        """Draw a signal to a process of this role; in a run, most of them come soon after its birth."""
        draw = random.Random(f"{role} {seed}")
        name = draw.choice(("SIGINT", "SIGTERM", "SIGKILL"))
        if role in OF_REPORTS:
            return Point(len(SIZES), name, None, role, draw.uniform(0, 4))
        return Point(draw.choice((0, 1, 1)), name, None, role, draw.uniform(0, draw.choice((0.01, 1.5))))

    def points(self, count: int, seed: int) -> list[Point]:
        """Draw points: two thirds are calls, the rest signals."""
        draw = random.Random(seed)
        calls = [Point(finished, fault, call) for finished, call in self.all_calls for fault in FAULTS]
        points = draw.sample(calls, min(len(calls), round(count * 2 / 3)))
        roles = [*ROLES, *OF_REPORTS]
        points += [self.signalled(draw.choice(roles), draw.randrange(10**9)) for _ in range(count - len(points))]
        draw.shuffle(points)
        return points

    def violations(self, point: Point) -> list[str]:
        """Return each promise that does not hold with a fault at this point, as a sentence."""
        self.lay_out(point.finished)
        # A probe that was killed is asked again, and its trials are then compared with more than before. A result is
        # written once before it is judged, and the next run judges what was left so.
        path = point.call.path if point.call else ""
        judged_again = path.startswith(f"{ROOMS[Kind.PROBE]}/") or path.endswith(f"{RESULT_FILE}.part")
        before = self.finished()
        try:
            done = self.with_fault(point)
            wrong = [*ended_badly(done), *self.left_over()]
            after, measured = self.finished(), self.measured()
            again = self.run(self.report_of(point.role), ROOT) if point.role in OF_REPORTS else self.resume()
        except subprocess.TimeoutExpired as error:
            return [f"did not end within {PATIENCE_S:.0f} s: {error.cmd}"]
        if again.returncode:
            wrong.append(f"the same command ends with {again.returncode}: {again.stdout[-500:]}{again.stderr[-500:]}")
        wrong += self.left_over() + changed(before, after, judged_again, "by the run with the fault")
        wrong += changed(after, self.finished(), judged_again, "by the same command")
        if lost := measured - self.measured():
            wrong.append(f"raw files are gone or other ones: {sorted(lost)}")
        if point.role in OF_REPORTS and not (self.folder / OF_REPORTS[point.role][1]).is_file():
            wrong.append("no report")
        if len(self.finished()) != len(SIZES):
            wrong.append(f"{len(self.finished())} of {len(SIZES)} trials are finished")
        rooms = [folder for folder in (self.results, self.folder / PUBLISHED) if folder.exists()]
        stray = [path.name for room in rooms for path in room.rglob("*") if is_temporary(path.name)]
        return wrong + ([f"left in the folder: {stray}"] if stray else [])

    def with_fault(self, point: Point) -> subprocess.CompletedProcess[str]:
        """Run to the end with this fault."""
        if point.call:
            log, path, name = self.folder / "injected.log", str(self.results / point.call.path), point.call.name
            inject = f"inject={name}:{point.fault}:when={point.call.number}"
            traced = ["strace", "-f", "-qq", "-o", str(log), "-P", path, "-e", f"trace={name}", "-e", inject]
            done = self.run([*traced, *self.trials_of()])
            self.met += MET.search(log.read_text(errors="replace")) is not None
            return done
        reports = point.role in OF_REPORTS
        command = self.report_of(point.role) if reports else self.trials_of()
        with self.start(command, ROOT if reports else None) as process:
            target = self.born(point.role, process)
            time.sleep(point.delay_s + (PYTHON_S if target.pid == process.pid else 0.0))
            with contextlib.suppress(psutil.NoSuchProcess):
                target.send_signal(signal.Signals[point.fault])
                self.met += 1
            output, errors = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def born(self, role: str, runner: subprocess.Popen[str]) -> psutil.Process:
        """Return the first process of this role, as soon as it exists; the command's own process if none comes."""
        here = psutil.Process(runner.pid)
        while role in ("worker", "sampler") and runner.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in here.children():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        command = child.cmdline()  # read once: the command line of an ended process is empty
                        if ROLES[role] in command and "/trials/" in f"{command[-1]} {opened(child)}":
                            return child
        return here

    def resume(self, sizes: tuple[int, ...] = SIZES) -> subprocess.CompletedProcess[str]:
        """Run the same command."""
        return self.run(self.trials_of(sizes))

    def trials(self) -> Iterator[TrialResult]:
        """Yield the trials whose result can be read."""
        for path in sorted(self.results.glob(f"trials/*/{RESULT_FILE}")):
            with contextlib.suppress(ValueError):
                yield read_result(path)

    def finished(self) -> dict[str, Kept]:
        """{trial: its files} of the trials whose result counts."""
        finished = [trial.spec.id for trial in self.trials() if trial.status in FINDINGS]
        return {name: Kept.of(self.results / "trials" / name) for name in finished}

    def measured(self) -> set[tuple[str, str]]:
        """(file, digest) of what workers and samplers wrote, for attempts whose events say that they were measured."""
        stored = set()
        for events in [
            *self.results.glob(f"trials/*/{EVENTS_FILE}"),
            *self.results.glob(f"{ATTEMPTS}/*/{EVENTS_FILE}"),
        ]:
            if f'"{Event.FINISHED}"' in events.read_text(errors="replace"):
                for path in (events, events.with_name(SAMPLES_FILE)):
                    stored.add((path.name, hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "none"))
        return stored

    def processes(self) -> list[psutil.Process]:
        """List the processes that name the results folder, except this one."""
        named = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.pid != os.getpid() and any(str(self.results) in word for word in process.cmdline()):
                    named.append(process)
        return named

    def left_over(self) -> list[str]:
        """End the processes that are still there after ENDED_WITHIN_S, and return their commands."""
        until = time.monotonic() + ENDED_WITHIN_S
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        commands = []
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by now
                commands.append(" ".join(process.cmdline()[1:4]))
                process.kill()
        return [f"still running: {commands}"] if commands else []


def ended_badly(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what its exit code or a traceback says is wrong."""
    wrong = [] if done.returncode in ENDS else [f"exit code {done.returncode}"]
    return wrong + [f"on stderr: {done.stderr[-600:]}"] * ("Traceback" in done.stderr)


def changed(before: dict[str, Kept], after: dict[str, Kept], judged_again: bool, by: str) -> list[str]:
    """Return a sentence per finished trial that has changed."""
    return [
        f"{name} was changed {by}"
        for name, kept in before.items()
        if name not in after or not kept.is_in(after[name], judged_again)
    ]


def opened(process: psutil.Process) -> str:
    """List the files that a process has open: a sampler's command line does not name its trial."""
    return " ".join(file.path for file in process.open_files())


def is_temporary(name: str) -> bool:
    """True for the name of a file or folder that belongs to a run in progress."""
    return name.endswith(".part") or name.startswith((".report-", ".probe-"))
