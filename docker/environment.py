"""Run inside a build: python3 docker/environment.py FRAMEWORK DEVICE REQUIREMENTS.

Makes the framework's environment with the code that makes it on a host, from the same definition. Adds the requirements
and removes what no worker needs. The remaining files have the same bytes and the same times in every build.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
try:
    import tomllib  # noqa: F401
except ModuleNotFoundError:  # the Python 3.10 of NVIDIA's image, whose pip has the same parser
    from pip._vendor import tomli

    sys.modules["tomllib"] = tomli

from runner.environments.definition import Environment, build_worker_variables, read
from runner.environments.venv import install
from runner.project import Project

INSTALLERS = ("pip", "pip-*")
SETUPTOOLS = ("setuptools", "setuptools-*", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")
# numpy.testing, which other packages import, takes a value from one of numpy's tests.
IMPORTED_TESTS = ("numpy/_core/tests", "numpy/core/tests")
# Headers for compiling extensions, and test programs.
NOT_FOR_RUNNING = (
    *("torch/include", "tensorflow/include", "mxnet/include", "numpy/_core/include", "numpy/core/include"),
    "torch/test",
)


def main(framework: str, device_kind: str, requirements: Path) -> None:
    """Make the environment where the image wants it; SOURCE_DATE_EPOCH is every file's time."""
    project = Project.of_this_code()
    environment = read(project, framework, device_kind)
    environment = replace(environment, smoke=environment.driverless_smoke)
    project.environments.mkdir()
    if environment.in_base:
        options = ["--system-site-packages", "--without-pip"]
        subprocess.run(["python3", "-m", "venv", *options, str(environment.folder)], check=True)
    else:
        install(environment, f"python{environment.python}", print, (requirements,))
        take_out(environment)
    write_smoke(environment)
    set_times(project.environments, int(os.environ["SOURCE_DATE_EPOCH"]))


def take_out(environment: Environment) -> None:
    """Remove installers, tests, headers, and files left by the installation."""
    packages = environment.site_packages
    for pattern in INSTALLERS if "setuptools==" in environment.pins else (*INSTALLERS, *SETUPTOOLS):
        for path in packages.glob(pattern):
            remove(path)
    for path in sorted(packages.rglob("tests"), reverse=True):
        if path.is_dir() and not str(path.relative_to(packages)).startswith(IMPORTED_TESTS):
            remove(path)
    for path in (environment.folder / "include", *(packages / name for name in NOT_FOR_RUNNING)):
        remove(path)
    for path in (environment.folder / "bin").glob("pip*"):
        remove(path)
    for suffix in (".log", ".txt"):
        remove(environment.folder.with_suffix(suffix))


def remove(path: Path) -> None:
    """Remove a folder with all its contents, a file, or a link itself; do nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_smoke(environment: Environment) -> None:
    """Write an executable that tries the import as a worker does."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in build_worker_variables(environment).items()]
    lines.append(f"exec {environment.interpreter} -c {shlex.quote(environment.smoke)}")
    smoke = environment.folder / "bin" / "smoke"
    smoke.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    smoke.chmod(0o755)


def set_times(folder: Path, epoch: int) -> None:
    """Set the times of the folder and all below it, in seconds since the epoch; links themselves are changed."""
    for root, _, files in os.walk(folder, topdown=False):
        for name in (*files, "."):
            os.utime(Path(root) / name, (epoch, epoch), follow_symlinks=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
