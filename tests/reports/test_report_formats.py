"""One table object, five formats: the contents of tests/reports/golden were read by eye, cell for cell."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stored import answers, ended, numbers, run, store, store_answers, study, study_of_blocks, trial

from reports import build, export, load, markdown
from reports.__main__ import main
from reports.drawing.sizes import COLUMN, Layout
from reports.latex import build_files as latex_files
from reports.latex import escape
from reports.table import Placed, Table, TableCell
from workloads.records.figures import Figure
from workloads.records.files import LOCK_FILES
from workloads.records.result import TrialResult
from workloads.records.status import Status

GOLDEN = Path(__file__).parent / "golden"
FORMATS = {"md": "md", "csv": "csv", "json": "json", "latex": "tex"}


def mixed() -> list[TrialResult]:
    """Repeats, one of them out of time; a null figure; out of memory; a cell that was not run; a noisy one."""
    null = Figure(None, "", reason="the window's clock & the sampler's differ by 7 % | <b>_x_</b>")
    speeds = {0: 1000.0, 1: 1100.0, 2: 1200.0}
    return [
        *(
            trial("tensorflow", 32, repeat, figures={"images_per_s": Figure(s, "worker")})
            for repeat, s in speeds.items()
        ),
        trial("tensorflow", 1024),
        *(
            trial("pytorch", 32, repeat, figures={"images_per_s": Figure(2000.0 + repeat, "worker")})
            for repeat in (0, 1)
        ),
        ended(Status.TIMEOUT, "not finished after 300 s", "pytorch", 32, repeat=2),
        trial("pytorch", 1024, figures={"images_per_s": null}),
        ended(Status.OUT_OF_MEMORY, "the card is full", "mxnet", 1024),
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    export.write(
        build.build_report([store(folder, *mixed())]), folder / "report", ("md", "csv", "parquet", "json", "latex")
    )
    return folder / "report"


def test_a_report_on_results_that_were_copied_to_macos_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS reports neither which cores are allotted nor who holds the lock that came with the folder."""
    store(tmp_path, *mixed())
    (tmp_path / LOCK_FILES.replace("*", "")).touch()
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(load, "LOCKS", tmp_path / "none")
    export.write(build.build_report([tmp_path]), tmp_path / "report", ("csv",))
    assert (tmp_path / "report" / "speed.csv").exists()


@pytest.mark.parametrize("ending", FORMATS.values())
def test_the_speed_table_is_what_was_read_by_eye(out: Path, ending: str) -> None:
    assert (out / f"speed.{ending}").read_text(encoding="utf-8") == (GOLDEN / f"speed.{ending}").read_text(
        encoding="utf-8"
    )


def test_every_table_has_every_format_with_the_same_numbers(out: Path) -> None:
    for path in set(out.glob("*.csv")) - {out / "trials.csv"}:
        from_csv = pd.read_csv(path)
        from_parquet = pd.read_parquet(path.with_suffix(".parquet"))
        from_json = pd.DataFrame(json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["rows"])
        assert list(from_csv) == list(from_parquet) == list(from_json), path.name
        for name in from_csv:
            told = [
                list(frame[name].astype(object).where(frame[name].notna(), None)) for frame in (from_parquet, from_json)
            ]
            assert told[0] == told[1], (path.name, name)
            if from_parquet[name].dtype.kind in "if":
                assert from_csv[name].to_numpy() == pytest.approx(from_parquet[name].to_numpy(dtype=float), nan_ok=True)
    stems = {
        ending: {path.stem for path in out.glob(f"*.{ending}")} for ending in ("md", "csv", "parquet", "json", "tex")
    }
    stems["md"] -= {"report", "RULES"}
    assert "trials" in stems["csv"] & stems["parquet"], "which is no table of the report"
    stems["csv"] -= {"trials"}
    stems["parquet"] -= {"trials"}
    assert {"speed", "usage", "accuracy", "memory-kinds", "workers"} < stems["md"]
    stems["tex"] -= {"conditions"}
    assert all(found == stems["md"] for found in stems.values())


