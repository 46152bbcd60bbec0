"""The reports published in this repository are what their archives produce."""

from __future__ import annotations

import hashlib
import html
import re
from contextlib import chdir
from pathlib import Path

import pytest
import yaml

from reports import load
from reports.publishing import archive, contents, publication, publish, verify
from reports.publishing.archive import CHECKSUMS
from reports.publishing.publish import list_obstacles

pytestmark = pytest.mark.slow

FOLDERS = sorted(path.parent for path in publish.INTO.glob(f"*/{publication.FILE}"))
SMALLEST = sorted(FOLDERS, key=lambda folder: (folder / archive.ARCHIVE).stat().st_size)[:2]  # seconds each


def pages(folder: Path) -> list[Path]:
    found = list(folder.glob("*.html"))
    assert found
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_published_report_that_is_not_complete_and_whole_says_so_wherever_it_is_met(
    folder: Path, tmp_path: Path
) -> None:
    archive.unpack(folder / archive.ARCHIVE, tmp_path)
    with chdir(tmp_path):
        lacking = list_obstacles(load.read_all(contents.RESULTS), contents.RESULTS)
    marks = publication.read(folder / publication.FILE).marks
    assert bool(marks) == bool(lacking), lacking
    told = yaml.safe_load((folder / "CITATION.cff").read_text())
    index = html.unescape((folder.parent / "index.html").read_text())
    for mark in marks:
        assert all(reason in mark for reason in lacking)
        assert mark in told["message"] and mark in told["abstract"]
        assert mark in index
        assert all(mark in html.unescape(page.read_text()) for page in pages(folder))


@pytest.mark.parametrize("folder", SMALLEST, ids=lambda folder: folder.name)
def test_the_check_builds_a_published_report_again_and_finds_nothing(folder: Path) -> None:
    seen = verify.verify(folder)
    assert seen.findings == []
    assert " trials: " in seen.subject


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_checksums_of_a_published_report_hold(folder: Path) -> None:
    lines = (folder / CHECKSUMS).read_text().splitlines()
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert {line.partition("  ")[2]: line.partition("  ")[0] for line in lines} == {
        name: digest for name, digest in sums.items() if name != CHECKSUMS
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_published_report_in_the_repository_holds_no_file_that_its_archive_can_make_again(folder: Path) -> None:
    shown = publication.read(folder / publication.FILE).picture
    of_one_chapter = {f"{name}.png" for name in (*contents.CHARTS, "powers-of-two")}
    pictures = of_one_chapter if shown in of_one_chapter else {shown}
    texts = {*(page.name for page in pages(folder)), "RULES.md", "CITATION.cff", "citation.bib", publication.FILE}
    fixed = {archive.ARCHIVE, contents.INPUTS, CHECKSUMS} | texts
    names = {path.name for path in folder.iterdir()}
    assert fixed <= names <= fixed | pictures
    assert not shown or shown in names


def test_every_link_of_the_index_and_of_a_published_page_leads_to_a_file_that_is_there() -> None:
    assert FOLDERS
    index = publish.INTO / "index.html"
    for page in (index, *(page for folder in FOLDERS for page in pages(folder))):
        links = set(re.findall(r'<a [^>]*href="([^"#:{}$`]+)"', page.read_text()))
        assert links or page.name not in ("index.html", "report.html")
        assert [link for link in links if not (page.parent / link).is_file()] == []
