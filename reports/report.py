"""Define a report on stored results: everything that its page, its Markdown and its files say, in one object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from workloads.setting_words import describe_model

from .charts import Chart
from .conditions import Replaced, Section
from .load import Stored
from .reproduction.claims import TestedClaim
from .reproduction.publication import Article
from .table import Table
from .tables import MEASURED

HOW_TO_READ = (
    "Every framework trained the same model from the same initial weights on the same batches. Custom code has its "
    "own model and weights; its chapters say so.",
    "Each trial ran in a separate process and was measured from outside.",
    "Usage, speed, step time, host memory, power and energy are those of the steady window: full batches, after "
    "compiling and loading have ended. GPU memory is the highest of the whole trial. Import, first step and warm-up "
    'are under "Start-up".',
    "Means are over all samples of the window, including idle ones. Means over the busy samples have a separate table "
    "if they differ.",
    "Accuracy is measured on the test split after the last epoch.",
    "A trial that did not end ok gives no number: its cell says what happened (OOM: out of memory). A contended trial "
    "was disturbed by other processes; it keeps its accuracy and memory. A dash is a figure that could not be "
    "measured; the reason is below the table.",
    "With repeats, a cell is their mean [its 95 % interval].",
    '[1] is a footnote. "noisy": the standard deviation of the repeats is more than 3 % of their mean. "short window": '
    "too few samples.",
    "1 MiB = 2^20 bytes.",
    "Chapters differ in their conditions: do not compare frameworks across chapters.",
)
SIDE_BY_SIDE = """\
Each column is a batch size under one of these conditions. Columns of one row differ in conditions; nothing is \
averaged over them."""
RULES = "What is equalised, what is left at each framework's defaults, and how to correct us:"


@dataclass(frozen=True)
class Chapter:
    """Chapter on one section: trials of the same conditions. Sentences are plain text, without markup.

    A chapter that answers a question by other jobs than trials has a `kind`, the name of its main table and chart. Its
    `answer` has no full stop, and `tested` are the claims that its processes test.
    """

    heading: str
    section: Section | None  # None: answers of a search, which have no trials in common
    setting: str  # the conditions in one line
    conditions: tuple[str, ...]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]  # a line for each missing table, with the reason
    kind: str = ""
    answer: str = ""
    findings: tuple[str, ...] = ()
    unfolded: bool = False  # the page folds none of its tables
    tested: tuple[tuple[Article, TestedClaim], ...] = ()

    @property
    def subject(self) -> str:
        """Name of what was trained."""
        task = self.section.condition.task if self.section else None
        return f"{describe_model(task)} on {task.dataset}" if task else self.heading


@dataclass(frozen=True)
class Summary:
    """Start of the report. Sentences are plain text, generated from the data.

    `about` is the name of the quantity that `headline` is about. `main` is the index of the chapter that headline and
    findings describe, the one with most trials that are ok. It is None if no trial is ok.
    """

    headline: str
    about: str
    ran: tuple[str, ...]  # what was run, on what, when
    findings: tuple[str, ...]  # six at most
    not_verified: tuple[str, ...]  # what these results cannot show, and why
    main: int | None


@dataclass(frozen=True)
class Report:
    """A report. `beside` are tables over several sections, side by side, and `legend` is {letter: heading of its
    chapter}.

    `appendix` are tables of the whole results folder, `remarks` a line for each of those that are missing. `across` are
    tables that compare sections, for the question of a study of several series, after `charts_across`. `problems`:
    {kind: a line each}: trials not ok, checks that failed, unreadable files, and so on.
    """

    stored: Stored
    replaced: tuple[Replaced, ...]
    summary: Summary
    chapters: tuple[Chapter, ...]
    beside: tuple[Table, ...]
    legend: dict[str, str]
    appendix: tuple[Table, ...]
    remarks: tuple[str, ...]
    problems: dict[str, tuple[str, ...]]
    across: tuple[Table, ...] = ()
    charts_across: tuple[Chart, ...] = ()
    how_to_read: tuple[str, ...] = HOW_TO_READ
    rules: str = RULES  # a sentence before the link to them; "" without a link

    @property
    def sections(self) -> list[Section]:
        """Sections of the chapters that have one."""
        return [chapter.section for chapter in self.chapters if chapter.section]

    @cached_property
    def leading(self) -> tuple[Chart, ...]:
        """Charts of the first screen: those across sections if they are about every measured cell, else none."""
        if self.summary.main is None or self.chapters[self.summary.main].kind:
            return ()
        measured = {
            (number, result.spec.cell.framework, result.spec.cell.batch_size)
            for number, chapter in enumerate(self.of_trials, 1)
            for result in (chapter.section.results if chapter.section else ())
            if result.status in MEASURED
        }
        return self.charts_across if measured <= {cell for chart in self.charts_across for cell in chart.cells} else ()

    def numbers(self, chart: Chart) -> set[int]:
        """Return the numbers, among all chapters, of those that a chart across sections is about."""
        places = [number for number, chapter in enumerate(self.chapters, 1) if not chapter.kind]
        return {places[section - 1] for section, _, _ in chart.cells}

    @property
    def of_trials(self) -> list[Chapter]:
        """Chapters on trials."""
        return [chapter for chapter in self.chapters if not chapter.kind]

    def number(self, place: int) -> int | None:
        """Return the chapter's number among those of its kind, from 1; None if it is the only one."""
        alike = [each for each, chapter in enumerate(self.chapters) if chapter.kind == self.chapters[place].kind]
        return alike.index(place) + 1 if len(alike) > 1 else None
