"""The page in a real browser: what a reader can do with it, by mouse, by keyboard, on paper, on a phone, unscripted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import CHROMIUM, chromium, opened_in_s
from made import many, neighbours, report, small_results
from stored import store, study

from reports.web import page as web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not driven")

USAGE = "#s1-usage"
READY = "html[data-ready]"
UNFOLD = """parts => document.querySelectorAll(parts).forEach((part) => {
  for (let fold = part.closest(".fold"); fold; fold = fold.parentElement.closest(".fold")) fold.open = true;
})"""
TRIALS = "#trials .all"
ROWS = f"{TRIALS} tbody tr"
MARK = "These results come from a tree that was not clean."
BATCH_SIZES = ("4", "8", "16", "32", "64", "128", "256", "512", "1024")


def write(path: Path, results: Path, marks: tuple[str, ...] = ()) -> Path:
    path.write_text(web.build_page(report(results), marks, folder=path.parent), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write report.html of `small_results`."""
    folder = tmp_path_factory.mktemp("page")
    return write(folder / "report.html", small_results(folder / "results"), (MARK,))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, written: Path) -> Iterator[Callable[..., Page]]:
    """open(address, unfolded, **of the browser context) -> page; no page may complain or ask for anything but itself.

    The folds around the parts that `unfolded` selects are opened.
    """
    contexts, complaints, asked = [], [], []

    def open_page(address: str = "", unfolded: str = ".fold *", **settings: Any) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(written.as_uri() + address)
        if settings.get("java_script_enabled", True):
            page.wait_for_selector(READY)
        if unfolded:
            page.evaluate(UNFOLD, unfolded)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} == {written.as_uri()}


def column(page: Page, table: str, number: int) -> list[str]:
    return page.locator(f"{table} tbody tr:visible > :nth-child({number})").all_inner_texts()


def labels(page: Page, chart: str) -> list[str]:
    """Return the texts of the drawing: its axes' labels."""
    return page.locator(f"{chart} .chart text:visible").all_text_contents()


def key_of(text: str) -> tuple[int, float]:
    """Sort key: numbers before words."""
    found = re.match(r"-?[\d.]+", text)
    return (0, float(found[0])) if found else (1, 0.0)


def test_a_heading_sorts_by_number_both_ways_and_says_so(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=USAGE)
    table = f"{USAGE} table"
    published = column(page, table, 1)
    heading = page.locator(f"{table} thead th:nth-child(2)")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column(page, table, 2) == sorted(column(page, table, 2), key=key_of)
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    numbers = [number for rank, number in map(key_of, column(page, table, 2)) if rank == 0]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 3
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "none"
    assert column(page, table, 1) == published


def test_the_filter_of_all_trials_shows_what_was_asked_for_and_how_many(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=TRIALS)
    page.get_by_label("Filter rows").last.fill("pytorch 128")
    assert [name[:20] for name in column(page, TRIALS, 1)] == ["pytorch-cpu-b00128-r"] * 2
    assert page.locator("#trials .count").inner_text() == "2 of 54 rows"


def test_a_place_of_a_chart_says_its_values_with_their_intervals(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=f"{USAGE}-chart")
    places = page.locator(f"{USAGE}-chart .points g")
    assert places.count() == len(BATCH_SIZES)
    told = places.last.locator("title").text_content() or ""
    # TensorFlow at 1024: 99 and 100 %, mean 99.5, -+ Student's t: 12.706 * 0.7071 / sqrt(2) = 6.35, cut at 100 %.
    assert told.splitlines()[:2] == ["Batch size, images: 1024", "TensorFlow: 99.5 [93.1, 100]"]
    box, drawing = places.last.locator("rect").bounding_box(), page.locator(f"{USAGE}-chart svg").bounding_box()
    assert box and drawing and drawing["x"] < box["x"] < box["x"] + box["width"] <= drawing["x"] + drawing["width"]


def centre(part: Locator) -> tuple[float, float]:
    box = part.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("scripts", [True, False])
