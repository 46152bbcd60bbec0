"""The index of published reports in Chromium: other publications' claims as a table, and its filters."""

from __future__ import annotations

from pathlib import Path

import made  # noqa: F401  # puts the folder of `stored` on the path
import msgspec
import pytest
from browsing import CHROMIUM, chromium
from stored import trial

from reports.load import Stored
from reports.publishing import index, publication
from reports.publishing.publication import ClaimOutcome

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not driven")
DASH = "\N{EN DASH}"
FLAT, HIGHEST = "{framework}: usage is flat", "At 4 {framework} has the highest usage"


def claim(text: str, framework: str, measured: str, published: str | None = None) -> ClaimOutcome:
    return ClaimOutcome("osu-2020", text, framework, {"table": published}, measured)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The index of three reports; the newest tests no claim."""
    every = [
        claim(FLAT, "pytorch", "holds", "does not hold"),
        claim(FLAT, "pytorch", "uncertain", "does not hold"),
        claim(FLAT, "mxnet", "does not hold", "holds"),
        claim(HIGHEST, "mxnet", "seen in this run"),
    ]
    usual = publication.build_publication(Stored((trial(), trial("mxnet")), (), (), ()), "usual")
    for name, day, machine, claims in (
        ("a", "2025-01-01", "<i>EPYC</i>", every),
        ("b", "2025-02-01", "Xeon", every[2:3]),
        ("c", "2025-03-01", "Xeon", []),
    ):
        told = {"name": name, "first_day": day, "machines": [machine], "claims": claims, "headline": f"Found {name}"}
        facts = msgspec.structs.replace(usual, **told, articles={"osu-2020": "A <thesis>"} if claims else {})
        (tmp_path / name).mkdir()
        (tmp_path / name / publication.FILE).write_text(publication.format_publication(facts))
        assert publication.read(tmp_path / name / publication.FILE) == facts
        (tmp_path / name / "report.html").touch()
    assert index.write(tmp_path) == []
    return tmp_path / index.INDEX


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_each_claim_is_a_row_with_a_column_for_each_framework_and_filters_leave_what_was_asked_for(
    published: Path, width: int, height: int
) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": height})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(published.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("th").all_inner_texts() == [
            "Article", "Claim", "Published figures", "PyTorch", "MXNet", "Report",
        ]  # fmt: skip

        def rows() -> list[list[str]]:
            shown = page.locator("tbody tr:visible").all()
            return [row.locator("td").all_inner_texts() for row in shown]

        every = [
            ["osu-2020", "Usage is flat", "table: holds", DASH, "does not hold", "quick, 2025-02-01"],
            [
                "osu-2020", "Usage is flat", "table: does not hold (PyTorch), holds (MXNet)",
                "holds / uncertain", "does not hold",
                "quick, 2025-01-01",
            ],
            ["osu-2020", "At 4 MXNet has the highest usage", DASH, DASH, "seen in this run",
             "quick, 2025-01-01"],
        ]  # fmt: skip
        assert rows() == every
        page.select_option("select[name=machine]", "<i>EPYC</i>")
        assert rows() == every[1:]
        assert page.locator("article:visible h2").all_inner_texts() == ["Found a"]
        page.select_option("select[name=machine]", "Xeon")
        assert rows() == every[:1]
        assert page.locator("article:visible h2").all_inner_texts() == ["Found c", "Found b"]
        page.select_option("select[name=machine]", "")
        assert rows() == every
        assert "osu-2020: A <thesis>" in page.locator("main > ul").last.inner_text()
        page.locator("tbody a").first.click()
        assert page.url.endswith("/b/report.html")
        assert said == []


def test_without_javascript_all_is_there_and_no_filter_that_would_do_nothing(published: Path) -> None:
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(published.as_uri())
        assert page.locator("tbody tr:visible").count() == 3
        assert page.locator("select:visible").count() == 0