def test_a_batch_size_is_a_whole_number_where_a_framework_has_none(out: Path) -> None:
    sizes = {row["framework"]: row["fastest_batch_size"] for row in numbers(out / "best.csv")}
    assert sizes == {"tensorflow": "1024", "pytorch": "32", "mxnet": ""}
    text = (out / "best.json").read_text(encoding="utf-8")
    assert [line.strip(" ,") for line in text.splitlines() if '"fastest_batch_size"' in line] == [
        '"fastest_batch_size": 1024', '"fastest_batch_size": 32', '"fastest_batch_size": null'
    ]  # fmt: skip


def test_latex_breaks_on_no_special_character_and_every_row_is_as_long_as_its_head(out: Path) -> None:
    """Except for commands that `latex` writes itself, every special character is escaped."""
    text = (out / "conditions.tex").read_text(encoding="utf-8")
    note = next(line for line in text.splitlines() if "sampler's differ" in line)
    assert note.split("~", 1)[1] == (
        r"unknown: the window's clock \& the sampler's differ by 7 \% "
        r"\textbar{} \textless{}b\textgreater{}\_x\_\textless{}/b\textgreater{}\par"
    )
    assert text.count("{") == text.count("}")
    text = (out / "speed.tex").read_text(encoding="utf-8")
    assert text.count("{") == text.count("}")
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\caption{", r"\label{tab:speed}"))
    for path in set(out.glob("*.tex")) - {out / "conditions.tex"}:
        for tabular in path.read_text(encoding="utf-8").split(r"\begin{tabular}")[1:]:
            lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
            assert len({len(re.split(r"(?<!\\)&", line)) for line in lines}) == 1, path.name


def test_conditions_and_footnotes_stand_once_and_tables_refer_to_them(out: Path) -> None:
    text = (out / "conditions.tex").read_text(encoding="utf-8")
    told = "optimizer SGD with momentum 0.9"
    tables = {path.stem: path.read_text(encoding="utf-8") for path in out.glob("*.tex") if path.stem != "conditions"}
    assert text.count(told) == text.count(r"\label{sec:conditions}") == text.count("the sampler's differ") == 1
    assert not any(told in table or "the sampler's differ" in table for table in tables.values())
    assert r"Conditions and footnotes: Section~\ref{sec:conditions}." in tables["speed"]
    marks = re.findall(r"\\textsuperscript\{(\d+)\}~", text)
    assert marks == [str(number + 1) for number in range(len(marks))]
    used = {mark for table in tables.values() for mark in re.findall(r"\\textsuperscript\{(\d+),?\}", table)}
    assert used == set(marks)


def test_a_table_of_several_chapters_names_its_own_conditions(tmp_path: Path) -> None:
    report = build.build_report([store(tmp_path, trial("mxnet", 32, threads=1), trial("pytorch", 32))])
    export.write(report, tmp_path / "report", ("latex",))
    for number, chapter in enumerate(report.chapters, start=1):
        text = (tmp_path / "report" / f"speed-{number}.tex").read_text()
        assert rf"\ref{{sec:conditions}}, {number}." in text
        assert re.findall(r"\\label\{(.*?)\}", text) == [f"tab:speed-{number}"]  # as docs/reference/reports.md says
        assert escape(chapter.heading) in (tmp_path / "report" / "conditions.tex").read_text()


def numbered(head: tuple[str, ...], *rows: tuple[str, ...], **more: Any) -> Table:
    """Make a table whose cells after the first are numbers."""
    cells = tuple((TableCell(name), *(TableCell(text, 1.0) for text in texts)) for name, *texts in rows)
    return Table("a-table", "A title", head, cells, **more)


def tex(shown: Table) -> str:
    return latex_files([Placed(shown, "a-table", ())], {})["a-table.tex"]


def body(text: str) -> list[str]:
    return [line for line in text.splitlines() if " & " in line]


def test_a_row_is_a_batch_size_in_latex_where_a_column_is_one_elsewhere() -> None:
    shown = numbered(("Framework / batch size", "4", "8"), ("PyTorch", "1", "-2"), ("MXNet", "3", "4"), by_size=True)
    assert body(tex(shown)) == [r"Batch size & PyTorch & MXNet \\", r"4 & 1 & 3 \\", r"8 & $-$2 & 4 \\"]


def test_a_table_too_wide_or_too_long_goes_on_in_floats_under_one_number() -> None:
    size = "a rather long name of something measured"
    two = tex(numbered(("Framework", *[size] * 4), ("PyTorch", *["123456.7"] * 4)))
    assert r"\begin{table*}" in two and two.count(r"\begin{tabular}") == 1
    more = tex(numbered(("Framework", *[size] * 12), ("PyTorch", *["123456.7"] * 12)))
    assert more.count(r"\begin{tabular}") == more.count("Framework &") == more.count("PyTorch &") == 3
    assert more.count("123456.7") == 12 and more.count(r"\begin{table*}") == 3
    text = tex(numbered(("Fact", "A"), *((f"fact {number}", "1") for number in range(100))))
    floats = text.count(r"\begin{table}")
    assert floats == text.count(r"\caption{A title") == text.count("Fact & A") > 1
    assert text.count("(continued)") == text.count(r"\addtocounter{table}{-1}") == floats - 1
    assert text.count(r"\label{") == 1
    assert [line.split(" ")[1] for line in body(text) if line.startswith("fact")] == [str(n) for n in range(100)]


@pytest.mark.parametrize(
    ("given", "told"),
    [("a\\b", r"a\textbackslash{}b"), ("~^", r"\textasciitilde{}\textasciicircum{}"), ("$1 #2 {3}", r"\$1 \#2 \{3\}")],
)
def test_latex_of_a_special_character(given: str, told: str) -> None:
    assert escape(given) == told


def test_formats_not_asked_for_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = store(tmp_path / "r", trial())
    assert main([str(results), "--format", "json", "--out", str(tmp_path / "out")]) == 0
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".md", ".txt"}
    assert [path.name for path in (tmp_path / "out").glob("*.md")] == ["RULES.md"]
    with pytest.raises(SystemExit) as stopped:
        main([str(results), "--format", "docx"])
    assert stopped.value.code == 2
    assert "docx" in capsys.readouterr().err


