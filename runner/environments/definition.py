"""Read a framework's environment.toml."""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.project import DEFINITION_FILE, Project
from workloads.records.build import DEFAULT, OF_CUDNN, PROFILES

SITE_PACKAGES = Path(sysconfig.get_path("purelib"))  # of this Python
KINDS = ("cpu", "cuda", "cuda-nvidia")  # the last: an image of NVIDIA's, for GPUs that `cuda` has no code for
# {key: type of its value}
NEEDED: dict[str, type] = {
    "label": str, "python": str, "imports": list, "smoke": str, "base": str, "variables": dict,
}  # fmt: skip
OPTIONAL: dict[str, type] = {
    "configuration": str, "thesis": bool, "referee": bool, "profile": dict, "no_profile": dict, "programs": dict,
    "system_libraries": dict,
}  # fmt: skip
OF_A_KIND: dict[str, type] = {
    "requires": list, "pins": str, "index": str, "variables": dict, "python": str, "base": str, "driverless_smoke": str,
    "newest_capability": str, "preallocates": bool, "disk_mib": int,
}  # fmt: skip
TYPE_NAMES: dict[type, str] = {dict: "table", int: "number"}
LABEL = re.compile(r"[\w .()+-]+")  # it appears in tables, charts and LaTeX unescaped


class BadDefinition(ValueError):
    """A definition that cannot be used; the message is one line with the file and the fault in it."""


class EnvironmentUnavailable(Exception):
    """The framework has no environment for this device; the message is the reason its trials are `unsupported`."""


class InstallationFailed(EnvironmentUnavailable):
    """The environment is defined but could not be made; the message is the reason its trials are `failed`."""


@dataclass(frozen=True)
class Environment:
    """Environment of a framework for one kind of device, as environment.toml defines it."""

    project: Project
    framework: str
    label: str
    device_kind: str  # "cpu" | "cuda"
    python: str
    smoke: str
    driverless_smoke: str  # the part of it that works without the GPU's driver, as where images are built
    imports: tuple[str, ...]
    variables: dict[str, str]
    profile_variables: dict[str, dict[str, str]]  # by profile: the variables that it adds
    system_libraries: dict[str, str]  # {file that must load: Debian package that contains it}
    pins: str  # requirements with hashes
    index: str | None  # package index to use where pip's own configuration lacks a pin
    base: str  # base image of its image
    in_base: bool  # the framework comes with that image, so it has no virtual environment
    newest_capability: str | None  # compute capability of the newest GPUs that it has code for; None = any
    configuration: str = ""  # an expression run after the smoke import: how the framework says that it was built
    requires: tuple[str, ...] = ()  # the packages that `pins` was made from
    disk_mib: int | None = None  # declared size of its folder; None = nobody has measured it

    @property
    def folder(self) -> Path:
        """Folder FRAMEWORK-KIND in the project's folder of environments."""
        return self.project.environments / f"{self.framework}-{self.device_kind}"

    @property
    def interpreter(self) -> Path:
        """Path of its Python."""
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Folder of its packages."""
        return self.folder / "lib" / f"python{self.python}" / "site-packages"

    @property
    def digest(self) -> str:
        """Digest of everything that decides what gets installed and how the worker is started."""
        text = repr((self.python, self.smoke, sorted(self.variables.items()), self.pins.split(), self.index))
        # A profile without variables changes nothing that is installed; those of cuDNN have always been in the digest.
        profiles = {name: added for name, added in self.profile_variables.items() if added or name in OF_CUDNN}
        if profiles:
            text += repr(profiles)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def lacks(self, capability: str | None) -> bool:
        """True if it has no code for GPUs of this compute capability. False if that is unknown, so that it is tried."""
        if capability is None or self.newest_capability is None:
            return False
        return tuple(map(int, capability.split("."))) > tuple(map(int, self.newest_capability.split(".")))

    @property
    def marker(self) -> Path:
        """Marker file, written last: without it the environment is incomplete."""
        return self.folder / ".complete"

    @property
    def is_made(self) -> bool:
        """True if it was made whole once, of this definition or an earlier one."""
        return self.marker.is_file() and self.interpreter.exists()

    @property
    def state(self) -> str:
        """State of the environment: "ready", "outdated" (the definition has changed since) or "not made"."""
        if not self.is_made:
            return "not made"
        return "ready" if self.read_made_digest() == self.digest else "outdated"

    def read_made_digest(self) -> str:
        """Return the digest of the definition that it was made by. Raises OSError if it is not made."""
        return self.marker.read_text().strip()


def is_referee(project: Project, framework: str) -> bool:
    """True if the framework is a referee instead of a competitor."""
    return bool(_definition(project, framework).get("referee", False))


def is_core(project: Project, framework: str) -> bool:
    """True if it is set up and tested without being named: one of the thesis', or the referee."""
    return bool(_definition(project, framework).get("thesis", False)) or is_referee(project, framework)


def list_thesis(project: Project) -> list[str]:
    """Return the frameworks that `--framework all` means: those of the thesis, whatever other folders exist."""
    return [name for name in project.frameworks if _definition(project, name).get("thesis", False)]


def list_core(project: Project) -> list[str]:
    """Return the frameworks of `is_core`."""
    return [name for name in project.frameworks if is_core(project, name)]


def list_defined(project: Project, device_kind: str) -> list[str]:
    """Return the frameworks that `--framework everything` means: with an environment for this kind of device.

    The referee is asked for by its name alone: it judges, and is slow.
    """
    rivals = (name for name in project.frameworks if not is_referee(project, name))
    return [name for name in rivals if device_kind in list_variants(project, name)]


