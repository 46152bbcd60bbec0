"""Results that were stored before all that is decided travelled as data: translated when they are read.

The one place that looks into sentences of ours. They are those of results of schema version 3 and before, and never
change any more: a new result says by `Figure.method` and `Check.against` what these are searched for.
"""

from __future__ import annotations

from typing import Any

from .check_name import JUDGE, CheckName
from .figures import DEVICE_CONTEXT, ENERGY, GPU_BUSY, GPU_USAGE, HOST_CONTEXT, PROCESS_GPU_MEMORY, Method

CONTEXT = "context_bytes"  # once the name of both HOST_CONTEXT and DEVICE_CONTEXT, whichever the trial's device had


def translated(data: dict[str, Any]) -> dict[str, Any]:
    """{"figures", "checks"} of a result's JSON as they would be stored now.

    Raises KeyError, TypeError, AttributeError for what is no result.
    """
    context = HOST_CONTEXT if data["spec"]["device"] == "cpu" else DEVICE_CONTEXT
    figures = {context.name if name == CONTEXT else name: figure for name, figure in data["figures"].items()}
    for name, figure in figures.items():
        if figure.get("method") is None and (method := _method(name, figure["source"])):
            figures[name] = figure | {"method": method}
    checks = [{"against": _against(check), **check} for check in data["checks"]]
    return {"figures": figures, "checks": checks}


def _method(name: str, source: str) -> Method | None:
    if name in (GPU_USAGE.name, GPU_BUSY.name):
        return Method.DRIVER_SAMPLES if source.startswith("NVML nvmlDeviceGetSamples") else None
    if name == ENERGY.name:
        return Method.INTEGRATED if "integrated" in source else None
    return Method.DEVICE_RISE if name == PROCESS_GPU_MEMORY.name and "less its baseline" in source else None


def _against(check: dict[str, Any]) -> tuple[str, ...]:
    """Of the gate's verdict: "held against the referee, mxnet; without ..." or "nothing to hold it against: ..."."""
    head, found, names = check["detail"].partition("held against ")
    if check["name"] != CheckName.GATE or head or not found:
        return ()
    return tuple(JUDGE if name == "the referee" else name for name in names.partition(";")[0].split(", "))
