"""Trial results of every version that was ever stored, as the newest one has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import stored_before
from .job import ON_DEMAND

Stored = dict[str, Any]


class OtherSchema(ValueError):
    """A result of a schema version that is not read yet."""


def _second(result: Stored) -> Stored:
    """The gate's evidence came."""
    return {**result, "evidence": {}}


def _third(result: Stored) -> Stored:
    """The allocator's policy came, which had been on demand, and the caller's variables, which nobody had noted."""
    return {**result, "spec": {**result["spec"], "allocator": ON_DEMAND, "variables": {}}}


def _fourth(result: Stored) -> Stored:
    """The trial is nested, what is decided is data; its end, which came while the third was written, is in all."""
    flat = dict(result["spec"])
    parts = {
        "cell": ("framework", "batch_size", "allocator"),
        "task": ("workload", "dataset", "optimizer", "profile", "feed"),
        "passes": ("epochs", "last_batch"),
        "placement": ("device", "threads", "variables"),
        "installation": ("isolation", "environment"),
        "draw": ("repeat", "seed"),
    }
    spec = {part: {name: flat.pop(name) for name in names} for part, names in parts.items()}
    spec["placement"]["memory_limit_bytes"] = flat.pop("memory_limit_bytes", None)
    return {"end": {}, **result, **stored_before.translated(result), "spec": spec | flat}


STEPS: tuple[Callable[[Stored], Stored], ...] = (_second, _third, _fourth)  # from version 1 to 2, and so on
NEWEST = 1 + len(STEPS)
OTHER_IDS = (1, 2)  # versions whose ids said less than those of today


def newest(result: Any) -> Stored:
    """With the version's own number still. Raises OtherSchema, and ValueError for what no version ever was."""
    if not isinstance(result, dict):
        raise ValueError("not a trial result: no JSON object")
    version = result.get("schema_version")
    if type(version) is not int or not 1 <= version <= NEWEST:
        raise OtherSchema(f"schema version {repr(version)[:40]}, this program reads 1 to {NEWEST}")
    stored: Stored = result
    try:
        for step in STEPS[version - 1 :]:
            stored = step(stored)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"not a trial result of schema version {version}: {error!r}") from error
    return stored
