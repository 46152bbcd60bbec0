"""Write the files of a report: report.md, the page, every table and chart in the formats asked for."""

from __future__ import annotations

import fcntl
import gc
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pandas as pd

from workloads import lifeline
from workloads.records.files import without_nan
from workloads.temporary import temporary_folder

from . import markdown, trial_rows
from .charts import Chart
from .drawing import figures, inline, sizes
from .drawing.sizes import Layout
from .latex import build_files as latex_files
from .load import ReportError
from .report import Report
from .table import Placed, format_csv
from .web import page as web

OF_TABLES = ("md", "csv", "parquet", "json", "latex")
OF_TRIALS = ("csv", "parquet")
OF_CHARTS = figures.FORMATS
FORMATS = ("html", *OF_TABLES, *OF_CHARTS)
USUAL = ("html", "md", "csv", "png", "svg")
RULES = Path(__file__).parent.parent / "RULES.md"
MAIN = ("report.html", "report.md")
OBJECTS_OF_DRAWINGS = 200_000  # some figures of matplotlib; collecting sooner takes a sixth of the time of drawing
LIST_FILE = "FILES.txt"  # the report's files; the next report into the same folder removes them first


def write(
    report: Report,
    out: Path,
    formats: Sequence[str] = USUAL,
    marks: tuple[str, ...] = (),
    layout: Layout = sizes.USUAL,
    archive: str = "",
) -> list[Path]:
    """Write the report into `out` and remove an earlier one; returns its main files.

    `formats` are some of FORMATS. `marks` are sentences placed first in report.md and the page. `layout` says which
    pictures are drawn, and how. `archive` is the file next to the page that holds the raw trials; without one the page
    links to those near it. Raises ReportError if the rules are missing, or `out` is not writable.
    """
    rules = _rules()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with lock_folder(out), temporary_folder(".report-", out) as part:
            page = partial(web.build_page, report, marks, folder=out, archive=archive)
            _write(report, part, formats, marks, layout, page)
            (part / RULES.name).write_bytes(rules)
            names = sorted(path.name for path in part.iterdir())
            write_text(part / LIST_FILE, "".join(f"{name}\n" for name in names))
            _remove_earlier(out)
            for name in (*names, LIST_FILE):
                (part / name).replace(out / name)
    except BrokenProcessPool as error:
        raise ReportError(f"{out}: a process that drew charts was killed; the system's log may say why") from error
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error
    return [out / name for name in MAIN if name in names]


