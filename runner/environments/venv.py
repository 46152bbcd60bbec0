"""Make a framework's virtual environment: once, verified, the same on a host as in an image's build."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Thread

from runner import owned
from runner.environments import installers
from runner.environments.definition import (
    Environment,
    EnvironmentUnavailable,
    InstallationFailed,
    build_worker_variables,
)
from runner.environments.installers import BadInstallerSettings


def make(environment: Environment, say: Callable[[str], None]) -> None:
    """Make it if it is not ready; safe against another runner doing the same.

    Raises InstallationFailed, also where its folder cannot be written.
    """
    try:
        _make(environment, say)
    except OSError as error:
        where = error.filename or environment.folder
        raise InstallationFailed(f"{where}: {error.strerror or error}") from error


def _make(environment: Environment, say: Callable[[str], None]) -> None:
    if environment.state == "ready":
        return
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    with environment.folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits = f"{environment.label}: another run makes it (lock: {lock.name}); waiting"
            print(waits, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if environment.state == "ready":
            return
        refuse_link(environment)
        need_libraries(environment)
        interpreter = find_interpreter(environment, say)
        say(f"{environment.label}: making {shorten_path(environment.folder)} with {interpreter}")
        if environment.folder.exists():  # what stayed there would be taken for a part of the new one
            shutil.rmtree(environment.folder)
        install(environment, interpreter, say)
        environment.marker.write_text(environment.digest + "\n")
        say(f"{environment.label}: ready")


def refuse_link(environment: Environment) -> None:
    """Raises InstallationFailed if its folder is a link: others may use what it leads to, so that is not emptied."""
    if environment.folder.is_symlink():
        raise InstallationFailed(
            f"{environment.folder} is a link to an environment that is {environment.state}; it is not made anew behind "
            "a link: remove the link"
        )


def make_side_by_side(
    environments: Iterable[Environment], say: Callable[[str], None]
) -> dict[str, EnvironmentUnavailable]:
    """Make several environments at once, and return {framework: why its environment could not be made}.

    Raises what else `make` raises. The threads are daemons: what ends this process ends them, and the processes that
    they started.
    """
    unavailable: dict[str, EnvironmentUnavailable] = {}
    failures: list[Exception] = []

    def attempt(environment: Environment) -> None:
        try:
            make(environment, say)
        except EnvironmentUnavailable as error:
            unavailable[environment.framework] = error
        except Exception as error:  # noqa: BLE001  # raised again where somebody can catch it
            failures.append(error)

    threads = [Thread(target=attempt, args=(environment,), daemon=True) for environment in environments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return unavailable


def install(
    environment: Environment, interpreter: str, say: Callable[[str], None], more: tuple[Path, ...] = ()
) -> None:
    """Install its pins, and those of `more` requirements files. Raises InstallationFailed.

    Of the user's pip and Python settings only the package sources are used.
    """
    log = environment.folder.with_suffix(".log")
    log.write_text("")
    requirements = environment.folder.with_suffix(".txt")
    requirements.write_text(environment.pins)
    run([interpreter, "-I", "-m", "venv", str(environment.folder)], log)
    # Byte code is compiled separately, on every core. Every package is pinned, so --no-deps is safe. Without it, pip 23
    # would take a newer version where an extra is requested.
    wanted = ["--require-hashes", "--only-binary=:all:", "--no-deps"]
    wanted += [word for path in (requirements, *more) for word in ("-r", str(path))]
    say(f"{environment.label}: installing {len(environment.pins.split()) // 2} packages (log: {shorten_path(log)})")
    try:
        sources = installers.read_pip_sources(str(environment.interpreter))
    except BadInstallerSettings as error:
        raise InstallationFailed(f"pip cannot read its settings: {error}") from error
    if not install_by_uv(environment, wanted, log, say, sources):
        command = [*build_pip_command(environment), "install", "--no-compile", "--progress-bar=off", *wanted]
        fetch(command, environment, log, say, installers.build_pip_variables(sources))
    run([*build_pip_command(environment), "check"], log, installers.NO_FILE)
    owned.run(
        [
            *(str(environment.interpreter), "-I", "-m", "compileall", "-q", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash", str(environment.folder / "lib")),  # the same bytes every time
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # its exit code is ignored: packages ship files that are not valid Python
    )
    say(f"{environment.label}: trying the import")
    smoke = [str(environment.interpreter), "-c", environment.smoke]
    run(smoke, log, build_worker_variables(environment), environment.project.root)  # where workers start, too


def build_pip_command(environment: Environment) -> list[str]:
    """Return the pip command of the environment."""
    return [str(environment.interpreter), "-I", "-m", "pip"]


def fetch(
    command: list[str],
    environment: Environment,
    log: Path,
    say: Callable[[str], None],
    variables: dict[str, str],
) -> None:
    """Run an installer. If the configured indexes lack a pin, the environment's index is asked, too.

    Raises InstallationFailed.
    """
    try:
        run(command, log, variables)
    except InstallationFailed as error:
        if environment.index is None:
            raise
        say(f"{environment.label}: {error}; asking {environment.index} too")
        run([*command, "--extra-index-url", environment.index], log, variables)


def install_by_uv(
    environment: Environment, wanted: list[str], log: Path, say: Callable[[str], None], sources: dict[str, str]
) -> bool:
    """Return True if uv is available and has installed what is wanted; a failure is reported.

    It asks wherever pip would, and takes a pin from any index that has it: the hash decides.
    """
    uv = shutil.which("uv")
    if uv is None:
        return False
    command = [uv, "pip", "install", "--python", str(environment.interpreter), "--no-progress"]
    command += ["--index-strategy", "unsafe-best-match", *wanted]
    try:
        fetch(command, environment, log, say, installers.build_uv_variables(sources))
    except (InstallationFailed, BadInstallerSettings) as error:
        say(f"{environment.label}: {error}; installing with pip")
        return False
    return True


def shorten_path(path: Path) -> str:
    """Return a path in the folder of environments, without the project's folder."""
    return str(Path(*path.parts[-2:]))


