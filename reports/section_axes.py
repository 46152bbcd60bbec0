"""Compare sections that are alike but for one axis: the number of devices, or of the batches of an update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from workloads.networks import find_trained
from workloads.records.figures import FigureSpec
from workloads.records.result import TrialResult

from . import tables
from .comparing import effect_words
from .condition_text import ABSENT, tell_apart
from .conditions import Condition, Section, Software
from .contrast import Axis, CellContrast, compute_contrast, pair_by_repeat
from .frameworks import order_frameworks
from .load import Stored
from .quantities import ACCURACY, ALLOCATOR_PEAK, MEMORY, SPEED, STEP_TIME, Quantity
from .reproduction.publication import read_size_article
from .table import Table, TableCell, Theme
from .tables import CellSummary

NORMALISED = (
    "The network has BatchNorm, and an update accumulates several batches. Statistics are taken per batch, so the "
    "update differs from that of one batch of the same images."
)
SHARED = (
    "On a CPU, devices are parts of the allotted threads; a single device has all of them. {devices} devices use no "
    "more hardware than one, so at an efficiency of {ideal} dividing costs nothing."
)
NO_PAIR = "no repeat also has a speed on one device"
ONE, SEVERAL, ONE_SIZE = "training_1xV100", "training_4xV100", 512
PUBLISHED = (
    "Published (S. Raschka, 2022: MobileNetV3-Large, CIFAR-10 at 224 x 224, fp16; whole trainings, each run once): "
    "four V100 by DistributedDataParallel took {several} minutes at {sizes} images per card. No run of one card at "
    "these sizes is published. At {one_size}, one card took {one} minutes, {ratio:.2f} times as long as four at 256. "
    "Its updates differ, so this is not an efficiency as above."
)


@dataclass(frozen=True, kw_only=True)
class SectionAxis(Axis):
    """An axis between sections. `without` leaves the level out of a condition.

    Cells are compared that have the same `alike`, a number made from batch size and level. `charted` quantities have a
    chart against the level.
    """

    head: str
    row: str  # names a level and its batch size
    count: str  # a level's name in a sentence
    panel: str  # names what has the same `alike`
    charted: tuple[Quantity, ...]
    theme: Theme
    level: Callable[[Condition], int]
    without: Callable[[Condition], Condition]
    alike: Callable[[int, int], int]


@dataclass(frozen=True)
class Level:
    """Trials of one framework at one batch size, in one section, at one level of an axis.

    `apart` says how its software differs from the others of its framework in the table; "" if there is one.
    """

    framework: str
    name: str  # of the framework, as tables name it
    software: Software
    level: int
    batch_size: int
    section: int  # its number
    results: tuple[TrialResult, ...]
    apart: str = ""

    @property
    def build(self) -> tuple[str, Software]:
        """Framework and software: only levels with the same of both are compared."""
        return self.framework, self.software


@dataclass(frozen=True)
class Varied:
    """Levels that are alike in all else, `images` included: on a device, or of an update."""

    condition: Condition
    images: int
    levels: Sequence[Level]

    def cells(self, quantity: Quantity) -> tuple[FigureSpec, list[CellSummary]]:
        """Return the quantity's figure, which every device has, and the cell of each level."""
        figure = quantity.figure(self.condition)
        assert figure is not None
        return figure, [tables.summarise_cell(each.results, figure) for each in self.levels]


def vary(sections: Iterable[Section], axis: SectionAxis) -> list[Varied]:
    """Group cells that are alike but for their level, and keep those whose framework has several with one software.

    Levels are in the order of framework, software, level and section.
    """
    groups: dict[tuple[Condition, int], dict[tuple[str, Software], list[Level]]] = {}
    for number, section in enumerate(sections, start=1):
        condition, level = section.condition, axis.level(section.condition)
        shared = axis.without(condition)
        for (framework, size), results in tables.group_by_place(section).items():
            by_software = groups.setdefault((shared, axis.alike(size, level)), {})
            name, software = section.named(framework), section.software[framework]
            levels = by_software.setdefault((framework, software), [])
            levels.append(Level(framework, name, software, level, size, number, tuple(results)))
    varied = []
    for (condition, alike), by_software in groups.items():
        kept = [each for levels in by_software.values() if len({x.level for x in levels}) > 1 for each in levels]
        names, builds = order_frameworks(each.framework for each in kept), [*by_software]
        kept.sort(key=lambda x: (names.index(x.framework), builds.index(x.build), x.level, x.section))
        kept = [_name_software(each, kept, condition.placement.device_kind) for each in kept]
        varied += [Varied(condition, alike, kept)] if kept else []
    return varied


