"""Describe the conditions of a section in words: heading, list, caption of a chart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from workloads.conditions import CONDITIONS, NOT_REPORTED, SETTINGS, VARIABLES, Setting, read_mode
from workloads.records.build import DEFAULT, FLOAT32, MARK, TF32
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored import read_start
from workloads.words import format_count

from .conditions import Condition, Section, Software, name_series
from .frameworks import order_frameworks

ABSENT = "\N{EN DASH}"


def describe_condition(condition: Condition) -> dict[str, str]:
    """Return every condition in words, for reading and for distinguishing sections."""
    kind, stated = condition.placement.device_kind, dict(condition.stated)
    words = {}
    for each in CONDITIONS:
        if isinstance(each, Setting):
            text = each.describe(condition)
        else:
            reported = stated[each.name]
            text = each.unknown if reported is None else reported
        if text and each.device in (None, kind):
            words[each.name] = text
    model = condition.device_model or f"model {NOT_REPORTED}"
    return words | {"device": f"{'CPU' if kind == 'cpu' else 'GPU'}, {model}"}


def build_headings(sections: list[Section]) -> list[str]:
    """Build one line per section: model, data, kind of device, and whatever distinguishes it from the others.

    The name of its series is used if that suffices.
    """
    if not sections:
        return []
    names = list(map(name_series, sections))
    if all(names) and len(names) == len(set(names)) > 1:
        each = (describe_condition(section.condition) for section in sections)
        return [
            f"{name}: {words['model']} on {words['data set']}, {words['device']}"
            for name, words in zip(names, each, strict=True)
        ]
    every = [describe_condition(section.condition) | describe_software(section) for section in sections]
    for seldom in CONDITIONS:
        if seldom.usual and any(seldom.name in words for words in every):
            every = [{seldom.name: seldom.usual} | words for words in every]
    values: dict[str, set[str]] = {}
    for words in every:
        for key, value in words.items():
            values.setdefault(key, set()).add(value)
    keys = ["model", "data set", "device"]
    if len(values.get("device id", ())) == len(values["device"]):
        keys.append("device id")
    differing = [key for key in values if len(values[key]) > 1 and key not in keys]
    return [
        f"{words['model']} on {words['data set']}, {words['device']}"
        + "".join(f"; {key} {words[key]}" for key in differing if key in words)
        for words in every
    ]


def describe_software(section: Section, frameworks: Iterable[str] | None = None) -> dict[str, str]:
    """Return {"PyTorch version": ...}: every part of these frameworks' software, of all of them if None."""
    kind = section.condition.placement.device_kind
    return {
        f"{section.named(framework)} {part}": words
        for framework in (order_frameworks(section.software) if frameworks is None else frameworks)
        for part, words in describe_parts(section.software[framework], kind).items()
    }


def describe_parts(software: Software, device_kind: str) -> dict[str, str]:
    """Return {"version": ...}: every part of a framework's software. CUDA and cuDNN appear on a GPU only."""
    parts = {"version": software.version}
    if device_kind == "cuda":
        parts |= {"CUDA": software.cuda, "cuDNN": software.cudnn}
    parts |= {"environment": software.environment, "packages": software.packages}
    if device_kind == "cpu":
        parts["kernels"] = software.kernels
    parts |= {key: said for key, said in software.stated if said is not None}
    return {part: words or NOT_REPORTED for part, words in parts.items()}


def tell_apart(software: Software, every: Iterable[Software], device_kind: str) -> str:
    """Describe how a framework's software differs from the others in `every`, in as few parts as suffice for all.

    Returns "version 2.13.0", or "" if there is one software.
    """
    described = [describe_parts(each, device_kind) for each in {software: None, **dict.fromkeys(every)}]
    own, chosen = described[0], list[str]()
    for part in dict.fromkeys(part for parts in described for part in parts):
        if len({tuple(map(parts.get, chosen)) for parts in described}) == len(described):
            break
        if len({parts.get(part) for parts in described}) > 1:
            chosen.append(part)
    return ", ".join(f"{part} {own.get(part, NOT_REPORTED)}" for part in chosen)


