"""Build a Report from results folders: read them, group them into sections, and write a chapter for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import (
    attempts,
    axis_charts,
    blocks,
    caveats,
    chapters,
    condition_text,
    contrast,
    findings,
    learning_rates,
    load,
    section_axes,
    stable,
    target_time,
)
from .batch_size import answers as batch_size
from .conditions import Section, group_into_sections
from .load import ReportError, Stored
from .quantities import QUANTITIES, Quantity
from .report import Chapter, Report, Summary
from .reproduction import claims
from .table import Table


def build_report(
    folders: Sequence[Path],
    columns: bool = False,
    target_accuracy: float | None = None,
    beside: Sequence[str] = (),
    baseline_batch: int | None = None,
) -> Report:
    """Build a report.

    `columns`: sections of differing conditions are shown side by side in one table, in separate columns.
    `target_accuracy`: adds a table of the time to it. `beside`: publications, by name, that are shown whether the task
    fits them or not. `baseline_batch`: batch sizes are compared with this one. Raises ReportError for a folder without
    results, or if no result can be read, or none has the baseline.
    """
    folders = load.list_distinct(folders)
    answers = batch_size.build_chapters(folders)
    stored = _stored(folders) if not answers or load.has_results(*folders, rooms=load.OF_JOBS) else load.NOTHING
    quantities: tuple[Quantity, ...] = QUANTITIES
    if target_accuracy is not None:
        quantities += (target_time.build_quantity(target_accuracy),)
    parts, replaced = group_into_sections(
        result for result, folder in stored.pairs if folder.parent.name != load.BLOCKS
    )
    of_blocks, replaced_processes = blocks.build_chapters(stored)
    answers, replaced = answers + of_blocks, replaced + replaced_processes
    parts = [replace(each, attempts=stored.tried, beside=tuple(beside), named=stored.named) for each in parts]
    if target_accuracy is not None:
        parts = [replace(each, results=target_time.add_times(each.results, target_accuracy)) for each in parts]
    contrast.check_baseline(parts, baseline_batch)
    headings = condition_text.build_headings(parts)
    aside = columns and len(parts) > 1
    lettered = dict(zip(chapters.list_letters(len(parts)), parts, strict=True)) if aside else {}
    side_by_side = chapters.build_side_by_side(lettered, quantities)
    appendix = _appendix(folders, stored)
    every = [
        chapters.build_chapter(section, f"{number}. {heading}", quantities, not aside, baseline_batch)
        for number, (section, heading) in enumerate(zip(parts, headings, strict=True), start=1)
    ]
    remarks = [section_axes.write_remark(section, stored) for section in parts]
    every = [replace(each, conditions=each.conditions + more) for each, more in zip(every, remarks, strict=True)]
    return Report(
        stored,
        tuple(replaced),
        _summary(stored, parts, answers),
        (*answers, *every),
        tuple(table for table in side_by_side if isinstance(table, Table)),
        dict(zip(lettered, headings, strict=False)),
        tuple(table for table in appendix if isinstance(table, Table)),
        tuple(line for line in (*side_by_side, *appendix) if isinstance(line, str)),
        caveats.list_problems(stored, replaced),
        (*claims.tables_across(parts), *learning_rates.build_tables(parts), *section_axes.build_tables(parts)),
        (*learning_rates.build_charts(parts), *axis_charts.build_charts(parts)),
    )


def _appendix(folders: Sequence[Path], stored: Stored) -> list[Table | str]:
    """List the tables and lines after the chapters: repeated attempts, what a folder holds."""
    retried = attempts.build_table(stored.attempts.values())
    return [
        *([retried] if retried else []),
        *(item for folder in folders for item in _of_folder(folder, stored, titled=len(folders) > 1)),
    ]


def _stored(folders: Sequence[Path]) -> Stored:
    """Read the trials and processes of the folders. Raises ReportError if there is no result that can be read."""
    stored = load.read_all(*folders)
    if not stored.results:
        first = stored.unreadable[0]
        all_of_them = f"none of the {len(stored.unreadable)} results can be read"
        raise ReportError(f"{first.path}: {first.reason}; {all_of_them}; run the trials again")
    return stored


def _summary(stored: Stored, parts: Sequence[Section], answers: Sequence[Chapter]) -> Summary:
    """Summarise the trials; answers, from other jobs than trials, come before what is found of these."""
    summary = findings.summarise(stored, parts)
    if not answers:
        return summary
    first = next((chapter for chapter in answers if chapter.findings), answers[0])
    found = [line for chapter in answers for line in chapter.findings]
    about, main = first.kind, answers.index(first)
    if not first.charts and summary.main is not None:  # only trials have charts
        about, main = summary.about, len(answers) + summary.main
    return replace(
        summary,
        headline=first.answer,
        about=about,
        ran=summary.ran if stored.results else (first.setting,),
        findings=(*found, *(summary.findings if parts else ())),
        main=main,
    )


def _of_folder(folder: Path, stored: Stored, titled: bool) -> list[Table | str]:
    """Build the tables of a whole results folder, or a line for each missing one; `titled` after the folder."""
    ending = f", {folder}" if titled else ""
    item = stable.build_table(folder, stored.named)
    return [] if not item else [replace(item, title=item.title + ending) if isinstance(item, Table) else item]
