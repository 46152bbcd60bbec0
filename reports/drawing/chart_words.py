"""Write sentences about charts from their data, in plain text: what they show, what a point is."""

from __future__ import annotations

from collections.abc import Iterable

from workloads.statistics import CONFIDENCE_PERCENT

from ..charts import ChartSeries, Panel
from ..sentences import listed
from ..tables import format_number

ONE_TRIAL = "One trial per point: nothing is said about the spread between runs."
MOST_NAMED = 4  # batch sizes without a value that are listed


def explain_points(most: int) -> str:
    """Explain points and bars; `most` is the largest number of repeats of a point."""
    if most < 2:
        return ONE_TRIAL
    return (
        f"Points: mean of up to {most} repeats; bars: its {CONFIDENCE_PERCENT} % interval "
        "(Student's t); a bar that meets the frame extends beyond it; points at the same position are drawn side by "
        "side."
    )


def explain_repeats(most: int) -> str:
    """Explain a point without a bar."""
    return ONE_TRIAL if most < 2 else f"Means of up to {most} repeats; their intervals are in the tables."


def describe_line(series: ChartSeries, at: str) -> str:
    """Describe a line, as "PyTorch 1,115 at batch size 4, 1,546 at 1024, highest 2,137 at 128; no value at 64".

    `at` names the axis.
    """
    known = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
    silent = [x for x, y in zip(series.x, series.y, strict=True) if y is None]
    if not known:
        return f"{series.label}: no value"
    (first, value), (last, final) = known[0], known[-1]
    text = f"{series.label} {format_number(value)} at {at} {first:.10g}"
    if len(known) > 1:
        text += f", {format_number(final)} at {last:.10g}"
    text += _extreme("highest", max(known, key=lambda point: point[1]), (first, last))
    text += _extreme("lowest", min(known, key=lambda point: point[1]), (first, last))
    return text + (f"; no value at {_places(silent, len(series.x))}" if silent else "")


def describe_panels(start: str, panels: Iterable[Panel], at: str) -> str:
    """Describe a chart for those who cannot see it: `start`, then each line, after the name of its panel."""
    lines = [(panel.title, line.label, describe_line(line, at)) for panel in panels for line in panel.series]
    return join_sentences([start, *(text if name in ("", label) else f"{name}: {text}" for name, label, text in lines)])


def join_sentences(parts: Iterable[str]) -> str:
    """Join the parts that are not empty, each with a full stop."""
    return ". ".join(part for part in parts if part) + "."


def _extreme(word: str, point: tuple[float, float], ends: tuple[float, float]) -> str:
    """Describe an extreme; "" if it is at an end of the line, which is already described."""
    return "" if point[0] in ends else f", {word} {format_number(point[1])} at {point[0]:.10g}"


def _places(silent: list[float], every: int) -> str:
    if len(silent) > MOST_NAMED:
        return f"{len(silent)} of {every} places"
    return listed(f"{place:.10g}" for place in silent)
