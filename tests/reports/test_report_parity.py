from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import SPEC, ended, make, numbers, report, rows, store, study, trial

from reports import parity
from workloads.records.figures import Figure
from workloads.records.job import InputFile
from workloads.records.result import TrialResult
from workloads.records.status import Status

OFF = [4.5, 5.0, 5.5]  # points: mean 5, s 0.5
NEAR = [0.1, 0.2, 0.3]  # mean 0.2, s 0.1
WIDE = [0.8, 1.0, 1.2]  # mean 1, s 0.2
DATA: dict[str, Any] = {"dataset": "fashion-mnist"}


def apart(framework: str, points: list[float], batch_size: int = 32, **changes: Any) -> list[TrialResult]:
    """A trial for each repeat, so many points above 50 %, 60 %, 70 %, 50 %, ...: repeats differ, pairs do not.

    The data set has 10,000 test images: one image is 0.01 points.
    """
    changes = DATA | changes
    return [
        trial(framework, batch_size, r, figures={"test_accuracy": Figure(0.5 + r % 3 / 10 + d / 100, "w")}, **changes)
        for r, d in enumerate(points)
    ]


def cell(file: Path) -> tuple[int, object, str]:
    """n, mean and interval, verdict of a parity.csv with one row."""
    (row,) = numbers(file)
    return int(row["n"]), [float(row[key]) for key in parity.NUMBERS], row["verdict"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("points", "mean", "low", "high", "verdict"),
    [
        # t(0.975, 2) = 4.302653 and t(0.975, 4) = 2.776445
        (NEAR, 0.2, -0.048414, 0.448414, "agree"),  # +- 4.302653 x 0.1 / sqrt(3)
        (WIDE, 1.0, 0.503172, 1.496828, "uncertain"),
        ([-0.8, -1.0, -1.2], -1.0, -1.496828, -0.503172, "uncertain"),
        ([-0.5, 0.0, 0.5], 0.0, -1.242069, 1.242069, "uncertain"),
        (OFF, 5.0, 3.757931, 6.242069, "not comparable"),
        ([-4.5, -5.0, -5.5], -5.0, -6.242069, -3.757931, "not comparable"),
        ([1.5, 2.0, 2.5], 2.0, 0.757931, 3.242069, "uncertain"),  # beyond 1 point by its mean, not by its interval
        ([-3.0, 0.0, -0.3], -1.1, -5.204470, 3.004470, "uncertain"),  # s = sqrt(2.73)
        ([-0.2, -0.1, 0.0, 0.1, 0.2], 0.0, -0.196324, 0.196324, "agree"),  # +- 2.776445 x sqrt(0.025 / 5)
        # Without any spread they are taken to spread by one test image: +- 4.302653 x 0.01 / sqrt(3)
        ([0.0, 0.0, 0.0], 0.0, -0.024841, 0.024841, "agree"),
        ([1.0, 1.0, 1.0], 1.0, 0.975159, 1.024841, "uncertain"),
        ([-1.0, -1.0, -1.0], -1.0, -1.024841, -0.975159, "uncertain"),
        ([1.1, 1.1, 1.1], 1.1, 1.075159, 1.124841, "not comparable"),
    ],
    ids=str,
)
def test_mean_interval_and_verdict_are_those_computed_by_hand(
    tmp_path: Path, points: list[float], mean: float, low: float, high: float, verdict: str
) -> None:
    out = report(tmp_path, *apart("tensorflow", points), *apart("pytorch", [0.0] * len(points)))
    assert cell(out / "parity.csv") == (len(points), pytest.approx([mean, low, high], abs=1e-6), verdict)
    text = f"{mean:+.2f} [{low:+.2f}, {high:+.2f}] {verdict}"
    assert rows(out / "parity.md") == {"Difference / batch size": ["32"], "TensorFlow minus PyTorch": [text]}


