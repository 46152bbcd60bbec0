from __future__ import annotations

import csv
import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from stored import MACHINE, VERSIONS, ended, on_gpu, store, trial

from reports.captions import ABSENT
from reports.comparing import compare as command
from reports.comparing import compare_tables, contrast
from reports.comparing.comparison import Comparison, compare, failures
from reports.comparing.contrast import MEASURES, Effect, Measure, Verdict
from reports.comparing.pairing import pair
from reports.conditions import sections
from reports.load import ReportError
from workloads.trial import Figure, InputFile, Status, TrialResult

ROOT = Path(__file__).parents[2]
SPEED, MEMORY, ACCURACY, ENERGY, USAGE = MEASURES
LATER: dict[str, Any] = {"started_at": "2025-11-22T10:00:00+00:00"}


def with_figures(result: TrialResult, **values: float | None) -> TrialResult:
    told = {
        name: Figure(None, "", reason="not told") if value is None else Figure(value, "measured")
        for name, value in values.items()
    }
    return replace(result, figures=result.figures | told)


def repeats(
    speeds: Sequence[float], framework: str = "pytorch", batch_size: int = 32, **changes: Any
) -> list[TrialResult]:
    """A trial for each speed, images/s; memory and accuracy the same in all."""
    return [
        with_figures(
            trial(framework, batch_size, repeat, **changes),
            images_per_s=speed,
            host_memory_bytes=500 * 2**20,
            test_accuracy=0.7,
        )
        for repeat, speed in enumerate(speeds)
    ]


def folders(tmp_path: Path, a: Sequence[TrialResult], b: Sequence[TrialResult]) -> tuple[Path, Path]:
    return store(tmp_path / "a", *a), store(tmp_path / "b", *b)


def compared(tmp_path: Path, a: Sequence[TrialResult], b: Sequence[TrialResult]) -> Comparison:
    return compare(*folders(tmp_path, a, b))


def cell(found: Comparison, quantity: str, framework: str = "pytorch", batch_size: int = 32) -> Any:
    return next(
        cell
        for cell in found.cells
        if (cell.measure.quantity.name, cell.framework, cell.batch_size) == (quantity, framework, batch_size)
    )


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """As `python -m reports compare ...`, in this process: the imports take longer than a comparison."""
    told = list(map(str, arguments))
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as errors:
        code = command.main(told)
    return subprocess.CompletedProcess(told, code, out.getvalue(), errors.getvalue())


def test_the_command_line_knows_compare(tmp_path: Path) -> None:
    told = [sys.executable, "-m", "reports", "compare", *map(str, folders(tmp_path, repeats([1, 2]), repeats([1, 2])))]
    ran = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("# Batchwise: B against A\n")


def test_the_ratio_is_of_geometric_means_with_the_interval_of_welchs_t_on_logarithms() -> None:
    # Logs of A: 0, 2 (mean 1, variance 2); of B: 2, 4 (mean 3, variance 2). Difference 2, standard error
    # sqrt(2/2 + 2/2) = sqrt 2, degrees of freedom (1 + 1)^2 / (1 + 1) = 2, t(0.975, 2) = 4.302653.
    e = 2.718281828459045
    found = contrast.ratio([1, e**2], [e**2, e**4])
    assert found.value == pytest.approx(e**2)
    assert found.low == pytest.approx(e ** (2 - 4.302653 * 2**0.5), rel=1e-5)
    assert found.high == pytest.approx(e ** (2 + 4.302653 * 2**0.5), rel=1e-5)
    # t = 2 / sqrt 2; of 2 degrees of freedom, P(|T| > t) = 1 - t / sqrt(2 + t^2) = 1 - sqrt(1/2).
    assert found.p == pytest.approx(1 - 0.5**0.5)


def test_accuracies_are_paired_so_that_what_a_seed_does_to_both_falls_out() -> None:
    # Differences 1, 2, 3: mean 2, standard error 1/sqrt 3, t(0.975, 2) = 4.302653.
    found = contrast.difference([10, 50, 90], [11, 52, 93], paired=True)
    assert found.value == pytest.approx(2)
    assert (found.low, found.high) == (pytest.approx(2 - 4.302653 / 3**0.5), pytest.approx(2 + 4.302653 / 3**0.5))
    unpaired = contrast.difference([10, 50, 90], [11, 52, 93], paired=False)
    assert unpaired.high - unpaired.low > 10 * (found.high - found.low)


