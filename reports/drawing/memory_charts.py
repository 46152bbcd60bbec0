"""Build the memory charts: the parts in MiB (a stack, or lines) and as shares, and the line that the peak follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.records import figures
from workloads.records.memory_line import Line

from .. import memory
from ..charts import Chart, ChartSeries, Panel, Scale, SeriesKind
from ..conditions import Section
from ..quantities import ALLOCATOR_PEAK, MEMORY_PARTS, NOT_ALWAYS_THERE, PROCESS_PEAK, STEPS_PEAK
from ..table import Theme
from ..tables import format_number
from . import chart_words
from .chart_series import BATCH_AXIS, build_series, choose_scale

NAMES = ("memory-split", "memory-shares", "memory-line")
Known = tuple[float | None, ...]
PEAK = "Peak of the steps"
VISIBLE = 0.01  # share of the largest sum; a part that is never this large is invisible in a stack
HOW_SPLIT = (
    "What the framework's allocator holds in training steps of a separate worker, without the context. "
    "A part that is unknown or below 0 is not drawn."
)
WHY_LINES = "Drawn as lines because a stack would hide the smallest part; this axis cannot show 0."
HOW_LINE = "Lines: least squares through the means, memory = fixed + per sample x batch size."


@dataclass(frozen=True)
class MemorySplit:
    """Memory of one framework: the parts at every batch size where all are known, and the steps' peak.

    `sums` are MiB, one for each x of the parts, which all have the same x.
    """

    framework: str
    name: str  # of the framework, as tables name it
    parts: tuple[ChartSeries, ...]
    peak: ChartSeries
    sums: Known


def build_charts(section: Section) -> list[Chart]:
    """Build the charts in NAMES, as far as the section has values."""
    splits, most = _splits(section)
    how = f"{HOW_SPLIT} {chart_words.explain_repeats(most)}"
    return [*([_split(splits, how), _shares(splits, how)] if splits else []), *_line_chart(section)]


def _splits(section: Section) -> tuple[list[MemorySplit], int]:
    """Return (a split for each framework with a stack at some batch size; the largest number of repeats)."""
    by_part = {part.name: build_series(section, part) for part in MEMORY_PARTS}
    splits = []
    for place, peak in enumerate(build_series(section, STEPS_PEAK).series):
        parts = {name: measured.series[place] for name, measured in by_part.items()}
        columns = list(zip(*(part.y for part in parts.values()), strict=True))
        sums = tuple(None if any(y is None or y < 0 for y in column) else sum(column) for column in columns)
        shown = []
        for name, part in parts.items():
            y = tuple(None if total is None else value for value, total in zip(part.y, sums, strict=True))
            if any(y) or (name not in NOT_ALWAYS_THERE and any(total is not None for total in sums)):
                shown.append(
                    ChartSeries(figures.MEMORY_PARTS[name].label, name, SeriesKind.PART, part.x, y, trials=part.trials)
                )
        if shown:
            unnamed = replace(peak, label=PEAK, low=(), high=())
            splits.append(MemorySplit(peak.key, peak.label, tuple(shown), unnamed, sums))
    return splits, max(measured.most for measured in by_part.values())


def _split(splits: list[MemorySplit], how: str) -> Chart:
    """Build a stack, or lines on a logarithmic axis if a stack would hide a part."""
    stacked = not _hidden(splits)
    title = f"What the memory holds in a training step, MiB, {'stacked ' if stacked else ''}by part"
    sentences, panels = [], []
    for split in splits:
        whole = ChartSeries(split.name, "", SeriesKind.PART, split.parts[0].x, split.sums)
        last = max(place for place, total in enumerate(split.sums) if total is not None)
        sentences.append(f"{chart_words.describe_line(whole, 'batch size')}; {_largest(split, last)}")
        shown = (*split.parts, *([split.peak] if any(split.peak.y) else []))
        series = shown if stacked else tuple(map(_line_of, filter(_positive, shown)))
        panels.append(Panel(split.name, series, split.framework))
    return Chart(
        name=NAMES[0],
        title=title,
        x_name=BATCH_AXIS,
        y_label="Memory, MiB",
        panels=tuple(panels),
        alt=chart_words.join_sentences([f"{title}, sum of the parts against batch size", *sentences]),
        theme=Theme.MEMORY,
        caption=how if stacked else f"{how} {WHY_LINES}",
        x_scale=choose_scale(series for panel in panels for series in panel.series),
        y_log=not stacked,
    )


def _shares(splits: list[MemorySplit], how: str) -> Chart:
    title = "What the memory holds in a training step, % of the sum of its parts"
    sentences, panels = [], []
    for split in splits:
        known = [place for place, total in enumerate(split.sums) if total]
        ends = dict.fromkeys((known[0], known[-1])) if known else {}
        sentences.append(f"{split.name}: {'; '.join(_largest(split, place) for place in ends)}")
        series = tuple(replace(part, y=_percent(part.y, split.sums)) for part in split.parts)
        panels.append(Panel(split.name, series, split.framework))
    return Chart(
        name=NAMES[1],
        title=title,
        x_name=BATCH_AXIS,
        y_label="Share of the parts, %",
        panels=tuple(panels),
        alt=chart_words.join_sentences([title, *sentences]),
        caption=how,
        x_scale=choose_scale(series for panel in panels for series in panel.series),
        full_scale=100,
        theme=Theme.MEMORY,
    )


def _hidden(splits: list[MemorySplit]) -> bool:
    """True if some part is never large enough to be visible in a stack; all panels share their axis."""
    top = max(total for split in splits for total in split.sums if total is not None)
    largest = (max(y or 0 for y in part.y) for split in splits for part in split.parts)
    return any(0 < value < VISIBLE * top for value in largest)


def _positive(series: ChartSeries) -> bool:
    return any((y or 0) > 0 for y in series.y)


def _line_of(series: ChartSeries) -> ChartSeries:
    """Return the series for an axis without 0."""
    y = tuple(value if value else None for value in series.y)
    return replace(series, y=y, kind=SeriesKind.PART_LINE if series.kind is SeriesKind.PART else series.kind)


def _percent(values: Known, sums: Known) -> Known:
    return tuple(None if y is None or not total else 100 * y / total for y, total in zip(values, sums, strict=True))


def _largest(split: MemorySplit, place: int) -> str:
    """Say "at batch size 1024 the largest part is activations, 80 %"."""
    part = max(split.parts, key=lambda part: part.y[place] or 0)
    share = 100 * (part.y[place] or 0) / (split.sums[place] or 1.0)
    name = part.label[:1].lower() + part.label[1:]
    return f"at batch size {part.x[place]:.10g} the largest part is {name}, {share:.0f} %"


def _line_chart(section: Section) -> list[Chart]:
    """Build the chart of peaks with their lines, one panel per kind of memory; none if no line can be fitted."""
    lines = memory.fit_lines(section)
    panels, sentences, most = [], [], 0
    for quantity in (PROCESS_PEAK, ALLOCATOR_PEAK):
        spec = quantity.figure(section.condition)
        fitted = {framework: line for (framework, label), line in lines.items() if spec and label == spec.label}
        if spec is None or not fitted:
            continue
        measured = build_series(section, quantity)
        last = max(x for series in measured.series for x in series.x)
        fits = (_line(framework, section.named(framework), line, last) for framework, line in fitted.items())
        panels.append(Panel(spec.label, (*measured.series, *fits)))
        sentences += [f"{spec.label}, {section.named(name)}: {_equation(line)}" for name, line in fitted.items()]
        most = max(most, measured.most)
    if not panels:
        return []
    title = "Memory against batch size, and the line that it follows"
    return [
        Chart(
            name=NAMES[2],
            title=title,
            x_name=BATCH_AXIS,
            y_label="Memory, MiB",
            panels=tuple(panels),
            alt=chart_words.join_sentences([title, *sentences]),
            caption=f"{HOW_LINE} {chart_words.explain_points(most)}",
            theme=Theme.MEMORY,
            x_scale=Scale.LINEAR,
        )
    ]


def _line(framework: str, name: str, line: Line, last: float) -> ChartSeries:
    """Draw the line from 0, where it shows the fixed cost, to the largest batch size."""
    values = tuple(line.at(int(x)) / 2**20 for x in (0, last))
    return ChartSeries(f"{name}, fitted line", framework, SeriesKind.FIT, (0.0, last), values)


def _equation(line: Line) -> str:
    fixed = format_number(line.fixed_bytes / 2**20)
    per_sample = format_number(line.per_sample_bytes / 2**10)
    return f"{fixed} MiB + {per_sample} KiB per sample, R^2 {line.r_squared:.4f}"
