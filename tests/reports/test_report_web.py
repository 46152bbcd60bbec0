"""The page as a file: self-contained and escaped, with charts in its colours and links that lead somewhere."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stored import answers, chart, ended, line, store, store_answers, study, trial

from reports import build, export, load
from reports.charts import Chart, ChartSeries, Panel, SeriesKind
from reports.conditions import group_into_sections
from reports.drawing import inline
from reports.drawing.sizes import COLUMN, PAGE, Layout
from reports.drawing.styles import BLACK
from reports.frameworks import choose_styles
from reports.report import Chapter, Report, Summary
from reports.table import Table, TableCell, Theme
from reports.web import page as web
from reports.web import trials as web_trials
from reports.web.parts import PagePart, PartBuilder, PartGroup
from workloads.records.status import Status

EVIL = "<script>alert(1)</script>"


def report_of(folder: Path, rows: int = 1, **changes: Any) -> Report:
    """A report with one table of `rows` rows, each of the first trial, and one chart."""
    stored = load.read(folder)
    found, replaced = group_into_sections(stored.results)
    own = stored.results[0].spec.id
    line = (TableCell("PyTorch"), TableCell("12.5", 12.5, ("noisy",), (own,)), TableCell("out of memory"))
    table = Table(
        "speed", "Speed & more", ("Framework", "4", "8"), (line,) * rows, pd.DataFrame(), ("Above.",), ("Below.",)
    )
    series = ChartSeries("PyTorch", "pytorch", SeriesKind.MEASURED, (4.0, 8.0), (12.5, None), (), (), ((own,), ()))
    chart = Chart("speed", "Speed & more", "Batch size", "images/s", (Panel("", (series,)),), "It rises.", "Medians.")
    chapters = tuple(
        Chapter(f"Part {n}", one, "CPU", ("2 threads.",), (table,), (chart,), ()) for n, one in enumerate(found, 1)
    )
    summary = Summary("PyTorch leads", "speed", ("27 trials.",), ("First.",), ("No GPU.",), 0)
    report = Report(
        stored=stored,
        replaced=tuple(replaced),
        summary=summary,
        chapters=chapters,
        beside=(),
        legend={},
        appendix=(),
        remarks=(),
        problems={"Checks that failed": (EVIL,)},
    )
    return replace(report, **changes)


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    return store(tmp_path / "results", *study())


def test_nothing_of_the_page_is_fetched_and_the_policy_lets_only_its_own_script_run(quick: Path) -> None:
    html = web.build_page(report_of(quick))
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert found
    policy = found[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy.partition("script-src")[2]
    assert not re.findall(r"""(?:src|href|action)=["']?(?!#|data:|RULES.md")[^"'\s>]+""", html)
    assert "@import" not in html and not re.findall(r"url\((?!#)", html)
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_text_from_outside_is_escaped_everywhere(tmp_path: Path) -> None:
    folder = store(tmp_path / "results", trial())
    base = report_of(folder)
    chapter = base.chapters[0]
    table = replace(chapter.tables[0], title=EVIL, head=(EVIL,) * 3, above=(EVIL,), below=(EVIL,))
    table = replace(table, rows=((TableCell(EVIL), TableCell(EVIL, 1.0, (EVIL,)), TableCell(EVIL)),))
    chart = replace(chapter.charts[0], title=EVIL, alt=EVIL, caption=EVIL, provenance=EVIL, x_name=EVIL, y_label=EVIL)
    series = replace(chart.series[0], label=EVIL)
    chart = replace(chart, panels=(Panel(EVIL, (series,)),))
    chapter = replace(chapter, heading=EVIL, conditions=(EVIL,), tables=(table,), charts=(chart,), remarks=(EVIL,))
    summary = Summary(EVIL, "speed", (EVIL,), (EVIL,), (EVIL,), 0)
    html = web.build_page(
        replace(base, chapters=(chapter,), summary=summary, remarks=(EVIL,), problems={EVIL: (EVIL,)}), (EVIL,)
    )
    assert EVIL not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 20


