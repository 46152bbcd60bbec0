from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import Made, make, store, trial

from reports import build

CELLS = [
    {"framework": "pytorch", "batch_size": 128, "repeats": 4, "half_width": 0.0123, "ended": "stable"},
    {"framework": "tensorflow", "batch_size": 32, "repeats": 10, "half_width": 0.031, "ended": "limit reached"},
    {"framework": "pytorch", "batch_size": 32, "repeats": 1, "half_width": None, "ended": "stopped: out of memory | x"},
]


def whole(**changes: Any) -> dict[str, Any]:
    return {"schema_version": 1, "tolerated": 0.02, "limit": 10, "cells": [dict(cell) for cell in CELLS], **changes}


def built(results: Path, text: str | None) -> Made:
    """Make the report of a results folder with a stable.json of this text."""
    store(results, trial())
    if text is not None:
        (results / "stable.json").write_text(text)
    return make(results, results / "report")


def test_how_each_cell_ended_is_a_table_under_the_sections(tmp_path: Path) -> None:
    found = built(tmp_path, json.dumps(whole()))
    assert found.printed.count("## Until stable") == 1
    sections, chapter = found.markdown.split("## Until stable")
    assert "## 1. osu-cnn on digits" in sections
    lines = [line for line in chapter.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert rows[2:] == [
        ["TensorFlow", "32", "10", "3.1", "limit reached"],
        ["PyTorch", "32", "1", "\N{EN DASH}", "stopped: out of memory \\| x"],
        ["PyTorch", "128", "4", "1.2", "stable"],
    ]
    assert "at most 2 % of it, or until 10 repeats" in chapter


def test_what_an_interval_that_was_waited_for_is_worth_is_said(tmp_path: Path) -> None:
    new = built(tmp_path / "new", json.dumps(whole(coverage_percent={"1": [94, 96], "3": [73, 94]}))).markdown
    assert "in 94 to 96 % where repeats spread by 1 %, 73 to 94 % where repeats spread by 3 %" in new
    old = built(tmp_path / "old", json.dumps(whole())).markdown
    assert "less often than it says: the runner of that time did not store how often" in old


def test_the_half_width_has_a_footnote_with_what_it_covers_where_repeats_hang_together(tmp_path: Path) -> None:
    cells = [dict(cell, drifts=False) for cell in CELLS]
    data = whole(correlated_percent={"0.3": [61, 88], "0.7": [40, 62]}, run_drifts=True, cells=cells)
    made = built(tmp_path, json.dumps(data))
    plain = " ".join(made.markdown.split())
    assert "in 61 to 88 % at an autocorrelation of 0.3, 40 to 62 % at an autocorrelation of 0.7" in plain
    assert "the whole run drift in the order of their starts: no cell is called stable" in plain
    (row,) = [
        line for line in made.markdown.splitlines() if line.startswith("| TensorFlow") and "limit reached" in line
    ]
    assert "3.1 [1] [2]" in row.replace("\\", ""), "next to the number"


def test_tables_of_several_folders_are_told_apart_by_their_titles(tmp_path: Path) -> None:
    folders = [store(tmp_path / name, trial(framework)) for name, framework in (("a", "pytorch"), ("b", "mxnet"))]
    for folder in folders:
        (folder / "stable.json").write_text(json.dumps(whole()))
    titles = [table.title for table in build.build_report(folders).appendix]
    assert titles == [f"Until stable, {folder}" for folder in folders]


def test_repeats_of_a_given_number_make_no_such_chapter(tmp_path: Path) -> None:
    assert "Until stable" not in built(tmp_path, None).markdown


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data.update(schema_version=2), "Invalid enum value 2 - at `$.schema_version`"),
        (lambda data: data.pop("cells"), "Object missing required field `cells`"),
        (lambda data: data.pop("tolerated"), "Object missing required field `tolerated`"),
        (lambda data: data.update(limit="10"), "Expected `float`, got `str` - at `$.limit`"),
        (
            lambda data: data.update(coverage_percent={"3": [73]}),
            "Expected `array` of length 2 - at `$.coverage_percent[...]`",
        ),
        (lambda data: data["cells"].append(7), "Expected `object`, got `int` - at `$.cells[3]`"),
        (
            lambda data: data["cells"][0].update(half_width="1"),
            "Expected `int | float | null`, got `str` - at `$.cells[0].half_width`",
        ),
        (lambda data: data["cells"][2].pop("ended"), "Object missing required field `ended` - at `$.cells[2]`"),
    ],
)
def test_an_unreadable_file_is_named_with_its_reason_and_the_tables_go_on(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    stored = whole()
    change(stored)
    text = built(tmp_path, json.dumps(stored)).markdown.replace("\\", "")
    assert f"\n\nUntil stable: {tmp_path / 'stable.json'}: left out: {told}\n" in text
    assert (tmp_path / "report" / "usage.md").exists()


def test_a_file_that_cannot_be_read_or_holds_no_number_is_named_and_the_tables_go_on(tmp_path: Path) -> None:
    assert "stable.json: left out: Input data was truncated" in built(tmp_path, '{"schema_version": 1, ').markdown
    text = '{"schema_version": 1, "tolerated": NaN}'
    assert (
        "stable.json: left out: JSON is malformed: invalid character (byte 35)" in built(tmp_path / "2", text).markdown
    )
