"""The conditions of a section in words: heading, list, caption of a chart, what the workers reported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from workloads.trial import Status, TrialResult

from . import markdown
from .conditions import Condition, Section
from .frameworks import display_name, ordered
from .load import started

NOT_REPORTED, ABSENT = "not reported", "\N{EN DASH}"


def described(condition: Condition) -> dict[str, str]:
    """Every part of a condition in words, for reading and for telling sections apart."""
    kind = "CPU" if condition.device_kind == "cpu" else "GPU"
    return {
        "model": condition.workload,
        "data set": condition.dataset,
        "optimizer": condition.optimizer,
        "epochs": str(condition.epochs),
        "last batch": {"keep": "kept", "drop": "dropped"}.get(condition.last_batch, condition.last_batch),
        "profile": condition.profile,
        "feed": condition.feed,
        "device": f"{kind}, {condition.device_name or 'model ' + NOT_REPORTED}",
        "device id": condition.device,
        "threads": str(condition.threads),
        "steady window": f"{condition.window_s:g} s",
        "precision": condition.precision or NOT_REPORTED,
        "seed": str(condition.seed),
    }


def headings(conditions: list[Condition]) -> list[str]:
    """A line each: model, data and kind of device, and whatever sets it apart from the others."""
    all_words = [described(condition) for condition in conditions]
    values = {key: {words[key] for words in all_words} for key in all_words[0]} if all_words else {}
    differing = [key for key in values if len(values[key]) > 1 and key not in ("model", "data set", "device")]
    if "device id" in differing and len(values["device id"]) == len(values["device"]):
        differing.remove("device id")
    return [
        f"{words['model']} on {words['data set']}, {words['device']}"
        + "".join(f"; {key} {words[key]}" for key in differing)
        for words in all_words
    ]


def conditions_list(section: Section) -> list[str]:
    """Markdown lines: what was run, on which machine, when, by which version of this suite."""
    words = described(section.condition)
    run = "; ".join(f"{key} {value}" for key, value in words.items() if key != "device id" or value != "cpu")
    results = section.results
    machine = [
        ("operating system", distinct(result.machine.get("os") for result in results)),
        ("cores", distinct(result.machine.get("cores") for result in results)),
        ("host memory", distinct(_gib(result.machine.get("memory_bytes")) for result in results)),
        ("GPUs", distinct(_gpus(result.machine.get("gpus")) for result in results)),
        ("runner's Python", distinct(result.machine.get("python") for result in results)),
        ("commit", distinct(result.machine.get("commit") for result in results)),
        ("load average before a trial", _load_range(results)),
    ]
    lines = [f"Conditions: {run}."]
    told = "; ".join(f"{key} {value}" for key, value in machine if value)
    lines += [f"Machine: {told}."] if told else []
    studies = distinct(result.spec.study for result in results)
    lines.append(f"Study {studies}; started {dates(results)} (UTC).")
    for framework in ordered(result.spec.framework for result in results):
        environments = {r.spec.environment for r in results if r.spec.framework == framework}
        if len(environments) > 1:
            lines.append(f"{display_name(framework)}: these trials come from {len(environments)} environments.")
    return [markdown.escape(line) for line in lines]


def facts(section: Section) -> pd.DataFrame | None:
    """What the workers reported, as Markdown cells: a row a fact, a column a framework. None if nothing."""
    frameworks = ordered(result.spec.framework for result in section.results)
    keys = dict.fromkeys(key for result in section.results for key in result.facts)
    rows = []
    for key in keys:
        row = {"Fact": markdown.escape(key.replace("_", " "))}
        for framework in frameworks:
            own = (r.facts.get(key) for r in section.results if r.spec.framework == framework)
            row[markdown.escape(display_name(framework))] = markdown.escape(distinct(own)) or ABSENT
        if set(row.values()) - {ABSENT, row["Fact"]}:
            rows.append(row)
    return pd.DataFrame(rows) if rows else None


def chart_caption(section: Section) -> str:
    """Provenance, and how repeats are drawn; plain text."""
    repeats = len({result.spec.repeat for result in section.results})
    spread = (
        f" Median of up to {repeats} repeats, bars from lowest to highest; points of one batch size stand side by side."
        if repeats > 1
        else ""
    )
    return provenance(section) + spread


def provenance(section: Section) -> str:
    """Device, versions, data set, optimizer, date; plain text."""
    words, results = described(section.condition), section.results
    versions = ", ".join(_version(framework, results) for framework in ordered(r.spec.framework for r in results))
    kept = "" if section.condition.last_batch == "keep" else ", last partial batch dropped"
    return (
        f"{words['device']}, {words['threads']} threads. {versions}. {words['model']} on {words['data set']}, "
        f"{words['precision']}, {words['optimizer']}, {words['epochs']} epochs{kept}; profile {words['profile']}, "
        f"feed {words['feed']}, seed {words['seed']}. {dates(results)}."
    )


def dates(results: Iterable[TrialResult]) -> str:
    """ "2025-11-21" or "2025-11-21 to 2025-11-23"."""
    days = sorted(started(result).date().isoformat() for result in results)
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def distinct(values: Iterable[Any]) -> str:
    """What was told, each once; "" if nothing was. More than one is seen at once: "a / b"."""
    told = (value if isinstance(value, str) else json.dumps(value) for value in values if value is not None)
    return " / ".join(dict.fromkeys(told))


def _version(framework: str, results: Iterable[TrialResult]) -> str:
    own = [r for r in results if r.spec.framework == framework]
    version = distinct(r.facts.get("framework_version") for r in own)
    keras = distinct(r.facts.get("keras_version") for r in own)
    if not version and not any(r.status is Status.OK for r in own):
        return f"{display_name(framework)} (did not run)"
    return f"{display_name(framework)} {version or 'version ' + NOT_REPORTED}" + (f" (Keras {keras})" if keras else "")


def _gib(count: Any) -> str | None:
    return f"{count / 2**30:.1f} GiB" if isinstance(count, int | float) else None


def _gpus(gpus: Any) -> str | None:
    told = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    return ", ".join(f"{gpu.get('name')} (driver {gpu.get('driver')})" for gpu in told) or None


def _load_range(results: Iterable[TrialResult]) -> str:
    """Of the last minute, over all trials."""
    found = [result.machine.get("load_average_before") for result in results]
    loads = [load for load in found if isinstance(load, int | float)]
    return f"{min(loads):.2f} to {max(loads):.2f}" if loads else ""
