"""python -m reports site DIR... --out site/: one static page over publications and results folders."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from urllib.parse import quote

from workloads.command_line import CommandLine
from workloads.records.job import ROOMS, Kind
from workloads.temporary import temporary_folder
from workloads.words import format_count

from .. import build, export, load
from ..load import ReportError, Stored
from ..publishing import archive, publication
from ..publishing.contents import RESULTS
from ..submitting.labels import ENDING, Label, read_labels
from .cells import Source, build_data

TEMPLATES = Path(__file__).parent
SHOWN = (*load.OF_JOBS, ROOMS[Kind.STEPS])  # rooms of results that a page can be built of
PAGE, MARK = "index.html", "batchwise-site.json"  # MARK lists what this command wrote: it replaces nothing else


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports site`."""
    parser = CommandLine(prog="python -m reports site", description="Build one static page over many results.")
    parser.add_argument("results", type=Path, nargs="+", metavar="DIR",
                        help="results folders, publications or submissions, or a folder of them")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("site"), metavar="SITE",
                        help="a new folder, or one that this command wrote before (default: site)")  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0, or 2 if nothing was written, with one line on stderr."""
    options = build_parser().parse_args(arguments)
    try:
        count = write(_find_folders(options.results), options.out)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    print(f"{format_count(count, 'cell')}: {options.out / PAGE}", flush=True)
    return 0


def _find_folders(given: Sequence[Path]) -> list[Path]:
    """Replace a folder of results, publications or submissions by these. Raises ReportError for a missing one."""
    found: list[Path] = []
    for folder in given:
        if not folder.is_dir() and not (folder.is_file() and folder.name.endswith(ENDING)):
            raise ReportError(f"{folder}: no such folder; give results folders, publications or submissions")
        found += archive.list_results(folder, SHOWN, ENDING)
    return list(dict.fromkeys(path.resolve() for path in found))


def write(folders: Sequence[Path], out: Path) -> int:
    """Write the site, all or nothing; returns its number of cells.

    A publication's files are copied. A results folder gets its page built. A line on stderr names each result that
    cannot be read. Raises ReportError if a folder has no result that can be read, two have one name, or `out` holds
    what is not this command's.
    """
    _refuse(folders, out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(f".{out.name}-", out.parent) as stage:
            new = stage / "new"
            new.mkdir()
            sources = [_add_source(folder, new) for folder in folders]
            data = build_data(sources)
            export.write_text(new / PAGE, _render(data))
            export.write_text(new / MARK, json.dumps(sorted(map(_name, folders))) + "\n")
            if out.exists():
                out.rename(stage / "old")
            new.rename(out)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; name another folder with --out") from error
    for source in sources:
        for item in source.stored.unreadable:
            print(f"reports: {source.name}: {item.path}: left out: {item.reason}", file=sys.stderr)
    return len(data["cells"])


def _refuse(folders: Sequence[Path], out: Path) -> None:
    """Raise ReportError for a folder of somebody else's, and for names that the site cannot hold."""
    if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ReportError(f"--out {out}: holds other files; name a new folder")
    inside = [folder for folder in folders if folder.is_relative_to(out.resolve())]
    if inside:
        raise ReportError(f"--out {out}: {inside[0]} lies in it, and would be replaced; name another folder")
    if around := [folder for folder in folders if out.resolve().is_relative_to(folder)]:
        raise ReportError(f"--out {out}: lies in {around[0]}, which is read; name another folder")
    names = [_name(folder) for folder in folders]
    if taken := next((folder for folder in folders if _name(folder) in ("", PAGE, MARK)), None):
        raise ReportError(f"{taken}: the site has a file of this name; rename it")
    if twice := next((folder for folder in folders if names.count(_name(folder)) > 1), None):
        raise ReportError(f"{twice}: two folders are called {_name(twice)}; rename one; the page shows this name")


def _name(folder: Path) -> str:
    return folder.name.removesuffix(ENDING)


def _add_source(folder: Path, site: Path) -> Source:
    """Read a folder or submission, and put its page into the site. Raises ReportError if no result can be read."""
    inner, labels = site / _name(folder), dict[str, Label]()
    published = publication.read_folder(folder)
    if published:
        _copy_publication(folder, inner)
        stored = archive.read_stored(folder, load.read_all)
    elif folder.is_file():
        stored, labels = _write_submission(folder, inner), read_labels(folder)
    else:
        stored = _write_report(folder, inner)
    if stored.unreadable and not stored.results:
        first = stored.unreadable[0]
        raise ReportError(f"{first.path}: {first.reason}; no result of {folder} can be read; leave it out")
    page = f"./{quote(os.fsencode(inner.name))}/{export.MAIN[0]}"  # a name may have a # or a colon
    return Source(inner.name, stored, page, labels, tuple(published.marks) if published else ())


def _copy_publication(folder: Path, into: Path) -> None:
    """Copy the files; links are left out, for they may lead to what is not published."""

    def find_links(inside: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(inside, name).is_symlink()]

    shutil.copytree(folder, into, ignore=find_links, copy_function=shutil.copyfile)
    for each in (into, *filter(Path.is_dir, into.rglob("*"))):
        each.chmod(0o755)  # not the modes of a read-only source, which could not be replaced


def _write_report(results: Path, into: Path) -> Stored:
    """Write the report of a results folder, whose paths begin with its name: those above it are the user's."""
    place = into.resolve()
    with chdir(results.parent):
        report = build.build_report([Path(results.name)])
        export.write(report, place, ("html",))
    return report.stored


def _write_submission(file: Path, into: Path) -> Stored:
    """Write the report of an archive, whose paths are the archive's."""
    with temporary_folder("batchwise-") as stage:
        archive.unpack(file, stage / "unpacked").rename(stage / RESULTS)
        return _write_report(stage / RESULTS, into)


def _render(data: dict[str, object]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    assets = {name: (TEMPLATES / f"site.{name}").read_text(encoding="utf-8") for name in ("css", "js")}
    page = environment.get_template("site.html.j2")
    return page.render(data=data, content=content.replace("<", "\\u003c"), **assets) + "\n"
