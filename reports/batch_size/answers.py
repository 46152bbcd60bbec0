"""Read the stored answers of `python -m runner batch-size`, and build their chapter: tables, advice and charts.

A batch size is recommended only if an ordinary trial at it passed the gate and all other checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workloads.records import validation
from workloads.records.advice import find_judged
from workloads.records.batch_answers import ANSWERS_FILE, Answers, BatchAnswers, SizePoint
from workloads.records.status import Status
from workloads.setting_words import describe_optimizer
from workloads.spec import OptimizerSpec
from workloads.statistics import Described

from ..charts import Chart, ChartSeries, Panel
from ..drawing import chart_words
from ..drawing.chart_series import BATCH_AXIS, build_framework_series
from ..frameworks import FrameworkNames, order_frameworks
from ..load import ReportError
from ..report import Chapter
from . import statements, tables
from .recommendation import list_cliffs, recommend

SPEED, MEMORY = tables.NAME, f"{tables.NAME}-memory"  # names of the charts


def read(results: Path) -> BatchAnswers | None:
    """Read the answers, frameworks in the order of every table; None if there are none.

    Raises ReportError for a file that does not hold answers.
    """
    path = results / ANSWERS_FILE
    if not path.is_file():
        return None
    try:
        stored = validation.read(path, BatchAnswers)
    except ValueError as error:
        raise ReportError(f"{path}: {error}; move it away and run python -m runner batch-size again") from error
    assert stored is not None
    by_name = {answers.framework: answers for answers in stored.frameworks}
    return replace(stored, frameworks=tuple(by_name[name] for name in order_frameworks(by_name)))


def build_chapters(folders: Sequence[Path]) -> list[Chapter]:
    """Build the chapter of the answers in these folders, at most one. Raises ReportError, as `read` or for several."""
    asked = [answers for folder in folders if (answers := read(folder))]
    if len(asked) > 1:
        raise ReportError("several of these folders hold answers of batch-size: make a separate report of each")
    return list(map(build_chapter, asked))


def build_chapter(answers: BatchAnswers) -> Chapter:
    """Build the chapter; the recommendation is its answer."""
    subject = f"{answers.conditions.get('workload')} on {answers.conditions.get('dataset')}"
    setting, named = describe_conditions(answers), tables.name_answered(answers)
    first, *others = _state(answers, named) or [f"Batch sizes of {subject}"]
    drawable = [each for each in answers.frameworks if each.fastest and each.fastest.points and not _unverified(each)]
    return Chapter(
        f"Which batch size: {subject}",
        None,
        setting,
        (setting,),
        (tables.build_table(answers), *tables.build_detail_tables(answers)),
        build_charts(drawable, named, setting) if drawable else (),
        (),
        kind=tables.NAME,
        answer=first.removesuffix("."),
        findings=(*others, *list_cliffs(answers.frameworks, named)),
    )


def _state(answers: BatchAnswers, named: FrameworkNames) -> list[str]:
    """Write the recommendation and what the trainings show; without one, a line for each answer."""
    advice = recommend(answers)
    return [*advice, *statements.state_trainings(answers, named)] if advice else statements.list_answers(answers, named)


def describe_conditions(answers: BatchAnswers) -> str:
    """Describe the conditions in a line; what an answers file does not hold is left out."""
    known = answers.conditions
    rule, limit = known.get("optimizer"), known.get("limit_bytes")
    words = {
        "device": known.get("device"),
        "processor": known.get("cpu_model"),
        "threads": known.get("threads"),
        "devices": known.get("devices"),
        "memory limit": f"{limit / 2**20:,.0f} MiB" if isinstance(limit, int) else None,
        "optimizer": describe_optimizer(OptimizerSpec(**rule)) if isinstance(rule, dict) else None,
        "epochs": known.get("epochs"),
        "commit": known.get("commit"),
        "started": known.get("started_at"),
    }
    named = tables.name_answered(answers)
    words |= {f"{named(each.framework)} version": each.version for each in answers.frameworks}
    return "; ".join(f"{name} {value}" for name, value in words.items() if value is not None)


def _unverified(each: Answers) -> bool:
    """True if its speeds do not count: the ordinary trial at the fastest size was unverified."""
    trial = find_judged(each, each.fastest.batch_size if each.fastest else None)
    return trial is not None and trial.status is Status.UNVERIFIED


def build_charts(answers: Sequence[Answers], named: FrameworkNames, provenance: str) -> tuple[Chart, ...]:
    """Build the charts of speed and of memory against batch size, with a panel per framework."""
    found = f"Answers: {'; '.join(f'{named(each.framework)} {_list_sizes(each)}' for each in answers)}."
    speeds = {each.framework: each.fastest.points if each.fastest else () for each in answers}
    most = max(point.trials for points in speeds.values() for point in points)
    drawn = [(SPEED, "Training speed, images/s", speeds, 1.0, f"{found} {chart_words.explain_points(most)}")]
    memory = {each.framework: each.memory for each in answers}
    if any(memory.values()):
        caption = f"{found} Points: the highest of all trials at a size."
        drawn.append((MEMORY, "Peak memory, MiB", memory, 2.0**-20, caption))
    return tuple(
        _chart(name, y_label, _panels(curves, factor, named), caption, provenance)
        for name, y_label, curves, factor, caption in drawn
    )


def _panels(curves: Mapping[str, Sequence[SizePoint]], factor: float, named: FrameworkNames) -> tuple[Panel, ...]:
    names = {each: named(each) for each in curves}
    return tuple(Panel(names[each], (_series(each, names[each], of, factor),)) for each, of in curves.items())


def _chart(name: str, y_label: str, panels: tuple[Panel, ...], caption: str, provenance: str) -> Chart:
    return Chart(
        name=name,
        title=f"{y_label.partition(',')[0]} against batch size",
        x_name=BATCH_AXIS,
        y_label=y_label,
        panels=panels,
        alt=chart_words.describe_panels(y_label, panels, "batch size"),
        caption=caption,
        provenance=provenance,
    )


def _series(framework: str, name: str, points: Sequence[SizePoint], factor: float) -> ChartSeries:
    values = {}
    for each in sorted(points, key=lambda each: each.batch_size):
        low, high = (math.nan if end is None else factor * end for end in (each.low, each.high))
        repeats = 1 if each.low is None else each.trials
        values[each.batch_size] = Described(repeats, factor * each.mean, low, high, math.nan)
    return build_framework_series(framework, name, values, ())


def _list_sizes(each: Answers) -> str:
    """List the known answers of a framework."""
    return ", ".join(f"{name} {size:,.0f}" for name, size in map_sizes(each).items()) or "none"


def map_sizes(each: Answers) -> dict[str, float]:
    """Map {answer: batch size} for the known answers."""
    found = {"fastest": each.fastest, "least energy": each.least_energy, "largest": each.largest}
    sizes: dict[str, float | None] = {name: answer.batch_size for name, answer in found.items() if answer}
    sizes["noise scale"] = each.noise.noise_scale if each.noise else None
    return {name: size for name, size in sizes.items() if size}
