from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import store, trial
from written import make, numbers

ROW = {
    "framework": "pytorch", "batch_size": 64, "pairs": 30, "pairs_measured": 47, "foreign_cpu_percent": 3.21,
    "ratio": 0.99812, "low": 0.9951, "high": 1.0011, "bar": 0.99, "verdict": "within the bar",
    "ratio_all": 0.98, "low_all": 0.96, "high_all": 1.0004,
    "sampler_core_percent": 1.234, "sampler_bar_percent": 5.0, "sampler_verdict": "within the bar",
    "segments": [{"wall_s": 1.0}],
}  # fmt: skip


def chapter(results: Path, stored: Any = None, text: str | None = None) -> str:
    """What the page says of overhead.json of these contents; no file if there are none."""
    store(results, trial())
    if stored is not None or text is not None:
        (results / "overhead.json").write_text(json.dumps(stored) if text is None else text)
    return make(results, results / "report").markdown.split("What measuring costs")[1]


def whole(**changes: Any) -> dict[str, Any]:
    conditions = {"cpu_model": "a processor", "cores": 2, "frameworks": {"pytorch": {"framework_version": "2.13.0"}}}
    over = ROW | {"framework": "tensorflow", "ratio": 0.9, "low": 0.8, "high": 0.95, "verdict": "over the bar"}
    over |= {"sampler_core_percent": 6.0, "sampler_verdict": "over the sampler's bar"}
    over = {name: value for name, value in over.items() if not name.endswith("_all")}
    measurement = {"conditions": conditions, "rows": [dict(ROW), over], **changes}
    return {"schema_version": 2, "measurements": [measurement]}


def test_the_measured_overhead_is_a_table_with_interval_and_verdict(tmp_path: Path) -> None:
    text = chapter(tmp_path, whole())
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    head, tensorflow, pytorch = (dict(zip(lines[0], cells, strict=True)) for cells in (lines[0], *lines[2:]))
    assert list(head) == ["Framework", "Batch size", "Pairs", "Foreign CPU, %", "With / without", "Bar", "Verdict",
                          "Over all pairs", "Sampler, % of a core", "Sampler's verdict"]  # fmt: skip
    assert list(tensorflow.values()) == [
        "TensorFlow", "64", "30 of 47", "3.2", "0.9000 [0.8000, 0.9500]", "0.99", "over the bar", "\N{EN DASH}",
        "6.00 of 5", "over the sampler's bar",
    ]  # fmt: skip
    assert list(pytorch.values()) == [
        "PyTorch", "64", "30 of 47", "3.2", "0.9981 [0.9951, 1.0011]", "0.99", "within the bar",
        "0.9800 [0.9600, 1.0004]", "1.23 of 5", "within the bar",
    ]  # fmt: skip
    assert "disturbed least, in either stretch" in text
    assert "\nConditions: cpu model a processor; cores 2; PyTorch 2.13.0.\n" in text
    stored = numbers(tmp_path / "report" / "overhead.csv")
    assert [(row["ratio"], row["ratio_all"]) for row in stored] == [("0.9", ""), ("0.99812", "0.98")]
    assert [row["sampler_verdict"] for row in stored] == ["over the sampler's bar", "within the bar"]


def test_what_was_not_measured_is_said_with_the_command_that_does(tmp_path: Path) -> None:
    text = chapter(tmp_path)
    assert text.replace("\\", "") == f": not measured: run python -m runner overhead --results {tmp_path}.\n"


