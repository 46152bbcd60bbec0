"""The page over many results in Chromium: choosing, sorting, links, and its size with 10,000 trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import made  # noqa: F401  # puts the folder of `stored` on the path
import pytest
from browsing import CHROMIUM, chromium, opened_in_s
from stored import MACHINE, on_gpu, store, study, trial

from reports.load import Stored
from reports.site import cells, command
from workloads.records.status import Status

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not driven"),
]
SIZE_BYTES, TRIALS, OPENED_S = 5_000_000, 10_000, 20  # measure_page.py has the time on a quiet machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two sources: the quick study, three times, and one trial on a card."""
    folder = tmp_path_factory.mktemp("site")
    quick, card = store(folder / "quick", *study(3)), store(folder / "card", on_gpu(trial("pytorch", 64)))
    command.write([quick, card], folder / "out")
    return folder / "out" / command.PAGE


def opened(browser: Browser, site: Path, address: str = "", width: int = 1280) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(site.as_uri() + address)
    return page


def choose(page: Page, menu: str, value: str) -> None:
    page.locator(f"select[name='{menu}']").select_option(value)


def names(page: Page) -> list[str]:
    return [text.split()[0] for text in page.locator("#bars .bar > span:first-child").all_inner_texts()]


def test_at_first_one_machine_is_shown_with_a_bar_for_each_framework(browser: Browser, site: Path) -> None:
    page = opened(browser, site)
    assert sorted(names(page)) == ["MXNet", "PyTorch", "TensorFlow"]
    assert page.locator("#bars .interval").count() == 3 and page.locator("#charts polyline").count() == 9
    assert "relative to the first" in page.locator("#said").inner_text()
    assert page.locator("#cells tbody tr").count() == 27


def test_memory_of_a_host_and_of_a_card_have_no_ratio_and_say_which_they_are(browser: Browser, site: Path) -> None:
    page = opened(browser, site, "#by=memory&batch=64")
    bars = page.locator("#bars .bar").all_inner_texts()
    assert {"gpu memory" in bar for bar in bars} == {True, False}
    assert sum("1.00x" in bar for bar in bars) == 2, "each figure has a first bar"
    assert "(GPU memory)" in page.locator("#cells tbody").inner_text()
    alone = opened(browser, site, "#by=memory&batch=64&device=cpu")
    assert "memory" not in " ".join(alone.locator("#bars .bar").all_inner_texts()).lower()


def test_a_choice_is_in_the_address_and_the_address_is_the_choice(browser: Browser, site: Path) -> None:
    page = opened(browser, site)
    choose(page, "Framework", "PyTorch")
    choose(page, "Batch size", "64")
    choose(page, "Quantity", "memory")
    assert names(page) == ["PyTorch"] and page.locator("#cells tbody tr").count() == 1
    sent = opened(browser, site, page.evaluate("location.hash"))
    assert sent.locator("#cells tbody").inner_text() == page.locator("#cells tbody").inner_text()
    assert sent.locator("select[name=Quantity]").input_value() == "memory"
    lost = opened(browser, site, "#framework=Caffe&by=nothing&sort=nobody&batch=7")
    assert lost.locator("#cells tbody tr").count() == 28, "what is not there is not chosen"


def test_the_table_sorts_by_speed_and_each_number_leads_to_its_trial(browser: Browser, site: Path) -> None:
    page = opened(browser, site)
    head = page.locator("#cells th", has_text="Training speed")
    column = head.evaluate("(cell) => cell.cellIndex")
    speeds = f"""[...document.querySelectorAll('#cells tbody tr')].map(
        (row) => parseFloat(row.cells[{column}].textContent.replaceAll(',', '')))"""
    assert head.get_attribute("aria-sort") == "descending"
    fastest = page.evaluate(speeds)
    assert fastest == sorted(fastest, reverse=True) and len(set(fastest)) > 20
    head.get_by_role("button").click()
    assert page.evaluate(speeds) == sorted(fastest)
    page.locator("#cells tbody tr").first.locator("td, th").nth(column).get_by_role("link").click()
    page.wait_for_url("**/quick/report.html#trial-*")
    name = page.url.partition("#")[2]
    assert page.locator(f"[id='{name}']").count() == 1


