"""Environments of frameworks outside the project, really made, with packages of one module each."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from runner.environments.definition import read
from runner.project import Project

MAKE = """
import sys
from pathlib import Path
from runner.environments import definition, venv
from runner.project import Project
root, environments, adapters = map(Path, sys.argv[1:4])
venv.make(definition.read(Project(root, environments, adapters), sys.argv[4], "cpu"), print)
"""


def outside(project: Project) -> Path:
    assert project.adapters_outside
    return project.adapters_outside


def command(project: Project, name: str) -> list[str | Path]:
    return [sys.executable, "-c", MAKE, project.root, project.environments, outside(project), name]


def make(project: Project, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(project, name), cwd=project.root, capture_output=True, text=True, env=os.environ | variables
    )


def wheel(folder: Path, name: str, version: str, *lines: str) -> str:
    """Write a package of one module that knows its version; return its pin, with hash."""
    path, facts = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    said = (f"Name: {name}", f"Version: {version}", *lines)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{facts}/METADATA", "\n".join(("Metadata-Version: 2.1", *said)) + "\n")
        archive.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{facts}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def pin(project: Project, name: str, *pins: str) -> None:
    """Replace a definition's pins."""
    path = project.definition(name)
    path.write_text(re.sub('(?s)pins = """.*?"""', f'pins = """\n{"".join(pins)}"""', path.read_text()))


def marker(project: Project, name: str) -> Path:
    return read(project, name, "cpu").marker
