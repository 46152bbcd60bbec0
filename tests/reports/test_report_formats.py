"""One table object, five formats: what stands in tests/reports/golden was read by eye, cell for cell."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from stored import ended, store, study, trial
from written import numbers

from reports import build, export, latex
from reports.__main__ import main
from workloads.records.figures import Figure
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
    export.write(build.report([store(folder, *mixed())]), folder / "report", ("md", "csv", "parquet", "json", "latex"))
    return folder / "report"


@pytest.mark.parametrize("ending", FORMATS.values())
def test_the_speed_table_is_what_was_read_by_eye(out: Path, ending: str) -> None:
    assert (out / f"speed.{ending}").read_text(encoding="utf-8") == (GOLDEN / f"speed.{ending}").read_text(
        encoding="utf-8"
    )


def test_every_format_holds_the_same_numbers(out: Path) -> None:
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


def test_every_table_of_the_report_has_every_format(out: Path) -> None:
    stems = {
        ending: {path.stem for path in out.glob(f"*.{ending}")} for ending in ("md", "csv", "parquet", "json", "tex")
    }
    stems["md"] -= {"report", "RULES"}
    assert "trials" in stems["csv"] & stems["parquet"], "which is no table of the report"
    stems["csv"] -= {"trials"}
    stems["parquet"] -= {"trials"}
    assert {"speed", "usage", "accuracy", "memory-kinds", "workers"} < stems["md"]
    assert all(found == stems["md"] for found in stems.values())


def test_latex_does_not_break_on_a_special_character(out: Path) -> None:
    """Outside of what pandas and latex.py write themselves, every special character is escaped."""
    text = (out / "speed.tex").read_text(encoding="utf-8")
    note = next(line for line in text.splitlines() if "sampler's differ" in line)
    assert note == (
        r"\par\raggedright\footnotesize \textsuperscript{3} "
        r"unknown: the window's clock \& the sampler's differ by 7 \% "
        r"\textbar{} \textless{}b\textgreater{}\_x\_\textless{}/b\textgreater{}"
    )
    assert text.count("{") == text.count("}")
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\caption{", r"\label{tab:speed}"))


@pytest.mark.parametrize(
    ("given", "told"),
    [("a\\b", r"a\textbackslash{}b"), ("~^", r"\textasciitilde{}\textasciicircum{}"), ("$1 #2 {3}", r"\$1 \#2 \{3\}")],
)
def test_latex_of_a_special_character(given: str, told: str) -> None:
    assert latex.escape(given) == told


def test_every_row_of_latex_is_as_long_as_the_head(out: Path) -> None:
    for path in out.glob("*.tex"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith(r"\\")]
        cells = {len(re.split(r"(?<!\\)&", line)) for line in lines}
        assert len(cells) == 1, path.name


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
    report = build.report([first, second])
    assert [len(chapter.section.results) for chapter in report.chapters] == [27]
    apart = build.report([first, second, other])
    assert [len(chapter.section.results) for chapter in apart.chapters] == [1, 27]  # 1 thread sorts before 2


def test_a_trial_in_two_folders_counts_once_and_none_is_lost(tmp_path: Path) -> None:
    same, newer = trial("pytorch", 32), replace(trial("pytorch", 32), started_at="2025-11-22T10:00:00+00:00")
    first, copy, second = (store(tmp_path / name, result) for name, result in (("a", same), ("b", same), ("c", newer)))
    once = build.report([first, copy])
    assert (len(once.stored.results), once.replaced) == (1, ())
    both = build.report([first, second])
    assert [(pair.old, pair.new) for pair in both.replaced] == [(same, newer)]
    assert "Replaced by a newer trial of the same cell" in both.problems


def test_several_folders_need_a_place_for_their_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(store(tmp_path / name, trial(name, 32))) for name in ("pytorch", "mxnet")]
    assert main(folders) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert main([*folders, "--format", "csv", "--out", str(tmp_path / "out")]) == 0
    assert {row["framework"] for row in numbers(tmp_path / "out" / "speed.csv")} == {"pytorch", "mxnet"}
