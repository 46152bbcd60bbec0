"""The page as a file: self-contained, escaped, bounded in size, and honest about what it leaves out."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored import store, study, trial

from reports import load
from reports.charts import Chart, Kind, Panel, Series
from reports.conditions import sections
from reports.load import ReportError
from reports.report import Chapter, Report, Summary
from reports.table import Cell, Table, Theme
from reports.web import columns as web_columns
from reports.web import page as web
from reports.web import trial_files
from reports.web import trials as web_trials
from reports.web.parts import Group, Part
from workloads.records.figures import Figure
from workloads.records.samples import COLUMNS

VENDOR = web.TEMPLATES / "vendor"
EVIL = "<script>alert(1)</script>"


def report_of(folder: Path, rows: int = 1, **changes: Any) -> Report:
    """A report with one table of `rows` rows, each of the first trial, and one chart."""
    stored = load.read(folder)
    found, replaced = sections(stored.results)
    own = stored.results[0].spec.id
    line = (Cell("PyTorch"), Cell("12.5", 12.5, ("noisy",), (own,)), Cell("out of memory"))
    table = Table(
        "speed", "Speed & more", ("Framework", "4", "8"), (line,) * rows, pd.DataFrame(), ("Above.",), ("Below.",)
    )
    series = Series("PyTorch", "pytorch", Kind.MEASURED, (4.0, 8.0), (12.5, None), (), (), ((own,), ()))
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


def packed(html: str, name: str) -> Any:
    """Return the data of this name in the page; None where they were left out."""
    found = re.search(rf'<script type="application/octet-stream" id="data-{name}">([^<]*)</script>', html)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1]))) if found[1] else None


def test_the_vendored_library_is_as_it_was_built_of_the_version_that_is_told_and_has_its_licence() -> None:
    told = tomllib.loads((VENDOR / "VENDORED.toml").read_text())
    assert set(told) == {path.name for path in VENDOR.iterdir() if path.is_dir()}
    for library in told.values():
        assert hashlib.sha256((VENDOR / library["file"]).read_bytes()).hexdigest() == library["sha256"]
        assert all((VENDOR / name).stat().st_size for name in library["beside"])
        assert library["version"] in (VENDOR / library["file"]).read_text()
        script = (Path(__file__).parents[2] / library["built_by"]).read_text()
        assert f"{library['package']}@{library['version']} " in script


def test_nothing_of_the_page_is_fetched_and_the_policy_lets_only_its_own_scripts_run(quick: Path) -> None:
    html = web.page(report_of(quick))
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert found
    policy = found[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy.partition("script-src")[2]
    assert not re.findall(r"""(?:src|href|action)=["']?(?!#|data:|RULES.md")[^"'\s>]+""", html)
    assert "@import" not in html and "url(" not in html
    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(script) == 1
    for text in (script[0], packed(html, "echarts")):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_text_from_outside_is_escaped_everywhere(tmp_path: Path) -> None:
    folder = store(tmp_path / "results", trial())
    base = report_of(folder)
    chapter = base.chapters[0]
    table = replace(chapter.tables[0], title=EVIL, head=(EVIL,) * 3, above=(EVIL,), below=(EVIL,))
    table = replace(table, rows=((Cell(EVIL), Cell(EVIL, 1.0, (EVIL,)), Cell(EVIL)),))
    chart = replace(chapter.charts[0], title=EVIL, alt=EVIL, caption=EVIL, provenance=EVIL, x_name=EVIL)
    chapter = replace(chapter, heading=EVIL, conditions=(EVIL,), tables=(table,), charts=(chart,), remarks=(EVIL,))
    summary = Summary(EVIL, "speed", (EVIL,), (EVIL,), (EVIL,), 0)
    html = web.page(
        replace(base, chapters=(chapter,), summary=summary, remarks=(EVIL,), problems={EVIL: (EVIL,)}), (EVIL,)
    )
    assert EVIL not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 20


def test_a_cell_keeps_its_number_its_note_and_its_trials(quick: Path) -> None:
    html = web.page(report_of(quick))
    assert (
        '<td>12.5<sup><a href="#s1-speed-note-1" aria-label="note 1">1</a></sup></td><td class="w">out of memory</td>'
        in html
    )
    assert '<li id="s1-speed-note-1">noisy</li>' in html
    shown = packed(html, "shown")
    assert shown["tables"]["s1-speed"] == {"numbers": [[None, 12.5, None]], "trials": [[[], [0], []]]}
    assert shown["charts"]["s1-speed-chart"]["panels"][0]["traces"][0]["y"] == [12.5, None]


