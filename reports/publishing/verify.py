"""Check a publication: its checksums, its trials recomputed, and its page and facts rebuilt from its archive.

A page is compared as a whole if this version of the reports built it. For a page of another version only the figures in
its tables are compared, because its sentences may differ.
"""

from __future__ import annotations

import html
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from workloads.datasets import file_digest
from workloads.temporary import temporary_folder
from workloads.words import format_count

from .. import caveats, export, load
from ..checking.completeness import find_obstacles
from ..load import ReportError, Stored
from . import archive, contents, page_tables, publication
from .archive import ARCHIVE, CHECKSUMS, find_changed_files
from .publication import Publication, digest_reports

PAGE = export.MAIN[0]
RULES = export.RULES.name
# Facts of the trials that are the same in any version; the others are sentences, or names that versions may change.
PLAIN = ("first_day", "last_day", "studies", "trials", "commits")
GIVEN = ("name", "published_day", "marks", "authors", "given_title", "doi", "url", "schema_version")  # not computed
SHOWN, BEFORE = 80, 30  # characters shown of a difference, and of these before it
PIXEL_LEVELS, MOST_PIXELS = 64, 20  # of 255: rounding changes less; a changed digit changes more pixels, and by more


@dataclass
class Verified:
    """Findings about a publication, notes that are not findings, and what was checked."""

    subject: str
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(folder: Path) -> Verified:
    """Check the publication in `folder`. Raises OSError if its checksums cannot be read."""
    seen = Verified(f"{folder}: {CHECKSUMS}", find_changed_files(folder))
    try:
        facts = publication.read(folder / publication.FILE)
    except ValueError as error:
        seen.findings.append(f"{folder / publication.FILE}: {error}")
        return seen
    with temporary_folder("batchwise-") as stage:
        try:
            unpacked = archive.unpack(folder / ARCHIVE, stage / "unpacked")
            unpacked.rename(stage / contents.RESULTS)
            _Check(folder, facts, seen).run(stage)
        except ReportError as error:
            seen.findings.append(f"{folder / ARCHIVE}: {error}")
    return seen


