"""Charts of the memory: what it holds, as stacked areas in MiB and as shares, and the line that its peak follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.records import figures
from workloads.records.memory_line import Line

from .. import memory
from ..charts import Chart, Kind, Panel, Series
from ..conditions import Section
from ..frameworks import display_name
from ..quantities import ALLOCATOR_PEAK, MEMORY_PARTS, NOT_ALWAYS_THERE, PROCESS_PEAK, STEPS_PEAK
from . import chart_words
from .batch_charts import BATCH_AXIS
from .chart_series import Measured, against_batch_size

NAMES = ("memory-split", "memory-shares", "memory-line")
PEAK = "Peak of the steps"
HOW_SPLIT = (
    "What the framework's allocator holds in training steps of a worker of its own; the context lies outside. "
    "Where a part is unknown or below 0 there is no stack."
)
HOW_LINE = "Lines: least squares through the medians, memory = fixed + per sample x batch size."


@dataclass(frozen=True)
class Split:
    """The memory of one framework: the parts at every batch size where all of them are known, and the steps' peak."""

    framework: str
    parts: tuple[Series, ...]  # of one x
    peak: Series

    @property
    def sums(self) -> tuple[float | None, ...]:
        """MiB, at each x of the parts."""
        columns = zip(*(part.y for part in self.parts), strict=True)
        return tuple(None if None in column else sum(y or 0 for y in column) for column in columns)


def of_section(section: Section) -> list[Chart]:
    """NAMES, as far as the section has values."""
    splits, most = _splits(section)
    how = f"{HOW_SPLIT} {chart_words.repeats(most)}"
    return [*([_stacked(splits, how), _shares(splits, how)] if splits else []), *_line_chart(section)]


def _splits(section: Section) -> tuple[list[Split], int]:
    """(of each framework with a stack at some batch size; the largest number of repeats behind one)."""
    by_part = {part.name: against_batch_size(section, part) for part in MEMORY_PARTS}
    peaks = against_batch_size(section, STEPS_PEAK)
    found = []
    for place, peak in enumerate(peaks.series):
        own = {name: ours.series[place] for name, ours in by_part.items()}
        columns = zip(*(series.y for series in own.values()), strict=True)
        whole = [all(y is not None and y >= 0 for y in column) for column in columns]
        if not any(whole):
            continue
        parts = tuple(
            _part(name, series, whole)
            for name, series in own.items()
            if name not in NOT_ALWAYS_THERE or any(series.y[at] for at, all_there in enumerate(whole) if all_there)
        )
        found.append(Split(peak.key, parts, replace(peak, label=PEAK, low=(), high=())))
    return found, max(ours.most for ours in by_part.values())


def _part(name: str, series: Series, whole: list[bool]) -> Series:
    y = tuple(value if all_there else None for value, all_there in zip(series.y, whole, strict=True))
    return Series(figures.MEMORY_PARTS[name].label, name, Kind.PART, series.x, y, trials=series.trials)


def _stacked(splits: list[Split], how: str) -> Chart:
    title = "What the memory holds in a training step, MiB, stacked by part"
    sentences = []
    for split in splits:
        sums = Series(display_name(split.framework), "", Kind.PART, split.parts[0].x, split.sums)
        place = max(at for at, y in enumerate(split.sums) if y is not None)
        sentences.append(f"{chart_words.course(sums, 'batch size')}; {_largest(split, place)}")
    return Chart(
        name="memory-split",
        title=title,
        x_label=BATCH_AXIS,
        y_label="Memory, MiB",
        panels=tuple(
            Panel(display_name(split.framework), (*split.parts, *([split.peak] if any(split.peak.y) else [])))
            for split in splits
        ),
        alt=chart_words.sentence([f"{title}, sum of the parts against batch size", *sentences]),
        caption=how,
    )


def _shares(splits: list[Split], how: str) -> Chart:
    title = "What the memory holds in a training step, % of the sum of its parts"
    sentences = []
    for split in splits:
        known = [at for at, y in enumerate(split.sums) if y]
        ends = dict.fromkeys((known[0], known[-1])) if known else {}
        sentences += [f"{display_name(split.framework)}: {'; '.join(_largest(split, at) for at in ends)}"]
    return Chart(
        name="memory-shares",
        title=title,
        x_label=BATCH_AXIS,
        y_label="Share of the parts, %",
        panels=tuple(
            Panel(display_name(split.framework), tuple(replace(part, y=_percent(part, split)) for part in split.parts))
            for split in splits
        ),
        alt=chart_words.sentence([title, *sentences]),
        caption=how,
        full_scale=100,
    )


def _percent(part: Series, split: Split) -> tuple[float | None, ...]:
    return tuple(
        100 * y / total if y is not None and total else None for y, total in zip(part.y, split.sums, strict=True)
    )


def _largest(split: Split, place: int) -> str:
    """ "at batch size 1024 the largest part is activations, 80 %"."""
    total = split.sums[place] or 1.0
    part = max(split.parts, key=lambda one: one.y[place] or 0)
    share = 100 * (part.y[place] or 0) / total
    name = part.label[:1].lower() + part.label[1:]
    return f"at batch size {part.x[place]:.10g} the largest part is {name}, {share:.0f} %"


def _line_chart(section: Section) -> list[Chart]:
    """Peaks with their lines, a panel a kind of memory; none where no memory has enough sizes for a line."""
    lines = memory.fitted(section)
    panels, sentences, most = [], [], 0
    for quantity in (PROCESS_PEAK, ALLOCATOR_PEAK):
        spec = quantity.figure(section.condition)
        label = spec.label if spec else ""
        ours = against_batch_size(section, quantity)
        own = {framework: line for (framework, of), line in lines.items() if of == label}
        if own:
            panels.append(Panel(label, (*ours.series, *(_line(framework, own[framework], ours) for framework in own))))
            sentences += [f"{label}, {_equation(framework, line)}" for framework, line in own.items()]
            most = max(most, ours.most)
    title = "Memory against batch size, and the line that it follows"
    return [
        Chart(
            name="memory-line",
            title=title,
            x_label="Batch size, images",
            y_label="Memory, MiB",
            panels=tuple(panels),
            alt=chart_words.sentence([title, *sentences]),
            caption=f"{HOW_LINE} {chart_words.points(most)}",
            x_log=False,
        )
    ][: len(panels)]


def _line(framework: str, line: Line, ours: Measured) -> Series:
    """From 0, where it tells the fixed cost, to the largest batch size."""
    ends = (0.0, max(x for series in ours.series for x in series.x))
    return Series(
        f"{display_name(framework)}, fitted line",
        framework,
        Kind.FIT,
        ends,
        tuple(line.at(int(x)) / 2**20 for x in ends),
    )


def _equation(framework: str, line: Line) -> str:
    fixed, per_sample = line.fixed_bytes / 2**20, line.per_sample_bytes / 2**10
    return (
        f"{display_name(framework)}: {chart_words.number(fixed)} MiB + {chart_words.number(per_sample)} KiB a sample, "
        f"R^2 {line.r_squared:.4f}"
    )