def test_what_cannot_be_tested_says_why_and_has_no_interval() -> None:
    one = contrast.ratio([10.0], [9.0, 9.1])
    assert (one.p, one.untested) == (None, "cannot be tested: one repeat on a side")
    assert one.low != one.low
    assert contrast.ratio([10.0, 0.0], [9.0, 9.1]).untested.startswith("cannot be told: a value is not above 0")
    assert "fewer than 3" in contrast.difference([70, 71], [60, 61.5], paired=True).untested
    assert "no spread" in contrast.difference([70, 71, 72], [69, 70, 71], paired=True).untested
    assert "no spread" in contrast.difference([70, 70, 70], [69, 69, 69], paired=False).untested


def test_without_any_spread_the_same_is_the_same_and_a_ratio_is_taken_as_exact() -> None:
    assert contrast.ratio([600, 600], [600, 600]) == Effect(1, 1, 1, p=1)
    assert contrast.ratio([600, 600], [660, 660]) == Effect(1.1, 1.1, 1.1, p=0)
    # 0.71 - 0.70 and 0.31 - 0.30 are not the same in floating point.
    assert contrast.difference([0.70, 0.30, 0.5], [0.71, 0.31, 0.51], paired=True).p is None
    assert contrast.difference([70.1, 71, 72], [70.1, 71, 72], paired=True) == Effect(0, 0, 0, p=1)


def test_p_values_are_adjusted_after_benjamini_and_hochberg() -> None:
    # p(i) m / i from the largest down, each at most the one above: 0.04, 0.04 (3/4 of 0.04 x 4/3), 0.04 (of 0.02 x 2).
    assert contrast.adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert contrast.adjusted([]) == []


@pytest.mark.parametrize(
    ("measure", "value", "told", "percent"),
    [
        (SPEED, 0.9, Verdict.REGRESSION, 10),
        (SPEED, 1.1, Verdict.IMPROVEMENT, -10),
        (MEMORY, 1.1, Verdict.REGRESSION, 10),
        (MEMORY, 0.9, Verdict.IMPROVEMENT, -10),
        (ENERGY, 1.1, Verdict.REGRESSION, 10),
        (ACCURACY, -2.0, Verdict.REGRESSION, 2),
        (ACCURACY, 2.0, Verdict.IMPROVEMENT, -2),
    ],
)
def test_each_quantity_is_worse_in_its_own_direction(measure: Measure, value: float, told: str, percent: float) -> None:
    assert contrast.verdict(measure, Effect(value, p=0.01), 0.01) is told
    assert contrast.worsening_percent(measure, Effect(value)) == pytest.approx(percent)
    assert contrast.verdict(measure, Effect(value, p=0.06), 0.06) is Verdict.NO_DIFFERENCE


def test_usage_is_shown_and_never_judged(tmp_path: Path) -> None:
    a = [with_figures(t, cpu_percent=90 + t.spec.repeat) for t in repeats([100, 101, 102])]
    b = [with_figures(t, cpu_percent=50 + t.spec.repeat) for t in repeats([100, 101, 102], **LATER)]
    found = cell(compared(tmp_path, a, b), "usage")
    assert (found.verdict, found.p_adjusted) == (Verdict.NOT_JUDGED, None)
    assert found.effect.value == pytest.approx((50 * 51 * 52 / (90 * 91 * 92)) ** (1 / 3))


def test_a_ten_percent_regression_is_found_among_cells_with_one_percent_noise(tmp_path: Path) -> None:
    drawn = random.Random(5)
    sizes = (4, 8, 16, 32, 64, 128, 256, 512, 1024)

    def side(slow: tuple[str, int] | None, **changes: Any) -> list[TrialResult]:
        return [
            result
            for framework in VERSIONS
            for size in sizes
            for result in repeats(
                [(900 if (framework, size) == slow else 1000) * drawn.gauss(1, 0.01) for _ in range(5)],
                framework, size, **changes,
            )
        ]  # fmt: skip

    found = compared(tmp_path, side(None), side(("mxnet", 64), **LATER))
    (line,) = failures(found, 5)
    assert re.fullmatch(r"MXNet, batch size 64: speed worse by (9|10|11)\.\d % \(adjusted p .*\)", line)
    assert cell(found, "speed", "mxnet", 64).verdict is Verdict.REGRESSION
    assert cell(found, "speed", "mxnet", 64).effect.value == pytest.approx(0.9, abs=0.015)
    assert failures(found, 15) == []


