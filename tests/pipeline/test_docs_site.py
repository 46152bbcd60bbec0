"""`make docs` builds a site from docs/, and ends at a broken link."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_make_docs_builds_every_page_and_a_broken_link_ends_it(tmp_path: Path) -> None:
    subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    site = ROOT / "build" / "docs"
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages - {Path("README.html")} if not (site / page).is_file()} == set()
    page = site / "guide" / "images.html"
    (outside,) = re.findall(r'href="([^"]*Dockerfile)"', page.read_text(encoding="utf-8"))
    assert (page.parent / outside).resolve() == ROOT / "docker" / "Dockerfile"

    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "tools").mkdir()
    for file in ("mkdocs.yml", "tools/docs_site.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    with (tmp_path / "docs" / "start.md").open("a", encoding="utf-8") as start:
        start.write("[one](guide/nowhere.md) [two](../nowhere.py) [three](README.md#nowhere)\n")
    mkdocs = str(ROOT / ".venv-docs" / "bin" / "mkdocs")
    broken = subprocess.run([mkdocs, "build"], cwd=tmp_path, capture_output=True, text=True)
    assert broken.returncode == 1
    for said in ("'guide/nowhere.md'", "../nowhere.py, which is not in the repository", "'README.md#nowhere'"):
        assert said in broken.stderr