def describe_setting(section: Section) -> str:
    """Describe model, data, training, batch sizes, repeats, device and software in a line."""
    condition, results = section.condition, section.every
    model = condition.device_model or "(model not reported)"
    on_cpu = condition.placement.device_kind == "cpu"
    device = f"CPU {model}, {format_count(condition.placement.threads, 'thread')}" if on_cpu else f"GPU {model}"
    software = ", ".join(
        f"{section.named(name)} {section.software[name].version or '(version not reported)'}"
        for name in order_frameworks(section.software)
    )
    sizes = sorted({result.spec.cell.batch_size for result in results})
    batches = f"batch size {sizes[0]}" if len(sizes) == 1 else f"{len(sizes)} batch sizes, {sizes[0]} to {sizes[-1]}"
    repeats = len({result.spec.draw.repeat for result in results})
    augmented = "" if condition.task.augment == "none" else f" ({condition.task.augment})"
    times = "one repeat" if repeats == 1 else f"{repeats} repeats"
    device += f" in {condition.placement.devices} devices" if condition.placement.devices > 1 else ""
    words = describe_condition(condition)
    return (
        f"{words['model']} on {words['data set']}{augmented}, {format_count(condition.passes.epochs, 'epoch')} of "
        f"{words['optimizer']}{_phrases(words)}; {batches}, {times}; {device}; {software}"
    )


def _phrases(words: dict[str, str]) -> str:
    """Return ", ..." for each condition that a sentence about a section says only where it has words."""
    said = (each.phrase.format(name=each.name, words=words[each.name]) for each in SETTINGS if each.name in words)
    return "".join(f", {phrase}" for phrase in said if phrase)


def describe_conditions(section: Section) -> list[str]:
    """Describe in sentences what was run, with which software, on which machine, when, and by which version of this
    suite.
    """
    words, results = describe_with_columns(section), section.every
    software = describe_software(section)
    machine = [
        ("host memory", join_distinct(_gib(result.machine.get("memory_bytes")) for result in results)),
        ("runner's Python", join_distinct(result.machine.get("python") for result in results)),
        ("load average before a trial", _load_range(results)),
        ("times of the same loop before the run", _noise_range(results)),
        ("turbo", join_distinct(_on_off(result.machine.get("turbo")) for result in results)),
        ("clocks lowered by heat in", _throttled(results)),
        ("commit", join_distinct(result.machine.get("commit") for result in results)),
    ]
    lines = [f"Conditions: {'; '.join(f'{key} {value}' for key, value in words.items())}."]
    digests = {key: software.pop(key) for key in [*software] if key.endswith((" environment", " packages"))}
    lines.append(f"Software: {'; '.join(f'{key} {value}' for key, value in software.items())}; {_packages(section)}.")
    text = "; ".join(f"{key} {value}" for key, value in machine if value)
    lines += [f"Machine: {text}."] if text else []
    lines.append(f"Study {join_distinct(r.spec.study for r in results)}; started {format_dates(results)} (UTC).")
    commits = {str(commit) for result in results if (commit := result.machine.get("commit"))}
    if len(commits) > 1:
        lines.append(f"These trials come from {len(commits)} commits of this suite: {join_distinct(sorted(commits))}.")
    return [
        *lines,
        f"Environments and packages, by checksum: {'; '.join(f'{key} {value}' for key, value in digests.items())}.",
    ]


def _packages(section: Section) -> str:
    """Say where the package versions are listed, or which frameworks did not report them."""
    silent = order_frameworks(each.spec.cell.framework for each in section.every if not read_package_versions(each))
    whose = f" by {', '.join(map(section.named, silent))}" if silent else ""
    return f"package versions not reported{whose}" if silent else 'package versions under "What the workers reported"'


def read_package_versions(result: TrialResult) -> dict[str, Any]:
    """Return {package: version}; empty if the worker reported none."""
    packages = result.facts.get("packages")
    return packages if isinstance(packages, dict) else {}


def describe_provenance(*sections: Section) -> str:
    """Describe device, versions, data set, optimizer, load, commit and date in plain text.

    Of several sections, a setting that only some have is left out, and one in which they differ has all its values.
    """
    section, every = sections[0], [describe_with_columns(each) for each in sections]
    words = {name: join_distinct(each[name] for each in every) for name in every[0] if all(name in x for x in every)}
    results = [result for each in sections for result in each.every]
    of_framework = {framework: each for each in reversed(sections) for framework in each.software}
    versions = ", ".join(_version(framework, of_framework[framework]) for framework in order_frameworks(of_framework))
    on_gpu = section.condition.placement.device_kind == "cuda"
    host = f", driver {words['GPU driver']}, {words['processor']}" if on_gpu else ""
    kept = "" if section.condition.passes.last_batch == "keep" else ", last partial batch dropped"
    augmented = f", augmented ({words['augmentation']})" if "augmentation" in words else ""
    devices = f", {words['devices']}" if "devices" in words else ""
    load, commit = _load_range(results), join_distinct(result.machine.get("commit") for result in results)
    return (
        f"{words['device']}{host}, {words['cores']} cores, {format_count(words['threads'], 'thread')}. {versions}. "
        f"{words['model']} on {words['data set']}{augmented}, {words['precision']}, TF32 {words['TF32']}, "
        f"{words['optimizer']}{_phrases(words)}{devices}, "
        f"{format_count(words['epochs'], 'epoch')}{kept}; profile {words['profile']}, feed {words['feed']}, "
        f"seed {words['seed']}. {VARIABLES}: {words[VARIABLES]}. Load before a trial {load or NOT_REPORTED}. "
        f"Commit {commit or NOT_REPORTED}. {format_dates(results)}."
    )