def test_a_point_of_a_chart_lies_on_its_marker_and_leads_to_its_trials(
    opened: Callable[..., Page], scripts: bool
) -> None:
    page = opened(unfolded="", java_script_enabled=scripts)
    point = page.locator("#s1-speed-chart .points a[aria-label='PyTorch, 128'] circle")
    markers = page.locator("#s1-speed-chart [data-f='1'] use").all()
    (x, y), centres = centre(point), [centre(marker) for marker in markers]
    assert min(abs(x - left) + abs(y - top) for left, top in centres) < 1.5
    page.mouse.click(x, y)
    page.wait_for_url(re.compile("#cell-"))
    rows = page.locator("tbody:target tr")
    assert [name[:20] for name in rows.locator("th").all_inner_texts()] == ["pytorch-cpu-b00128-r"] * 2
    assert rows.first.is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_framework_that_is_switched_off_leaves_every_chart_and_table_and_comes_back(
    opened: Callable[..., Page], scripts: bool
) -> None:
    page = opened(unfolded=f"{USAGE}, {TRIALS}, #s1-memory-shares-chart", java_script_enabled=scripts)
    before = labels(page, "#s1-speed-chart")
    panels = labels(page, "#s1-memory-shares-chart")
    points = page.locator("#s1-speed-chart .points a:visible").count()
    assert {"TensorFlow", "PyTorch", "MXNet"} <= {*before} & {*panels}
    box = page.get_by_role("checkbox", name="PyTorch")
    box.focus()
    page.keyboard.press("Space")
    assert "PyTorch" not in column(page, USAGE, 1) and page.locator("#s1-speed tbody tr:visible").count() == 3
    assert [text for text in before if text != "PyTorch"] == labels(page, "#s1-speed-chart")
    assert {"TensorFlow", "MXNet"} <= {*labels(page, "#s1-memory-shares-chart")} <= {*panels} - {"PyTorch"}
    assert page.locator("#s1-speed-chart .points a:visible").count() == points - 9
    assert all("pytorch" not in text for text in column(page, TRIALS, 1))
    assert page.locator(".switches .status").inner_text() == "PyTorch is left out of charts and tables."
    box.check()
    assert labels(page, "#s1-speed-chart") == before and page.locator(".switches .status").is_hidden()