def _name_software(level: Level, levels: Iterable[Level], device_kind: str) -> Level:
    """Add how the level's software differs from the others of its framework."""
    every = [each.software for each in levels if each.framework == level.framework]
    return replace(level, apart=tell_apart(level.software, every, device_kind))


def _table(
    axis: SectionAxis,
    made: int,
    varied: Varied,
    beside: Mapping[str, Sequence[TableCell]],
    tidy: pd.DataFrame,
    below: Sequence[str] = (),
) -> Table:
    """Build the table of all levels: their own values, and `beside` them comparisons, {head: cells}."""
    own = {quantity: varied.cells(quantity) for quantity in axis.quantities}
    counts = [cell.n for _, cells in own.values() for cell in cells]
    columns: dict[str, Sequence[TableCell]] = {
        f"{figure.label}, {figure.unit}": [tables.format_cell(cell, quantity.decimals, max(counts)) for cell in cells]
        for quantity, (figure, cells) in own.items()
    }
    columns |= beside
    rows = [
        (
            TableCell(f"{x.name}, {x.apart}" if x.apart else x.name),
            TableCell(axis.row.format(level=x.level, size=x.batch_size), x.level),
            *cells,
        )
        for x, *cells in zip(varied.levels, *columns.values(), strict=True)
    ]
    numbers = ", ".join(map(str, sorted({each.section for each in varied.levels})))
    how = axis.how.format(alike=varied.images, numbers=numbers)
    return Table(
        "-".join([axis.name, str(varied.images), *([str(made + 1)] if made else [])]),
        axis.title.format(alike=varied.images),
        ("Framework", axis.head, *columns),
        tuple(rows),
        tidy,
        below=(f"{how} {tables.explain_cells(counts)}", *below),
        theme=axis.theme,
        keys=2,
    )


SCALING = SectionAxis(
    name="scaling",
    title="Several devices: {alike} images on each, training speed and efficiency",
    quantities=(SPEED,),
    pair_by=pair_by_repeat,
    value="efficiency",
    columns=("framework", "software", "batch_size", "devices", "images_per_s", "efficiency", "low", "high"),
    how="The speed is that of all devices together. Efficiency is this speed divided by the number of devices times "
    "the speed of one device at the same batch size per device. It is computed per repeat; two or more give a "
    "geometric mean with its 95 % interval (Student's t on logarithms). All else is the same, including the allotted "
    "threads of a CPU: sections {numbers}.",
    head="Devices",
    row="{level}",
    count="device count",
    panel="{alike} images on each device",
    charted=(SPEED,),
    theme=Theme.SPEED,
    level=lambda condition: condition.placement.devices,
    without=lambda condition: replace(condition, placement=condition.placement.first),
    alike=lambda size, _: size,
)


def build_tables(sections: Sequence[Section]) -> list[Table]:
    """Build a table for each number of images: of an update split in several ways, or on each of several devices."""
    split = [_split(made, varied) for made, varied in enumerate(vary(sections, SPLITTING))]
    return split + [_scaled(made, varied) for made, varied in enumerate(vary(sections, SCALING))]


