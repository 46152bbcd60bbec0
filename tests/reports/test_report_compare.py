from __future__ import annotations

import csv
import json
import math
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

from reports.comparing import command, comparison_tables, effect_words, gate, headline, pages
from reports.comparing.cell_tests import QUANTITIES, MeanTest, Replicate, Untested
from reports.comparing.comparison import Comparison, compare
from reports.comparing.pairing import pair
from reports.condition_text import ABSENT
from reports.conditions import group_into_sections
from reports.load import ReportError
from reports.quantities import Quantity
from workloads.records.figures import Figure
from workloads.records.job import InputFile
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.shifts import estimate_together, shift_ratio
from workloads.statistics import POWER, Estimate, Verdict

ROOT = Path(__file__).parents[2]
SPEED, MEMORY, ACCURACY, ENERGY, USAGE = QUANTITIES
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
    """One trial per speed in images/s; memory and accuracy are the same in all."""
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


def in_runs(folder: Path, results: Sequence[TrialResult]) -> Path:
    """A folder of runs, each with the trials of one repeat."""
    for repeat in sorted({result.spec.draw.repeat for result in results}):
        store(folder / str(repeat), *(result for result in results if result.spec.draw.repeat == repeat))
    return folder


def runs(tmp_path: Path, a: Sequence[TrialResult], b: Sequence[TrialResult]) -> tuple[Path, Path]:
    return in_runs(tmp_path / "a", a), in_runs(tmp_path / "b", b)


def compared(tmp_path: Path, a: Sequence[TrialResult], b: Sequence[TrialResult]) -> Comparison:
    return compare(*folders(tmp_path, a, b))


def cell(found: Comparison, quantity: str, framework: str = "pytorch", batch_size: int = 32) -> Any:
    return next(
        cell
        for cell in found.cells
        if (cell.quantity.name, cell.framework, cell.batch_size) == (quantity, framework, batch_size)
    )


def losses(found: Comparison, tolerated_percent: float) -> list[str]:
    """Return the lines that the gate names as worse."""
    worse = [ending.line for ending in found.endings if ending.verdict is Verdict.WORSE]
    ruling = gate.rule(found.tests, tolerated_percent, False, worse)
    return list(ruling.lines) if ruling.outcome is gate.ExitCode.REGRESSION else []