def describe_with_columns(section: Section) -> dict[str, str]:
    """Describe every part of the condition; profile, precision and TF32 per column where columns differ."""
    words, said = describe_condition(section.condition), [read_mode(result) for result in section.every]
    profiles, precisions = ({getattr(mode, part) for mode in said} for part in ("profile", "precision"))
    return words | {
        "profile": _of_columns({p: words["profile"] if p == DEFAULT else p for p in profiles}, DEFAULT),
        "precision": _of_columns({p: words["precision"] if p == FLOAT32 else p for p in precisions}, FLOAT32),
        "TF32": _of_columns({p: "on" if p == TF32 else words["TF32"] for p in precisions}, FLOAT32),
    }


def _of_columns(values: dict[str, str], usual: str) -> str:
    """Join the distinct values of {column label's mode: value}; a value that only some columns have is followed by
    them.
    """
    columns: dict[str, list[str]] = {}
    for column in sorted(values, key=lambda column: (column != usual, column)):
        columns.setdefault(values[column], []).append(column)
    if len(columns) == 1:
        return next(iter(columns))
    return " and ".join(
        value if usual in those else f"{value} ({', '.join(MARK + column for column in those)})"
        for value, those in columns.items()
    )


def _noise_range(results: Iterable[TrialResult]) -> str:
    """Format "2.1 to 3.4 % apart"; empty if no result reports it, as in older ones."""
    spreads = [result.machine.get("noise_spread_percent") for result in results]
    known = sorted({f"{spread:.1f}" for spread in spreads if isinstance(spread, int | float)}, key=float)
    return f"{' to '.join(dict.fromkeys((known[0], known[-1])))} % apart" if known else ""


def _on_off(told: Any) -> str | None:
    return ("on" if told else "off") if isinstance(told, bool) else None


def _throttled(results: Sequence[TrialResult]) -> str:
    """Format "2 of 27 trials"; empty if there is none, or no kernel reported it."""
    hot = sum(bool(result.machine.get("throttled")) for result in results)
    return f"{hot} of {format_count(len(results), 'trial')}" if hot else ""


def format_dates(results: Iterable[TrialResult]) -> str:
    """Format "2025-11-21" or "2025-11-21 to 2025-11-23"."""
    days = sorted(read_start(result).date().isoformat() for result in results)
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def join_distinct(values: Iterable[Any]) -> str:
    """Join the distinct reported values, "a / b"; "" if nothing was reported."""
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values if value is not None)
    return " / ".join(dict.fromkeys(texts))


def _version(framework: str, section: Section) -> str:
    software, name = section.software[framework], section.named(framework)
    results = [result for result in section.every if result.spec.cell.framework == framework]
    if not software.version and not any(result.status is Status.OK for result in results):
        return f"{name} (did not run)"
    keras = join_distinct(result.facts.get("keras_version") for result in results)
    parts = [f"Keras {keras}"] if keras else []
    if section.condition.placement.device_kind == "cuda":
        parts += [f"CUDA {software.cuda or NOT_REPORTED}", f"cuDNN {software.cudnn or NOT_REPORTED}"]
    version = software.version or f"version {NOT_REPORTED}"
    return f"{name} {version}" + (f" ({', '.join(parts)})" if parts else "")


def _gib(count: Any) -> str | None:
    return f"{count / 2**30:.1f} GiB" if isinstance(count, int | float) else None


def _load_range(results: Iterable[TrialResult]) -> str:
    """Format the range of load averages over the last minute, over all trials."""
    stored = [result.machine.get("load_average_before") for result in results]
    loads = [load for load in stored if isinstance(load, int | float)]
    return f"{min(loads):.2f} to {max(loads):.2f}" if loads else ""