def _scaled(made: int, varied: Varied) -> Table:
    condition, levels = varied.condition, varied.levels
    ones = {each.build: each.results for each in levels if each.level == 1}
    found = [compute_contrast(x.results, ones.get(x.build, ()), SCALING, SPEED, condition, x.level) for x in levels]
    speeds = varied.cells(SPEED)[1]
    more = [
        {"software": x.apart, "devices": x.level, "images_per_s": cell.mean}
        for x, cell in zip(levels, speeds, strict=True)
    ]
    most = max(each.level for each in levels)
    on_cpu = condition.placement.device_kind == "cpu"
    below = [SHARED.format(devices=most, ideal=f"1/{most}")] if on_cpu else []
    cells = [
        TableCell("1", 1.0) if each.level == 1 else _efficiency(of) for each, of in zip(levels, found, strict=True)
    ]
    return _table(SCALING, made, varied, {"Efficiency": cells}, SCALING.tidy(found, more), (*below, state_published()))


def _efficiency(of: CellContrast) -> TableCell:
    return TableCell(effect_words.format_ratio(*of.ratio), of.value) if of.n else TableCell(ABSENT, None, (NO_PAIR,))


def state_published() -> str:
    """State what is published about four cards, and what it does not show."""
    minutes = {metric.name: metric.published for metric in read_size_article().metrics}
    several = {size: f"{value:.2f}" for (_, size), value in minutes[SEVERAL].items()}
    sizes, one = ", ".join(map(str, several)), minutes[ONE]["pytorch", ONE_SIZE]
    ratio = one / float(several[256])
    return PUBLISHED.format(
        several=", ".join(several.values()), sizes=sizes, one_size=ONE_SIZE, one=f"{one:.2f}", ratio=ratio
    )


SPLITTING = SectionAxis(
    name="accumulation",
    title="Accumulation: updates of {alike} images in parts",
    quantities=(SPEED, STEP_TIME, MEMORY, ALLOCATOR_PEAK),
    pair_by=pair_by_repeat,
    how="Each row is the same update, of {alike} images, in parts that go through the network one after the other; the "
    "optimizer makes one step for all of them. Step time is that of an update. The last two columns are relative to "
    "the same framework and software without accumulation (1 x {alike}), from means, without an interval. All else is "
    "the same: sections {numbers}.",
    head="Parts",
    row="{level} x {size}",
    count="part count",
    panel="Updates of {alike} images",
    charted=(MEMORY, SPEED, ACCURACY),
    theme=Theme.RUN,
    level=lambda condition: condition.task.accumulate,
    without=lambda condition: replace(condition, task=replace(condition.task, accumulate=1)),
    alike=lambda size, accumulate: size * accumulate,
)
BESIDE_WHOLE = (STEP_TIME, MEMORY)  # also shown as a ratio to the same update in one batch


def _split(made: int, varied: Varied) -> Table:
    cells = {quantity: varied.cells(quantity) for quantity in SPLITTING.quantities}
    beside = {}
    for quantity in BESIDE_WHOLE:
        figure, parts = cells[quantity]
        wholes = {x.build: cell for x, cell in zip(varied.levels, parts, strict=True) if x.level == 1}
        beside[f"{figure.label}, of 1 x {varied.images}"] = [
            _part(cell, wholes.get(each.build)) for each, cell in zip(varied.levels, parts, strict=True)
        ]
    tidy = tables.tidy(
        (
            {"framework": x.framework, "software": x.apart, "batch_size": x.batch_size}
            | {"accumulate": x.level, "quantity": q.name},
            parts[place],
        )
        for place, x in enumerate(varied.levels)
        for q, (_, parts) in cells.items()
    )
    return _table(SPLITTING, made, varied, beside, tidy)


def _part(cell: CellSummary, whole: CellSummary | None) -> TableCell:
    """Ratio to the mean of the whole update; a dash if either is unknown."""
    if whole is None or not cell.n or not whole.n:
        return TableCell(ABSENT)
    part = cell.mean / whole.mean
    return TableCell(f"{part:.2f}", part)


def write_remark(section: Section, stored: Stored) -> tuple[str, ...]:
    """Return a note if the section accumulates batches and its network has BatchNorm; otherwise nothing."""
    if section.condition.task.accumulate == 1:
        return ()
    folders = {result.key: folder for result, folder in zip(stored.results, stored.folders, strict=True)}
    result = section.every[0]
    workload = find_trained(result.spec, folders[result.key].parent.parent)
    if workload is None or not workload.statistic_shapes():
        return ()
    return (NORMALISED,)
