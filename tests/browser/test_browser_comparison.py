"""The page of a comparison in Chromium: on a phone and a desk, light and dark, without JavaScript."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import made  # noqa: F401  # puts the folder of `stored` on the path
import pytest
from browsing import CHROMIUM, chromium
from stored import store, study

from reports.comparing import pages
from reports.comparing.comparison import compare

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not driven")
LATER = "2025-11-22T10:00:00+00:00"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_the_page_of_a_comparison_fits_its_screen_shows_its_charts_and_reports_no_error(
    tmp_path: Path, scheme: Literal["light", "dark"], width: int, height: int
) -> None:
    a = store(tmp_path / "a", *study(2))
    b = store(tmp_path / "b", *(replace(result, started_at=LATER) for result in study(2)))
    path = tmp_path / "compare.html"
    path.write_text(pages.write_html(compare(a, b), None), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.partition(":")[0]))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        drawn = page.evaluate(
            "[...document.querySelectorAll('.chart > svg')].map(i => i.getBoundingClientRect().width)"
        )
        assert len(drawn) == 2
        assert all(0 < shown <= width for shown in drawn)
        assert said == []
        assert set(asked) <= {"file", "data"}