def test_two_softwares_of_a_framework_are_two_lines_whose_names_say_their_versions(
    browser: Browser, tmp_path: Path
) -> None:
    old: dict[str, Any] = {"environment": "old", "facts": trial().facts | {"framework_version": "2.12.0"}}
    trials = [trial(name, size) for name in ("pytorch", "mxnet") for size in (32, 64)]
    folder = store(tmp_path / "upgraded", *trials, *(trial("pytorch", size, **old) for size in (32, 64)))
    command.write([folder], tmp_path / "out")
    page = opened(browser, tmp_path / "out" / command.PAGE)
    assert page.locator("#charts figure").first.locator("polyline").count() == 3
    told = sorted(page.locator("#bars .bar > span:first-child").all_inner_texts())
    assert sorted(names(page)) == ["MXNet", "PyTorch", "PyTorch"] and len(set(told)) == 3
    assert "version" not in told[0] and "version: 2.12.0" in told[1] and "version: 2.13.0" in told[2]
    titles = page.locator("#charts figure").first.locator("title").all_text_contents()
    assert sum("version: 2.12.0" in title for title in titles) == 2


def test_bars_of_two_frameworks_say_what_was_reported_differently_of_their_machine(
    browser: Browser, tmp_path: Path
) -> None:
    newer: dict[str, Any] = {"machine": MACHINE | {"os": "Linux-6.9-x86_64"}}
    trials = [each for size in (32, 64) for each in (trial("pytorch", size), trial("mxnet", size, **newer))]
    command.write([store(tmp_path / "two-days", *trials)], tmp_path / "out")
    page = opened(browser, tmp_path / "out" / command.PAGE)
    told = sorted(page.locator("#bars .bar > span:first-child").all_inner_texts())
    assert told == ["MXNet kernel: Linux-6.9-x86_64", f"PyTorch kernel: {MACHINE['os']}"]


def test_the_keyboard_keeps_its_place_when_a_choice_is_made(browser: Browser, site: Path) -> None:
    page = opened(browser, site)
    page.locator("select[name=Framework]").focus()
    for chosen in ("MXNet", "PyTorch"):
        page.keyboard.press("ArrowDown")
        assert page.locator("select[name=Framework]").input_value() == chosen
        assert page.evaluate("document.activeElement.name") == "Framework"
    head = page.locator("#cells th", has_text="Training speed")
    head.get_by_role("button").focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == order
        assert page.evaluate("document.activeElement.textContent").startswith("Training speed")


def test_on_paper_the_table_is_whole_and_the_choices_are_said(browser: Browser, tmp_path: Path) -> None:
    trials = tuple(trial(name, size) for name in ("pytorch", "mxnet", "tensorflow") for size in range(1, 69))
    folders = tuple(tmp_path / each.spec.id for each in trials)
    data = cells.build_data([cells.Source("many", Stored(trials, folders, (), ()), "many/report.html")])
    (tmp_path / "index.html").write_text(command._render(data))
    width = 720  # of A4, upright
    page = opened(browser, tmp_path / "index.html", width=width)
    assert page.locator("#cells tbody tr").count() == 200
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#cells tbody tr").count() == len(trials) == 204
    assert page.locator(".scroll").evaluate("(box) => getComputedStyle(box).overflowX") == "visible"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("select[name=Machine]").is_visible() and not page.locator("#more").is_visible()


def test_a_mean_of_fewer_values_than_trials_says_of_how_many_and_why(browser: Browser, tmp_path: Path) -> None:
    diverged = (replace(trial("pytorch", 64, repeat), status=Status.DIVERGED, reason="diverged") for repeat in (1, 2))
    command.write([store(tmp_path / "mine", trial("pytorch", 64), *diverged)], tmp_path / "out")
    page = opened(browser, tmp_path / "out" / command.PAGE)
    choose(page, "Quantity", "accuracy")
    for number in (page.locator("#bars .bar a"), page.locator("#cells tbody a", has_text="(1 of 3)")):
        assert number.inner_text().endswith(" (1 of 3)")
        assert "; repeat 1: diverged; repeat 2: diverged" in (number.get_attribute("title") or "")
    assert "bars without one rest on one value" in page.locator("#said").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, site: Path, width: int) -> None:
    page = opened(browser, site, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.slow
def test_ten_thousand_trials_open_within_bounds(browser: Browser, tmp_path: Path) -> None:
    sizes = range(1, 1112)
    trials = [trial(name, size, repeat) for name in ("pytorch", "mxnet", "tensorflow") for size in sizes
              for repeat in range(3)]  # fmt: skip
    folders = tuple(tmp_path / each.spec.id for each in trials)
    data = cells.build_data([cells.Source("many", Stored(tuple(trials), folders, (), ()), "many/report.html")])
    page = tmp_path / "index.html"
    page.write_text(command._render(data))
    assert len(trials) >= TRIALS - 1 and page.stat().st_size < SIZE_BYTES
    assert opened_in_s(browser, page) < OPENED_S