def test_a_difference_is_of_repeats_of_one_number_and_the_same_inputs(tmp_path: Path) -> None:
    # a difference that rounds to nothing is not minus zero
    out = report(tmp_path, *apart("tensorflow", [-0.001] * 3), *apart("pytorch", [0.0] * 3))
    assert rows(out / "parity.md")["TensorFlow minus PyTorch"] == ["+0.00 [-0.03, +0.02] agree"]
    # repeats are paired by their number and not by the order they ran in
    late = [
        replace(result, started_at=f"2025-11-21T1{9 - result.spec.draw.repeat}:00:00+00:00")
        for result in apart("tensorflow", NEAR)
    ]
    out = report(tmp_path / "2", *late, *apart("pytorch", [0.0] * 3))
    assert cell(out / "parity.csv") == (3, pytest.approx([0.2, -0.048414, 0.448414], abs=1e-6), "agree")
    # the same inputs at another path are a pair
    moved = {name: InputFile("elsewhere.npy", file.sha256) for name, file in SPEC.inputs.items()}
    out = report(tmp_path / "3", *apart("tensorflow", NEAR, inputs=moved), *apart("pytorch", [0.0] * 3))
    assert cell(out / "parity.csv")[0] == 3
    # a repeat that neither framework ran needs no reason
    longer = [*apart("tensorflow", [0.0] * 4, 64), *apart("pytorch", [0.0] * 4, 64)]
    out = report(tmp_path / "4", *apart("tensorflow", NEAR, 32), *apart("pytorch", [0.0] * 3, 32), *longer)
    assert rows(out / "parity.md")["TensorFlow minus PyTorch"] == [
        "+0.20 [-0.05, +0.45] agree n=3",
        "+0.00 [-0.02, +0.02] agree",
    ]


def test_an_unverified_repeat_is_not_in_the_difference_and_the_cell_says_so(tmp_path: Path) -> None:
    pytorch = apart("pytorch", [0.0, 40.0, 0.0, 0.0])
    pytorch[1] = replace(pytorch[1], status=Status.UNVERIFIED, reason="losses of its own")
    others = apart("tensorflow", [0.1, 0.0, 0.2, 0.3]) + apart("mxnet", [0.1, 0.0, 0.2, 0.3])
    out = report(tmp_path, *pytorch, *others)
    assert rows(out / "parity.md") == {
        "Difference / batch size": ["32"],
        "TensorFlow minus PyTorch": ["+0.20 [-0.05, +0.45] agree n=3 [1]"],
        "TensorFlow minus MXNet": ["+0.00 [-0.02, +0.02] agree"],
        "PyTorch minus MXNet": ["-0.20 [-0.45, +0.05] agree n=3 [1]"],
    }
    text = (out / "parity.md").read_text()
    assert "- [1] repeat 1: PyTorch unverified\n" in text
    assert "n = 4 paired repeats. A cell with fewer repeats has its n; below 3 it has no verdict." in text


def test_a_pair_of_two_repeats_has_no_verdict_and_says_its_n_and_why(tmp_path: Path) -> None:
    pytorch = apart("pytorch", [0.0] * 3)
    pytorch[0] = replace(pytorch[0], status=Status.UNVERIFIED, reason="losses of its own")
    out = report(tmp_path, *pytorch, *apart("tensorflow", [0.0] * 3), *apart("mxnet", [0.0] * 3))
    assert rows(out / "parity.md")["TensorFlow minus PyTorch"] == ["n=2 [1]"]
    row = numbers(out / "parity.csv")[0]
    assert [row[key] for key in ("n", *parity.NUMBERS, "verdict")] == ["2", "", "", "", ""]
    assert (
        "- Batch size 32: TensorFlow and PyTorch (no verdict, n=2), PyTorch and MXNet (no verdict, n=2), "
        "TensorFlow and MXNet (agree).\n"
    ) in (out / "parity.md").read_text()


