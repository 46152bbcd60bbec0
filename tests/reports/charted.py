"""Charts for tests: those of a section of stored results, and small ones by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reports.charts import Chart, Kind, Panel, Series
from reports.conditions import sections
from reports.drawing.section_charts import charts_of
from reports.reproduction.publication import PUBLICATIONS, Publication, read
from workloads.records.result import Epoch, TrialResult

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
USAGE = {"tensorflow": 20.0, "pytorch": 10.0, "mxnet": 30.0}
MEMORY = {"tensorflow": 600.0, "pytorch": 500.0, "mxnet": 700.0}


def published() -> tuple[Publication, ...]:
    """The thesis with other figures. Chart and table of TensorFlow's usage and of MXNet's memory contradict each other
    at 1024 images; all other cells differ by the error of digitising a chart."""
    usage = {(name, size): value for name, value in USAGE.items() for size in SIZES}
    memory = {(name, size): value for name, value in MEMORY.items() for size in SIZES}
    values = {
        "gpu_usage_percent": {
            "table": usage,
            "chart": {cell: value + (40 if cell == ("tensorflow", 1024) else 0.1) for cell, value in usage.items()},
        },
        "gpu_memory_mib": {
            "table": memory,
            "chart": {cell: value + (-250 if cell == ("mxnet", 1024) else 10) for cell, value in memory.items()},
        },
        "accuracy_percent": {"table": {("tensorflow", size): 50.0 + size / 100 for size in SIZES}},
    }
    osu = read(PUBLICATIONS / "osu-2020")
    metrics = tuple(replace(metric, values=values[metric.name]) for metric in osu.metrics)
    return (replace(osu, metrics=metrics, versions=dict.fromkeys(osu.versions, "9.9")),)


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
    """Give a result epochs of (training loss, test loss, test accuracy)."""
    told = [Epoch(1.0, 45, 1437, train, 0.1, test, accuracy) for train, test, accuracy in epochs]
    return replace(result, epochs=told)


def line(
    label: str, x: Sequence[float], y: Sequence[float | None], key: str = "", kind: Kind = Kind.MEASURED, **more: Any
) -> Series:
    return Series(label, key or label.lower(), kind, tuple(x), tuple(y), **more)


def chart(*panels: Sequence[Series], titles: Sequence[str] = (), **more: Any) -> Chart:
    """A chart with one panel for each sequence of series."""
    told: dict[str, Any] = {
        "name": "a-chart",
        "title": "Training speed, images/s",
        "x_name": "Batch size",
        "y_label": "Speed, images/s",
        "alt": "What is to be seen.",
        "caption": "Where it was measured.",
    }
    named = titles or [""] * len(panels)
    made = tuple(Panel(title, tuple(series)) for title, series in zip(named, panels, strict=True))
    return Chart(panels=made, **{**told, **more})
