"""A report over stored results: everything that its page, its Markdown and its files say, in one object."""

from __future__ import annotations

from dataclasses import dataclass

from .charts import Chart
from .conditions import Replaced, Section
from .load import Stored
from .table import Table

HOW_TO_READ = """\
Every framework trained the same model from the same initial weights on the same batches (own code has a model and \
weights of its own, and its chapters say so); each trial ran in a \
process of its own and was measured from outside. Usage, speed, step time, host memory, power and energy come \
from the steady window, full batches when nothing is compiled or loaded any more; GPU memory is the highest of the \
whole trial; what import, first step and warm-up took is under "Start-up". Means are \
over all samples of the window, idle ones included; those over the busy samples alone have a table of their own. \
Accuracy is that of the test split after the last epoch. Only trials that ended ok give numbers; any other cell \
names what happened (OOM: out of memory), and a dash means that the figure could not be measured, with the reason \
below the table. With repeats a cell is their median [95 % interval of their mean]. A footnote is marked [1]: "noisy" \
is a cell whose repeats' standard deviation is more than 3 % of their mean, "short window" one with too few samples. \
1 MiB = 2^20 bytes. Chapters differ in their conditions: numbers of different chapters are not a comparison of \
frameworks."""
SIDE_BY_SIDE = """\
Each column is a batch size under one of these conditions. Differences between columns of one row are of conditions; \
nothing is averaged over them."""
RULES = "What is equalised, what is left at each framework's defaults, and how to correct us:"


@dataclass(frozen=True)
class Chapter:
    """One section: trials of the same conditions. Sentences are plain text, no markup."""

    heading: str
    section: Section
    conditions: tuple[str, ...]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]  # a line for each table that could not be made, and why


@dataclass(frozen=True)
class Summary:
    """What comes first. Sentences are plain text, generated from the data."""

    ran: tuple[str, ...]  # what was run, on what, when
    findings: tuple[str, ...]  # five at most
    not_verified: tuple[str, ...]  # what these results cannot say, and why


@dataclass(frozen=True)
class Report:
    """`beside` are tables over several sections, side by side, and `legend` {letter: the heading of the
    chapter it stands for};
    `appendix` are tables of the whole results folder, `remarks` a line for each of those that could not be made.

    `problems`: {what kind: a line each}: trials not ok, checks that failed, unreadable files, and so on.
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

    def _repr_markdown_(self) -> str:
        """As a notebook shows it: all but the charts."""
        from . import markdown  # it reads this module

        return markdown.page(self, (), {})