def test_neighbouring_batch_sizes_stand_evenly_and_each_leads_to_its_own_trials(
    browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(write(tmp_path / "report.html", neighbours(tmp_path / "results")).as_uri())
    chart, sizes = "#s1-speed-chart", ["100", "127", "128", "129"]
    assert [text for text in labels(page, chart) if text in sizes] == sizes
    assert "Batch size, images (evenly spaced)" in labels(page, chart)
    places = page.locator(f"{chart} .points g").all()
    told = [(place.locator("title").text_content() or "").splitlines()[0] for place in places]
    assert told == [f"Batch size, images: {size}" for size in sizes]
    texts = (page.locator(f"{chart} text", has_text=re.compile(f"^{size}$")).last for size in sizes)
    middles = [box["x"] + box["width"] / 2 for text in texts if (box := text.bounding_box())]
    steps = [right - left for left, right in pairwise(middles)]
    assert max(steps) - min(steps) < 2
    places[-1].locator("circle").last.click()
    names = page.locator("tbody:target th").all_inner_texts()
    assert names and all("-b00129-" in name for name in names)
    page.evaluate(UNFOLD, "#s1-accuracy-chart")
    assert "Test accuracy, %" in labels(page, "#s1-accuracy-chart")
    assert "(axis does not start at 0)" in labels(page, "#s1-accuracy-chart")
    page.close()


@pytest.mark.parametrize("width", [320, 390, 1440])
def test_every_tick_below_a_chart_has_its_label(opened: Callable[..., Page], width: int) -> None:
    page = opened(unfolded=f"{USAGE}-chart, #s1-memory-split-chart", viewport={"width": width, "height": 900})
    for chart in (f"{USAGE}-chart", "#s1-memory-split-chart"):
        assert {text for text in labels(page, chart) if text in BATCH_SIZES} == {*BATCH_SIZES}
        boxes = page.locator(f"{chart} .chart text", has_text=re.compile(r"^\d+$")).all()
        edges = [box for box in (one.bounding_box() for one in boxes) if box]
        for one, other in combinations(edges, 2):
            across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
            down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
            assert min(across, down) <= 1, (one, other)


def test_the_table_of_all_trials_says_what_the_other_tables_say(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=TRIALS)
    page.get_by_label("Filter rows").last.fill("mxnet 512")
    place = page.locator(f"{TRIALS} thead th").all_inner_texts().index("Training speed, images/s")
    # 512 images in 0.002 + 0.0002 * 512 * 1.4 s, and one image/s more in the second repeat.
    assert column(page, TRIALS, place + 1) == ["3522", "3523"]


def test_a_line_of_a_problem_leads_to_its_trial(opened: Callable[..., Page]) -> None:
    page = opened(unfolded="#problems li")
    page.locator("#problems a", has_text="mxnet-cpu-b01024-r0").first.click()
    assert "out of memory: the device has 16 GiB" in page.locator("tr:target").inner_text()
    assert page.locator("tr:target td").nth(-2).inner_text() == "\N{EN DASH}", "no number"


def test_a_number_leads_to_its_trials_and_each_to_its_files(opened: Callable[..., Page], written: Path) -> None:
    page = opened(unfolded=USAGE)
    page.locator(f"{USAGE} tbody tr", has_text="PyTorch").locator("td > a").first.click()
    rows = page.locator("tbody:target tr")
    assert [name[:20] for name in rows.locator("th").all_inner_texts()] == ["pytorch-cpu-b00004-r"] * 2
    links = rows.first.locator("a")
    assert links.all_inner_texts() == ["result.json", "samples.csv", "events.jsonl", "log.txt"]
    for address in links.evaluate_all("all => all.map(one => one.getAttribute('href'))"):
        assert (written.parent / address).is_file()
    page.go_back()
    assert "#" not in page.url


def test_the_address_of_a_trial_finds_it_in_a_table_that_was_sorted_and_filtered(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=TRIALS)
    name = page.locator(f"{ROWS} th").nth(7).inner_text()
    before = column(page, TRIALS, 1)
    page.locator(f"{TRIALS} thead button").first.dblclick()
    page.get_by_label("Filter rows").last.fill("nothing")
    assert column(page, TRIALS, 1) == []
    page.evaluate("name => { location.hash = `#trial-${name}`; }", name)
    page.locator("tr:target").wait_for()
    assert column(page, TRIALS, 1) == before
    again = opened(f"#trial-{name}", unfolded="")
    assert again.locator("tr:target").is_visible()


def test_markup_in_names_and_reasons_is_text(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=TRIALS)
    page.get_by_label("Filter rows").last.fill("failed")
    told = page.locator(f"{ROWS}:visible").inner_text()
    assert '<img src=x onerror="window.hacked=1">' in told
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_the_page_goes_dark_with_the_reader_and_its_charts_too(opened: Callable[..., Page]) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('#s1-usage-chart svg text')).fill"
    page = opened(unfolded=f"{USAGE}-chart", color_scheme="light")
    light = page.evaluate(paper), page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(paper), page.evaluate(ink)
    assert brightness(light[0]) > 240 and brightness(dark[0]) < 40
    assert brightness(light[1]) < 120 < brightness(dark[1])


