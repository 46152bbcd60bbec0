"""A report where another family of fonts is the only one, and the caller's matplotlibrc asks for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import matplotlib
import pytest
from browsing import CHROMIUM, chromium
from conftest import ROOT
from made import neighbours

FAMILY = "STIXGeneral"  # with serifs; it comes with matplotlib
WORDS = ("TensorFlow", "PyTorch", "Training speed, images/s", "Batch size, images")


def letters(file: Path) -> str:
    """Read the text of a PDF without spaces; ligatures become their letters."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: requirements-test.txt")
    text = "".join(sheet.extract_text() for sheet in pypdf.PdfReader(file).pages)
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


@pytest.fixture(scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of fontconfig that has FAMILY and nothing else."""
    folder = tmp_path_factory.mktemp("fonts")
    (folder / "family").mkdir()
    for path in (Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob(f"{FAMILY}*.ttf"):
        shutil.copy(path, folder / "family")
    assert list((folder / "family").iterdir())
    directories = f"<dir>{folder / 'family'}</dir><cachedir>{folder / 'cache'}</cachedir>"
    (folder / "fonts.conf").write_text(f'<?xml version="1.0"?><fontconfig>{directories}</fontconfig>')
    return folder / "fonts.conf"


@pytest.fixture(scope="module")
def report(fonts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a report that was made with these fonts."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "matplotlibrc").write_text(f"font.family: {FAMILY}\n")
    neighbours(folder / "results")
    done = subprocess.run(
        [sys.executable, "-m", "reports", "results", "--format", "html"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "FONTCONFIG_FILE": str(fonts)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder / "results" / "report" / "report.html"


@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not printed")
def test_a_page_printed_with_another_font_has_all_text(report: Path, fonts: Path, tmp_path: Path) -> None:
    with chromium(FONTCONFIG_FILE=str(fonts)) as browser:
        page = browser.new_page()
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready]")
        titles = page.locator("main :is(h2, h3, h4):not(.unseen)").all_inner_texts()
        page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert FAMILY.encode() in (tmp_path / "report.pdf").read_bytes(), "the font was not used"
    text = letters(tmp_path / "report.pdf")
    wanted = [re.sub(r"\s+", "", unicodedata.normalize("NFKC", title)) for title in (*WORDS, *titles)]
    assert titles and [word for word in wanted if word not in text] == []