def test_several_folders_are_one_report_with_conditions_apart(tmp_path: Path) -> None:
    first = store(tmp_path / "Größe 1", *(result for result in study() if result.spec.cell.framework != "mxnet"))
    second = store(tmp_path / "二", *(result for result in study() if result.spec.cell.framework == "mxnet"))
    other = store(tmp_path / "other", trial("mxnet", 32, threads=1))
    report = build.build_report([first, second])
    assert [len(section.results) for section in report.sections] == [27]
    apart = build.build_report([first, second, other])
    assert [len(section.results) for section in apart.sections] == [1, 27]  # 1 thread sorts before 2


def test_a_trial_in_two_folders_counts_once_and_none_is_lost(tmp_path: Path) -> None:
    same, newer = trial("pytorch", 32), replace(trial("pytorch", 32), started_at="2025-11-22T10:00:00+00:00")
    first, copy, second = (store(tmp_path / name, result) for name, result in (("a", same), ("b", same), ("c", newer)))
    once = build.build_report([first, copy])
    assert (len(once.stored.results), once.replaced) == (1, ())
    both = build.build_report([first, second])
    assert [(pair.old, pair.new) for pair in both.replaced] == [(same, newer)]
    assert "Replaced by a newer trial of the same cell" in both.problems


def test_blocks_and_answers_of_one_folder_stand_beside_the_trials_of_another(tmp_path: Path) -> None:
    others = study_of_blocks(tmp_path / "blocks", {}), store_answers(tmp_path / "answers", answers("pytorch", 64, 900))
    kinds = [chapter.kind for chapter in build.build_report([*others, store(tmp_path / "c", trial())]).chapters]
    assert len(kinds) == 3 and "" in kinds and "batch-size" in kinds