@dataclass(frozen=True)
class _Check:
    folder: Path  # as named in findings
    facts: Publication
    seen: Verified

    def run(self, stage: Path) -> None:
        """Check the results in `stage`. Raises ReportError."""
        place = self.folder.resolve()
        with chdir(stage):  # makes every path in the page the archive's
            stored = load.read_all(contents.RESULTS)
            self.seen.subject += f", {caveats.tally(stored)}"
            self._trials(stored)
            built = Path(tempfile.mkdtemp(dir=stage))
            whole = self.facts.built_by == digest_reports()
            formats = contents.FORMATS if whole else ("html",)
            said = contents.write_report(built, tuple(self.facts.marks), formats)
            again = publication.build_publication(stored, self.facts.name, said, self.facts.marks)
            again = msgspec.structs.replace(again, **{name: getattr(self.facts, name) for name in GIVEN})
            export.write_text(built / contents.INPUTS, contents.format_inputs(stored))
            if whole:
                for name, text in contents.build_texts(again, file_digest(place / ARCHIVE, "sha256")).items():
                    export.write_text(built / name, text)
        self._facts(again, whole)
        if whole:
            self._files(place, built)
        else:
            self._older(place, built)

    def _trials(self, stored: Stored) -> None:
        marks = " ".join(self.facts.marks)
        for obstacle in find_obstacles(stored, contents.RESULTS):
            if obstacle.sentence in marks:
                self.seen.notes.append(f"{self.folder}: published with this, and its page says so: {obstacle.sentence}")
            else:
                self.seen.findings += [f"{self.folder / ARCHIVE}: {line}" for line in obstacle.lines]

    def _facts(self, again: Publication, whole: bool) -> None:
        was, now = msgspec.to_builtins(self.facts), msgspec.to_builtins(again)
        for name in (name for name in was if name not in (*GIVEN, "built_by") and was[name] != now[name]):
            line = f"{self.folder / publication.FILE}: {name}: {_difference(was[name], now[name])}"
            if whole or name in PLAIN:
                self.seen.findings.append(line)
            else:
                self.seen.notes.append(f"{line}; another version of the reports built it, so this may be right")

    def _files(self, place: Path, built: Path) -> None:
        """Compare every file with the one rebuilt by the same version."""
        named = {line.partition(": ")[0] for line in self.seen.findings}  # files that the checksums already report
        known = {ARCHIVE, CHECKSUMS} | {path.removeprefix(f"{self.folder}/") for path in named}
        made = {path.name for path in built.iterdir()} - known
        there = {path.name for path in place.iterdir()} - known
        for name in sorted(there - made):
            self.seen.findings.append(f"{self.folder / name}: its archive makes no such file")
        for name in sorted(made - there):
            self.seen.findings.append(f"{self.folder / name}: missing, but its archive makes it")
        for name in sorted((made & there) - {publication.FILE}):
            differs = _picture_differs if name.endswith(".png") else _text_differs
            self.seen.findings += [f"{self.folder / name}: {line}" for line in differs(place / name, built / name)]

    def _older(self, place: Path, built: Path) -> None:
        """Compare what all versions have in common: inputs, the headline in the page, and the tables of figures."""
        inputs = _text_differs(place / contents.INPUTS, built / contents.INPUTS)
        self.seen.findings += [f"{self.folder / contents.INPUTS}: {line}" for line in inputs]
        pages = sorted(place.glob("*.html"))
        if not pages:
            self.seen.findings.append(f"{self.folder}: it has no page")
        for published in pages:  # one, whatever an older version called it
            path, page, anew = self.folder / published.name, _read(published), _read(built / PAGE)
            if page == anew:
                continue
            if self.facts.headline not in html.unescape(page):
                self.seen.findings.append(f"{path}: the headline of {publication.FILE} is not in it")
            for mark in (mark for mark in self.facts.marks if mark not in html.unescape(page)):
                self.seen.findings.append(f"{path}: the mark of {publication.FILE} is not in it: {mark}")
            compared = page_tables.compare(page, anew)
            self.seen.findings += [f"{path}: {line}" for line in compared.lines]
            count = format_count(len(compared.apart), "other figure")
            apart = f"; only one of the two has {count}, as {compared.apart[0]}" if compared.apart else ""
            self.seen.notes.append(
                f"{path}: another version of the reports built it: {compared.cells} figures in its tables were "
                f"compared{apart}. Its sentences, charts and pictures were not: publish it again to compare these"
            )


def _difference(was: Any, now: Any) -> str:
    """Describe the first item that differs."""
    if isinstance(was, list) and isinstance(now, list):
        was, now = next(pair for pair in zip_longest(was, now, fillvalue="nothing") if pair[0] != pair[1])
    return _both(str(was), str(now))


def _both(was: str, now: str) -> str:
    """Quote both texts, from shortly before the first character that differs."""
    first = next((place for place, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    start = max(0, first - BEFORE)
    shown = [f"{'...' * bool(start)}{text[start : start + SHOWN]}{'...' * (len(text) > start + SHOWN)}"
             for text in (was, now)]  # fmt: skip
    return f"published: {shown[0]!r}; its archive gives: {shown[1]!r}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _text_differs(published: Path, built: Path) -> Iterator[str]:
    """Yield the first line that differs, with its number."""
    pair: Sequence[list[str]] = [_read(path).splitlines() for path in (published, built)]
    for number, (was, now) in enumerate(zip_longest(*pair, fillvalue="(the file ends)"), start=1):
        if was != now:
            yield f"line {number}: {_both(was, now)}"
            return


def _picture_differs(published: Path, built: Path) -> Iterator[str]:
    """Yield a line if more pixels differ than rounding explains."""
    from PIL import Image, UnidentifiedImageError

    try:
        was, now = (np.asarray(Image.open(path).convert("RGB"), np.int16) for path in (published, built))
    except (OSError, UnidentifiedImageError):
        yield "cannot be read as a picture"
        return
    if was.shape != now.shape:
        yield f"{was.shape[1]} x {was.shape[0]} pixels; its archive gives {now.shape[1]} x {now.shape[0]}"
    elif (pixels := int(np.sum(np.abs(was - now).max(axis=2) > PIXEL_LEVELS))) > MOST_PIXELS:
        yield f"{pixels} pixels differ from the picture that its archive gives"
