"""Prepare all trials of a report for its page: a row each, and the addresses by which numbers and points lead to it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from workloads.records.disturbance import is_withheld
from workloads.records.figures import FigureSpec
from workloads.records.files import EVENTS_FILE, LOG_FILE, RESULT_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult

from ..attempts import Attempts, strip_results_folder
from ..conditions import Section
from ..frameworks import order_frameworks
from ..quantities import ACCURACY, MEMORY, SPEED, STEP_TIME, USAGE
from ..report import Report
from ..sentences import listed, status_words
from ..table import TableCell
from ..tables import UNKNOWN, count_decimals, describe_status

IN_TABLE = (SPEED, STEP_TIME, USAGE, MEMORY, ACCURACY)
RAW_FILES = (RESULT_FILE, SAMPLES_FILE, EVENTS_FILE, LOG_FILE)
MOST_NAMED = 4  # cells of the table of trials, in the title of a link


@dataclass(frozen=True)
class Trial:
    """A stored result, its folder, its id, its section's number from 1 (0: replaced), and its framework's name.

    The key is the trial's id. If merged results folders share an id, "~2" and so on distinguish them.
    """

    result: TrialResult
    folder: Path
    id: str
    section: int
    key: str
    framework: str
    attempts: Attempts | None = None  # if there were several

    @property
    def status(self) -> str:
        """Ending of the trial, with the reason if there is one."""
        status = status_words(self.result.status)
        return f"{status}: {self.result.reason}" if self.result.reason else status


@dataclass(frozen=True)
class CellRows:
    """Rows of the trials of one cell, which follow each other; `id` is theirs in the page."""

    id: str
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """Framework and batch size."""
        first = self.trials[0]
        return f"{first.framework} {first.result.spec.cell.batch_size}"


@dataclass(frozen=True)
class Address:
    """Link to the rows of a cell's trials. If the trials are in several cells, `title` names these."""

    href: str
    title: str = ""


Find = Callable[[Iterable[str]], Address | None]  # from the ids of trials


def list_trials(report: Report) -> list[Trial]:
    """List all trials of the report by section, framework, batch size and repeat, replaced ones last.

    An id stored twice gets a second key.
    """
    stored = report.stored
    section_of = {
        result.key: number
        for number, chapter in enumerate(report.chapters, 1)
        for result in (chapter.section.every if chapter.section else ())
    }
    frameworks = order_frameworks(result.spec.cell.framework for result in stored.results)
    seen: dict[str, int] = {}
    trials = []
    for result, folder in zip(stored.results, stored.folders, strict=True):
        name = result.spec.id  # computed once: it is a digest of the whole spec
        seen[name] = seen.get(name, 0) + 1
        key = name if seen[name] == 1 else f"{name}~{seen[name]}"
        section, named = section_of.get(result.key, 0), stored.named(result.spec.cell.framework)
        trials.append(Trial(result, folder, name, section, key, named, stored.attempts.get(folder)))

    def order(trial: Trial) -> tuple[bool, int, int, int, int]:
        spec = trial.result.spec
        framework = frameworks.index(spec.cell.framework)
        return not trial.section, trial.section, framework, spec.cell.batch_size, spec.draw.repeat

    return sorted(trials, key=order)


def name_section(report: Report, trial: Trial) -> str:
    """Name the trial's section by its number among the chapters of its kind, as headings and findings do."""
    if not trial.section:
        return "replaced by a newer trial"
    place = trial.section - 1
    return f"{report.chapters[place].kind} {report.number(place) or 1}".strip()


def group_by_cell(trials: Sequence[Trial]) -> list[CellRows]:
    """Group the trials of `trials_of` by cell."""
    groups = itertools.groupby(trials, lambda trial: (trial.section, trial.result.spec.cell))
    return [CellRows(f"cell-{number}", tuple(found)) for number, (_, found) in enumerate(groups, 1)]


def make_finder(cells: Sequence[CellRows], sections: Collection[int] = ()) -> Find:
    """Return a function from ids to an address, in these sections if given; unknown ids have none."""
    places: dict[str, list[CellRows]] = {}
    for cell in cells:
        for trial in cell.trials:
            if not sections or trial.section in sections:
                places.setdefault(trial.id, []).append(cell)

    def find(ids: Iterable[str]) -> Address | None:
        found = [cell for name in dict.fromkeys(ids) for cell in places.get(name, [])]
        names = list({cell.id: cell.name for cell in found}.values())
        if len(names) < 2:
            return Address(f"#{found[0].id}") if found else None
        more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
        return Address(f"#{found[0].id}", f"{len(found)} trials: {listed([*names[:MOST_NAMED], *more])}")

    return find


def list_figures(sections: Sequence[Section]) -> list[FigureSpec]:
    """List the figures in the table of trials."""
    shown = dict.fromkeys(quantity.figure(section.condition) for quantity in IN_TABLE for section in sections)
    return [spec for spec in shown if spec]


def build_cell(trial: Trial, spec: FigureSpec) -> TableCell:
    """Build the cell of a figure, with the unit and decimals of its own table."""
    figure = trial.result.figures.get(spec.name)
    if figure is None or figure.value is None or is_withheld(trial.result, spec):
        return TableCell(describe_status(UNKNOWN))
    value = figure.value * spec.factor
    decimals = count_decimals(value) if spec.decimals is None else spec.decimals
    return TableCell(f"{value:z.{decimals}f}", value)


def find_files(trial: Trial, page_folder: Path | None) -> tuple[str, dict[str, str]]:
    """Return (the trial's folder below its results folder, {raw file: its address from the page}).

    There are no addresses if `page_folder` is None, or is neither the results folder, nor in it, nor next to it.
    """
    folder = strip_results_folder(trial.folder)
    if page_folder is None:
        return folder, {}
    path = Path(os.path.relpath(trial.folder.resolve(), page_folder.resolve()))
    if path.parts.count(os.pardir) > 1:
        return folder, {}
    return folder, {name: quote(os.fsencode(f"{path}/{name}")) for name in RAW_FILES if (trial.folder / name).is_file()}