def test_marks_stand_before_the_summary(quick: Path) -> None:
    html = web.page(report_of(quick), ("Of a dirty commit.",))
    assert html.index("Of a dirty commit.") < html.index('id="summary"') < html.index("Part 1</h2>")


def test_a_null_figure_keeps_its_reason_and_is_no_zero(tmp_path: Path) -> None:
    folder = store(tmp_path / "results", trial(figures={"power_w": unknown("no meter here")}))
    results = packed(web.page(report_of(folder)), "results")
    assert results["figures.power_w.value"] == [None]
    assert results["figures.power_w.reason"] == ["no meter here"]


def unknown(reason: str) -> Figure:
    figure = trial().figures["cpu_percent"]
    return replace(figure, value=None, reason=reason)


def test_trials_of_one_id_from_two_machines_have_addresses_of_their_own(tmp_path: Path) -> None:
    folder = store(tmp_path / "results", trial())
    report = report_of(folder)
    other = replace(report.stored.results[0], machine={"cpu_model": "another"})
    stored = replace(report.stored, results=(*report.stored.results, other), folders=report.stored.folders * 2)
    keys = packed(web.page(replace(report, stored=stored)), "shown")["trials"]["key"]
    own = report.stored.results[0].spec.id
    assert keys == [own, f"{own}~2"]


