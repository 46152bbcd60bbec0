"""Read what others published from folders of data; docs/extend/a-publication.md describes such a folder."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from workloads.records.job import Task

from .. import quantities
from ..conditions import Condition, Section, settings
from ..quantities import Quantity
from ..tables import Place

PUBLICATIONS = Path(__file__).parent / "publications"
DEFINITION, FIGURES = "publication.toml", "figures.csv"
TABLE, CHART = SERIES = ("table", "chart")  # a chart is digitised
TESTS = ("highest", "lowest", "rises", "flat", "jumps", "peaks", "falls")  # of claims
TESTS_AGAINST = ("above", "no-gain", "same", "times")  # of claims that compare two metrics
TESTS_OF_BLOCKS = ("faster-than-neighbours",)  # of claims about kinds of batch sizes, on blocks of steps


@dataclass(frozen=True, eq=False)
class Metric:
    """A published figure: the first figure of our quantity; on a CPU another figure may replace it."""

    name: str  # in figures.csv
    quantity: Quantity
    values: Mapping[str, Mapping[Place, float]]  # {series: {(framework, batch size): value}}
    framework: str = ""  # the framework it was published for; if set, every framework is compared with it
    conditions: Mapping[str, Any] = field(default_factory=dict)  # {key of a study: value}, how it was measured
    but: Mapping[str, Any] = field(default_factory=dict)  # {key of a study: the value that it must not have}
    digitised_to: float = 0.0
    table_decimals: int | None = None  # None: as many as the quantity has
    note: str = ""  # above the table, if our quantity is the same
    caption: str = ""  # of the chart
    finding: str = ""  # name of its row in the summary; empty: it has no row there
    title: str = ""  # of its table, if its label is not unique for its quantity
    from_size: int = 0  # the smallest batch size that the summary compares

    @property
    def series(self) -> list[str]:
        """Series that have it, the one to compare with first; empty for a figure that was never published."""
        return sorted(self.values, key=SERIES.index)

    @property
    def published(self) -> Mapping[Place, float]:
        """Values of the first series."""
        return self.values[self.series[0]] if self.series else {}

    @property
    def label(self) -> str:
        """Label of its axis."""
        return self.quantity.figures[0].label

    @property
    def unit(self) -> str:
        """Unit of a difference."""
        return "points" if self.quantity.unit == "%" else self.quantity.unit

    @property
    def decimals(self) -> int:
        """Number of decimal places; 0 where the quantity leaves it open."""
        return self.quantity.decimals or 0

    @property
    def tolerance(self) -> float:
        """Largest difference allowed between table and chart in the same cell."""
        return 2 * self.digitised_to

    @cached_property
    def contradicted(self) -> set[Place]:
        """Cells in which table and chart differ by more than the tolerance."""
        table, chart = (self.values.get(series, {}) for series in SERIES)
        return {place for place in table.keys() & chart.keys() if abs(table[place] - chart[place]) > self.tolerance}

    def other_conditions(self, condition: Condition) -> list[str]:
        """List the settings of `condition` that differ from those of the publication."""
        known = settings(condition)
        others = {key: known.get(key) for key, value in self.conditions.items() if known.get(key) != value}
        others |= {key: value for key, value in self.but.items() if known.get(key) == value}
        return [f"other {key.replace('_', ' ')}, {value}" for key, value in others.items()]

    @property
    def selectors(self) -> set[str]:
        """Settings that the sections with this metric are chosen by."""
        return {*self.conditions, *self.but}

    def source(self, framework: str) -> str:
        """Return the framework whose published figure `framework` is compared with."""
        return self.framework or framework


@dataclass(frozen=True)
class SizeKind:
    """A kind of batch sizes. `coulom`: sizes by Coulom's rule, "input" or "widest map", which only a GPU has."""

    name: str = ""
    power_of_two: bool = False
    multiple_of: int = 1
    not_of: int = 0  # sizes that are multiples of this, too, are of another kind
    coulom: str = ""

    def holds(self, size: int) -> bool:
        """True if `size` is of this kind, which is not Coulom's."""
        powers = (size.bit_count() == 1) == self.power_of_two
        return powers and size % self.multiple_of == 0 and not (self.not_of and size % self.not_of == 0)


