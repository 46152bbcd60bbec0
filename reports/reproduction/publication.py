"""What others published: folders of data, found by their place; publications/README.md says what such a folder is."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from workloads.records.job import Task

from .. import quantities
from ..conditions import Condition, Section
from ..quantities import Quantity
from ..tables import Place
from . import selection

PUBLICATIONS = Path(__file__).parent / "publications"
DEFINITION, FIGURES, CALIBRATION = "publication.toml", "figures.csv", "calibration.csv"
TABLE, CHART = SERIES = ("table", "chart")  # a chart is digitised
TESTS = ("highest", "lowest", "rises", "flat", "jumps", "peaks", "falls")  # of claims
TESTS_AGAINST = ("above", "no-gain", "same", "times")  # of claims that hold a metric against another


@dataclass(frozen=True, eq=False)
class Metric:
    """A published figure, the first of our quantity, which a CPU may have another one in the place of."""

    name: str  # in figures.csv
    quantity: Quantity
    values: Mapping[str, Mapping[Place, float]]  # {series: {(framework, batch size): value}}
    framework: str = ""  # the one it is published for, if for one: every framework is held against it
    conditions: Mapping[str, Any] = field(default_factory=dict)  # {key of a study: value}, where it was made
    but: Mapping[str, Any] = field(default_factory=dict)  # {key of a study: the value that it must not have}
    digitised_to: float = 0.0
    table_decimals: int | None = None  # None: as the quantity has them
    note: str = ""  # above the table, where ours is the same quantity
    caption: str = ""  # of the chart
    finding: str = ""  # what the summary calls its row; empty: it has no place there
    title: str = ""  # of its table, where its label does not tell it from another of the quantity
    from_size: int = 0  # the batch size from which on the summary and the calibration compare

    @property
    def series(self) -> list[str]:
        """Those of SERIES that have it, the one to compare with first; none of a figure that nobody published."""
        return sorted(self.values, key=SERIES.index)

    @property
    def published(self) -> Mapping[Place, float]:
        """The values of the first series."""
        return self.values[self.series[0]] if self.series else {}

    @property
    def label(self) -> str:
        """As an axis names it."""
        return self.quantity.figures[0].label

    @property
    def unit(self) -> str:
        """That of a difference."""
        return "points" if self.quantity.unit == "%" else self.quantity.unit

    @property
    def decimals(self) -> int:
        """Behind the point; 0 where the quantity leaves it open."""
        return self.quantity.decimals or 0

    @property
    def tolerance(self) -> float:
        """How far the same cell of table and chart may differ."""
        return 2 * self.digitised_to

    @cached_property
    def contradicted(self) -> set[Place]:
        """Where table and chart differ by more than the tolerance."""
        table, chart = (self.values.get(series, {}) for series in SERIES)
        return {place for place in table.keys() & chart.keys() if abs(table[place] - chart[place]) > self.tolerance}

    def other_conditions(self, condition: Condition) -> list[str]:
        """What of `condition` is not as it was published."""
        others = selection.others(condition, self.conditions) | selection.alike_in(condition, self.but)
        return [f"other {key.replace('_', ' ')}, {value}" for key, value in others.items()]

    @property
    def selectors(self) -> set[str]:
        """The settings by which it stands."""
        return {*self.conditions, *self.but}

    def source(self, framework: str) -> str:
        """Whose published figure this framework is held against."""
        return self.framework or framework


@dataclass(frozen=True)
class Claim:
    """What the prose says of a metric. `text` names the {framework}; `test` is one of TESTS, at the batch `sizes` and,
    for a peak, those beside it; without `frameworks` it is made of every one that was measured.

    One of TESTS_AGAINST holds it `against` another metric, size by size: that one's are `against_sizes`, the same where
    there are none. `within` is a difference in the quantity's unit, of `times` a part of the `factor`.
    """

    text: str
    metric: Metric
    test: str
    sizes: tuple[int, ...] = ()
    neighbours: tuple[int, ...] = ()
    frameworks: tuple[str, ...] = ()
    against: Metric | None = None
    against_sizes: tuple[int, ...] = ()
    within: float = 0.0
    factor: float = 1.0

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(a batch size, the one that it is held against)."""
        return list(zip(self.sizes, self.against_sizes or self.sizes, strict=True))