def test_a_style_of_the_charts_is_said_once_in_the_page(quick: Path) -> None:
    html = web.build_page(report_of(quick))
    charts = re.findall(r'<svg role="group".*?</svg>', html, re.S)
    used = {name for chart in charts for name in re.findall(r' class="(p\d+)"', chart)}
    defined = dict(re.findall(r"^\.(p\d+)\.\1 { (.*) }$", html, re.M))
    assert used == set(defined) and len(set(defined.values())) == len(defined) > 3
    assert not any(" style=" in chart for chart in charts)


def test_a_cell_keeps_its_number_its_note_and_its_trials(quick: Path) -> None:
    report = report_of(quick)
    html = web.build_page(report)
    own = report.stored.results[0].spec.id
    cell = re.search(rf'<tbody id="(cell-\d+)">\s*<tr id="trial-{own}"', html)
    assert (
        cell
        and (
            f'<td data-n="12.5"><a href="#{cell[1]}">12.5</a>'
            '<sup><a href="#s1-speed-note-1" aria-label="note 1">1</a></sup></td><td class="w">out of memory</td>'
        )
        in html
    )
    assert '<li id="s1-speed-note-1">noisy</li>' in html


def test_every_address_is_in_the_page_with_its_marks_and_made_again_it_is_the_same(quick: Path) -> None:
    html = web.build_page(report_of(quick))
    ids = Counter(re.findall(r' id="([^"]+)"', html))
    assert [name for name, count in ids.items() if count > 1] == []
    assert {*re.findall(r'(?:href="|url\()#([^")]+)', html)} <= {*ids}
    html = web.build_page(report_of(quick), ("Of a dirty commit.",))
    assert html.index("Of a dirty commit.") < html.index('id="summary"') < html.index("Part 1</h2>")
    assert web.build_page(report_of(quick)) == web.build_page(report_of(quick))


def test_a_trial_that_failed_has_its_reason_and_one_of_another_machine_an_address_of_its_own(tmp_path: Path) -> None:
    html = web.build_page(
        report_of(store(tmp_path / "results", trial(), ended(Status.FAILED, "it fell", "pytorch", 4)))
    )
    row = html.partition('<tr id="trial-pytorch-')[2].partition("</tr>")[0]
    assert "failed: it fell" in row and "<td>\N{EN DASH}</td>" in row and "data-n" not in row
    folder = store(tmp_path / "2" / "results", trial())
    report = report_of(folder)
    other = replace(report.stored.results[0], machine={"cpu_model": "another"})
    stored = replace(report.stored, results=(*report.stored.results, other), folders=report.stored.folders * 2)
    own = report.stored.results[0].spec.id
    html = web.build_page(replace(report, stored=stored))
    assert re.findall(r'<tr id="trial-([^"]+)"', html) == [own, f"{own}~2"]


def list_sections(*folders: Path) -> tuple[Report, list[tuple[str, str]]]:
    """Return the report on the folders, and of each row of the table of all trials its id and its section."""
    made = build.build_report(folders)
    html = web.build_page(made, pictures={drawing.id: "" for drawing in web.list_drawings(made)})
    section = r'<td class="left">(\d+|replaced by a newer trial)</td>'
    return made, re.findall(rf'<tr id="trial-([^"]+)".*?{section}', html, re.DOTALL)


def test_the_table_of_all_trials_numbers_a_section_as_its_heading_does(tmp_path: Path) -> None:
    """Answers of a search are a chapter before the sections, without a number."""
    store(tmp_path, trial(), trial(threads=1))
    made, sections = list_sections(store_answers(tmp_path, answers("pytorch", 64, 900)))
    assert [chapter.kind for chapter in made.chapters] == ["batch-size", "", ""]
    found = {chapter.section.results[0].spec.id: chapter.heading.partition(".")[0]
             for chapter in made.chapters if chapter.section}  # fmt: skip
    assert dict(sections) == found and sorted(found.values()) == ["1", "2"]


