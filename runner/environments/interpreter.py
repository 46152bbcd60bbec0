"""Check an interpreter of the user's that already has its framework, before the first trial."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import owned
from runner.environments.definition import Environment, build_worker_variables
from runner.launch import Local, Packages
from workloads import lifeline
from workloads.records.job import Placement

LEAST = (3, 10)  # of the Python: the workers' code needs it
DESCRIBED_S, TRIED_S = 30.0, 180.0  # the second imports the framework, maybe from a network disk

# Both answer on the descriptor that was the standard output, so that anything else printed goes to the error log. The
# first runs on any Python 3, so that an older one is rejected by its version.
ANSWER = "import json, os, sys; answer = os.dup(1); os.dup2(2, 1)\n"
DESCRIBE = f"""{ANSWER}
description = dict(version=list(sys.version_info[:3]))
if sys.version_info >= {LEAST}:
    import importlib.metadata, importlib.util, platform, sysconfig
    where = dict((name, importlib.util.find_spec(name)) for name in sys.argv[1:])
    framework = [spec.origin for spec in where.values() if spec and spec.origin][:1]
    listed = [d for d in importlib.metadata.distributions() if d.read_text("METADATA") or d.read_text("PKG-INFO")]
    def owns(package, path):
        path = os.path.relpath(path, str(package.locate_file("")))
        record = package.read_text("RECORD")  # a line per file: its path, a comma, more; Debian removes it
        if record is not None:
            return "\\n" + path + "," in "\\n" + record
        return path.split(os.sep)[0] in (package.read_text("top_level.txt") or str(package.metadata["Name"])).split()
    description.update(
        implementation=platform.python_implementation(),
        missing=[name for name in where if where[name] is None],
        site_packages=os.path.dirname(os.path.dirname(framework[0])) if framework else sysconfig.get_path("purelib"),
        packages=sorted(set(str(d.metadata["Name"]) + "==" + str(d.version) for d in listed)),
        owned=any(owns(package, path) for package in listed for path in framework),
    )
os.write(answer, json.dumps(description).encode())
"""
TRY = f"""{ANSWER}
names, (smoke, configuration, framework) = dict(), sys.argv[1:]
exec("import numpy", names)
exec(smoke, names)
description = dict(
    framework_version=str(getattr(sys.modules.get(framework), "__version__", "") or "") or None,
    configuration=str(eval(configuration, names)) if configuration else None,
)
os.write(answer, json.dumps(description).encode())
"""


class BadInterpreter(ValueError):
    """An interpreter that cannot run its framework's workers; the message is one line: what it lacks."""


@dataclass(frozen=True)
class Interpreter:
    """A Python with its framework, tested."""

    path: Path  # as given, absolute: a virtual environment's Python is a link
    environment: Environment  # its definition says how workers are started; it is not created
    implementation: str
    version: str  # of the Python
    packages: tuple[str, ...]  # "name==version", sorted
    site_packages: Path  # folder of the framework
    owned: bool  # by one of the packages: then their versions say which framework it is
    framework_version: str | None
    configuration: str | None  # how the framework reports that it was built
    placement: Placement  # where it was tested

    @property
    def digest(self) -> str:
        """Digest of its contents and of how workers are started; independent of its path."""
        text = repr((self.implementation, self.version, self.packages, sorted(self.environment.variables.items())))
        text += repr(self.environment.profile_variables) if self.environment.profile_variables else ""
        if not self.owned and self.framework_version is not None:  # a source tree on its path, as a rule
            text += repr(self.framework_version)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for a trial, without the versions of its packages, which each worker reports."""
        return {
            "path": str(self.path),
            "implementation": self.implementation,
            "python": self.version,
            "configuration": self.configuration,
        }

    @property
    def summary(self) -> str:
        """Clause with the framework's version, the Python's, and its path."""
        version = f"{self.environment.label} {self.framework_version or 'of an unknown version'}"
        return f"{version}, {self.implementation} {self.version}, {self.path}"

    def launcher(self) -> Local:
        """Return the launcher of its workers."""
        variables = build_worker_variables(self.environment, self.site_packages)
        told, profiles = {"interpreter": self.facts}, self.environment.profile_variables
        ours = (self.site_packages / name for name in self.environment.imports)
        files = (file for folder in ours for file in sorted(folder.glob("*.py")))
        packages = Packages((self.path, self.site_packages, *files), self.digest_again)
        return Local(str(self.path), variables, self.environment.project, told, profiles, packages=packages)

    def digest_again(self) -> str:
        """Return the digest of what it has now. Raises BadInterpreter."""
        return check(self.path, self.environment, self.placement).digest


def check(path: Path, environment: Environment, placement: Placement) -> Interpreter:
    """Test the interpreter, started as a worker is: without the user's PYTHON... variables. Raises BadInterpreter."""
    # Links are not followed: a virtual environment's Python is one.
    path = Path(os.path.abspath(os.path.expanduser(path)))
    _startable(path)
    needed = [*environment.imports, "numpy"]
    bare = Local(str(path), {}, environment.project)
    description = _answer(bare, placement, [DESCRIBE, *needed], DESCRIBED_S)
    try:
        version = ".".join(map(str, description["version"]))
        if tuple(description["version"]) < LEAST:
            raise BadInterpreter(f"is Python {version}; workers need {'.'.join(map(str, LEAST))} or newer")
        if description["missing"]:
            raise BadInterpreter(f"has no {' and no '.join(description['missing'])} (Python {version}){_hint()}")
        described = {"implementation": str(description["implementation"]), "version": version}
        owned = bool(description["owned"])
        packages, site_packages = tuple(map(str, description["packages"])), Path(description["site_packages"])
        started = Local(str(path), build_worker_variables(environment, site_packages), environment.project)
        tried = [environment.smoke, environment.configuration, needed[0]]
        description = _answer(started, placement, [TRY, *tried], TRIED_S)
        return Interpreter(
            path, environment, **described, packages=packages, site_packages=site_packages, owned=owned,
            framework_version=description["framework_version"], configuration=description["configuration"],
            placement=placement,
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInterpreter("is not Python: another program answered") from error


def _startable(path: Path) -> None:
    if not os.path.exists(path):  # also False where a parent folder cannot be searched
        raise BadInterpreter("no such file")
    if os.path.isdir(path):
        raise BadInterpreter("is a folder; name the interpreter in it, e.g. bin/python")
    if not os.access(path, os.X_OK):
        raise BadInterpreter("cannot be executed")


def _hint() -> str:
    return "; your PYTHONPATH is not passed on: name a script that sets it" if "PYTHONPATH" in os.environ else ""


def _answer(local: Local, placement: Placement, code: list[str], limit_s: float) -> dict[str, Any]:
    """Return the JSON object that a piece of Python answers. Raises BadInterpreter."""
    try:
        done = owned.run(
            [local.interpreter, "-c", *code],
            limit_s,
            cwd=local.project.root,
            env=local.environment(placement),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise BadInterpreter(f"cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BadInterpreter(f"gave no answer within {limit_s:.0f} s") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        if done.returncode == lifeline.CANNOT_START and len(lines) == 1:
            raise BadInterpreter(lines[0])
        raise BadInterpreter(f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    try:
        description = json.loads(done.stdout.splitlines()[-1])  # a start-up file may have printed before
    except (ValueError, IndexError) as error:
        raise BadInterpreter("is not Python: another program answered") from error
    if not isinstance(description, dict):
        raise BadInterpreter("is not Python: another program answered")
    return description