def test_where_nothing_differs_a_family_of_cells_errs_in_one_of_twenty_and_uncorrected_nearly_always() -> None:
    drawn = random.Random(11)
    families, uncorrected, corrected = 60, 0, 0
    for _ in range(families):
        found = [
            contrast.ratio(*([drawn.gauss(100, 1) for _ in range(5)] for _ in range(2))).p or 0.0 for _ in range(54)
        ]
        uncorrected += min(found) <= contrast.ERROR
        corrected += min(contrast.adjusted(found)) <= contrast.ERROR
    # 5 % of 60 are 3; more than 9 has a probability below 0.001 (binomial). Uncorrected: 1 - 0.95^54 = 94 %.
    assert corrected <= 9
    assert uncorrected > 0.8 * families


def test_a_cell_that_is_ok_in_a_and_not_in_b_is_a_regression_with_its_reason(tmp_path: Path) -> None:
    a = repeats([100, 101, 102]) + repeats([100, 101, 102], "mxnet") + repeats([100, 101, 102], "tensorflow")
    b = [
        *(ended(Status.OUT_OF_MEMORY, "killed at 4 GiB", repeat=repeat, **LATER) for repeat in range(3)),
        *repeats([100, 101], "mxnet", **LATER),
        ended(Status.UNVERIFIED, "layer conv1 differs", "mxnet", repeat=2, **LATER),
        *repeats([100, 101, 102], "tensorflow", **LATER),
    ]
    found = compared(tmp_path, a, b)
    assert [(one.framework, one.ended_a, one.ended_b, one.verdict) for one in found.endings] == [
        ("pytorch", "ok", "out of memory", Verdict.REGRESSION),
        ("mxnet", "ok", "2 of 3 ok, 1 unverified", Verdict.REGRESSION),
    ]
    assert failures(found, 50) == [
        "PyTorch, batch size 32: ok in A, out of memory in B: killed at 4 GiB",
        "MXNet, batch size 32: ok in A, 2 of 3 ok, 1 unverified in B: layer conv1 differs",
    ]
    assert cell(found, "speed").verdict is Verdict.NO_VALUE
    text = command.page(found)
    assert "killed at 4 GiB" in text
    assert "layer conv1 differs" in text
    improved = compared(tmp_path / "back", b, a)
    assert {one.verdict for one in improved.endings} == {Verdict.IMPROVEMENT}
    assert failures(improved, 0) == []


def test_cells_of_one_side_alone_are_named(tmp_path: Path) -> None:
    a = repeats([100, 101]) + repeats([100, 101], batch_size=64)
    found = compared(tmp_path, a, repeats([100, 101], **LATER) + repeats([100, 101], "mxnet", **LATER))
    assert (found.contrasts[0].only_a, found.contrasts[0].only_b) == ((("pytorch", 64),), (("mxnet", 32),))
    text = command.page(found)
    assert "Only in A, not compared: PyTorch at batch size 64." in text
    assert "Only in B, not compared: MXNet at batch size 32." in text


def test_an_unknown_figure_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    b = [with_figures(result, images_per_s=None) for result in repeats([1, 2], **LATER)]
    found = compared(tmp_path, repeats([100, 101]), b)
    speed = next(table for table in compare_tables.tables_of(found) if table.name == "compare-speed")
    assert (speed.rows[0][1].text, speed.rows[0][1].notes) == (ABSENT, ("B: unknown: not told",))


