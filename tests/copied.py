"""Custom frameworks outside the project, and copies of the project for tests that change its own text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT, run_runner


def copy_project(folder: Path) -> Path:
    """Copy the project with what Python has compiled, which stays valid: copies keep their time, a changed file does
    not."""
    for room in ("workloads", "adapters", "runner", "reports"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("published"))
    shutil.copy(ROOT / "RULES.md", folder)  # a report includes it
    return folder


def copy_with_environments(folder: Path, *formats: str) -> Path:
    """Copy the project; the copy trains with this checkout's frameworks and reports as text or in `formats`."""
    project = copy_project(folder)
    (project / ".envs").symlink_to(ROOT / ".envs")
    report_in(project, *(formats or ("md", "csv")))
    return project


def copy_undisturbed(folder: Path) -> Path:
    """Copy the project, with its environments, without charts, memory workers and a limit for neighbours."""
    project = copy_with_environments(folder)
    without_memory_workers(project)
    ignore_neighbours(project)
    return project


def without_reports(project: Path) -> None:
    """Make the copy report nothing: tables and charts take longer than a small trial."""
    (project / "reports" / "__main__.py").write_text("")


def report_in(project: Path, *formats: str) -> None:
    """Let the copy report in these formats alone: charts and the page take longer than a small trial."""
    usual = 'USUAL = ("html", "md", "csv", "png", "svg")'
    replace_in(project / "reports" / "export.py", usual, f"USUAL = {formats}")


def without_memory_workers(project: Path) -> None:
    """Ask no memory worker in the copy: each starts a framework, takes longer than a small trial, and no figure needs
    it."""
    told = '{"reason": "no memory worker is asked here"}'
    replace_in(project / "runner" / "trial.py", "return self._count_memory(spec, launcher)", f"return {told}")


def ignore_neighbours(project: Path) -> None:
    """Let no trial of the copy be `contended` on a CPU: speed is not tested, and other tests run at the same time."""
    checks = project / "workloads" / "records" / "checks.py"
    replace_in(checks, "CONTENDED_PERCENT = 25.0", "CONTENDED_PERCENT = 1e9")


def with_cpu_flags(project: Path, *flags: str) -> None:
    """Make the copy read these flags of the processor, and no others, whatever processor the test runs on."""
    (project / "cpuinfo").write_text(f"model name : made up\nflags : {' '.join(flags)}\n")
    description = project / "runner" / "machine" / "description.py"
    replace_in(description, 'Path("/proc/cpuinfo")', f"Path({str(project / 'cpuinfo')!r})")


def add_examples(project: Path) -> Path:
    """Put examples/ into the copy, with the interpreter that its scripts run by; return the folder."""
    folder = project / "examples"
    if not folder.exists():
        shutil.copytree(ROOT / "examples", folder)
        (project / ".venv").symlink_to(ROOT / ".venv")
    return folder


def run_in(project: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_runner(*arguments, cwd=project, PYTHONPATH=str(project))


def git(folder: Path, *words: str) -> str:
    """Return what git prints in the folder, without anybody's settings."""
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **who}
    return subprocess.run(
        ["git", "-C", str(folder), *words], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def add_framework(adapters: Path, name: str, **changes: str) -> None:
    """Add a folder to that of `--adapters`: the referee under another name, with lines of its definition replaced."""
    shutil.copytree(ROOT / "adapters" / "numpy", adapters / name, ignore=shutil.ignore_patterns("__pycache__"))
    definition = adapters / name / "environment.toml"
    text = definition.read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1
    definition.write_text(text)


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace a text that occurs only once in the file."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
