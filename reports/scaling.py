"""Compare one model on several devices with the same framework on one: speed and efficiency."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from workloads.records import figures as registry
from workloads.records.result import TrialResult

from . import tables
from .comparing import effect_words, estimates
from .condition_text import ABSENT
from .conditions import Condition, Section
from .frameworks import display_name, ordered
from .quantities import SPEED
from .reproduction.publication import FIGURES, PUBLICATIONS
from .table import Cell, Table, Theme

NAME, TITLE = "scaling", "Several devices: {batch_size} images on each, training speed and efficiency"
HOW = (
    "The speed is that of all devices together. Efficiency is it over so many times the speed of one device at the "
    "same batch size a device: of each repeat, their geometric mean with its 95 % interval (Student's t on logarithms) "
    "where there are two or more. All else is alike, the allotted threads of a CPU too: {numbers}."
)
SHARED = (
    "On a CPU devices are parts of the allotted threads, of which one device has all: {devices} devices are no more "
    "machine than one, and at an efficiency of {ideal} dividing cost nothing."
)
NO_PAIR = "no repeat has a speed on one device, too"
PUBLICATION, ONE, SEVERAL = "powers-of-two-2022", "1xV100", "4xV100"
PUBLISHED = (
    "Published (S. Raschka, 2022: MobileNetV3-Large, CIFAR-10 at 224 x 224, fp16; whole trainings, each run once): "
    "four V100 by DistributedDataParallel took {several} minutes at {sizes} images a card. No run of one card at these "
    "sizes is published; at {one_size} it took {one} minutes, {ratio:.2f} times as long as four at 256: of other "
    "updates, so no efficiency as above."
)


@dataclass(frozen=True)
class Scaled:
    """Trials of one framework at one batch size per device, on `devices` devices."""

    framework: str
    batch_size: int
    devices: int
    section: int  # its number
    results: tuple[TrialResult, ...]


def of_sections(sections: list[Section]) -> list[Table]:
    """Build a table for each batch size per device at which a framework trained on several devices and on one.

    All else is alike.
    """
    groups: dict[tuple[Condition, int], dict[tuple[str, Any], list[Scaled]]] = {}
    for number, section in enumerate(sections, start=1):
        for (framework, batch_size), results in tables.places(section).items():
            devices = section.condition.placement.devices
            scaled = Scaled(framework, batch_size, devices, number, tuple(results))
            by_software = groups.setdefault((_of_one(section.condition), batch_size), {})
            by_software.setdefault((framework, section.software[framework]), []).append(scaled)
    made: list[Table] = []
    for (condition, batch_size), by_software in groups.items():
        rows = [each for several in by_software.values() if len({s.devices for s in several}) > 1 for each in several]
        if rows:
            name = "-".join([NAME, str(batch_size), *([str(len(made) + 1)] if made else [])])
            made.append(_table(name, condition, batch_size, rows))
    return made


def _of_one(condition: Condition) -> Condition:
    """Return the condition as if it were of one device."""
    return replace(condition, placement=condition.placement.first)


def _table(name: str, condition: Condition, batch_size: int, every: list[Scaled]) -> Table:
    names = ordered(each.framework for each in every)
    every = sorted(every, key=lambda each: (names.index(each.framework), each.devices, each.section))
    figure = SPEED.figure(condition)
    assert figure is not None  # every device has one
    cells = [tables.cell(each.results, figure) for each in every]
    most = max(cell["n"] for cell in cells)
    ones = {each.framework: _speeds(each) for each in every if each.devices == 1}
    found = [_efficiency(each, ones.get(each.framework, {})) for each in every]
    rows = tuple(
        (
            Cell(display_name(each.framework)),
            Cell(str(each.devices), each.devices),
            tables.shown(cell, SPEED.decimals, most),
            _shown(each, efficiency),
        )
        for each, cell, efficiency in zip(every, cells, found, strict=True)
    )
    devices = max(each.devices for each in every)
    numbers = ", ".join(map(str, sorted({each.section for each in every})))
    of_cpu = condition.placement.device_kind == "cpu"
    below = [f"{HOW.format(numbers=f'sections {numbers}')} {tables.how_to_read_a_cell([most])}"]
    below += [SHARED.format(devices=devices, ideal=f"1/{devices}")] if of_cpu else []
    head = ("Framework", "Devices", f"{figure.label}, {figure.unit}", "Efficiency")
    tidy = pd.DataFrame(
        [
            {
                "framework": each.framework,
                "batch_size": each.batch_size,
                "devices": each.devices,
                "images_per_s": cell["mean"] if cell["n"] else math.nan,
                **dict(zip(("efficiency", "low", "high"), efficiency, strict=True)),
            }
            for each, cell, efficiency in zip(every, cells, found, strict=True)
        ]
    )
    title = TITLE.format(batch_size=batch_size)
    return Table(name, title, head, rows, tidy, below=(*below, published()), keys=2, theme=Theme.SPEED)


def _speeds(scaled: Scaled) -> dict[int, float]:
    """Collect the speed of each repeat; a ratio needs a speed above 0."""
    speeds = {}
    for result in scaled.results:
        figure = result.figures.get(registry.SPEED.name)
        if tables.is_shown(result, registry.SPEED) and figure and figure.value and figure.value > 0:
            speeds[result.spec.draw.repeat] = figure.value
    return speeds


def _efficiency(scaled: Scaled, one: Mapping[int, float]) -> tuple[float, float, float]:
    """Compute (value, low, high), paired by repeat; NaN where there is none."""
    own = _speeds(scaled)
    repeats = sorted(own.keys() & one.keys())
    if not repeats:
        return math.nan, math.nan, math.nan
    ideal = [scaled.devices * one[each] for each in repeats]
    shift = estimates.of_ratio(ideal, [own[each] for each in repeats], paired=True)
    interval = estimates.of_cells([shift])[0].interval if shift.groups else (math.nan, math.nan)
    value, low, high = map(math.exp, (shift.value, *interval))
    return value, low, high


def _shown(scaled: Scaled, efficiency: tuple[float, float, float]) -> Cell:
    if scaled.devices == 1:
        return Cell("1", 1.0)
    if math.isnan(efficiency[0]):
        return Cell(ABSENT, None, (NO_PAIR,))
    return Cell(effect_words.ratio(*efficiency), efficiency[0])


def published() -> str:
    """State what is published about four cards, and what it does not show."""
    with (PUBLICATIONS / PUBLICATION / FIGURES).open(encoding="utf-8", newline="") as file:
        minutes = {(row["gpus"], int(row["batch_size"])): row["train_minutes"] for row in csv.DictReader(file)}
    sizes = [size for gpus, size in minutes if gpus == SEVERAL]
    several = [minutes[SEVERAL, size] for size in sizes]
    one_size = 512
    return PUBLISHED.format(
        several=", ".join(several),
        sizes=", ".join(map(str, sizes)),
        one_size=one_size,
        one=minutes[ONE, one_size],
        ratio=float(minutes[ONE, one_size]) / float(minutes[SEVERAL, 256]),
    )
