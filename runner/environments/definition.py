"""A framework's environment: found by its folder under adapters/, made once as a virtual environment, verified."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "adapters"
ENVIRONMENTS = ROOT / ".envs"
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))  # of this Python
KINDS = ("cpu", "cuda", "cuda-nvidia")  # the last: of an image of NVIDIA's, for GPUs that `cuda` holds no code for


class EnvironmentUnavailable(Exception):
    """The environment cannot be made here; the message is the reason its trials are `unsupported`."""


@dataclass(frozen=True)
class Environment:
    """One framework for one kind of device, as environment.toml defines it."""

    framework: str
    label: str
    device_kind: str  # "cpu" | "cuda"
    python: str
    smoke: str
    driverless_smoke: str  # as far as that gets without the GPU's driver, as where images are built
    imports: tuple[str, ...]
    variables: dict[str, str]
    system_libraries: dict[str, str]  # {file that must load: Debian package that has it}
    pins: str  # requirements with hashes
    index: str | None  # asked where pip's own configuration does not have a pin
    base: str  # the image that an image of it is built on
    in_base: bool  # the framework comes with that image: there is no virtual environment of it
    newest_capability: str | None  # compute capability of the newest GPUs that it holds code for; None = any

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / f"{self.framework}-{self.device_kind}"

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{self.python}" / "site-packages"

    @property
    def digest(self) -> str:
        """Changes with everything that decides what gets installed and how the worker is started."""
        told = repr((self.python, self.smoke, sorted(self.variables.items()), self.pins.split(), self.index))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def lacks(self, capability: str | None) -> bool:
        """Whether it holds no code for GPUs of this compute capability; where that is unknown, it is tried."""
        if capability is None or self.newest_capability is None:
            return False
        return tuple(map(int, capability.split("."))) > tuple(map(int, self.newest_capability.split(".")))

    @property
    def marker(self) -> Path:
        return self.folder / ".complete"

    @property
    def state(self) -> str:
        """ "ready", "outdated" (the definition has changed since) or "not made"."""
        if not self.marker.is_file() or not self.interpreter.exists():
            return "not made"
        return "ready" if self.marker.read_text().strip() == self.digest else "outdated"


def frameworks() -> list[str]:
    """Folders under adapters/ that define an environment."""
    return sorted(path.parent.name for path in ADAPTERS.glob("*/environment.toml"))


def is_referee(framework: str) -> bool:
    """Whether it judges instead of competing."""
    return bool(_definition(framework).get("referee", False))


def preallocates(framework: str, device_kind: str) -> bool:
    """Whether it takes memory that it does not need, where it is left to itself."""
    return bool(_definition(framework).get(device_kind, {}).get("preallocates", False))


def _definition(framework: str) -> dict[str, Any]:
    with (ADAPTERS / framework / "environment.toml").open("rb") as file:
        return tomllib.load(file)


def variants(framework: str) -> list[str]:
    """Kinds of devices that it is defined for."""
    return [name for name, table in _definition(framework).items() if isinstance(table, dict) and name in KINDS]


def read(framework: str, device_kind: str) -> Environment:
    """Raises EnvironmentUnavailable where the framework has no environment for this kind of device."""
    table = _definition(framework)
    if device_kind not in table:
        raise EnvironmentUnavailable(f"{table['label']} has no environment for {device_kind}")
    variant = table[device_kind]
    return Environment(
        framework=framework,
        label=table["label"],
        device_kind=device_kind,
        python=variant.get("python", table["python"]),
        smoke=table["smoke"],
        driverless_smoke=variant.get("driverless_smoke", table["smoke"]),
        imports=tuple(table["imports"]),
        variables=table["variables"] | variant.get("variables", {}),
        system_libraries=table.get("system_libraries", {}),
        pins=variant.get("pins", ""),
        index=variant.get("index"),
        base=variant.get("base", table["base"]),
        in_base="base" in variant,
        newest_capability=variant.get("newest_capability"),
    )


def make(environment: Environment, say: Callable[[str], None]) -> None:
    """Make it if it is not ready; safe against another runner doing the same. Raises EnvironmentUnavailable."""
    from filelock import FileLock  # an image is made without it

    if environment.state == "ready":
        return
    ENVIRONMENTS.mkdir(exist_ok=True)
    with FileLock(environment.folder.with_suffix(".lock")):
        if environment.state == "ready":
            return
        missing_libraries(environment)
        interpreter = find_interpreter(environment, say)
        say(f"{environment.label}: making {environment.folder.relative_to(ROOT)} with {interpreter}")
        shutil.rmtree(environment.folder, ignore_errors=True)
        install(environment, interpreter, say)
        environment.marker.write_text(environment.digest + "\n")
        say(f"{environment.label}: ready")


def install(
    environment: Environment, interpreter: str, say: Callable[[str], None], more: tuple[Path, ...] = ()
) -> None:
    """Its pins, and what `more` requirements files pin. Raises EnvironmentUnavailable."""
    log = environment.folder.with_suffix(".log")
    log.write_text("")
    requirements = environment.folder.with_suffix(".txt")
    requirements.write_text(environment.pins)
    run([interpreter, "-m", "venv", str(environment.folder)], log)
    # Byte code is compiled apart: on every core, and also where PYTHONDONTWRITEBYTECODE would double import times.
    pip = [str(environment.interpreter), "-m", "pip", "install", "--require-hashes", "--only-binary=:all:"]
    pip += ["--no-compile", "--progress-bar=off"]
    pip += [word for path in (requirements, *more) for word in ("-r", str(path))]
    say(f"{environment.label}: installing {len(environment.pins.split()) // 2} packages (log: {log.relative_to(ROOT)})")
    try:
        run(pip, log)
    except EnvironmentUnavailable as error:
        if environment.index is None:
            raise
        say(f"{environment.label}: {error}; asking {environment.index} too")
        run([*pip, "--extra-index-url", environment.index], log)
    subprocess.run(
        [
            *(str(environment.interpreter), "-m", "compileall", "-q", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash", str(environment.folder / "lib")),  # the same bytes every time
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,  # packages ship a few files that are no valid Python for this version
    )
    say(f"{environment.label}: trying the import")
    run([str(environment.interpreter), "-c", environment.smoke], log, worker_variables(environment))


def installed(environment: Environment) -> bool:
    """Whether this Python has the framework."""
    return all(importlib.util.find_spec(name) for name in environment.imports)


def run(command: list[str], log: Path, variables: dict[str, str] | None = None) -> None:
    """Raises EnvironmentUnavailable with the last telling line of the output."""
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n")
    result = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | (variables or {}), stdin=subprocess.DEVNULL
    )
    output = result.stdout + result.stderr
    with log.open("a") as file:
        file.write(output)
    if result.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("WARNING")]
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no output"]
        what = " ".join([Path(command[0]).name, *command[1:4]])
        raise EnvironmentUnavailable(f"{what} failed: {errors[-1].strip()} (log: {log.relative_to(ROOT)})")


def worker_variables(environment: Environment, site_packages: Path | None = None) -> dict[str, str]:
    """The definition's variables, with {site_packages} filled in; a search path goes before the machine's own."""
    site_packages = site_packages or environment.site_packages
    variables = {name: value.format(site_packages=site_packages) for name, value in environment.variables.items()}
    for name in variables.keys() & {"LD_LIBRARY_PATH"} & os.environ.keys():
        variables[name] += os.pathsep + os.environ[name]
    return variables


def missing_libraries(environment: Environment) -> None:
    """Raises EnvironmentUnavailable naming the Debian packages of system libraries that do not load."""
    missing = {}
    for library, package in environment.system_libraries.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing[library] = package
    if missing:
        packages = " ".join(missing.values())
        raise EnvironmentUnavailable(
            f"{environment.label} needs the system libraries {', '.join(missing)}: apt-get install {packages}"
        )


def find_interpreter(environment: Environment, say: Callable[[str], None]) -> str:
    """A Python of the version asked for that can make virtual environments; uv is asked to fetch one last."""
    for candidate in candidates(environment.python):
        if usable(candidate, environment.python):
            return candidate
    uv = shutil.which("uv")
    if uv:
        say(f"{environment.label}: no Python {environment.python} found, asking uv to fetch one")
        subprocess.run([uv, "python", "install", environment.python], check=False, stdin=subprocess.DEVNULL)
        found = subprocess.run([uv, "python", "find", environment.python], capture_output=True, text=True)
        if found.returncode == 0 and usable(found.stdout.strip(), environment.python):
            return found.stdout.strip()
    raise EnvironmentUnavailable(
        f"{environment.label} needs Python {environment.python} with venv: none on PATH, in pyenv or at uv; install one"
    )


def candidates(version: str) -> Iterator[str]:
    yield getattr(sys, "_base_executable", sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in (f"python{version}", "python3"):
            if shutil.which(name, path=folder):
                yield str(Path(folder) / name)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for installed in sorted(pyenv.glob(f"versions/{version}*"), reverse=True):
        yield str(installed / "bin" / "python")


def usable(interpreter: str, version: str) -> bool:
    probe = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([interpreter, "-c", probe], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def digest_here() -> str:
    """What stands for the definition where the runner's own interpreter is used: Python and every package."""
    packages = sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())
    return hashlib.sha256(repr((sys.version, packages)).encode()).hexdigest()[:16]


def digest_code(framework: str) -> str:
    """Of every line that runs in a worker, so that no trial of other code counts as finished."""
    rooms = (ROOT / "workloads", ROOT / "workloads/records", ADAPTERS, ADAPTERS / "worker", ADAPTERS / framework)
    sources = sorted(path for room in rooms for path in room.glob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """python -m runner.environments [cpu|cuda]: make every framework's, by default for this machine's device."""
    from runner.machine.description import gpus  # machine imports ROOT from here

    device_kind = arguments[0] if arguments else "cuda" if gpus() else "cpu"
    failed = 0
    for framework in frameworks():
        try:
            environment = read(framework, device_kind)
            make(environment, print)
            print(f"{environment.label}: {environment.folder.relative_to(ROOT)} is {environment.state}")
        except EnvironmentUnavailable as error:
            print(f"{framework}: unsupported: {error}", file=sys.stderr)
            failed += not is_referee(framework)
    return min(failed, 1)