@dataclass(frozen=True)
class Calibration:
    """A setting that gives the published row of a metric, found before this suite measured anything.

    `runs`, from calibration.csv: optimizer, learning_rate, batch_size, run and the metric, a row a run; `rows` are
    those to show. The sentences are plain text.
    """

    metric: Metric
    optimizer: str
    learning_rate: float
    momentum: float
    title: str
    how: str
    finding: str  # for the summary
    conclusions: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]  # label, optimizer, learning_rate
    runs: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Publication:
    """`workload` and `dataset` are those of the best evidence where the publication names neither; `device` is a part
    of its GPU's name, "" where none is named. Sentences are plain text; `caption` names {software} and {guess}, which
    names our {dataset}. `stand_in`: {"workload": ..., "dataset": ...} that claims are tested on, too, though its
    figures are others. `studies`: names of those that test its claims, whatever they train: it has no `workload` and
    `dataset`, and nothing else that only figures need.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    hardware: str = ""
    device: str = ""
    workload: str = ""
    dataset: str = ""
    epochs: int = 0
    unknown: str = ""  # what the cause of a difference may also be
    caveat: str = ""  # what a comparison rests on
    caption: str = ""  # of a chart
    versions: Mapping[str, str] = field(default_factory=dict)  # {framework: its version}
    guess: str = ""  # said of other data than `dataset`
    claims: tuple[Claim, ...] = ()
    claims_note: str = ""  # below the table of the claims
    calibration: Calibration | None = None
    stand_in: Mapping[str, str] = field(default_factory=dict)
    studies: tuple[str, ...] = ()

    def fits(self, section: Section) -> bool:
        """Whether its claims may be held against a section: by its study where it names any, else by its task."""
        if self.studies:
            return any(result.spec.study in self.studies for result in section.results)
        task = section.condition.task
        return (self.workload, self.dataset) == (task.workload, task.dataset) or self.is_stand_in(task)

    @property
    def own_claims(self) -> tuple[Claim, ...]:
        """Those of one metric, which a section tells by itself."""
        return tuple(claim for claim in self.claims if claim.against is None)

    @property
    def claims_across(self) -> tuple[Claim, ...]:
        """Those that hold two metrics against each other."""
        return tuple(claim for claim in self.claims if claim.against is not None)

    def is_stand_in(self, task: Task) -> bool:
        """Whether a task is the one that stands for the published one."""
        return self.stand_in == {"workload": task.workload, "dataset": task.dataset}


@cache
def publications() -> tuple[Publication, ...]:
    """By name."""
    return tuple(read(path.parent) for path in sorted(PUBLICATIONS.glob(f"*/{DEFINITION}")))


def beside(section: Section) -> tuple[Publication, ...]:
    """Those that the section fits, and those asked for by name."""
    return tuple(each for each in publications() if each.name in section.beside or each.fits(section))


def read(folder: Path) -> Publication:
    """Raises ValueError, with the file, for a definition that cannot be read or does not fit its figures."""
    path = folder / DEFINITION
    try:
        return _publication(folder, tomllib.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise ValueError(f"{path}: {error}: there is no such key, metric or quantity") from error
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _publication(folder: Path, data: dict[str, Any]) -> Publication:
    values = _values(folder)
    known = {
        quantity.name: quantity
        for quantity in (*quantities.QUANTITIES, *quantities.MEMORY_PARTS, quantities.STEPS_PEAK)
    }
    metrics = {
        each["name"]: Metric(**each | {"quantity": known[each["quantity"]], "values": values.pop(each["name"], {})})
        for each in data["metrics"]
    }
    if values:
        raise ValueError(f"{FIGURES}: no such metric: {', '.join(values)}")
    claims = [_claim(each, metrics) for each in data.get("claims", ())]
    published = {framework for metric in metrics.values() for framework, _ in metric.published}
    if silent := published - set(data.get("versions", ())):
        raise ValueError(f"versions: there is none of {', '.join(sorted(silent))}")
    calibration = data.get("calibration")
    if calibration:
        runs = pd.read_csv(folder / CALIBRATION)
        calibration = Calibration(**_tuples(calibration) | {"metric": metrics[calibration["metric"]], "runs": runs})
    parts = {"metrics": tuple(metrics.values()), "claims": tuple(claims), "calibration": calibration}
    read = Publication(folder.name, **_tuples(data) | parts)
    of_figures = ("hardware", "device", "workload", "dataset", "epochs", "unknown", "caveat", "caption")
    if published and (missing := [key for key in of_figures if key not in data]):
        raise ValueError(f"there are figures, so these must be told, too: {', '.join(missing)}")
    if ("workload" in data) != ("dataset" in data) or ("workload" in data) == ("studies" in data):
        raise ValueError("a publication has a workload and a dataset, or else studies")
    return read


def _claim(data: dict[str, Any], metrics: Mapping[str, Metric]) -> Claim:
    against = metrics[data["against"]] if "against" in data else None
    claim = Claim(**_tuples(data) | {"metric": metrics[data["metric"]], "against": against})
    tests = TESTS_AGAINST if against else TESTS
    if claim.test not in tests:
        kind = "claim against another metric" if against else "claim"
        raise ValueError(f"no such test of a {kind}: {claim.test}; there are {', '.join(tests)}")
    if against and (not claim.sizes or (claim.against_sizes and len(claim.against_sizes) != len(claim.sizes))):
        raise ValueError(f"{claim.text}: sizes are missing, or against_sizes are more or fewer than those")
    return claim


def _values(folder: Path) -> dict[str, dict[str, dict[Place, float]]]:
    """{metric: {series: {(framework, batch size): value}}}."""
    values: dict[str, dict[str, dict[Place, float]]] = {}
    if not (folder / FIGURES).exists():
        return values
    with (folder / FIGURES).open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            if row["series"] not in SERIES:
                raise ValueError(f"{FIGURES}: no such series: {row['series']}; there are {', '.join(SERIES)}")
            series = values.setdefault(row["metric"], {}).setdefault(row["series"], {})
            series[row["framework"], int(row["batch_size"])] = float(row["value"])
    return values


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