def test_what_differs_between_the_sides_stands_in_front(tmp_path: Path) -> None:
    newer = {
        "facts": trial().facts | {"framework_version": "2.14.0", "packages": {"numpy": "1.26.4", "torch": "2.14.0"}}
    }
    b = repeats([100, 101], machine=MACHINE | {"cpu_model": "AMD EPYC", "commit": "bbb"}, **newer, **LATER)
    found = compared(tmp_path, repeats([100, 101]), b)
    assert found.contrasts[0].pair.differences == [
        ("device", "CPU, Intel(R) Xeon(R) Processor", "CPU, AMD EPYC"),
        ("PyTorch version", "2.13.0", "2.14.0"),
        ("PyTorch packages", "torch 2.13.0", "torch 2.14.0"),
        ("commit", "afa2864", "bbb"),
    ]
    assert compare_tables.tables_of(found)[0].name == "compare-conditions"


def test_trials_of_another_task_are_never_compared(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing in common: only in A: .*epochs 10.*only in B: .*epochs 3"):
        compared(tmp_path, repeats([100, 101]), repeats([100, 101], epochs=3))


def test_sections_are_paired_by_what_tells_them_apart_and_the_rest_is_named() -> None:
    threads = {count: repeats([100, 101], threads=count) for count in (1, 2, 4)}
    a, _ = sections([*threads[1], *threads[2]])
    b, _ = sections([*threads[2], *threads[4]])
    found = pair(a, b)
    assert [(one.a.condition.threads, one.b.condition.threads) for one in found.pairs] == [(2, 2)]
    assert [line.split(":")[0] for line in found.alone] == ["only in A", "only in B"]


def test_an_ambiguous_pairing_is_refused_not_guessed(tmp_path: Path) -> None:
    a = repeats([100, 101], threads=1) + repeats([100, 101], threads=2)
    with pytest.raises(ReportError, match=r"cannot be paired: A holds 2 and B 1 sections of .* told apart by threads"):
        compared(tmp_path, a, repeats([100, 101], threads=4))


def test_memory_of_a_host_is_not_compared_with_memory_of_a_gpu(tmp_path: Path) -> None:
    found = compared(tmp_path, repeats([100, 101]), [on_gpu(result) for result in repeats([900, 901], **LATER)])
    assert found.contrasts[0].uncompared == (
        "memory is not compared: A has Host memory, B GPU memory",
        "energy is not compared: A has no such quantity, B GPU energy",
        "usage is not compared: A has CPU usage, B GPU usage",
    )
    assert {one.measure.quantity.name for one in found.cells} == {"speed", "accuracy"}


def test_accuracies_of_different_inputs_are_not_paired(tmp_path: Path) -> None:
    other = {"inputs": {"order": InputFile("inputs/order.npy", "11")}}
    found = cell(compared(tmp_path, repeats([1, 2, 3]), repeats([1, 2, 3], **other)), "accuracy")
    assert "the inputs differ between A and B: repeats are not paired" in found.notes


def test_the_gate_passes_fails_and_refuses(tmp_path: Path) -> None:
    fast = [[100, 101, 99, 100.5, 99.5], [100.2, 100.8, 99.1, 100.4, 99.6], [88, 88.5, 87.5, 88.2, 87.8]]
    base, same, slow = (
        store(tmp_path / f"Größe {number}", *repeats(speeds, **({} if number == 0 else LATER)))
        for number, speeds in enumerate(fast)
    )
    passed = run(base, same, "--fail-on-regression", "5%")
    assert passed.returncode == 0
    assert passed.stderr == "reports: --fail-on-regression 5%: none of 3 tested values worse by more\n"
    failed = run(base, slow, "--fail-on-regression", "5%")
    assert failed.returncode == 1
    assert re.search(r"PyTorch, batch size 32: speed worse by 12\.0 % \(adjusted p .*\)", failed.stderr)
    assert run(base, slow, "--fail-on-regression", "15%").returncode == 0
    assert run(base, slow).returncode == 0


def test_a_gate_that_could_not_fail_is_bad_input(tmp_path: Path) -> None:
    one, other = folders(tmp_path, repeats([100]), repeats([50], **LATER))
    ran = run(one, other, "--fail-on-regression", "5%")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no cell can be tested: two repeats on both sides are needed" in ran.stderr
    assert run(one, other).returncode == 0
    same = store(tmp_path / "same", *repeats([100, 101, 102]))
    assert "the very same trials" in run(same, same, "--fail-on-regression", "5%").stderr


def test_a_truncated_result_is_named_and_no_gate_passes_over_it(tmp_path: Path) -> None:
    a, b = folders(tmp_path, repeats([100, 101, 102]), repeats([100, 101, 103], **LATER))
    path = sorted(b.glob("trials/*/result.json"))[2]
    path.write_text(path.read_text()[:500])
    ran = run(a, b)
    assert ran.returncode == 0
    assert f"{path}: left out: not whole JSON" in ran.stderr
    assert "1 unreadable" in ran.stdout
    assert run(a, b, "--fail-on-regression", "5%").returncode == 2


def test_bad_input_of_a_comparison_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    a, b = folders(tmp_path, repeats([100, 101]), repeats([100, 101], **LATER))
    (tmp_path / "file").write_text("")
    for arguments, told in [
        ((a, tmp_path / "absent"), "no such folder"),
        ((a, b, "--fail-on-regression", "5"), "not a percentage; write it as 5%"),
        ((a, b, "--fail-on-regression", "five%"), "not a percentage"),
        ((a, b, "--fail-on-regression", "nan%"), "not a percentage"),
        ((a, b, "--fail-on-regression", "100%"), "give less than 100%"),
        ((a, b, "--out", tmp_path / "file"), "cannot be written"),
    ]:
        ran = run(*arguments)
        assert (ran.returncode, ran.stdout) == (2, ""), arguments
        assert told in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_names_and_reasons_from_outside_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | `x`"
    b = [ended(Status.FAILED, evil, repeat=0, machine=MACHINE | {"cpu_model": evil}, facts=trial().facts)]
    text = command.page(compared(tmp_path, repeats([100]), b))
    assert "<script>" not in text
    assert "\\<script\\>alert(1)\\</script\\> \\| \\`x\\`" in text


def test_out_holds_the_printed_page_and_every_cell_as_csv(tmp_path: Path) -> None:
    a, b = folders(tmp_path, repeats([100, 101, 102]), repeats([100, 101, 102], **LATER))
    ran = run(a, b, "--out", tmp_path / "Ω")
    assert (tmp_path / "Ω" / "compare.md").read_text(encoding="utf-8") == ran.stdout.removesuffix("\n")
    rows = list(csv.DictReader((tmp_path / "Ω" / "compare.csv").open(encoding="utf-8")))
    assert [row["quantity"] for row in rows] == ["speed", "memory", "accuracy", "usage"]
    assert (rows[0]["value"], rows[0]["n_a"], rows[0]["verdict"]) == ("1.0", "3", "no difference found")


def test_tables_of_a_comparison_are_whole(tmp_path: Path) -> None:
    found = compared(tmp_path, repeats([100, 101, 100.5]), repeats([80, 81, 80.5], **LATER))
    made = compare_tables.tables_of(found)
    assert [table.name for table in made] == [
        "compare-conditions", "regressions", "compare-speed", "compare-memory", "compare-accuracy", "compare-usage",
    ]  # fmt: skip
    for table in made:
        assert all(len(row) == len(table.head) for row in table.rows), table.name
        json.dumps(json.loads(table.tidy.to_json()))
    regressions = next(table for table in made if table.name == "regressions")
    assert regressions.rows[0][5].text.startswith("0.801 [")


@pytest.mark.parametrize("kept", ["no speed", "one framework", "another task gone"])
def test_a_gate_passes_where_b_lost_what_was_to_be_compared(tmp_path: Path, kept: str) -> None:
    a = [*repeats([100, 101, 102]), *repeats([200, 201, 202], "mxnet")]
    a += repeats([100, 101, 102], dataset="cifar10") if kept == "another task gone" else []
    b = [replace(one, **LATER) for one in [*repeats([100, 101, 103]), *repeats([200, 201, 203], "mxnet")]]
    if kept == "no speed":
        b = [with_figures(one, images_per_s=None) for one in b]
    elif kept == "one framework":
        b = [one for one in b if one.spec.framework == "pytorch"]
    ran = run(*folders(tmp_path, a, b), "--fail-on-regression", "5%")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "what is not there cannot be tested" in ran.stderr
