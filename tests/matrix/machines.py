"""Other machines simulated on this one: another processor, home, path, locale or Python, or busy neighbours.

Each is a small study by the runner itself, whole: probes, memory workers, trials, report. All but the one with busy
neighbours have all three frameworks. `python -m pytest tests/matrix` prints the results as a table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conftest import PROJECT, ROOT, TINY, by_cell
from copied import copy_project, ignore_neighbours, report_in, with_cpu_flags

from runner.environments.venv import is_usable, list_candidates
from runner.machine import description
from workloads.records import processor
from workloads.records.check_name import CheckName

SMALL = (*TINY, "--device", "cpu", "--batch-size", "16", "--epochs", "1", "--window", "0.3")
AVX2, SSE41 = "Intel AVX2", "Intel SSE4.1"  # as oneDNN calls them

# Python imports this file unasked from the folder that every process of a project has on its search path: each process
# reports its environment.
SITE = """
import json, os, sys, tempfile
seen = {
    "arguments": sys.orig_argv,
    "python": "%d.%d" % sys.version_info[:2],
    "home": os.environ.get("HOME"),
    "locale": [os.environ.get("LC_ALL"), os.environ.get("LANG")],
    "temporary": tempfile.gettempdir(),
    "cores": len(os.sched_getaffinity(0)),
    "shm_bytes": (lambda told: told.f_bsize * told.f_blocks)(os.statvfs("/dev/shm")),
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen.jsonl"), "a", encoding="utf-8") as file:
    file.write(json.dumps(seen) + chr(10))
"""


@dataclass(frozen=True)
class Machine:
    """A machine to simulate. `kernels` are the facts that each framework's trial must have recorded there, because of
    the variables `forced`. `prefix` goes before the runner."""

    name: str
    forced: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ("mxnet", "pytorch", "tensorflow")
    prefix: tuple[str, ...] = ()
    python: str = sys.executable
    one_core: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # the processor's, in place of this one's, as the project reads them
    charts: bool = False  # as pictures, too: they take longer than the trials


@dataclass(frozen=True)
class Run:
    """Results of one: the exit code, all that was printed, {(framework, batch size): result.json}."""

    machine: Machine
    code: int
    printed: str
    cells: dict[tuple[str, int], dict[str, Any]]
    seen: list[dict[str, Any]]

    def of(self, module: str) -> list[dict[str, Any]]:
        """Return what the processes `python -m module` saw."""
        return [seen for seen in self.seen if module in seen["arguments"]]


# MXNet's oneDNN (2.4) obeys only the older name of the variable.
PROCESSORS = (
    Machine(
        "AVX2, TensorFlow's oneDNN off, OpenBLAS for Haswell",
        {
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "DNNL_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
        },
        {
            "tensorflow": {"onednn": False, "onednn_isa": None, "onednn_isa_reason": "oneDNN is off"},
            "pytorch": {"onednn": True, "onednn_isa": AVX2},
            "mxnet": {"onednn": True, "onednn_isa": AVX2, "openblas_core": "Haswell"},
        },
        flags=("fma", "avx2"),
    ),
    Machine(
        "AVX2, TensorFlow's oneDNN on",
        {"TF_ENABLE_ONEDNN_OPTS": "1", "ONEDNN_MAX_CPU_ISA": "AVX2"},
        {"tensorflow": {"onednn": True, "onednn_isa": AVX2}},
        frameworks=("tensorflow",),
    ),
    Machine(
        "SSE4.1, PyTorch's own code without vectors, OpenBLAS for Nehalem",
        {
            "TF_ENABLE_ONEDNN_OPTS": "1",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "DNNL_MAX_CPU_ISA": "SSE41",
            "ATEN_CPU_CAPABILITY": "default",
            "OPENBLAS_CORETYPE": "Nehalem",
        },
        {
            "tensorflow": {"onednn": True, "onednn_isa": SSE41},
            "pytorch": {"onednn": True, "onednn_isa": SSE41, "cpu_capability": "DEFAULT"},
            "mxnet": {"onednn": True, "onednn_isa": SSE41, "openblas_core": "Nehalem"},
        },
    ),
)


def has_avx2() -> bool:
    return "avx2" in (description.describe(PROJECT, "cpu", [])["cpu_flags"] or ())


def narrow_place(folder: Path, processor: Machine) -> Machine:
    """A machine with one core, a home that cannot be written (below a file: so for root, too), and the locale C."""
    (folder / "file").write_text("")
    variables = {"HOME": str(folder / "file" / "home"), "LC_ALL": "C", "LANG": "C"}
    name = f"{processor.name}; one core, no home, locale C, a path with spaces and umlauts"
    return replace(processor, name=name, variables=variables, one_core=True, charts=True)


def bare_place(folder: Path, processor: Machine, python: str, prefix: tuple[str, ...]) -> Machine:
    """A machine with TMPDIR elsewhere; another Python and a tiny /dev/shm, as far as they are available."""
    temporary = folder / "tmp elsewhere"
    temporary.mkdir()
    name = f"{processor.name}; Python 3.12, TMPDIR elsewhere, 64 KiB of /dev/shm"
    return replace(processor, name=name, variables={"TMPDIR": str(temporary)}, python=python, prefix=prefix)


def without_shm() -> tuple[tuple[str, ...], str]:
    """(prefix of a command that is to see a /dev/shm of 64 KiB in a separate namespace, why there is none)."""
    prefix = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh")
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"unshare: {error}"
    return ((), f"unshare: {tried.stderr.strip()}") if tried.returncode else (prefix, "")


def other_python(folder: Path, version: str = "3.12") -> tuple[str, str]:
    """(a Python of that version with what the runner needs, why there is none)."""
    found = next((path for path in list_candidates(version) if is_usable(path, version)), None)
    if found is None:
        return "", f"no Python {version} on PATH or in pyenv"
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    for command in ([found, "-m", "venv", str(folder / "venv")], [*pip, "-r", str(ROOT / "requirements.txt")]):
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            return "", f"Python {version}: {' '.join(command[1:4])}: {done.stderr.strip().splitlines()[-1]}"
    return str(python), ""


def run(place: Machine, folder: Path) -> Run:
    """Run a small study there, in a copy of the project below `folder`; its environments are this checkout's."""
    project = folder / "Größe mit Leerzeichen" / "batchwise"
    project.parent.mkdir()
    copy_project(project)
    (project / ".envs").symlink_to(ROOT / ".envs")
    ignore_neighbours(project)
    if not place.charts:
        report_in(project, "html", "md", "csv")
    if place.flags:
        with_cpu_flags(project, *place.flags)
    (project / "sitecustomize.py").write_text(SITE)
    deciding = description.list_deciding_variables()
    environment = {name: value for name, value in os.environ.items() if name not in deciding}
    results = project / "results"
    done = subprocess.run(
        [*place.prefix, place.python, "-m", "runner", "--framework", *place.frameworks, *SMALL, "--results", results],
        cwd=project,
        env=environment | {"PYTHONPATH": str(project)} | place.forced | place.variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=1800,
        preexec_fn=(lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])) if place.one_core else None,
    )
    printed = (done.stdout + done.stderr).decode(errors="replace")
    seen = [json.loads(line) for line in (project / "seen.jsonl").read_text(encoding="utf-8").splitlines()]
    return Run(place, done.returncode, printed, by_cell(results), seen)


# Computes on the core of its argument until it is ended, and not for ever if nobody is left to end it.
BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
until_s = time.monotonic() + 300
while time.monotonic() < until_s:
    pass
"""


@contextmanager
def busy_neighbours() -> Iterator[None]:
    """Start a process that computes on each core that this one may use."""
    cores = sorted(os.sched_getaffinity(0))
    started = [subprocess.Popen([sys.executable, "-c", BUSY, str(core)]) for core in cores]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


HEAD = ("machine", "framework", "status", "gate", "images/s", "what its libraries chose")


def rows(made: Run) -> list[tuple[str, ...]]:
    """One row per framework, with the columns of HEAD."""
    found: list[tuple[str, ...]] = []
    for (framework, _), result in sorted(made.cells.items()):
        gate = next((check["detail"] for check in result["checks"] if check["name"] == CheckName.GATE), "not judged")
        speed = result["figures"].get("images_per_s", {}).get("value")
        told = f"{speed:.0f}" if speed else "unknown"
        status = result["status"] + (f": {result['reason']}" if result["reason"] else "")
        kernels = processor.describe_kernels(result["facts"]) or "not told"
        found.append((made.machine.name, framework, status, gate, told, kernels))
    return found