def test_a_repeat_that_neighbours_disturbed_is_a_pair_like_any_other(tmp_path: Path) -> None:
    first, *others = apart("pytorch", [0.0] * 4)
    disturbed = replace(first, status=Status.CONTENDED, reason="others took 40 %")
    calm, beside = (
        report(tmp_path / name, *apart("tensorflow", [0.1, 0.2, 0.3, 0.2]), pytorch, *others)
        for name, pytorch in (("calm", first), ("beside", disturbed))
    )
    assert cell(beside / "parity.csv") == cell(calm / "parity.csv") and cell(calm / "parity.csv")[0] == 4


@pytest.mark.parametrize(
    ("second", "note"),
    [
        ([], "PyTorch not run"),
        ([ended(Status.OUT_OF_MEMORY, "full", repeat=1, **DATA)], "PyTorch out of memory"),
        ([trial(repeat=1, status=Status.UNVERIFIED, reason="wrong", **DATA)], "PyTorch unverified"),
        (
            [trial(repeat=1, figures={"test_accuracy": Figure(None, "w", reason="no")}, **DATA)],
            "PyTorch accuracy unknown",
        ),
        ([replace(trial(repeat=1, **DATA), figures={})], "PyTorch accuracy unknown"),
        (
            [trial(repeat=1, inputs={"order": InputFile("inputs/order.npy", "01")}, **DATA)],
            "TensorFlow and PyTorch had different inputs",
        ),
    ],
    ids=["absent", "out of memory", "unverified", "null", "no figure", "inputs"],
)
def test_a_repeat_that_is_no_pair_is_left_out_with_its_reason(
    tmp_path: Path, second: list[TrialResult], note: str
) -> None:
    first, _, *others = apart("pytorch", [0.0] * 4)
    out = report(tmp_path, *apart("tensorflow", [0.1, 30.0, 0.2, 0.3]), first, *second, *others)
    assert cell(out / "parity.csv") == (3, pytest.approx([0.2, -0.048414, 0.448414], abs=1e-6), "agree")
    assert rows(out / "parity.md")["TensorFlow minus PyTorch"] == ["+0.20 [-0.05, +0.45] agree [1]"]
    assert (out / "parity.md").read_text().count(f"- [1] repeat 1: {note}\n") == 1


@pytest.mark.parametrize(
    "trials",
    [
        study(2),
        apart("pytorch", [0.0] * 3),
        apart("pytorch", [0.0] * 3) + apart("mxnet", [0.0] * 2),
        apart("pytorch", [0.0] * 3, 32) + apart("mxnet", [0.0] * 3, 64),
    ],
    ids=["two repeats", "one framework", "two pairs of three", "different batch sizes"],
)
def test_too_few_repeats_are_one_plain_line_and_no_table(tmp_path: Path, trials: list[TrialResult]) -> None:
    built = make(store(tmp_path, *trials), tmp_path / "report")
    for text in (built.markdown, built.printed):
        (line,) = (line for line in text.splitlines() if "parity" in line)
        assert line.startswith("Accuracy parity is not stated: it needs three ok repeats")
        assert "(--repeat 3)" in line
    assert not list((tmp_path / "report").glob("parity*"))


def test_the_statement_stands_under_the_accuracies_and_is_printed(tmp_path: Path) -> None:
    trials = [
        *apart("tensorflow", NEAR, 32),
        *apart("pytorch", [0.0] * 3, 32),
        *apart("mxnet", NEAR, 32),
        *apart("tensorflow", OFF, 64),
        *apart("pytorch", [0.0] * 3, 64),
        *apart("mxnet", WIDE, 64),
    ]
    built = make(store(tmp_path, *trials), tmp_path / "report")
    summary = (
        "### Accuracy parity\n\n- Batch size 32: all pairs agree.\n- Batch size 64: TensorFlow and PyTorch (not "
        "comparable), TensorFlow and MXNet (not comparable), PyTorch and MXNet (uncertain).\n"
    )
    # TensorFlow minus MXNet at 64: 3.7, 4.0, 4.3, mean 4, s 0.3
    assert rows(tmp_path / "report" / "parity.md")["TensorFlow minus MXNet"][1] == "+4.00 [+3.25, +4.75] not comparable"
    for text in (built.markdown, built.printed):
        before, after = text.split(summary)
        assert before.count("### Test accuracy") == 1
        assert after.count("### CPU usage") >= 1