def preallocates(project: Project, framework: str, device_kind: str) -> bool:
    """True if the framework by default takes memory that it does not need."""
    return bool(_definition(project, framework).get(device_kind, {}).get("preallocates", False))


def _definition(project: Project, framework: str) -> dict[str, Any]:
    """Read and check the framework's definition. Raises BadDefinition."""
    path = project.definition(framework)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise BadDefinition(f"{path}: {error}") from error
    for where, part, known in _list_tables(table):
        if fault := _find_fault(part, known):
            raise BadDefinition(f"{path}: {where}{fault}")
    if missing := next((key for key in NEEDED if key not in table), None):
        raise BadDefinition(f"{path}: {missing!r} is missing")
    if not LABEL.fullmatch(table["label"]):
        raise BadDefinition(f"{path}: 'label' may hold letters, digits, blanks and . ( ) + -")
    if not any(kind in table for kind in KINDS):
        raise BadDefinition(f"{path}: a table is missing, one of {', '.join(f'[{name}]' for name in KINDS)}")
    return table


def _list_tables(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Mapping[str, type]]]:
    """Yield each table with what a fault in it begins with, and {key: type of its value}.

    A table in another one follows it: once that has no fault, it can be read.
    """
    profiles: tuple[str, ...] = PROFILES
    yield "", table, NEEDED | OPTIONAL | dict.fromkeys(KINDS, dict)
    yield "[profile]: ", table.get("profile", {}), dict.fromkeys(profiles, dict)
    for name in ("no_profile", "programs"):
        yield f"[{name}]: ", table.get(name, {}), dict.fromkeys(profiles, str)
    free = {name: table.get(name, {}) for name in ("variables", "system_libraries")}
    free |= {f"profile.{name}": variables for name, variables in table.get("profile", {}).items()}
    for kind in (name for name in KINDS if name in table):
        yield f"[{kind}]: ", table[kind], OF_A_KIND
        free[f"{kind}.variables"] = table[kind].get("variables", {})
    for name, texts in free.items():
        yield f"[{name}]: ", texts, dict.fromkeys(texts, str)


def _find_fault(table: dict[str, Any], known: Mapping[str, type]) -> str:
    """Return what is wrong with the first key that is unknown, or has a value of another type; empty for none."""
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            return f"unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else "")
        if type(value) is not known[key]:
            return f"{key!r} must be a {TYPE_NAMES.get(known[key], known[key].__name__)}"
    return ""


def read_label(project: Project, framework: str) -> str:
    """Return the name that people read."""
    return str(_definition(project, framework)["label"])


def read_profiles(project: Project, framework: str) -> tuple[str, ...]:
    """Return the profiles in which its adapter can train."""
    return (DEFAULT, *_definition(project, framework).get("profile", {}))


def explain_no_profile(project: Project, framework: str, profile: str) -> str:
    """Return why its adapter cannot train in this profile."""
    own = _definition(project, framework).get("no_profile", {}).get(profile)
    return str(own) if own else f"its {DEFINITION_FILE} has no [profile.{profile}]"


def read_program(project: Project, framework: str, profile: str) -> str | None:
    """Return the program that the profile starts and that no environment brings; None if it needs none."""
    program = _definition(project, framework).get("programs", {}).get(profile)
    return None if program is None else str(program)


def list_variants(project: Project, framework: str) -> list[str]:
    """Return the kinds of devices that it is defined for."""
    return [name for name in _definition(project, framework) if name in KINDS]


def read(project: Project, framework: str, device_kind: str) -> Environment:
    """Return its environment for this kind of device. Raises EnvironmentUnavailable where it has none."""
    table = _definition(project, framework)
    if device_kind not in table:
        raise EnvironmentUnavailable(f"{table['label']} has no environment for {device_kind}")
    variant = table[device_kind]
    return Environment(
        project=project,
        framework=framework,
        label=table["label"],
        device_kind=device_kind,
        python=variant.get("python", table["python"]),
        smoke=table["smoke"],
        driverless_smoke=variant.get("driverless_smoke", table["smoke"]),
        imports=tuple(table["imports"]),
        variables=table["variables"] | variant.get("variables", {}),
        profile_variables=table.get("profile", {}),
        system_libraries=table.get("system_libraries", {}),
        pins=variant.get("pins", ""),
        index=variant.get("index"),
        base=variant.get("base", table["base"]),
        in_base="base" in variant,
        newest_capability=variant.get("newest_capability"),
        configuration=table.get("configuration", ""),
        requires=tuple(variant.get("requires", ())),
        disk_mib=variant.get("disk_mib"),
    )


def is_installed(environment: Environment) -> bool:
    """True if this Python has the framework."""
    return all(importlib.util.find_spec(name) for name in environment.imports)


def build_worker_variables(environment: Environment, site_packages: Path | None = None) -> dict[str, str]:
    """Return the definition's variables, with {site_packages} filled in; its search path precedes the machine's own."""
    site_packages = site_packages or environment.site_packages
    variables = {name: value.format(site_packages=site_packages) for name, value in environment.variables.items()}
    for name in variables.keys() & {"LD_LIBRARY_PATH"} & os.environ.keys():
        variables[name] += os.pathsep + os.environ[name]
    return variables


def digest_interpreter() -> str:
    """Return the digest used in place of a definition's where the runner's own interpreter is used: Python and all
    packages.
    """
    packages = sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())
    return hashlib.sha256(repr((sys.version, packages)).encode()).hexdigest()[:16]