def test_the_table_of_all_trials_says_which_one_a_newer_trial_replaced(tmp_path: Path) -> None:
    newer = replace(trial(), started_at="2025-11-22T10:00:00+00:00")
    made, sections = list_sections(store(tmp_path / "a", trial()), store(tmp_path / "b", newer))
    assert len(made.chapters) == 1
    assert sections == [(f"{newer.spec.id}~2", "1"), (trial().spec.id, "replaced by a newer trial")]


def test_a_number_from_several_cells_names_them_and_leads_to_the_first(quick: Path) -> None:
    trials = web_trials.list_trials(report_of(quick))
    find = web_trials.make_finder(web_trials.group_by_cell(trials))
    found = find([trials[place].id for place in (3, 0, 1)])
    assert found == web_trials.Address("#cell-4", "3 trials: TensorFlow 32, TensorFlow 4 and TensorFlow 8")
    every = find([trial.id for trial in trials])
    assert every and every.title.endswith("and 23 more")
    assert find(["nothing"]) is None and find([]) is None


@pytest.mark.parametrize(
    ("out", "prefix"), [("results/report", "../trials"), ("report", "../results/trials"), (".", "results/trials")]
)
def test_a_page_near_its_results_links_to_the_raw_files_that_are_there(tmp_path: Path, out: str, prefix: str) -> None:
    folder = store(tmp_path / "results", trial())
    report = report_of(folder)
    own = report.stored.results[0].spec.id
    (folder / "trials" / own / "log.txt").touch()
    (shown,) = web_trials.list_trials(report)
    files = {name: f"{prefix}/{own}/{name}" for name in ("result.json", "log.txt")}
    assert web_trials.find_files(shown, tmp_path / out) == (f"trials/{own}", files)
    assert f'<a href="{prefix}/{own}/log.txt">log.txt</a>' in web.build_page(report, folder=tmp_path / out)


def test_a_page_that_stands_alone_says_where_the_raw_files_are(tmp_path: Path) -> None:
    report = report_of(store(tmp_path / "a" / "results", trial()))
    own = report.stored.results[0].spec.id
    far = web.build_page(report, folder=tmp_path / "b" / "c")
    assert f"<code>trials/{own}</code>" in far and "A folder named there is in the results folder" in far
    export.write(report, tmp_path / "a" / "report", ("html",), archive="results.tar.xz")
    packed = (tmp_path / "a" / "report" / "report.html").read_text(encoding="utf-8")
    assert f"<code>trials/{own}</code>" in packed and '<a href="results.tar.xz">' in packed


def test_a_row_is_switched_by_the_frameworks_that_it_names_and_what_is_folded_is_named() -> None:
    builder = PartBuilder(None, {}, ("TensorFlow", "PyTorch", "PyTorch @nightly"))
    rows = ("PyTorch", "PyTorch @nightly", "TensorFlow minus PyTorch", "PyTorchy", "128")
    assert [builder.switches_of((TableCell(row),)) for row in rows] == ["1", "2", "0 1", "", ""]
    named = [
        PagePart(str(place), "x", title)
        for place, title in enumerate(
            ("Test accuracy, %, after epoch 10", "Test accuracy, %, after each epoch", "Accuracy: loss, mean")
        )
    ]
    group = PartGroup("g", Theme.ACCURACY, tuple(named[:1]), tuple(named[1:]))
    assert group.more == "Test accuracy, %, after each epoch; loss"


SMALL = Layout(COLUMN, bare=True)


def inlined(shown: Chart, layout: Layout = SMALL, **more: Any) -> ElementTree.Element:
    looks = choose_styles(shown.frameworks)
    given: dict[str, Any] = {"switches": {name: place for place, name in enumerate(looks)}, "addresses": {}} | more
    return ElementTree.fromstring(inline.draw(inline.Drawing(shown, layout, "s1-a-chart", "c7", looks, **given)))