@dataclass(frozen=True)
class Claim:
    """A claim of the publication's text about a metric. `text` names the {framework}; `test` is one of TESTS, at the
    batch `sizes`. A peak also has `neighbours`, the sizes next to those. Without `frameworks` the claim is about every
    framework that was measured.

    A test in TESTS_AGAINST compares the metric with a second one, `against`, size by size, or with the same one of a
    `rival`, another column of its tables ("pytorch@compiled"). The second side's sizes are `against_sizes`, or the same
    sizes where there are none. `within` is a difference in the quantity's unit; for `times` it is a share of the
    `factor`. A test in TESTS_OF_BLOCKS is about the sizes of a `kind`.
    """

    text: str
    metric: Metric
    test: str
    sizes: tuple[int, ...] = ()
    neighbours: tuple[int, ...] = ()
    frameworks: tuple[str, ...] = ()
    against: Metric | None = None
    rival: str = ""
    against_sizes: tuple[int, ...] = ()
    within: float = 0.0
    factor: float = 1.0
    kind: SizeKind = field(default_factory=SizeKind)
    topic: str = ""  # what the headline calls it, the same for several claims; "" if it is not in the headline

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs (batch size, the batch size it is compared with)."""
        return list(zip(self.sizes, self.against_sizes or self.sizes, strict=True))


@dataclass(frozen=True, eq=False)
class Article:
    """A publication: its figures, claims and sentences. `workload` and `dataset` are those with the best evidence if
    the publication names neither. `device` is part of its GPU's name, "" if it names none. Sentences are plain text;
    `caption` names {software} and {guess}, which names our {dataset}.

    `stand_in`: {"workload": ..., "dataset": ...}, another task on which its claims are tested as well, although its
    figures differ. `studies`: names of studies that test its claims, whatever they train. Such a publication has no
    `workload`, no `dataset`, and none of the keys that only figures need. `of_blocks`: its claims and figures are about
    blocks of steps (`size_claims`); it names neither studies nor a task.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    question: str = ""  # that its studies answer: the first words of the headline
    hardware: str = ""
    device: str = ""
    workload: str = ""
    dataset: str = ""
    epochs: int = 0
    unknown: str = ""  # another possible cause of a difference
    caveat: str = ""  # what a comparison assumes
    caption: str = ""  # of a chart
    versions: Mapping[str, str] = field(default_factory=dict)  # {framework: its version}
    guess: str = ""  # a note for data other than `dataset`
    claims: tuple[Claim, ...] = ()
    claims_note: str = ""  # below the table of the claims
    stand_in: Mapping[str, str] = field(default_factory=dict)
    studies: tuple[str, ...] = ()
    of_blocks: bool = False

    def fits(self, section: Section) -> bool:
        """True if its claims apply to a section: matched by study where it names any, otherwise by task."""
        if self.studies:
            return any(result.spec.study in self.studies for result in section.results)
        task = section.condition.task
        return (self.workload, self.dataset) == (task.workload, task.dataset) or self.is_stand_in(task)

    def is_stand_in(self, task: Task) -> bool:
        """True if `task` is the one used in place of the published task."""
        return self.stand_in == {"workload": task.workload, "dataset": task.dataset}


@cache
def read_articles() -> tuple[Article, ...]:
    """List the publications that trials are compared with, by name."""
    every = (read(path.parent) for path in sorted(PUBLICATIONS.glob(f"*/{DEFINITION}")))
    return tuple(each for each in every if not each.of_blocks)


@cache
def read_size_article() -> Article:
    """Read the publication on round batch sizes, whose claims blocks of steps test."""
    return read(PUBLICATIONS / "powers-of-two-2022")


def find_articles(section: Section) -> tuple[Article, ...]:
    """Publications that the section fits, and those asked for by name."""
    return tuple(each for each in read_articles() if each.name in section.beside or each.fits(section))


def read(folder: Path) -> Article:
    """Read one publication.

    Raises ValueError, with the file, if its definition cannot be read or does not fit its figures.
    """
    path = folder / DEFINITION
    try:
        return _publication(folder, tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except KeyError as error:
        raise ValueError(f"{path}: {error}: there is no such key, metric or quantity") from error
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _publication(folder: Path, data: dict[str, Any]) -> Article:
    of_blocks = data.get("of_blocks", False)
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
    claims = [_claim(each, metrics, of_blocks) for each in data.get("claims", ())]
    published = {framework for metric in metrics.values() for framework, _ in metric.published}
    if not of_blocks and (silent := published - set(data.get("versions", ()))):
        raise ValueError(f"versions: missing for {', '.join(sorted(silent))}")
    parts = {"metrics": tuple(metrics.values()), "claims": tuple(claims)}
    read = Article(folder.name, **_tuples(data) | parts)
    of_figures = ("hardware", "device", "workload", "dataset", "epochs", "unknown", "caveat", "caption")
    if published and not of_blocks and (missing := [key for key in of_figures if key not in data]):
        raise ValueError(f"there are figures, so these keys are needed, too: {', '.join(missing)}")
    if ("workload" in data) != ("dataset" in data) or ("workload" in data) + ("studies" in data) + of_blocks != 1:
        raise ValueError("a publication has a workload and a dataset, or else studies, or of_blocks = true")
    return read


def _claim(data: dict[str, Any], metrics: Mapping[str, Metric], of_blocks: bool) -> Claim:
    against = metrics[data["against"]] if "against" in data else None
    kind = SizeKind(**data.get("kind", {}))
    claim = Claim(**_tuples(data) | {"metric": metrics[data["metric"]], "against": against, "kind": kind})
    two_sided = against is not None or claim.rival != ""
    tests = TESTS_OF_BLOCKS if of_blocks else TESTS_AGAINST if two_sided else TESTS
    if claim.test not in tests:
        subject = "claim that compares two sides" if two_sided else "claim"
        raise ValueError(f"no such test of a {subject}: {claim.test}; there are {', '.join(tests)}")
    if claim.rival and (against or not claim.frameworks or claim.rival in claim.frameworks):
        raise ValueError(f"{claim.text}: a claim with a rival names other frameworks than the rival, and no against")
    if two_sided and (not claim.sizes or (claim.against_sizes and len(claim.against_sizes) != len(claim.sizes))):
        raise ValueError(f"{claim.text}: sizes are missing, or against_sizes has another number of sizes")
    return claim


def _values(folder: Path) -> dict[str, dict[str, dict[Place, float]]]:
    """Read {metric: {series: {(framework, batch size): value}}}."""
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
