"""The conditions of a section in words: heading, list, caption of a chart, what the workers reported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from workloads.records.result import TrialResult
from workloads.records.status import Status

from .conditions import Condition, Section, optimizer_label
from .frameworks import display_name, ordered
from .load import started
from .table import Cell, Table

NOT_REPORTED, ABSENT = "not reported", "\N{EN DASH}"
VARIABLES = "caller's variables"


def described(condition: Condition) -> dict[str, str]:
    """Every part of a condition in words, for reading and for telling sections apart."""
    on_cpu = condition.placement.device_kind == "cpu"
    variables = sorted(condition.placement.variables.items())
    processor = condition.cpu_model or f"model {NOT_REPORTED}"
    words = {
        "model": condition.task.workload,
        "data set": condition.task.dataset,
        "optimizer": optimizer_label(condition.task.optimizer),
        "epochs": str(condition.passes.epochs),
        "last batch": {"keep": "kept", "drop": "dropped"}.get(condition.passes.last_batch, condition.passes.last_batch),
        "profile": condition.task.profile,
        "feed": condition.task.feed,
        "device": f"CPU, {processor}" if on_cpu else f"GPU, {condition.gpu_name or 'model ' + NOT_REPORTED}",
        "device id": condition.placement.device,
        "processor": processor,
        "processor's flags": condition.cpu_flags or NOT_REPORTED,
        "cores": str(condition.cores or NOT_REPORTED),
        "GPU driver": condition.driver or NOT_REPORTED,
        "kernel": condition.kernel or NOT_REPORTED,
        "libc": condition.libc or NOT_REPORTED,
        "runner's code": condition.measurement or NOT_REPORTED,
        "threads": str(condition.placement.threads),
        VARIABLES: " ".join(f"{name}={value}" for name, value in variables) or "none set",
        "steady window": f"{condition.window_s:g} s",
        "precision": condition.precision or NOT_REPORTED,
        "TF32": {None: NOT_REPORTED, True: "on", False: "off"}[condition.tf32],
        "seed": str(condition.seed),
        "container": condition.container or NOT_REPORTED,
        "limits": condition.limits,
    }
    for needless in ("device id", "processor", "GPU driver") if on_cpu else ():
        del words[needless]
    return words


def headings(found: list[Section]) -> list[str]:
    """A line each: model, data and kind of device, and whatever sets it apart from the others."""
    all_words = [described(section.condition) | software_words(section) for section in found]
    values: dict[str, set[str]] = {}
    for words in all_words:
        for key, value in words.items():
            values.setdefault(key, set()).add(value)
    keys = ["model", "data set", "device"]
    if len(values.get("device id", ())) == len(values["device"]):
        keys.append("device id")
    differing = [key for key in values if len(values[key]) > 1 and key not in keys]
    return [
        f"{words['model']} on {words['data set']}, {words['device']}"
        + "".join(f"; {key} {words[key]}" for key in differing if key in words)
        for words in all_words
    ]


def software_words(section: Section, frameworks: Iterable[str] | None = None) -> dict[str, str]:
    """{"PyTorch version": ...}: every part of these frameworks' software, of all where None; CUDA and cuDNN on a GPU
    alone.
    """
    words = {}
    for framework in ordered(section.software) if frameworks is None else frameworks:
        software, name = section.software[framework], display_name(framework)
        words[f"{name} version"] = software.version or NOT_REPORTED
        if section.condition.placement.device_kind == "cuda":
            words[f"{name} CUDA"] = software.cuda or NOT_REPORTED
            words[f"{name} cuDNN"] = software.cudnn or NOT_REPORTED
        words[f"{name} environment"] = software.environment
        words[f"{name} packages"] = software.packages or NOT_REPORTED
        if section.condition.placement.device_kind == "cpu":
            words[f"{name} kernels"] = software.kernels or NOT_REPORTED
    return words


def conditions_list(section: Section) -> list[str]:
    """What was run, by which software, on which machine, when, by which version of this suite: sentences."""
    words, results = described(section.condition), section.every
    software = software_words(section)
    machine = [
        ("host memory", distinct(_gib(result.machine.get("memory_bytes")) for result in results)),
        ("runner's Python", distinct(result.machine.get("python") for result in results)),
        ("load average before a trial", _load_range(results)),
        ("commit", distinct(result.machine.get("commit") for result in results)),
    ]
    lines = [f"Conditions: {'; '.join(f'{key} {value}' for key, value in words.items())}."]
    lines.append(f"Software: {'; '.join(f'{key} {value}' for key, value in software.items())}; {_packages(results)}.")
    text = "; ".join(f"{key} {value}" for key, value in machine if value)
    lines += [f"Machine: {text}."] if text else []
    lines.append(f"Study {distinct(r.spec.study for r in results)}; started {dates(results)} (UTC).")
    commits = {str(commit) for result in results if (commit := result.machine.get("commit"))}
    if len(commits) > 1:
        lines.append(f"These trials come from {len(commits)} commits of this suite: {distinct(sorted(commits))}.")
    return lines


def _packages(results: Iterable[TrialResult]) -> str:
    """Where the package versions are to be found, or whose are not."""
    silent = ordered(result.spec.cell.framework for result in results if not _package_versions(result))
    whose = f" by {', '.join(map(display_name, silent))}" if silent else ""
    return f"package versions not reported{whose}" if silent else 'package versions under "What the workers reported"'


def _package_versions(result: TrialResult) -> dict[str, Any]:
    packages = result.facts.get("packages")
    return packages if isinstance(packages, dict) else {}


def facts(section: Section) -> Table | None:
    """What the workers reported: a row a fact or package, a column a framework. None if nothing."""
    by_framework = [
        (
            result.spec.cell.framework,
            {(False, key.replace("_", " ")): value for key, value in result.facts.items() if key != "packages"}
            | {(True, name): version for name, version in sorted(_package_versions(result).items())},
        )
        for result in section.every
    ]
    names = ordered(framework for framework, _ in by_framework)
    values: dict[tuple[bool, str], dict[str, dict[str, None]]] = {}  # (is a package, fact): framework: its words
    for framework, own in by_framework:
        for key, value in own.items():
            if value is not None:
                word = value if isinstance(value, str) else json.dumps(value)
                values.setdefault(key, {}).setdefault(framework, {})[word] = None
    rows = [
        (f"package {fact}" if is_package else fact, *(" / ".join(words.get(name, ())) or ABSENT for name in names))
        for (is_package, fact), words in sorted(values.items(), key=lambda each: (each[0][0], each[0][1] * each[0][0]))
    ]
    head = ("Fact", *map(display_name, names))
    cells = tuple(tuple(Cell(word) for word in row) for row in rows)
    tidy = pd.DataFrame(rows, columns=["fact", *names])
    return Table("workers", "What the workers reported", head, cells, tidy, words=True) if rows else None


def provenance(section: Section) -> str:
    """Device, versions, data set, optimizer, load, commit, date; plain text."""
    words, results = described(section.condition), section.every
    versions = ", ".join(_version(framework, section) for framework in ordered(section.software))
    host = (
        ""
        if section.condition.placement.device_kind == "cpu"
        else f", driver {words['GPU driver']}, {words['processor']}"
    )
    kept = "" if section.condition.passes.last_batch == "keep" else ", last partial batch dropped"
    load, commit = _load_range(results), distinct(result.machine.get("commit") for result in results)
    return (
        f"{words['device']}{host}, {words['cores']} cores, {_many(words['threads'], 'thread')}. {versions}. "
        f"{words['model']} on {words['data set']}, {words['precision']}, TF32 {words['TF32']}, {words['optimizer']}, "
        f"{_many(words['epochs'], 'epoch')}{kept}; profile {words['profile']}, feed {words['feed']}, "
        f"seed {words['seed']}. {VARIABLES}: {words[VARIABLES]}. Load before a trial {load or NOT_REPORTED}. "
        f"Commit {commit or NOT_REPORTED}. {dates(results)}."
    )


def _many(count: str, what: str) -> str:
    return f"{count} {what}" + ("" if count == "1" else "s")


def dates(results: Iterable[TrialResult]) -> str:
    """ "2025-11-21" or "2025-11-21 to 2025-11-23"."""
    days = sorted(started(result).date().isoformat() for result in results)
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def distinct(values: Iterable[Any]) -> str:
    """What was told, each once; "" if nothing was. More than one is seen at once: "a / b"."""
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values if value is not None)
    return " / ".join(dict.fromkeys(texts))


def _version(framework: str, section: Section) -> str:
    software, own = section.software[framework], [r for r in section.every if r.spec.cell.framework == framework]
    if not software.version and not any(r.status is Status.OK for r in own):
        return f"{display_name(framework)} (did not run)"
    keras = distinct(r.facts.get("keras_version") for r in own)
    beside = [("Keras", keras)]
    if section.condition.placement.device_kind == "cuda":
        beside += [("CUDA", software.cuda or NOT_REPORTED), ("cuDNN", software.cudnn or NOT_REPORTED)]
    extras = ", ".join(f"{name} {version}" for name, version in beside if version)
    version = software.version or f"version {NOT_REPORTED}"
    return f"{display_name(framework)} {version}" + (f" ({extras})" if extras else "")


def _gib(count: Any) -> str | None:
    return f"{count / 2**30:.1f} GiB" if isinstance(count, int | float) else None


def _load_range(results: Iterable[TrialResult]) -> str:
    """Of the last minute, over all trials."""
    found = [result.machine.get("load_average_before") for result in results]
    loads = [load for load in found if isinstance(load, int | float)]
    return f"{min(loads):.2f} to {max(loads):.2f}" if loads else ""
