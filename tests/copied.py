"""A copy of the project, in which frameworks can be added and nothing is ready yet."""

from __future__ import annotations

import re
import shutil

from conftest import ROOT, run_runner


def copy_project(folder):
    """With what Python has compiled, which stays right: a copy keeps its file's time, a changed file has another."""
    for room in ("workloads", "adapters", "runner", "reports"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("published"))
    shutil.copy(ROOT / "RULES.md", folder)  # a report hands it out
    return folder


def without_reports(project):
    """Tables and charts take longer than a small trial."""
    (project / "reports" / "__main__.py").write_text("")


def run_in(project, *arguments):
    return run_runner(*arguments, cwd=project, PYTHONPATH=str(project))


def add_framework(project, name, **changes):
    """One folder: the referee under another name, with lines of its definition replaced."""
    shutil.copytree(project / "adapters" / "numpy", project / "adapters" / name)
    definition = project / "adapters" / name / "environment.toml"
    text = definition.read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1
    definition.write_text(text)


def replace_in(path, old, new):
    """One line, or what stands there only once."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
