"""Write a comparison for people: as Markdown, and as a report's page, which loads nothing and needs no script."""

from __future__ import annotations

import re
from collections import Counter

from workloads.statistics import Verdict
from workloads.words import format_count

from .. import markdown
from ..condition_text import format_dates
from ..load import NOTHING
from ..report import Chapter, Report, Summary
from ..web.page import build_page
from . import comparison_tables, headline
from .cell_tests import Untested
from .comparison import Comparison
from .gate import SEVERAL_RUNS, Ruling, say_power
from .sides import Side

WIDTH = 120  # of a table of words


def write_markdown(comparison: Comparison) -> str:
    """Write the whole comparison."""
    parts = [
        f"# Batchwise: {markdown.escape(comparison.pairs[0].against)}",
        markdown.format_bullets(map(markdown.escape, describe_sides(comparison))),
        *_headline(comparison),
        markdown.format_bullets(map(markdown.escape, count_verdicts(comparison))),
        *(
            markdown.format_with_heading(table, "##", WIDTH).strip("\n")
            for table in comparison_tables.build_tables(comparison)
        ),
        "## How to read",
        *(markdown.escape(sentence) for sentence in comparison_tables.HOW),
    ]
    return "\n\n".join(parts) + "\n"


def write_html(comparison: Comparison, ruling: Ruling | None) -> str:
    """Build the report's page of the comparison; `ruling` is shown if there is one."""
    titles = list(dict.fromkeys(compared.pair.title for compared in comparison.pairs))
    described = describe_sides(comparison)
    against = comparison.pairs[0].against
    chapter = Chapter(
        heading=against,
        section=None,
        setting=titles[0] + (f" and {len(titles) - 1} more" if len(titles) > 1 else ""),
        conditions=tuple(described),
        tables=tuple(comparison_tables.build_tables(comparison)),
        charts=tuple(comparison_tables.charts_of(comparison)),
        remarks=(),
        kind="compare",
        unfolded=True,
    )
    found = [
        f"{compared.pair.title}: {sentence}" if len(comparison.pairs) > 1 else sentence
        for compared in comparison.pairs
        for sentence in headline.write_sentences(compared)
    ]
    ruled = (f"{ruling.head}.", *ruling.lines) if ruling else ()
    first = next(iter(headline.write_sentences(comparison.pairs[0])), against)
    findings = (*(f"{sentence}." for sentence in found), *ruled, *count_verdicts(comparison))
    summary = Summary(first, "", (f"{'. '.join(described)}.",), findings, (), 0)
    return build_chapter_page(chapter, summary, comparison_tables.HOW)


def build_chapter_page(chapter: Chapter, summary: Summary, how: tuple[str, ...]) -> str:
    """Build the page of one chapter of comparisons; `how` to read it."""
    return build_page(
        Report(
            stored=NOTHING,
            replaced=(),
            summary=summary,
            chapters=(chapter,),
            beside=(),
            legend={},
            appendix=(),
            remarks=(),
            problems={},
            how_to_read=how,
            rules="",
        )
    )


def count_verdicts(comparison: Comparison) -> list[str]:
    """Return sentences: how many values have which verdict, and what could not be compared."""
    counts = Counter(cell.verdict for cell in comparison.cells)
    ended = Counter(ending.verdict for ending in comparison.endings)
    worse, better = (counts[verdict] + ended[verdict] for verdict in (Verdict.WORSE, Verdict.BETTER))
    values = counts.total() - counts[Untested.NOT_JUDGED] - counts[Untested.NO_VALUE]
    once = counts[Untested.ONE_RUN]
    lines = [
        f"{values - counts[Untested.NOT_TESTED] - once} of {values} values were tested: {worse} worse, {better} better "
        f"in {comparison.names[1]}, "
        f"{counts[Verdict.UNDECIDED]} without a significant difference"
        + (f" (of these, {ended.total()} by how the trials ended)" if ended else "")
        + "."
    ]
    lines += [f"{power}."] if (power := say_power(comparison.tests)) else []
    if once:
        names = " and ".join(dict.fromkeys(c.quantity.name for c in comparison.cells if c.verdict is Untested.ONE_RUN))
        lines.append(
            f"{names.capitalize()}: one run on a side, so a change looks the same as another hour. Intervals contain "
            f"the spread of repeats, not the spread of runs. To decide, {SEVERAL_RUNS}."
        )
    if counts[Untested.NOT_TESTED]:
        lines.append(f"{counts[Untested.NOT_TESTED]} could not be tested; the footnotes of their cells say why.")
    return lines + [f"{line[0].upper()}{line[1:]}." for line in comparison.alone]


def describe_sides(comparison: Comparison) -> list[str]:
    """Describe A and B in plain sentences."""
    return [_side("A", comparison.a), _side("B", comparison.b)]


def _side(name: str, side: Side) -> str:
    stored = side.stored
    runs = f"{format_count(side.runs, 'run')}, " if side.runs > 1 else ""
    trials, dates = format_count(len(stored.results), "trial"), format_dates(stored.results)
    line = f"{name}: {side.name}: {runs}{trials}, started {dates} (UTC)"
    for number, what in (
        (len(stored.unreadable), "unreadable"),
        (len(stored.unfinished), "unfinished"),
        (len(side.replaced), "replaced by a newer one of the same cell"),
    ):
        line += f"; {number} {what}" if number else ""
    return line


def escape_sentence(sentence: str) -> str:
    """Escape for Markdown, whatever the names are; the brackets around numbers are not escaped."""
    return re.sub(r"\\([\[\]])", r"\1", markdown.escape(sentence))


def _headline(comparison: Comparison) -> list[str]:
    """Write sentences on each pair, under its title if there are several."""
    several = len(comparison.pairs) > 1
    lines = []
    for compared in comparison.pairs:
        title = [markdown.escape(f"{compared.pair.title}:")] if several else []
        told = markdown.format_bullets(
            [f"**{escape_sentence(sentence)}.**" for sentence in headline.write_sentences(compared)]
        )
        lines += [*title, told] if told else []
    return lines
