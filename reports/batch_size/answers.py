"""Read the stored answers of `python -m runner batch-size`, and build their chapter: tables, advice and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workloads.records import validation
from workloads.records.advice import judged
from workloads.records.batch_answers import ANSWERS_FILE, Answers, BatchAnswers, Point
from workloads.records.status import Status
from workloads.setting_words import optimizer_label
from workloads.spec import OptimizerSpec

from ..charts import Chart, Kind, Panel, Series
from ..drawing import chart_words
from ..frameworks import display_name, learn_label, ordered
from ..load import ReportError
from ..report import Chapter
from . import recommendation, tables

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
        raise ReportError(f"{path}: {error}; move it away, and ask again with python -m runner batch-size") from error
    assert stored is not None
    labels = stored.conditions.get("labels")
    for name, label in labels.items() if isinstance(labels, dict) else ():
        learn_label(name, {"framework_label": label})
    by_name = {answers.framework: answers for answers in stored.frameworks}
    return replace(stored, frameworks=tuple(by_name[name] for name in ordered(by_name)))


def chapters(folders: Sequence[Path]) -> list[Chapter]:
    """Build the chapter of the answers in these folders, at most one. Raises ReportError, as `read` or for several."""
    asked = [answers for folder in folders if (answers := read(folder))]
    if len(asked) > 1:
        raise ReportError("several of these folders hold answers of batch-size: make a report of each by itself")
    return list(map(chapter, asked))


def chapter(answers: BatchAnswers) -> Chapter:
    """Build the chapter; the recommendation is its answer."""
    subject = f"{answers.conditions.get('workload')} on {answers.conditions.get('dataset')}"
    first, *others = recommendation.sentences(answers) or [f"Batch sizes of {subject}."]
    setting = conditions(answers)
    drawable = [each for each in answers.frameworks if each.fastest and each.fastest.points and not _unverified(each)]
    return Chapter(
        f"Which batch size: {subject}",
        None,
        setting,
        (setting,),
        (tables.of(answers), *tables.details(answers)),
        charts(drawable, setting) if drawable else (),
        (),
        kind=tables.NAME,
        answer=first.removesuffix("."),
        findings=tuple(others),
    )


def conditions(answers: BatchAnswers) -> str:
    """Describe the conditions in a line; what an answers file does not hold is left out."""
    known = answers.conditions
    rule, limit = known.get("optimizer"), known.get("limit_bytes")
    words = {
        "device": known.get("device"),
        "processor": known.get("cpu_model"),
        "threads": known.get("threads"),
        "memory limit": f"{limit / 2**20:,.0f} MiB" if isinstance(limit, int) else None,
        "optimizer": optimizer_label(OptimizerSpec(**rule)) if isinstance(rule, dict) else None,
        "epochs": known.get("epochs"),
        "commit": known.get("commit"),
        "started": known.get("started_at"),
    }
    words |= {f"{display_name(each.framework)} version": each.version for each in answers.frameworks}
    return "; ".join(f"{name} {value}" for name, value in words.items() if value is not None)


def _unverified(each: Answers) -> bool:
    """True if its speeds do not count: the ordinary trial at the fastest size was unverified."""
    trial = judged(each, each.fastest.batch_size if each.fastest else None)
    return trial is not None and trial.status is Status.UNVERIFIED


def charts(answers: Sequence[Answers], provenance: str) -> tuple[Chart, ...]:
    """Build the charts of speed and of memory against batch size, with a panel per framework."""
    speeds = {each.framework: each.fastest.points if each.fastest else () for each in answers}
    memory = {each.framework: tuple(_scaled(point, 2.0**-20) for point in each.memory) for each in answers}
    named = f"Answers: {'; '.join(map(_answers, answers))}."
    most = max(point.trials for points in speeds.values() for point in points)
    drawn = [_chart(SPEED, "Training speed, images/s", speeds, f"{named} {chart_words.points(most)}")]
    if any(memory.values()):
        drawn.append(
            _chart(MEMORY, "Peak memory, MiB", memory, f"{named} Points: the highest of all trials at a size.")
        )
    return tuple(replace(chart, provenance=provenance) for chart in drawn)


def _chart(name: str, y_label: str, curves: Mapping[str, Sequence[Point]], caption: str) -> Chart:
    panels = tuple(Panel(display_name(each), (_series(each, points),)) for each, points in curves.items())
    courses = (chart_words.course(panel.series[0], "batch size") for panel in panels)
    return Chart(
        name=name,
        title=f"{y_label.partition(',')[0]} against batch size",
        x_name="Batch size, images",
        y_label=y_label,
        panels=panels,
        alt=chart_words.sentence([y_label, *courses]),
        caption=caption,
    )


def _series(framework: str, points: Sequence[Point]) -> Series:
    known = sorted(points, key=lambda point: point.batch_size)
    barred = any(point.low is not None for point in known)
    return Series(
        display_name(framework),
        framework,
        Kind.MEASURED,
        tuple(point.batch_size for point in known),
        tuple(point.mean for point in known),
        tuple(point.low for point in known) if barred else (),
        tuple(point.high for point in known) if barred else (),
    )


def _scaled(point: Point, factor: float) -> Point:
    low, high = (None if end is None else factor * end for end in (point.low, point.high))
    return replace(point, mean=factor * point.mean, low=low, high=high)


def _answers(each: Answers) -> str:
    """Name the framework and its known answers."""
    sizes = [f"{name} {size:,.0f}" for name, size in named_sizes(each).items()]
    return f"{display_name(each.framework)} {', '.join(sizes) or 'none'}"


def named_sizes(each: Answers) -> dict[str, float]:
    """Map {answer: batch size} for the known answers."""
    sizes = {
        "fastest": each.fastest.batch_size if each.fastest else None,
        "least energy": each.least_energy.batch_size if each.least_energy else None,
        "largest": each.largest.batch_size if each.largest else None,
        "noise scale": each.noise.noise_scale if each.noise else None,
    }
    return {name: size for name, size in sizes.items() if size}