@pytest.mark.slow
def test_a_folder_whose_name_is_no_utf_8_has_a_page_with_links_and_a_site(tmp_path: Path) -> None:
    results = store(tmp_path / os.fsdecode(b"r\xe9s"), trial())
    (next((results / "trials").iterdir()) / "log.txt").write_text("log")
    assert main([str(results), "--format", "html", "--out", str(tmp_path / "page")]) == 0
    assert "r%E9s/trials/" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert main(["site", str(results), "--out", str(tmp_path / "site")]) == 0
    assert list((tmp_path / "site").glob("*.html"))


def test_several_folders_need_a_place_for_their_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(store(tmp_path / name, trial(name, 32))) for name in ("pytorch", "mxnet")]
    assert main(folders) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert main([*folders, "--format", "csv", "--out", str(tmp_path / "out")]) == 0
    assert main(typed(capsys.readouterr().out)) == 0
    assert {row["framework"] for row in numbers(tmp_path / "out" / "speed.csv")} == {"pytorch", "mxnet"}


def typed(printed: str) -> list[str]:
    """Return the words of the command that a report prints for all of its tables."""
    return shlex.split(printed.partition("All tables here: python -m reports ")[2].splitlines()[0])


def test_the_command_for_all_tables_makes_the_same_report_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = store(tmp_path, trial("pytorch", 32), trial("pytorch", 64))
    assert main([str(results), "--format", "json", "--baseline-batch", "32"]) == 0
    files = {path.name for path in (results / "report").iterdir()}
    assert "batch-contrasts.json" in files
    assert main(typed(capsys.readouterr().out)) == 0
    assert "### Training speed relative to the baseline batch size" in capsys.readouterr().out
    assert {path.name for path in (results / "report").iterdir()} == files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formats", "shown"),
    [(("md", "pdf", "svg", "png"), "![{alt}](speed.png)"), (("md", "pdf"), "\n[{alt}](speed.pdf)")],
)
def test_report_md_shows_a_picture_and_links_a_pdf_that_no_page_shows(
    tmp_path: Path, formats: tuple[str, ...], shown: str
) -> None:
    report = build.build_report([store(tmp_path, trial("mxnet", 32))])
    export.write(report, tmp_path / "report", formats)
    chart = next(chart for chart in report.chapters[0].charts if chart.name == "speed")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert shown.format(alt=markdown.escape(chart.alt)) in text
    assert markdown.escape(chart.caption) not in text


def test_report_md_says_what_a_bare_figure_does_not(tmp_path: Path) -> None:
    report = build.build_report([store(tmp_path, trial("mxnet", 32))])
    export.write(report, tmp_path / "report", ("md", "svg"), layout=Layout(COLUMN, bare=True))
    chart = next(chart for chart in report.chapters[0].charts if chart.name == "speed")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert markdown.escape(f"{chart.title}. {chart.caption} {chart.provenance}") in text
    svg = (tmp_path / "report" / "speed.svg").read_text(encoding="utf-8")
    assert 'width="244.8pt"' in svg and chart.provenance not in svg


@pytest.mark.parametrize("asked", [["--bare"], ["--figure-size", "slide"]])
def test_a_look_of_figures_that_are_not_drawn_is_refused(tmp_path: Path, asked: list[str]) -> None:
    ran = run(store(tmp_path, trial("mxnet", 32)), "--format", "md", *asked)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "add one of png svg pdf to --format" in ran.stderr and ran.stderr.count("\n") == 1
    assert not (tmp_path / "report").exists()