def _rules() -> bytes:
    try:
        return RULES.read_bytes()
    except OSError as error:
        advice = "a report needs its rules; take the file from the repository"
        raise ReportError(f"{RULES}: cannot be read: {error.strerror}; {advice}") from error


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock the folder so that only one report is written into it at a time.

    Two runs on different devices that share the folder each end with a report.
    """
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems, such as NFS, cannot lock a folder
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(
    report: Report,
    out: Path,
    formats: Sequence[str],
    marks: tuple[str, ...],
    layout: Layout,
    page: Callable[[Mapping[str, str]], str],
) -> None:
    """Write all files but the rules; `page` builds the page with its pictures."""
    _write_tables(report, out, formats)
    if report.stored.results and (of_trials := [kind for kind in OF_TRIALS if kind in formats]):
        trials = trial_rows.build_frame(report.stored)
        for kind in of_trials:
            _write_frame(trials, out / f"{trial_rows.NAME}.{kind}", kind)
    kinds = [kind for kind in OF_CHARTS if kind in formats]
    pictures = _pictures(report, layout.stems) if kinds else {}
    drawings = web.list_drawings(report) if "html" in formats else []
    looks = web.choose_looks(report)
    if pictures or drawings:
        figures.preload()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # on macOS
    forked = multiprocessing.get_context("fork")
    # Processes, because drawing takes most of a report's time.
    workers = min(cores, len(pictures) + len(drawings)) or 1
    with ProcessPoolExecutor(workers, forked, _draw_for, (os.getpid(),)) as pool:
        inlined = {drawing.id: pool.submit(inline.draw, drawing) for drawing in drawings}
        drawn = [
            pool.submit(figures.draw, chart, out / stem, kinds, layout, looks) for chart, stem in pictures.values()
        ]
        if "html" in formats:
            write_text(out / "report.html", page({name: drawing.result() for name, drawing in inlined.items()}))
        if "md" in formats:
            shown = {key: f"{stem}.{kinds[0]}" for key, (_, stem) in pictures.items()}
            write_text(out / "report.md", markdown.format_page(report, marks, shown, layout.bare))
        for job in drawn:
            job.result()


def _draw_for(reporter: int) -> None:
    """Prepare a process that draws charts.

    It ends with the process that started it. Garbage collection frees its drawings after a few of them, but skips the
    report, which the processes share.
    """
    lifeline.die_with_parent(reporter)
    gc.freeze()
    gc.set_threshold(OBJECTS_OF_DRAWINGS)
    gc.enable()


def _tables(report: Report) -> Iterator[Placed]:
    """Yield every table with a unique stem; those of several chapters of one kind are numbered."""
    lettered = zip(report.legend, report.of_trials, strict=False)  # no letters if there are no tables side by side
    legend = tuple(f"{letter}: {line}" for letter, chapter in lettered for line in chapter.conditions)
    for table in report.beside:
        yield Placed(table, table.name, legend)
    for table in report.across:
        yield Placed(table, table.name, ())
    for place, chapter in enumerate(report.chapters):
        number = report.number(place)
        for table in chapter.tables:
            yield Placed(table, f"{table.name}-{number}" if number else table.name, chapter.conditions, number)
    seen: Counter[str] = Counter()
    for table in report.appendix:
        seen[table.name] += 1
        yield Placed(table, f"{table.name}-{seen[table.name]}" if seen[table.name] > 1 else table.name, ())


def _write_tables(report: Report, out: Path, formats: Sequence[str]) -> None:
    placed = list(_tables(report))
    for one in placed:
        for kind in OF_TABLES:
            if kind in formats and kind != "latex":
                write_table(one, out / f"{one.stem}.{kind}", kind)
    if "latex" in formats:
        for name, text in latex_files(placed, {each.heading: each.conditions for each in report.chapters}).items():
            write_text(out / name, text)


def write_table(placed: Placed, file: Path, kind: str) -> None:
    """Write a table in one format."""
    table = placed.table
    match kind:
        case "md":
            listed = markdown.format_bullets(map(markdown.escape, placed.conditions))
            write_text(file, f"{markdown.format_with_heading(table)}\n{listed}\n")
        case "csv" | "parquet":
            _write_frame(table.tidy, file, kind)
        case "json":
            rows = table.tidy.astype(object).where(table.tidy.notna(), None)  # null is the one unknown of JSON
            data = {
                "name": table.name,
                "title": table.title,
                "conditions": placed.conditions,
                "how_to_read": table.below,
                "notes": list(table.notes),
                "rows": rows.to_dict("records"),
            }
            write_text(file, json.dumps(without_nan(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _write_frame(frame: pd.DataFrame, file: Path, kind: str) -> None:
    """Write a data frame as CSV or Parquet."""
    if kind == "csv":
        write_text(file, format_csv(frame))
    else:
        frame.to_parquet(file, index=False)


def _pictures(report: Report, stems: Collection[str] | None) -> dict[tuple[int, str], tuple[Chart, str]]:
    """Map {(chapter's index, chart's name): (chart, stem of its files)}, for the `stems` to be drawn, or all.

    The index is -1 for charts across chapters.
    """
    across = {(-1, chart.name): (chart, chart.name) for chart in report.charts_across}
    return {key: found for key, found in across.items() if stems is None or found[1] in stems} | {
        (place, chart.name): (chart, stem)
        for place, chapter in enumerate(report.chapters)
        for chart in chapter.charts
        if (stem := f"{chart.name}-{number}" if (number := report.number(place)) else chart.name)
        and (stems is None or stem in stems)
    }


def _remove_earlier(out: Path) -> None:
    try:
        names = (out / LIST_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    for name in names:
        if name == Path(name).name:  # nothing outside this folder, whoever wrote the list
            (out / name).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; characters that it cannot encode become question marks."""
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