def run(command: list[str], log: Path, variables: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a command without the user's pip and Python settings, in `folder` or else in the user's.

    Raises InstallationFailed with the last informative line of the output.
    """
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n")
    result = owned.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=installers.strip_settings() | (variables or {}),
        stdin=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    output = result.stdout + result.stderr
    with log.open("a") as file:
        file.write(output)
    if result.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("WARNING")]
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no output"]
        what = " ".join([Path(command[0]).name, *command[1:4]])
        raise InstallationFailed(f"{what} failed: {errors[-1].strip()} (log: {shorten_path(log)})")


def need_libraries(environment: Environment) -> None:
    """Raises InstallationFailed naming the Debian packages of system libraries that do not load."""
    missing = {}
    for library, package in environment.system_libraries.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing[library] = package
    if missing:
        packages = " ".join(missing.values())
        raise InstallationFailed(
            f"{environment.label} needs the system libraries {', '.join(missing)}: apt-get install {packages}"
        )


def find_interpreter(environment: Environment, say: Callable[[str], None]) -> str:
    """Return a Python of the requested version that can make virtual environments. uv is asked to fetch one last."""
    for candidate in list_candidates(environment.python):
        if is_usable(candidate, environment.python):
            return candidate
    uv = shutil.which("uv")
    if uv:
        say(f"{environment.label}: no Python {environment.python} found, asking uv to fetch one")
        try:
            variables = installers.strip_settings() | installers.build_uv_variables({})
        except BadInstallerSettings as error:
            raise InstallationFailed(f"{environment.label} needs Python {environment.python}: {error}") from error
        owned.run([uv, "python", "install", environment.python], stdin=subprocess.DEVNULL, env=variables)
        asked = [uv, "python", "find", environment.python]
        found = subprocess.run(asked, capture_output=True, text=True, env=variables)
        if found.returncode == 0 and is_usable(found.stdout.strip(), environment.python):
            return found.stdout.strip()
    raise InstallationFailed(
        f"{environment.label} needs Python {environment.python} with venv: none on PATH, in pyenv or at uv; install it"
    )


def list_candidates(version: str) -> Iterator[str]:
    """Yield interpreters that may be Python `version`: our own first, then PATH's, then pyenv's."""
    yield getattr(sys, "_base_executable", sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in (f"python{version}", "python3"):
            if shutil.which(name, path=folder):
                yield str(Path(folder) / name)
    pyenv = Path(os.path.expanduser(os.environ.get("PYENV_ROOT", "~/.pyenv")))
    for installed in sorted(pyenv.glob(f"versions/{version}*"), reverse=True):
        yield str(installed / "bin" / "python")


def is_usable(interpreter: str, version: str) -> bool:
    """True if it starts, is `version`, and can make an environment with pip."""
    asked = [interpreter, "-I", "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=30, env=installers.strip_settings())
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version
