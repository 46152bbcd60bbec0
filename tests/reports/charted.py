"""Charts for tests: those of a section of stored results, and small ones by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from reports.charts import Chart, Kind, Panel, Series
from reports.conditions import sections
from reports.drawing.section_charts import charts_of
from workloads.records.result import Epoch, TrialResult

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
USAGE = {"TensorFlow": 20.0, "PyTorch": 10.0, "MXNet": 30.0}
MEMORY = {"TensorFlow": 600.0, "PyTorch": 500.0, "MXNet": 700.0}


def published() -> pd.DataFrame:
    """Of the shape of the thesis's: chart and table of TensorFlow's usage and of MXNet's memory contradict each other
    at 1024 images; all other cells differ by what digitising a chart costs.
    """
    rows: list[tuple[str, str, str, str, int, float]] = []
    for size in SIZES:
        for name, usage in USAGE.items():
            far = 40 if (name, size) == ("TensorFlow", 1024) else 0.1
            rows += [("table", name, "9.9", "gpu_usage_percent", size, usage)]
            rows += [("chart", name, "9.9", "gpu_usage_percent", size, usage + far)]
        for name, memory in MEMORY.items():
            far = -250 if (name, size) == ("MXNet", 1024) else 10
            rows += [("table", name, "9.9", "gpu_memory_mib", size, memory)]
            rows += [("chart", name, "9.9", "gpu_memory_mib", size, memory + far)]
        rows.append(("table", "TensorFlow", "9.9", "accuracy_percent", size, 50.0 + size / 100))
    return pd.DataFrame(rows, columns=["series", "framework", "framework_version", "metric", "batch_size", "value"])


def charts(*trials: TrialResult) -> dict[str, Chart]:
    """{name: chart} of trials of one section."""
    found, _ = sections(trials)
    assert len(found) == 1
    return {chart.name: chart for chart in charts_of(found[0], published())}


def series(chart: Chart, label: str, panel: int = 0) -> Series:
    return next(one for one in chart.panels[panel].series if one.label == label)


def labels(chart: Chart, kind: Kind) -> list[str]:
    return [one.label for panel in chart.panels for one in panel.series if one.kind is kind]


def trained(result: TrialResult, *epochs: tuple[float | None, float | None, float]) -> TrialResult:
    """With epochs of (training loss, test loss, test accuracy)."""
    told = [Epoch(1.0, 45, 1437, train, 0.1, test, accuracy) for train, test, accuracy in epochs]
    return replace(result, epochs=told)


def line(
    label: str, x: Sequence[float], y: Sequence[float | None], key: str = "", kind: Kind = Kind.MEASURED, **more: Any
) -> Series:
    return Series(label, key or label.lower(), kind, tuple(x), tuple(y), **more)


def chart(*panels: Sequence[Series], titles: Sequence[str] = (), **more: Any) -> Chart:
    """One panel for each sequence of series."""
    told: dict[str, Any] = {
        "name": "a-chart",
        "title": "Training speed, images/s",
        "x_label": "Batch size",
        "y_label": "Speed, images/s",
        "alt": "What is to be seen.",
        "caption": "Where it was measured.",
    }
    named = titles or [""] * len(panels)
    made = tuple(Panel(title, tuple(series)) for title, series in zip(named, panels, strict=True))
    return Chart(panels=made, **{**told, **more})