def test_what_does_not_fit_is_left_out_by_name_and_the_page_stays_within_its_limit(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = web.page(report_of(quick))
    assert len(whole.encode()) < 1_000_000
    assert packed(whole, "results") is not None
    monkeypatch.setattr(web, "LIMIT_BYTES", len(whole.encode()) - 4_000)
    html = web.page(report_of(quick))
    assert len(html.encode()) < len(whole.encode()) - 4_000
    held = {name: packed(html, name) for name in web_trials.DETAILS}
    assert len((held["results"] or {"folder": []})["folder"]) < 27
    assert "left out of this page for its size" in html.partition('id="trials-table"')[2].partition("</section>")[0]


@pytest.mark.slow
def test_a_table_without_room_is_named_with_its_length(quick: Path) -> None:
    html = web.page(report_of(quick, rows=40_000))
    assert len(html.encode()) < web.LIMIT_BYTES
    assert "40,000 rows, left out of this page for its size" in html


def test_a_page_that_cannot_be_made_small_is_refused_in_one_line(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "LIMIT_BYTES", 1000)
    with pytest.raises(ReportError, match="larger than 1,000 bytes"):
        web.page(report_of(quick))


def test_a_folder_that_cannot_be_written_is_named(quick: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"missing/report\.html: cannot be written"):
        web.write(report_of(quick), tmp_path / "missing" / "report.html")


def test_the_same_results_make_the_same_page(quick: Path) -> None:
    assert web.page(report_of(quick)) == web.page(report_of(quick))


def test_columns_have_null_where_a_row_lacks_the_key() -> None:
    assert web_columns.columns([{"a": 1}, {"b": "x", "a": 2}]) == {"a": [1, 2], "b": [None, "x"]}


def test_a_number_that_is_not_finite_becomes_null() -> None:
    assert web_columns.rounded(float("nan"), 4) is None
    assert web_columns.rounded(1234567.0, 4) == 1235000
    assert web_columns.rounded(0.000123456, 3) == 0.000123


def write_samples(folder: Path, rows: list[tuple[float, float | None, float | None]]) -> None:
    """Write samples, one row per (seconds, running CPU seconds, bytes); an event at 0 s, the steady window from 2 to 4
    s."""
    lines = [",".join(COLUMNS)]
    for seconds, cpu_s, memory in rows:
        told = {"t_ns": int(seconds * 1e9), "cpu_s": cpu_s, "host_memory_bytes": memory}
        lines.append(",".join("" if told.get(name) is None else str(told[name]) for name in COLUMNS))
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    events = (("started", 0), ("window_started", 2), ("window_ended", 4))
    counted = '"steps": 1, "images": 1, "segments": [[2000000000, 4000000000]]'
    written = (f'{{"event": "{name}", "t_ns": {s * 10**9}, {counted}}}\n' for name, s in events)
    (folder / "events.jsonl").write_text("".join(written))


def test_samples_are_thinned_to_means_of_the_usage_and_peaks_of_the_memory(tmp_path: Path) -> None:
    # Two cores: both idle for 2 s, then both busy for 2 s. Memory 1 MiB, but 5 MiB at 3 s.
    write_samples(tmp_path, [(0, 0, 2**20), (1, 0, 2**20), (2, 0, 2**20), (3, 2, 5 * 2**20), (4, 4, 2**20)])
    found = trial_files.samples(tmp_path, 2, 2)
    assert found == {"from": 0, "step": 2, "window": [2.0, 4.0], "tracks": {0: [0, 100], 2: [1, 5]}}


def test_a_hole_in_the_samples_stays_a_hole(tmp_path: Path) -> None:
    write_samples(tmp_path, [(0, None, 2**20), (1, None, None), (2, None, None), (3, None, None), (4, None, 2**20)])
    found = trial_files.samples(tmp_path, 2, 4)
    assert found and found["tracks"] == {2: [1, None, None, 1]}


@pytest.mark.parametrize("told", ["-1", "true", "1.5", '"1"', str(2**63)])
def test_an_event_at_a_time_that_no_clock_tells_is_no_edge_of_a_curve(tmp_path: Path, told: str) -> None:
    write_samples(tmp_path, [(second, second, 2**20) for second in range(5)])
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(f'{{"event": "finished", "t_ns": {told}}}\n')
    found = trial_files.samples(tmp_path, 2, 10)
    assert found and "events.jsonl: line 4: " in found["reason"] and "t_ns" in found["reason"]


def test_samples_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("t_ns\nno number\n")
    found = trial_files.samples(tmp_path, 2, 10)
    assert found and "cannot be read" in found["reason"]
    assert trial_files.samples(tmp_path / "missing", 2, 10) is None


def test_a_long_log_loses_its_middle_and_says_how_much(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"first\n" + b"x" * 10_000 + b"\nlast\xff")
    text = trial_files.log(tmp_path, 100)
    assert text and text.startswith("first\n") and text.endswith("\nlast\N{REPLACEMENT CHARACTER}")
    assert "9,912 of 10,012 bytes are left out here" in text
    assert len(text) < 300
    whole = trial_files.log(tmp_path, 20_000)
    assert whole and whole.count("x") == 10_000


def test_curves_go_to_the_first_repeats_where_there_is_no_room_for_all(tmp_path: Path) -> None:
    folder = store(tmp_path / "results", *(trial(repeat=repeat) for repeat in range(4)))
    rng = np.random.default_rng(0)
    for path in (folder / "trials").iterdir():
        write_samples(path, [(second, second, float(rng.integers(2**20, 2**30))) for second in range(400)])
    trials = web_trials.trials_of(report_of(folder))
    assert [trial.result.spec.draw.repeat for trial in trials] == [0, 1, 2, 3]
    whole, nothing = web_trials.details(trials, 10**6)
    some, left_out = web_trials.details(trials, 10 * len(whole["results"]) // 7)
    assert nothing == [] and some["results"] == whole["results"]
    every, first = (json.loads(gzip.decompress(base64.b64decode(one["samples"]))) for one in (whole, some))
    assert len(every) == 4 and first == every[: len(first)] and 0 < len(first) < 4
    assert any(f"samples of {4 - len(first)} of 4 trials" in sentence for sentence in left_out)


def test_the_first_of_what_does_not_fit_into_the_room_stay() -> None:
    noise = np.random.default_rng(0).integers(0, 2**31, 10_000).tolist()
    whole, every = web_columns.fitting(noise, list, 10**6)
    part, some = web_columns.fitting(noise, list, 2_000)
    assert (len(whole) > 2_000 >= len(part), every) == (True, 10_000)
    assert json.loads(gzip.decompress(base64.b64decode(part))) == noise[:some] and some > 100
    assert web_columns.fitting(noise, list, 10) == ("", 0)


def test_what_is_folded_is_named_without_its_theme_and_apart_from_what_is_shown() -> None:
    named = [
        Part(str(place), "x", title)
        for place, title in enumerate(
            ("Test accuracy, %, after epoch 10", "Test accuracy, %, after each epoch", "Accuracy: loss, mean")
        )
    ]
    group = Group("g", Theme.ACCURACY, tuple(named[:1]), tuple(named[1:]))
    assert group.more == "Test accuracy, %, after each epoch; loss"