def test_a_framework_whose_overhead_failed_is_named_with_its_reason(tmp_path: Path) -> None:
    failed = [{"framework": "mxnet", "batch_size": 64, "reason": "no wheel"}]
    assert "\nmxnet 64: no wheel.\n" in chapter(tmp_path / "a", whole(failed=failed))
    nothing = chapter(tmp_path / "b", whole(rows=[], failed=failed))
    assert "|" not in nothing and "\nmxnet 64: no wheel.\n" in nothing


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data.update(schema_version=3), "Invalid enum value 3 - at `$.schema_version`"),
        (
            lambda data: data["measurements"][0].pop("conditions"),
            "Object missing required field `conditions` - at `$.measurements[0]`",
        ),
        (
            lambda data: data["measurements"][0].update(rows={}),
            "Expected `array`, got `object` - at `$.measurements[0].rows`",
        ),
        (
            lambda data: data["measurements"][0]["rows"][0].pop("sampler_verdict"),
            "Object missing required field `sampler_verdict` - at `$.measurements[0].rows[0]`",
        ),
        (
            lambda data: data["measurements"][0]["rows"][0].update(low_all="1"),
            "Expected `int | float | null`, got `str` - at `$.measurements[0].rows[0].low_all`",
        ),
        (
            lambda data: data["measurements"][0]["rows"].append(7),
            "Expected `object`, got `int` - at `$.measurements[0].rows[2]`",
        ),
        (
            lambda data: data["measurements"][0]["rows"][0].pop("ratio"),
            "Object missing required field `ratio` - at `$.measurements[0].rows[0]`",
        ),
        (
            lambda data: data["measurements"][0]["rows"][0].update(ratio="1"),
            "Expected `int | float`, got `str` - at `$.measurements[0].rows[0].ratio`",
        ),
        (
            lambda data: data["measurements"][0]["rows"][0].update(pairs=True),
            "Expected `int`, got `bool` - at `$.measurements[0].rows[0].pairs`",
        ),
    ],
)
def test_an_unreadable_overhead_is_named_with_its_reason(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    stored = whole()
    change(stored)
    line = chapter(tmp_path, stored).replace("\\", "")
    assert line == f": {tmp_path / 'overhead.json'}: left out: {told}\n"


def test_a_truncated_overhead_is_named_and_the_tables_go_on(tmp_path: Path) -> None:
    assert "overhead.json: left out: Input data was truncated" in chapter(tmp_path, text='{"schema_version": 2, ')
    assert "overhead.json: left out: JSON is malformed" in chapter(tmp_path / "other", text='{"ratio": NaN}')
    assert (tmp_path / "report" / "usage.md").exists()


def test_each_conditions_have_a_table_of_their_own_with_the_newest_of_each_cell(tmp_path: Path) -> None:
    def entry(at: int, **changes: Any) -> dict[str, Any]:
        return ROW | {"measured_at": f"2026-11-23T0{at}:00:00+00:00"} | changes

    mxnet = {"framework": "mxnet", "batch_size": 64}
    before = {"conditions": {"commit": "aaa"}, "rows": [entry(1, ratio=0.5)], "failed": []}
    failed = {"reason": "it was killed", "measured_at": "2026-11-23T02:30:00+00:00"}
    rows = [entry(2, ratio=0.6), entry(2, **mxnet), entry(3, ratio=0.7, framework="tensorflow"), entry(4, ratio=0.8)]
    gone = {"framework": "tensorflow", "batch_size": 64} | failed  # and then it went well
    newest = {"conditions": {"commit": "bbb"}, "rows": rows, "failed": [mxnet | failed, gone]}
    text = chapter(tmp_path, {"schema_version": 2, "measurements": [before, newest]})
    assert "commit bbb" in text and "0.8000 [" in text and "0.7000 [" in text and "0.6000 [" not in text
    assert "mxnet 64: it was killed." in text and "MXNet |" not in text and "tensorflow 64: it was" not in text
    assert "0.5000 [" not in text
    page = (tmp_path / "report" / "report.md").read_text()
    older = page.split("What measuring costs, measured before, commit aaa")[1]
    assert "0.5000 [" in older and "commit aaa" in older
    assert [row["ratio"] for row in numbers(tmp_path / "report" / "overhead-2.csv")] == ["0.5"]