def shift_effect(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    """Ratio of independent repeats, and its interval."""
    estimate = estimate_together([shift_ratio(a, b)])
    return tuple(map(math.exp, (estimate.value, *estimate.interval)))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m reports compare ...` in this process: the imports take longer than a comparison."""
    told = list(map(str, arguments))
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as errors:
        code = command.main(told)
    return subprocess.CompletedProcess(told, code, out.getvalue(), errors.getvalue())


def test_the_command_line_knows_compare(tmp_path: Path) -> None:
    told = [sys.executable, "-m", "reports", "compare", *map(str, folders(tmp_path, repeats([1, 2]), repeats([1, 2])))]
    ran = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("# Batchwise: b against a\n")


@pytest.mark.parametrize(
    ("quantity", "value", "told", "percent"),
    [
        (SPEED, 0.9, Verdict.WORSE, 10),
        (SPEED, 1.1, Verdict.BETTER, -10),
        (MEMORY, 1.1, Verdict.WORSE, 10),
        (MEMORY, 0.9, Verdict.BETTER, -10),
        (ENERGY, 1.1, Verdict.WORSE, 10),
        (ACCURACY, -2.0, Verdict.WORSE, 2),
        (ACCURACY, 2.0, Verdict.BETTER, -2),
    ],
)
def test_each_quantity_is_worse_in_its_own_direction(
    quantity: Quantity, value: float, told: str, percent: float
) -> None:
    shift = value if quantity is ACCURACY else math.log(value)
    p_worse, p_better = (0.01, 0.9) if percent > 0 else (0.9, 0.01)
    test = MeanTest(
        framework="mxnet", label="MXNet", quantity=quantity, shift=shift, repeats=3,
        estimate=Estimate(shift, 0.01, 4), p_worse=p_worse, p_better=p_better, tests=1, batch_sizes=(32,),
    )  # fmt: skip
    assert test.loss_percent == test.percent(test.loss.value) == pytest.approx(percent)
    assert test.verdict is told
    assert replace(test, p_worse=0.06, p_better=0.06).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("quantity", "percent"), [(SPEED, 5), (MEMORY, 5), (ACCURACY, 2)])
def test_with_the_repeats_that_are_advised_such_a_loss_is_excluded(quantity: Quantity, percent: float) -> None:
    def bound(repeats: int) -> float:
        """Bound of the loss, where the estimate is as high as in a share POWER of comparisons without one."""
        error = 0.05 * (3 / repeats) ** 0.5 if quantity is not ACCURACY else 2 * (3 / repeats) ** 0.5
        estimate = Estimate(0.0, error, 4)
        loss = estimate.reach(POWER)
        test = MeanTest(
            framework="mxnet", label="MXNet", quantity=quantity, shift=0.0, repeats=3, batch_sizes=(32,),
            estimate=Estimate(-quantity.better * loss, error, 4),
        )  # fmt: skip
        return test.at_most_percent

    first = Estimate(0.0, 2.0 if quantity is ACCURACY else 0.05, 4)
    test = MeanTest(
        framework="mxnet", label="MXNet", quantity=quantity, shift=0.0, repeats=3, batch_sizes=(32,), estimate=first
    )
    needed = test.repeats_needed(percent)
    assert bound(needed) <= percent < bound(needed - 1)


def test_no_fewer_repeats_than_were_made_are_advised() -> None:
    """Ten pairs would exclude 5 %, but a loss of 4 % was measured: its bound is 5.7 %."""
    test = MeanTest(
        framework="mxnet", label="MXNet", quantity=SPEED, shift=-0.04, repeats=10, batch_sizes=(32,),
        estimate=Estimate(-0.04, 0.01, 9), p_worse=0.0016, p_better=0.9984, tests=1,
    )  # fmt: skip
    assert gate.is_open(test, 5) and test.repeats_needed(5) == 3
    line = gate.describe_open(test, 5)
    assert line.startswith("MXNet, mean over 1 batch size: speed worse by 3.9 %, a loss is established, ")
    assert "the loss may be up to 5.7 %; " in line
    assert line.endswith("; the measured loss is too near 5 %, or beyond it: more repeats may not exclude it")
    wide = replace(test, estimate=Estimate(-0.04, 0.03, 9))
    assert gate.describe_open(wide, 5).endswith("; about 26 repeats on both sides would exclude 5 %")


def test_usage_is_shown_and_never_judged(tmp_path: Path) -> None:
    a = [with_figures(t, cpu_percent=90 + t.spec.draw.repeat) for t in repeats([100, 101, 102])]
    b = [with_figures(t, cpu_percent=50 + t.spec.draw.repeat) for t in repeats([100, 101, 102], **LATER)]
    found = cell(compared(tmp_path, a, b), "usage")
    assert found.verdict is Untested.NOT_JUDGED
    assert found.effect[0] == pytest.approx((50 * 51 * 52 / (90 * 91 * 92)) ** (1 / 3))


@pytest.mark.slow
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

    found = compare(*runs(tmp_path, side(None), side(("mxnet", 64), **LATER)))
    (line,) = losses(found, 5)
    assert re.fullmatch(r"MXNet, batch size 64: speed worse by (9|10|11)\.\d % \[.*\] \(adjusted p .*\)", line)
    assert cell(found, "speed", "mxnet", 64).verdict is Verdict.WORSE
    assert cell(found, "speed", "mxnet", 64).effect[0] == pytest.approx(0.9, abs=0.015)
    assert losses(found, 15) == []


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
        ("pytorch", "ok", "out of memory", Verdict.WORSE),
        ("mxnet", "ok", "2 of 3 ok, 1 unverified", Verdict.WORSE),
    ]
    assert losses(found, 50) == [
        "PyTorch, batch size 32: ok in a, out of memory in b: killed at 4 GiB",
        "MXNet, batch size 32: ok in a, 2 of 3 ok, 1 unverified in b: layer conv1 differs",
    ]
    assert cell(found, "speed").verdict is Untested.NO_VALUE
    text = pages.write_markdown(found)
    assert "killed at 4 GiB" in text
    assert "layer conv1 differs" in text
    improved = compared(tmp_path / "back", b, a)
    assert {one.verdict for one in improved.endings} == {Verdict.BETTER}
    assert losses(improved, 1) == []


def test_what_one_side_alone_has_is_named_and_an_unknown_figure_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    a = repeats([100, 101]) + repeats([100, 101], batch_size=64)
    found = compared(tmp_path, a, repeats([100, 101], **LATER) + repeats([100, 101], "mxnet", **LATER))
    assert (found.pairs[0].only_a, found.pairs[0].only_b) == ((("pytorch", 64),), (("mxnet", 32),))
    text = pages.write_markdown(found)
    assert "Only in a, not compared: PyTorch at batch size 64." in text
    assert "Only in b, not compared: MXNet at batch size 32." in text
    b = [with_figures(result, images_per_s=None) for result in repeats([1, 2], **LATER)]
    found = compared(tmp_path / "2", repeats([100, 101]), b)
    speed = next(table for table in comparison_tables.build_tables(found) if table.name == "compare-speed")
    assert (speed.rows[0][1].text, speed.rows[0][1].notes) == (ABSENT, ("b: unknown: not told",))


def test_what_differs_between_the_sides_stands_in_front(tmp_path: Path) -> None:
    newer: dict[str, Any] = {
        "facts": trial().facts | {"framework_version": "2.14.0", "packages": {"numpy": "1.26.4", "torch": "2.14.0"}}
    }
    b = repeats([100, 101], machine=MACHINE | {"cpu_model": "AMD EPYC", "commit": "bbb"}, **newer, **LATER)
    found = compared(tmp_path, repeats([100, 101]), b)
    assert found.pairs[0].pair.differences == [
        ("device", "CPU, Intel(R) Xeon(R) Processor", "CPU, AMD EPYC"),
        ("PyTorch version", "2.13.0", "2.14.0"),
        ("PyTorch packages", "torch 2.13.0", "torch 2.14.0"),
        ("commit", "afa2864", "bbb"),
    ]
    assert comparison_tables.build_tables(found)[1].name == "compare-conditions"


def test_other_tasks_and_ambiguous_pairings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing in common: only in a: .*epochs 10.*only in b: .*epochs 3"):
        compared(tmp_path, repeats([100, 101]), repeats([100, 101], epochs=3))
    a = repeats([100, 101], threads=1) + repeats([100, 101], threads=2)
    cannot = r"cannot be paired: a holds 2 and b 1 sections of .* which differ in threads"
    with pytest.raises(ReportError, match=cannot):
        compared(tmp_path / "2", a, repeats([100, 101], threads=4))


def test_sections_are_paired_by_what_tells_them_apart_and_the_rest_is_named() -> None:
    threads = {count: repeats([100, 101], threads=count) for count in (1, 2, 4)}
    a, _ = group_into_sections([*threads[1], *threads[2]])
    b, _ = group_into_sections([*threads[2], *threads[4]])
    pairs, alone = pair(a, b, ("old", "new"))
    assert [(one.a.condition.placement.threads, one.b.condition.placement.threads) for one in pairs] == [(2, 2)]
    assert [line.split(":")[0] for line in alone] == ["only in old", "only in new"]


def test_memory_of_a_gpu_and_accuracies_of_other_inputs_are_not_paired(tmp_path: Path) -> None:
    found = compared(tmp_path, repeats([100, 101]), [on_gpu(result) for result in repeats([900, 901], **LATER)])
    assert found.pairs[0].uncompared == (
        "memory is not compared: a has Host memory, b GPU memory",
        "energy is not compared: a has no such quantity, b GPU energy",
        "usage is not compared: a has CPU usage, b GPU usage",
    )
    assert {one.quantity.name for one in found.cells} == {"speed", "accuracy"}
    other: dict[str, Any] = {"inputs": {"order": InputFile("inputs/order.npy", "11")}}
    found = cell(compared(tmp_path / "2", repeats([1, 2, 3]), repeats([1, 2, 3], **other)), "accuracy")
    assert "the inputs differ between a and b: repeats are not paired" in found.notes


def test_advised_repeats_count_runs_with_the_same_inputs_once(tmp_path: Path) -> None:
    """Three repeats in two runs on each side: the estimate is made of three pairs, and so is the advice."""

    def side(name: str, *accuracies: float) -> Path:
        for run, hour in enumerate(("10", "12")):
            changes: dict[str, Any] = {"started_at": f"2025-11-2{1 + (name == 'b')}T{hour}:00:00+00:00"}
            trials = repeats([100, 101, 102], **changes)
            told = [with_figures(one, test_accuracy=value) for one, value in zip(trials, accuracies, strict=True)]
            store(tmp_path / name / str(run), *told)
        return tmp_path / name

    found = compare(side("a", 0.70, 0.71, 0.72), side("b", 0.71, 0.70, 0.74))
    once = compared(tmp_path / "once", *(
        [with_figures(one, test_accuracy=value) for one, value in zip(repeats([1, 2, 3]), values, strict=True)]
        for values in ((0.70, 0.71, 0.72), (0.71, 0.70, 0.74))
    ))  # fmt: skip
    several, single = cell(found, "accuracy"), cell(once, "accuracy")
    assert (several.n_a, several.repeats, single.repeats) == (6, 3, 3)
    assert several.repeats_needed(1) == single.repeats_needed(1) > 3


def test_no_bound_of_an_accuracy_is_beyond_100_points(tmp_path: Path) -> None:
    sides = [
        [with_figures(one, test_accuracy=value) for one, value in zip(repeats([1, 2]), values, strict=True)]
        for values in ((0.4, 0.6), (0.62, 0.44))
    ]
    found = cell(compared(tmp_path, *sides), "accuracy")
    assert found.effect == pytest.approx((3, -100, 100))
    assert found.at_most_percent == found.smallest_percent == 100


def test_the_gate_passes_fails_and_says_that_it_cannot_tell(tmp_path: Path) -> None:
    speeds: list[list[float]] = [
        [100, 101, 99, 100.5, 99.5],
        [100.2, 100.8, 99.1, 100.4, 99.6],
        [88, 88.5, 87.5, 88.2, 87.8],
        [80, 112, 91, 105, 99],
    ]
    base, same, slow, wild = (
        in_runs(tmp_path / f"Größe {number}", repeats(each, **({} if number == 0 else LATER)))
        for number, each in enumerate(speeds)
    )
    passed = run(base, same, "--fail-on-regression", "5%")
    assert passed.returncode == 0
    first, second, third = passed.stderr.splitlines()
    assert re.fullmatch(
        r"reports: --fail-on-regression 5%: passed: no regression of 5 % or more; 80 % of such comparisons would have "
        r"found a loss in a single cell of accuracy 5\.0 points, memory 5\.0 %, speed 5\.0 %, and in a framework's "
        r"mean of accuracy 5\.0 points, memory 5\.0 %, speed 5\.0 %",
        first,
    )
    assert "such a loss is excluded for every framework's mean, 3 values; the highest bounds are accuracy " in second
    assert "nothing is excluded for a single cell" in third
    failed = run(base, slow, "--fail-on-regression", "5%")
    assert failed.returncode == 1
    assert re.search(r"PyTorch, batch size 32: speed worse by 12\.0 % \[11\.\d, 12\.\d\] \(adjusted p ", failed.stderr)
    assert run(base, slow, "--fail-on-regression", "15%").returncode == 0
    assert run(base, slow).returncode == 0
    unsure = run(base, wild, "--fail-on-regression", "5%")
    assert unsure.returncode == 2
    assert unsure.stdout.startswith("# Batchwise: Größe 3 against Größe 0\n")
    found = re.search(
        r"uncertain: a loss of 5 % is not excluded in 1 of 3 values\n"
        r"reports: PyTorch, mean over 1 batch size: speed worse by 3\.\d %, the loss may be up to (\d+\.\d) %; the "
        r"smallest that such runs find in 80 % of comparisons is (\d+\.\d) %; about \d+ runs on both sides would "
        r"exclude 5 %\n",
        unsure.stderr,
    )
    assert found and float(found[1]) > 10 and float(found[2]) > 10


def test_a_pass_of_the_mean_is_not_a_pass_of_every_cell(tmp_path: Path) -> None:
    """Speeds that spread by 3 %: three repeats exclude 5 % of the mean over nine sizes, but of no single size."""
    drawn = random.Random(3)
    sizes = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    a, b = (
        [r for size in sizes for r in repeats([1000 * drawn.gauss(1, 0.03) for _ in range(3)], batch_size=size, **more)]
        for more in ({}, LATER)
    )
    one, other = runs(tmp_path, a, b)
    assert run(one, other, "--fail-on-regression", "5%").returncode == 0
    strict = run(one, other, "--fail-on-regression", "5%", "--every-cell")
    assert strict.returncode == 2
    assert "uncertain: a loss of 5 % is not excluded in" in strict.stderr
    assert run(one, other, "--every-cell").returncode == 2


def test_a_cell_that_cannot_be_tested_keeps_the_gate_from_passing(tmp_path: Path) -> None:
    a = [*repeats([100, 101, 99, 100]), *repeats([100, 101], batch_size=64)]
    b = [*repeats([100, 101, 99, 100], **LATER), *repeats([100], batch_size=64, **LATER)]
    ran = run(*runs(tmp_path, a, b), "--fail-on-regression", "5%")
    assert ran.returncode == 2
    assert "batch size 64: speed: cannot be tested: one run on a side" in ran.stderr
    assert "batch size 64: accuracy: cannot be tested: one repeat on a side" in ran.stderr


def test_one_run_on_a_side_tells_nothing_of_speed_and_the_line_says_what_to_do(tmp_path: Path) -> None:
    base, later = repeats([100, 101, 102]), [50, 51, 52]
    a, slow = folders(tmp_path, base, repeats(later, **LATER))
    same = store(tmp_path / "same", *repeats([100, 101, 102], **LATER))
    several = in_runs(tmp_path / "several", repeats(later, started_at="2025-11-23T10:00:00+00:00"))
    for b in (slow, same, several):
        ran = run(a, b, "--fail-on-regression", "5%")
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
        assert "5%: uncertain: speed: one run on a side; measure both in turn with" in ran.stderr
    found = compare(a, slow)
    assert cell(found, "speed").verdict is Untested.ONE_RUN and cell(found, "memory").verdict is Verdict.UNDECIDED
    text = pages.write_markdown(found)
    assert "Regressions" not in text and "Speed: one run on a side, so a change looks the same as another hour." in text


def test_what_no_hour_can_move_keeps_its_verdict_with_one_run_on_a_side(tmp_path: Path) -> None:
    a = store(tmp_path / "a", *repeats([100, 101, 102]))
    worse = [with_figures(one, test_accuracy=0.6) for one in repeats([100, 101, 102], **LATER)]
    ran = run(a, store(tmp_path / "b", *worse), "--fail-on-regression", "5%")
    assert ran.returncode == 1 and "accuracy worse by 10.0 points" in ran.stderr
    larger = [with_figures(one, host_memory_bytes=600 * 2**20) for one in repeats([100, 101, 102], **LATER)]
    ran = run(a, store(tmp_path / "c", *larger), "--fail-on-regression", "5%")
    assert ran.returncode == 1 and "memory worse by 20.0 %" in ran.stderr
    broken = [ended(Status.OUT_OF_MEMORY, "killed", repeat=repeat, **LATER) for repeat in range(3)]
    assert run(a, store(tmp_path / "d", *broken), "--fail-on-regression", "5%").returncode == 1


def test_runs_are_compared_by_their_means_so_that_repeats_of_one_run_count_once(tmp_path: Path) -> None:
    """Two runs of two repeats: Welch's t between the logarithms of the runs' geometric means."""
    speeds = {"a": [(100, 102), (110, 112)], "b": [(90, 92), (80, 82)]}
    later = ("2025-11-21T10:00:00+00:00", "2025-11-22T10:00:00+00:00")
    sides = [tmp_path / name for name in speeds]
    for side, each in zip(sides, speeds.values(), strict=True):
        for number, values in enumerate(each):
            store(
                side / f"run {number}",
                *repeats(values, started_at=later[number].replace("10:", f"1{side.name == 'b':d}:")),
            )
    found = compare(*sides)
    means = {side: [math.sqrt(x * y) for x, y in each] for side, each in speeds.items()}
    assert cell(found, "speed").effect == pytest.approx(shift_effect(means["a"], means["b"]))
    assert (cell(found, "speed").n_a, cell(found, "speed").repeats) == (4, 2)
    assert pages.describe_sides(found)[0].startswith(f"A: {sides[0]}: 2 runs, 4 trials")


def test_a_copy_is_no_second_run_and_a_run_without_results_is_named(tmp_path: Path) -> None:
    a, b = runs(tmp_path, repeats([100, 101, 102]), repeats([100, 101, 102], **LATER))
    store(a / "3", repeats([100])[0])
    ran = run(a, b, "--fail-on-regression", "5%")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"{a / '3'}: it also holds a trial of {a / '0'}: a copy is not a second run" in ran.stderr
    (b / "9" / "trials").mkdir(parents=True)
    ran = run(b, a)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"{b / '9' / 'trials'}: no result.json found" in ran.stderr


def test_runs_of_machines_that_began_a_trial_in_the_same_second_are_no_copies(tmp_path: Path) -> None:
    """Machines that are alike give it the same id; one that never began has no length anywhere."""

    def side(name: str, *speeds: float, **changes: Any) -> Path:
        for number, speed in enumerate(speeds):
            began = [replace(one, wall_s=20.25 + number) for one in repeats([speed, speed + 1], **changes)]
            never = ended(Status.UNSUPPORTED, "no such package", "mxnet", wall_s=0.0, **changes)
            store(tmp_path / name / str(number), *began, never)
        return tmp_path / name

    found = compare(side("a", 100, 110), side("b", 90, 80, **LATER))
    assert (found.a.runs, found.b.runs) == (2, 2)
    speed = cell(found, "speed")
    assert (speed.n_a, speed.repeats, speed.replicate) == (4, 2, Replicate.RUNS)
    means = {"a": [math.sqrt(100 * 101), math.sqrt(110 * 111)], "b": [math.sqrt(90 * 91), math.sqrt(80 * 81)]}
    assert speed.effect == pytest.approx(shift_effect(means["a"], means["b"]))


def test_a_gate_that_could_not_fail_or_a_run_without_results_is_bad_input(tmp_path: Path) -> None:
    one, other = folders(tmp_path, repeats([100]), repeats([50], **LATER))
    ran = run(one, other, "--fail-on-regression", "5%")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no cell can be tested: two repeats on both sides are needed" in ran.stderr
    assert run(one, other).returncode == 0
    same = store(tmp_path / "same", *repeats([100, 101, 102]))
    assert "the very same trials" in run(same, same, "--fail-on-regression", "5%").stderr
    a = store(tmp_path / "2" / "a" / "1", *repeats([100, 101, 102]))
    (tmp_path / "2" / "a" / "2" / "trials" / "begun").mkdir(parents=True)
    ran = run(a.parent, a)
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr


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
        ((a, b, "--fail-on-regression", "0%"), "no measurement can exclude a loss of 0 %"),
        ((a, b, "--out", tmp_path / "file"), "cannot be written"),
    ]:
        ran = run(*arguments)
        assert (ran.returncode, ran.stdout) == (2, ""), arguments
        assert told in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_names_from_outside_are_escaped_and_one_repeat_tells_no_difference(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | `x`"
    b = [ended(Status.FAILED, evil, repeat=0, machine=MACHINE | {"cpu_model": evil}, facts=trial().facts)]
    text = pages.write_markdown(compared(tmp_path, repeats([100]), b))
    assert "<script>" not in text
    assert "\\<script\\>alert(1)\\</script\\> \\| \\`x\\`" in text
    text = pages.write_markdown(compared(tmp_path / "2", repeats([100]), repeats([200], **LATER)))
    assert (
        "Training speed: b is 2.00 times as fast as a in this run, geometric mean over 1 cell; one repeat on a side "
        "has no interval: the difference is uncertain.**"
    ) in text


def test_out_holds_the_printed_page_and_every_cell_as_csv(tmp_path: Path) -> None:
    a, b = folders(tmp_path, repeats([100, 101, 102]), repeats([100, 101, 102], **LATER))
    ran = run(a, b, "--out", tmp_path / "Ω")
    assert (tmp_path / "Ω" / "compare.md").read_text(encoding="utf-8") == ran.stdout.removesuffix("\n")
    rows = list(csv.DictReader((tmp_path / "Ω" / "compare.csv").open(encoding="utf-8")))
    assert [row["quantity"] for row in rows] == ["speed", "memory", "accuracy", "usage"]
    assert (rows[0]["value"], rows[0]["n_a"], rows[0]["verdict"]) == ("1.0", "3", "uncertain: one run on a side")
    assert rows[1]["verdict"] == "no difference found"
    means = list(csv.DictReader((tmp_path / "Ω" / "compare-frameworks.csv").open(encoding="utf-8")))
    assert [(row["framework"], row["quantity"]) for row in means] == [
        ("pytorch", "speed"), ("pytorch", "memory"), ("pytorch", "accuracy")
    ]  # fmt: skip
    assert means[0]["loss_at_most_percent"] == "" and float(means[1]["loss_at_most_percent"]) > 0


def test_tables_of_a_comparison_are_whole(tmp_path: Path) -> None:
    found = compare(*runs(tmp_path, repeats([100, 101, 100.5]), repeats([80, 81, 80.5], **LATER)))
    made = comparison_tables.build_tables(found)
    assert [table.name for table in made] == [
        "compare-frameworks", "compare-conditions", "regressions", "compare-speed", "compare-memory",
        "compare-accuracy", "compare-usage",
    ]  # fmt: skip
    for table in made:
        assert all(len(row) == len(table.head) for row in table.rows), table.name
        json.dumps(json.loads(table.tidy.to_json()))
    regressions = next(table for table in made if table.name == "regressions")
    assert regressions.rows[0][5].text.startswith("0.801 [")


@pytest.mark.parametrize("kept", ["no speed", "one framework", "another task gone", "no energy at all"])
def test_no_gate_passes_where_b_lost_what_was_to_be_compared(tmp_path: Path, kept: str) -> None:
    a = [*repeats([100, 101, 102]), *repeats([200, 201, 202], "mxnet")]
    a += repeats([100, 101, 102], dataset="cifar10") if kept == "another task gone" else []
    joules = 2.0 if kept == "no energy at all" else None
    a = [with_figures(one, cpu_energy_per_image_j=joules) for one in a]
    b = [replace(one, **LATER) for one in [*repeats([100, 101, 103]), *repeats([200, 201, 203], "mxnet")]]
    if kept == "no speed":
        b = [with_figures(one, images_per_s=None) for one in b]
    elif kept == "one framework":
        b = [one for one in b if one.spec.cell.framework == "pytorch"]
    ran = run(*runs(tmp_path, a, b), "--fail-on-regression", "5%")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "what is missing cannot be tested" in ran.stderr
    assert kept != "no energy at all" or "energy is not compared: a has CPU energy" in ran.stderr


def test_energy_that_only_b_has_keeps_no_gate_from_passing(tmp_path: Path) -> None:
    b = [with_figures(one, cpu_energy_per_image_j=2.0) for one in repeats([100, 101, 103], **LATER)]
    ran = run(*runs(tmp_path, repeats([100, 101, 102]), b), "--fail-on-regression", "5%")
    assert (ran.returncode, "passed: no regression" in ran.stderr) == (0, True)


def test_the_headline_is_the_geometric_mean_over_all_cells_with_the_interval_of_a_frameworks_mean(
    tmp_path: Path,
) -> None:
    a, b = repeats([100, 102, 101]), [*repeats([195, 198, 197], **LATER)]
    a += repeats([50, 51, 52], "mxnet")
    b += repeats([100, 99, 101], "mxnet", **LATER)
    found = compared(tmp_path, a, b)
    (pair_,) = found.pairs
    speeds = [mean for mean in headline.compute_means(pair_) if mean.quantity is SPEED]
    assert [(mean.framework, mean.cells) for mean in speeds] == [("", 2), ("pytorch", 1), ("mxnet", 1)]
    cells = [cell for cell in pair_.cells if cell.quantity is SPEED]
    assert speeds[0].estimate == estimate_together([cell.spread for cell in cells])
    assert speeds[0].effect[0] == pytest.approx(math.exp(sum(cell.shift for cell in cells) / 2))
    of_frameworks = {mean.framework: mean.estimate for mean in pair_.means if mean.quantity is SPEED}
    assert {mean.framework: mean.estimate for mean in speeds[1:]} == of_frameworks
    text = pages.write_markdown(found)
    speed = r"Training speed: b is 1\.95\d \[1\.9\d+, 1\.9\d+\] times as fast as a in these runs"
    untold = r"one run on a side: the difference is uncertain\."
    assert re.search(rf"- \*\*{speed}, geometric mean over 2 cells; {untold}\*\*", text)
    assert not any(mean.is_significant for mean in speeds)
    assert "Host memory: b takes 1.000 [0.993, 1.007] times the memory of a, geometric mean over 2 cells: no " in text


def test_the_headline_of_accuracy_is_the_mean_difference_in_points_and_told_where_its_interval_leaves_0_out(
    tmp_path: Path,
) -> None:
    def drawn(accuracies: Sequence[float], **changes: Any) -> list[TrialResult]:
        return [
            with_figures(
                trial("pytorch", size, repeat, **changes), images_per_s=100, test_accuracy=accuracy + size / 1000
            )
            for size in (32, 64)
            for repeat, accuracy in enumerate(accuracies)
        ]

    apart = compared(tmp_path / "apart", drawn([0.70, 0.70, 0.70]), drawn([0.75, 0.75, 0.76], **LATER))
    told = headline.write_sentences(apart.pairs[0])[-1]
    assert re.fullmatch(r"Test accuracy: b minus a is \+5\.33 \[\+4\.\d\d, \+5\.9\d\] points, mean over 2 cells", told)
    near = compared(tmp_path / "near", drawn([0.70, 0.71, 0.72]), drawn([0.71, 0.70, 0.72], **LATER))
    assert headline.write_sentences(near.pairs[0])[-1].endswith("mean over 2 cells: no significant difference")
    once = compared(tmp_path / "once", drawn([0.70]), drawn([0.60], **LATER))
    assert (
        "b minus a is -10.00 points in this run, mean over 2 cells; one repeat"
        in headline.write_sentences(once.pairs[0])[-1]
    )


def test_a_ratio_is_printed_as_exactly_as_its_interval_allows_and_none_that_touches_1_tells_a_difference() -> None:
    assert effect_words.format_ratio(1.9512, 1.849, 2.053) == "1.95 [1.85, 2.05]"
    assert effect_words.format_ratio(0.8012, 0.7931, 0.8093) == "0.801 [0.793, 0.809]"
    assert effect_words.format_ratio(12.3, 10.1, 14.5) == "12.3 [10.1, 14.5]"
    assert effect_words.format_ratio(1.6612, math.nan, math.nan) == "1.66"
    assert effect_words.format_ratio(1.0, 1.0, 1.0) == "1.000 [1.000, 1.000]"
    assert effect_words.excludes_1(1.01, 1.03)
    assert not effect_words.excludes_1(0.991, 0.9999)