def test_two_frameworks_are_one_pair_and_three_are_three_in_table_order(tmp_path: Path) -> None:
    two = report(tmp_path / "two", *apart("mxnet", NEAR), *apart("pytorch", [0.0] * 3))
    three = report(tmp_path / "three", *study(3))
    assert list(rows(two / "parity.md"))[1:] == ["PyTorch minus MXNet"]
    assert "- Batch size 32: PyTorch and MXNet (agree).\n" in (two / "parity.md").read_text()
    assert list(rows(three / "parity.md"))[1:] == [
        "TensorFlow minus PyTorch",
        "TensorFlow minus MXNet",
        "PyTorch minus MXNet",
    ]
    # study(): each framework is exactly 1 point below the one before it, in every repeat of 360 images: 1 +- 0.69, 2 +-
    # 0.69
    verdicts = {(row["framework_a"], row["framework_b"], row["verdict"]) for row in numbers(three / "parity.csv")}
    assert verdicts == {
        ("tensorflow", "pytorch", "uncertain"),
        ("tensorflow", "mxnet", "not comparable"),
        ("pytorch", "mxnet", "uncertain"),
    }
    assert len(numbers(three / "parity.csv")) == 27


def test_the_csv_is_tidy(tmp_path: Path) -> None:
    trials = [*apart("mxnet", [0.5] * 3), *apart("pytorch", [0.0] * 3)]
    out = report(tmp_path, *trials)
    (row,) = numbers(out / "parity.csv")
    assert float(row.pop("p_beyond")) == pytest.approx(1, abs=1e-4)
    assert row.pop("trials").split("; ") == [trials[place].spec.id for place in (3, 0, 4, 1, 5, 2)]
    assert row == {
        "framework_a": "pytorch",
        "framework_b": "mxnet",
        "batch_size": "32",
        "n": "3",
        "mean_difference_points": "-0.5",
        "low_points": "-0.524841377",
        "high_points": "-0.475158623",
        "verdict": "agree",
        "notes": "",
    }


def test_repeats_of_different_conditions_are_never_a_pair(tmp_path: Path) -> None:
    other = apart("tensorflow", [9.0] * 3, feed="device") + apart("mxnet", [9.5] * 3, feed="device")
    out = report(tmp_path, *apart("tensorflow", NEAR), *apart("pytorch", [0.0] * 3), *other)
    assert not (out / "parity.md").exists()
    found = [rows(out / f"parity-{number}.md") for number in (1, 2)]
    assert sorted(list(table)[1:] for table in found) == [["TensorFlow minus MXNet"], ["TensorFlow minus PyTorch"]]


def test_a_framework_named_by_its_folder_breaks_neither_table_nor_summary(tmp_path: Path) -> None:
    odd = [replace(r, spec=varied(r.spec, framework="a_b_c")) for r in apart("numpy", [0.0, 40.0, 0.0, 0.0])]
    odd[1] = replace(odd[1], status=Status.UNVERIFIED, reason="why")
    text = (report(tmp_path, *odd, *apart("pytorch", [0.0] * 4)) / "parity.md").read_text()
    assert "| PyTorch minus a_b_c" in text
    assert "- Batch size 32: PyTorch and a_b_c (agree).\n" in text
    assert "- [1] repeat 1: a_b_c unverified\n" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.replace("\\|", "").count("|") for line in table] == [3, 3, 3]