def brightness(colour: str) -> float:
    """0 to 255: the mean of the channels of "rgb(r, g, b)"."""
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.parametrize("unfolded", ["", ".fold *"])
def test_a_phone_does_not_scroll_sideways(opened: Callable[..., Page], unfolded: str) -> None:
    page = opened("", unfolded, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.evaluate("scrollTo(500, 0)")
    assert page.evaluate("scrollX") == 0
    assert page.locator(".scroll").first.evaluate("box => box.scrollWidth > box.clientWidth"), "the tables do"


def without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_the_printed_page_has_every_table_and_chart_and_nothing_to_operate(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: requirements-test.txt")
    page = opened(unfolded="", color_scheme="dark")
    # A font's ligatures and widths decide letters and line ends: neither is compared.
    page.add_style_tag(content="* { font-variant-ligatures: none !important }")
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    sheets = pypdf.PdfReader(tmp_path / "report.pdf").pages
    text = without_spaces("\n".join(sheet.extract_text() for sheet in sheets))
    assert without_spaces(MARK) in text
    for title in page.locator("main :is(h2, h3, h4):not(.unseen)").all_inner_texts():
        assert without_spaces(title) in text, title
    assert "pytorch-cpu-b00128-r1" in text, "all trials"
    assert text.count("Batchsize,images") >= 3, "the labels of the charts' axes"
    assert not re.search("Filterrows|Frameworksshown", text)
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert brightness(page.evaluate("getComputedStyle(document.querySelector('.chart text')).fill")) < 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_no_serious_fault(opened: Callable[..., Page], scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = [
        (fault["id"], fault["nodes"][0]["html"][:200])
        for fault in axe.run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert found == []


def test_everything_can_be_reached_and_seen_by_keyboard_alone(opened: Callable[..., Page]) -> None:
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached = []
    for _ in range(150):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {const at = document.activeElement, outline = getComputedStyle(at);
                const kind = at.className || at.type || (at.closest("td") ? "of a cell" : "");
                return [at.tagName, kind, outline.outlineStyle !== "none"]}"""
            )
        )
    kinds = {(tag, kind) for tag, kind, _ in reached}
    assert {("INPUT", "checkbox"), ("BUTTON", "sort"), ("A", "of a cell"), ("DIV", "scroll")} <= kinds
    assert [where for where in reached if not where[2]] == [], "what has the focus is marked"


def test_headings_and_landmarks_are_in_order(opened: Callable[..., Page]) -> None:
    page = opened()
    levels = [
        int(name[1]) for name in page.locator("h1, h2, h3, h4, h5").evaluate_all("all => all.map(one => one.tagName)")
    ]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(next_one - one <= 1 for one, next_one in pairwise(levels))
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.title().endswith("Batchwise")


def test_without_javascript_every_table_picture_and_link_is_there(opened: Callable[..., Page]) -> None:
    scripted, page = opened(), opened(java_script_enabled=False)
    assert page.get_by_text("No trial ran on a GPU").is_visible()
    for parts in (".chart svg", "table tbody tr", ".part td > a", ".points a", ".all a"):
        assert page.locator(f"{parts}:visible").count() == scripted.locator(f"{parts}:visible").count() > 0
    widths = page.locator(".front svg").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert len(widths) == 3 and min(widths) > 200
    assert page.get_by_label("Filter rows").count() == page.locator(".sort").count() == 0


def test_a_chart_is_words_too(opened: Callable[..., Page]) -> None:
    page = opened(unfolded=f"{USAGE}-chart")
    figure = page.locator(f"{USAGE}-chart")
    figure.locator("summary").click()
    drawing = figure.get_by_role("img")
    described = page.locator(f"#{drawing.get_attribute('aria-describedby')}")
    assert described.is_visible() and "TensorFlow" in described.inner_text()
    assert page.locator(f"#{drawing.get_attribute('aria-labelledby')}").inner_text().startswith("CPU usage")


@pytest.mark.parametrize(("width", "height", "screens"), [(1440, 900, 4), (390, 844, 10)])
def test_the_page_of_a_study_is_short_until_it_is_unfolded(
    browser: Browser, tmp_path: Path, width: int, height: int, screens: int
) -> None:
    """The main job's 27 trials: everything is there, and what is not asked first is folded."""
    page = browser.new_page(viewport={"width": width, "height": height})
    path = write(tmp_path / "report.html", store(tmp_path / "results", *study()))
    assert path.stat().st_size < 400_000
    page.goto(path.as_uri())
    page.wait_for_selector(READY)
    assert page.evaluate("document.documentElement.scrollHeight") <= screens * height
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def test_the_first_screen_has_the_finding_the_trade_off_and_the_best_batch_sizes(opened: Callable[..., Page]) -> None:
    page = opened(unfolded="", viewport={"width": 1440, "height": 900})
    assert "fastest" in page.locator("h1").inner_text()
    charts = ["#s1-speed-chart", "#s1-speed-memory-chart", "#s1-speed-accuracy-chart"]
    boxes = [page.locator(part).bounding_box() for part in (*charts, "#s1-best table")]
    assert all(box and box["y"] + box["height"] <= 900 for box in boxes)
    tops = {box["y"] for box in boxes[:3] if box}
    assert len(tops) == 1, "side by side"
    leads = page.locator(".front .lead").all_inner_texts()
    assert [lead.partition(".")[0] for lead in leads] == ["Up and left is better", "Up and right is better"]
    assert all("2 of 28 cells left out" in lead for lead in leads), "one out of memory, one failed"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_point_of_a_trade_off_says_its_values_leads_to_its_trials_and_goes_with_its_framework(
    opened: Callable[..., Page], scripts: bool
) -> None:
    page = opened(unfolded="", java_script_enabled=scripts)
    chart = "#s1-speed-memory-chart"
    point = page.locator(f"{chart} .points a[aria-label='PyTorch, 128']")
    said = point.locator("xpath=..").locator("title").text_content() or ""
    assert [line.partition(":")[0] for line in said.splitlines()][:3] == [
        "PyTorch, batch size 128", "Host memory, MiB", "Training speed, images/s"
    ]  # fmt: skip
    before = labels(page, chart)
    page.get_by_role("checkbox", name="PyTorch").uncheck()
    after = labels(page, chart)
    assert point.is_hidden() and "PyTorch" in before and "PyTorch" not in after
    assert len(after) < len(before) - 2, "names of points, too"
    page.get_by_role("checkbox", name="PyTorch").check()
    page.mouse.click(*centre(point.locator("circle")))
    page.wait_for_url(re.compile("#cell-"))
    rows = page.locator("tbody:target tr th").all_inner_texts()
    assert [name[:20] for name in rows] == ["pytorch-cpu-b00128-r"] * 2


@pytest.mark.parametrize("width", [390, 1440])
def test_no_name_of_a_point_in_the_page_lies_upon_another_text(opened: Callable[..., Page], width: int) -> None:
    page = opened(unfolded="", viewport={"width": width, "height": 900})
    for chart in ("#s1-speed-memory-chart", "#s1-speed-accuracy-chart"):
        boxes = [box for text in page.locator(f"{chart} .chart text").all() if (box := text.bounding_box())]
        for one, other in combinations(boxes, 2):
            across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
            down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
            assert min(across, down) <= 3, (one, other)


def test_an_address_of_something_folded_unfolds_it(opened: Callable[..., Page]) -> None:
    page = opened(unfolded="")
    assert page.locator(TRIALS).is_hidden() and page.locator("#s1-step-time table").is_hidden()
    page.locator("nav a", has_text="All trials").click()
    page.locator(TRIALS).wait_for()
    page.goto(page.url.partition("#")[0] + "#s1-step-time")
    page.locator("#s1-step-time table").wait_for()
    assert page.locator("#s1-step-time-chart svg").is_visible()


def test_a_thousand_trials_open_within_bounds(browser: Browser, tmp_path: Path) -> None:
    """The figure for 10,000 on an idle machine comes from measure_page.py; this bound holds on a loaded one."""
    path = write(tmp_path / "report.html", many(tmp_path / "results", 1000))
    assert opened_in_s(browser, path) < 20
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator("#trials summary").click()
    assert page.locator(ROWS).count() == 1000
    page.close()