def test_a_chart_in_the_page_has_the_pages_colours_and_fonts_and_no_ids_but_its_own() -> None:
    kinds = (SeriesKind.MEASURED, SeriesKind.PUBLISHED_TABLE)
    lines = [line(f"PyTorch {kind}", (4, 8), (1.0, 2.0), "pytorch", kind) for kind in kinds]
    drawn = inlined(chart(lines))
    text = ElementTree.tostring(drawn, encoding="unicode")
    assert {"var(--c0072b2)", "color-mix(in srgb, var(--c0072b2) 60%, var(--paper))"} <= {
        *re.findall(r"stroke:(var\(--c\w+\)|color-mix.*?paper\)\))", text)
    }
    assert "var(--text)" in text and "var(--line)" in text and BLACK not in text and "font-family" not in text
    assert all(name.startswith("c7-") for name in re.findall(r' id="([^"]+)"', text))
    picture = drawn[0]
    assert picture.attrib == {
        "role": "img", "aria-labelledby": "s1-a-chart-title", "aria-describedby": "s1-a-chart-alt"
    }  # fmt: skip
    assert not re.search(r"\.\d{3}", text), "two decimals"
    parts = [line(name, (4, 8), (1.0, 2.0), name, SeriesKind.PART) for name in ("parameters", "gradients")]
    text = ElementTree.tostring(inlined(chart(parts)), encoding="unicode")
    assert "pattern" in text and "#222222" in text


def test_each_place_says_its_values_and_each_point_leads_to_its_trials() -> None:
    one = line("PyTorch", (4, 8), (1.0, None), low=(0.5, None), high=(1.5, None), trials=(("a", "b"), ()))
    other = line("MXNet", (4, 8), (3.0, 4.0), trials=(("c",), ("d",)))
    drawn = inlined(chart([one, other]), addresses={("a", "b"): "#cell-1", ("d",): "#trial-d"})
    places = drawn[1]
    assert [place[0].text for place in places] == [
        "Batch size: 4\nPyTorch: 1.00 [0.500, 1.50]\nMXNet: 3.00", "Batch size: 8\nMXNet: 4.00"
    ]  # fmt: skip
    links = [(link.get("href"), link.get("aria-label"), link.get("data-f")) for link in places.iter("a")]
    assert links == [("#cell-1", "PyTorch, 4", "0"), ("#trial-d", "MXNet, 8", "1")]


def test_a_panel_without_a_value_has_no_places_and_leaves_those_of_the_others() -> None:
    panels = [[line("PyTorch", (4, 8), values)] for values in ((1.0, 2.0), (None, None))]
    drawn = inlined(chart(*panels, titles=("Batch 16", "Batch 64")), Layout(PAGE, bare=True))
    assert [place[0].text for place in drawn[1]] == ["Batch size: 4\nPyTorch: 1.00", "Batch size: 8\nPyTorch: 2.00"]


@pytest.mark.parametrize("low", [(), (0.9, 1.9)])
def test_everything_of_a_framework_has_its_switch(low: tuple[float, ...]) -> None:
    ends: dict[str, Any] = {"low": low, "high": tuple(y + 0.2 for y in low)}
    panels = [[line(name, (4, 8), (1.0, 2.0), **ends) for name in ("TensorFlow", "PyTorch")]] * 2
    drawn = inlined(chart(*panels, titles=("a", "b")), Layout(PAGE, bare=True))
    found = Counter(part.get("data-f") for part in drawn.iter() if part.get("data-f"))
    assert found == {name: 2 + 2 * (4 if low else 1) for name in ("0", "1")}, "legend, lines, bars with two caps"


def test_a_panel_of_a_framework_has_its_switch() -> None:
    shown = chart([line("parameters", (4, 8), (1.0, 2.0), "parameters", SeriesKind.PART)], titles=("PyTorch",))
    (panel,) = shown.panels
    drawn = inlined(replace(shown, panels=(replace(panel, key="pytorch"),)), switches={"pytorch": 3})
    assert [part.get("data-f") for part in drawn.iter() if part.get("data-f")] == ["3", "3"], "axes and points"
