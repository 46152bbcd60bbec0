"""What others published: folders of data, found by their place; publications/README.md says what such a folder is."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from .. import quantities
from ..conditions import Condition, Section
from ..quantities import Quantity
from ..tables import Place

PUBLICATIONS = Path(__file__).parent / "publications"
DEFINITION, FIGURES, CALIBRATION = "publication.toml", "figures.csv", "calibration.csv"
TABLE, CHART = SERIES = ("table", "chart")  # a chart is digitised
TESTS = ("highest", "lowest", "rises", "flat", "jumps", "peaks", "falls")  # of claims


@dataclass(frozen=True, eq=False)
class Metric:
    """A published figure, the first of our quantity, which a CPU may have another one in the place of."""

    name: str  # in figures.csv
    quantity: Quantity
    values: Mapping[str, Mapping[Place, float]]  # {series: {(framework, batch size): value}}
    framework: str = ""  # the one it is published for, if for one: every framework is held against it
    conditions: Mapping[str, Any] = field(default_factory=dict)  # {key of a study: value}, where it was made
    digitised_to: float = 0.0
    table_decimals: int | None = None  # None: as the quantity has them
    note: str = ""  # above the table, where ours is the same quantity
    caption: str = ""  # of the chart
    finding: str = ""  # what the summary calls its row; empty: it has no place there
    from_size: int = 0  # the batch size from which on the summary and the calibration compare

    @property
    def series(self) -> list[str]:
        """Those of SERIES that have it, the one to compare with first."""
        return sorted(self.values, key=SERIES.index)

    @property
    def published(self) -> Mapping[Place, float]:
        """The values of the first series."""
        return self.values[self.series[0]]

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
        parts = (condition.task, condition.passes)  # read from a file, one has its defaults by its class alone
        settings = {each.name: getattr(part, each.name) for part in parts for each in fields(part)}
        settings["optimizer"] = condition.task.optimizer.name
        others = {key: settings.get(key) for key, value in self.conditions.items() if settings.get(key) != value}
        return [f"other {key.replace('_', ' ')}, {value}" for key, value in others.items()]

    def source(self, framework: str) -> str:
        """Whose published figure this framework is held against."""
        return self.framework or framework


@dataclass(frozen=True)
class Claim:
    """What the prose says of a metric. `text` names the {framework}; `test` is one of TESTS, at the batch `sizes` and,
    for a peak, those beside it; without `frameworks` it is made of every one that was measured.
    """

    text: str
    metric: Metric
    test: str
    sizes: tuple[int, ...] = ()
    neighbours: tuple[int, ...] = ()
    frameworks: tuple[str, ...] = ()


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
    of its GPU's name. Sentences are plain text; `caption` names {software} and {guess}, which names our {dataset}.
    """

    name: str
    source: str
    hardware: str
    device: str
    workload: str
    dataset: str
    epochs: int
    unknown: str  # what the cause of a difference may also be
    caveat: str  # what a comparison rests on
    caption: str  # of a chart
    versions: Mapping[str, str]  # {framework: its version}
    metrics: tuple[Metric, ...]
    guess: str = ""  # said of other data than `dataset`
    claims: tuple[Claim, ...] = ()
    claims_note: str = ""  # below the table of the claims
    calibration: Calibration | None = None


@cache
def publications() -> tuple[Publication, ...]:
    """By name."""
    return tuple(read(path.parent) for path in sorted(PUBLICATIONS.glob(f"*/{DEFINITION}")))


def beside(section: Section) -> tuple[Publication, ...]:
    """Those that the section's task fits, which are of its network and data set, and those asked for by name."""
    task = section.condition.task
    return tuple(
        each
        for each in publications()
        if each.name in section.beside or (each.workload, each.dataset) == (task.workload, task.dataset)
    )


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
    known = {quantity.name: quantity for quantity in quantities.QUANTITIES}
    metrics = {
        each["name"]: Metric(**each | {"quantity": known[each["quantity"]], "values": values[each["name"]]})
        for each in data["metrics"]
    }
    claims = [Claim(**_tuples(each) | {"metric": metrics[each["metric"]]}) for each in data.get("claims", ())]
    if unknown := {claim.test for claim in claims} - set(TESTS):
        raise ValueError(f"no such test of a claim: {', '.join(sorted(unknown))}; there are {', '.join(TESTS)}")
    published = {framework for metric in metrics.values() for framework, _ in metric.published}
    if silent := published - set(data["versions"]):
        raise ValueError(f"versions: there is none of {', '.join(sorted(silent))}")
    calibration = data.get("calibration")
    if calibration:
        runs = pd.read_csv(folder / CALIBRATION)
        calibration = Calibration(**_tuples(calibration) | {"metric": metrics[calibration["metric"]], "runs": runs})
    parts = {"metrics": tuple(metrics.values()), "claims": tuple(claims), "calibration": calibration}
    return Publication(folder.name, **data | parts)


def _values(folder: Path) -> dict[str, dict[str, dict[Place, float]]]:
    """{metric: {series: {(framework, batch size): value}}}."""
    values: dict[str, dict[str, dict[Place, float]]] = {}
    with (folder / FIGURES).open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            if row["series"] not in SERIES:
                raise ValueError(f"{FIGURES}: no such series: {row['series']}; there are {', '.join(SERIES)}")
            series = values.setdefault(row["metric"], {}).setdefault(row["series"], {})
            series[row["framework"], int(row["batch_size"])] = float(row["value"])
    return values


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
