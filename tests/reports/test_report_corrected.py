"""A verdict that a correction overruled, beside its interval: the table says for how many comparisons it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from stored import store, trial

from reports import blocks, contrast, neighbours, parity
from reports.comparing.cell_tests import CellTest, build_cell_test, evaluate_pairs
from reports.comparing.comparison import PairComparison, compare
from reports.comparing.comparison_tables import build_tables
from reports.conditions import group_into_sections
from reports.frameworks import FrameworkNames
from reports.neighbours import Contrast
from reports.quantities import MEMORY
from reports.reproduction import claims, size_claims
from reports.reproduction.claim_tests import ClaimVerdict, Outcome
from reports.reproduction.publication import read_size_article
from reports.table import Table
from workloads.records.blocks import Phase
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.shifts import shift_ratio
from workloads.statistics import is_overruled

NAMES = FrameworkNames()
LIKELY = (0.005, 0.030, 0.027, 0.018)  # logarithms: mean 0.02, p 0.036: alone a difference, of two and more none
SAME = (0.010, -0.012, 0.003, -0.001)


def note(comparisons: int, tests: str, excluded: str) -> str:
    whose = "comparison of this table" if comparisons == 1 else "comparisons of this table"
    verdicts = "its verdict was" if comparisons == 1 else "their verdicts were"
    return (
        f"In {comparisons} {whose} the interval excludes {excluded} and yet no difference is stated: {verdicts} "
        f"corrected for {tests} comparisons."
    )


def speeds(framework: str, of_size: Mapping[int, Sequence[float]]) -> list[TrialResult]:
    return [
        trial(framework, size, repeat, figures={"images_per_s": Figure(1000 * math.exp(value), "worker")})
        for size, values in of_size.items()
        for repeat, value in enumerate(values)
    ]


def batch_sizes(*trials: TrialResult) -> Table:
    ([section], _) = group_into_sections(trials)
    (table,) = contrast.build_batch_size_tables(section, 128)
    return table


def test_a_table_of_batch_sizes_says_for_how_many_comparisons_its_verdicts_were_corrected() -> None:
    usual = (0.0,) * 4
    likely = speeds("pytorch", {128: usual, 64: LIKELY, 32: SAME, 16: SAME})
    assert batch_sizes(*likely).above == (note(1, "3", "1"),)
    both = [*likely, *speeds("mxnet", {128: usual, 64: LIKELY, 32: SAME})]
    assert batch_sizes(*both).above == (note(2, "2 or 3", "1"),)
    (row, _) = batch_sizes(*speeds("mxnet", {128: usual, 64: LIKELY, 256: LIKELY})).rows
    assert row[3].text.startswith("1.020 [1.002, 1.039]")
    alone = batch_sizes(*speeds("pytorch", {128: usual, 64: LIKELY}))
    assert (alone.above, alone.rows[0][3].text.split()[-1]) == ((), "faster")
    assert batch_sizes(*speeds("pytorch", {128: usual, 64: SAME, 32: SAME})).above == ()


def blocks_of(*values: tuple[float, ...]) -> list[Contrast]:
    found = [
        Contrast("pytorch", Phase.TRAINING, size, (size - 1, size + 1), 20, (size - 1, size, size + 1), each,
                 neighbours.estimate_sizes([[each]]))
        for size, each in enumerate(values, 100)
    ]  # fmt: skip
    return neighbours.correct_contrasts(found)


def test_blocks_say_it_above_their_table_and_in_the_sentence_of_the_size() -> None:
    found = blocks_of(LIKELY, SAME, SAME)
    assert blocks.build_contrast_table(found, NAMES).above == (note(1, "3", "0"),)
    sentences = [blocks.describe_contrast(each, NAMES) for each in found]
    assert "no significant difference" in sentences[0] and "; corrected for 3 comparisons; " in sentences[0]
    assert all("corrected" not in sentence for sentence in sentences[1:])
    small = blocks_of(tuple(each / 10 for each in LIKELY), SAME, SAME)[0]
    said = blocks.describe_contrast(small, NAMES)
    assert "is within 1 %" in said and said.endswith("; corrected for 3 comparisons).")
    for others in ((LIKELY,), (SAME, SAME)):
        quiet = blocks_of(*others)
        assert blocks.build_contrast_table(quiet, NAMES).above == ()
        assert all("corrected" not in blocks.describe_contrast(each, NAMES) for each in quiet)


def claim(framework: str, low: float, p: float) -> claims.TestedClaim:
    figures = {"batch_sizes": "128", "p_corrected": p, "faster_percent": 2.0, "low": low, "high": 4.0}
    measured = ClaimVerdict(Outcome.UNCERTAIN, "+2 %")
    return claims.TestedClaim(read_size_article().claims[0], framework, framework, {}, measured, figures=figures)


def test_a_claim_says_the_comparisons_of_its_framework() -> None:
    of_mxnet = [claim("mxnet", -1.0, 0.3)] * 4
    untested = claim("pytorch", math.nan, math.nan)
    found = [claim("pytorch", 0.1, 0.08), claim("pytorch", -1.0, 0.3), untested, *of_mxnet]
    assert size_claims.build_table(found).above == (note(1, "2", "0"),)
    assert size_claims.build_table([claim("pytorch", 0.1, 0.03), untested, *of_mxnet]).above == ()


def accuracies(framework: str, of_size: Mapping[int, Sequence[float]]) -> list[TrialResult]:
    return [
        trial(framework, size, repeat, figures={"test_accuracy": Figure(0.5 + points / 100, "worker")},
              dataset="fashion-mnist")
        for size, values in of_size.items()
        for repeat, points in enumerate(values)
    ]  # fmt: skip


def test_parity_says_it_of_intervals_wholly_beyond_a_point() -> None:
    beyond, equal = (1.77, 2.27, 2.77), (0.0, 0.1, 0.2)  # 2.27 [1.03, 3.51], p 0.024; of three 0.07
    zero = dict.fromkeys((16, 32, 64), (0.0,) * 3)

    def above(of_size: Mapping[int, Sequence[float]]) -> tuple[str, ...]:
        base = {size: zero[size] for size in of_size}
        ([section], _) = group_into_sections([*accuracies("tensorflow", of_size), *accuracies("pytorch", base)])
        return parity.build_table(parity.compare(section), section.named).above

    *summary, said = above({16: beyond, 32: equal, 64: equal})
    assert summary[0] == "Batch size 16: TensorFlow and PyTorch (uncertain)."
    assert said == note(1, "3", "differences up to 1 point")
    assert above({16: beyond}) == ("Batch size 16: TensorFlow and PyTorch (not comparable).",)
    within_a_point = above({16: (0.9, 1.4, 1.9), 32: equal, 64: equal})  # excludes 0, not 1
    assert all("corrected" not in line for line in within_a_point)


def memories(size: int, b: Sequence[float]) -> CellTest:
    a = [500.0, 505.0, 495.0, 502.0]
    return build_cell_test(("pytorch", size), "PyTorch", MEMORY, a, b, shift_ratio(a, b))


def test_a_comparison_of_two_runs_says_the_tests_of_the_quantity(tmp_path: Path) -> None:
    results = speeds("pytorch", {32: SAME, 64: SAME, 128: SAME})
    (pair,) = compare(store(tmp_path / "a", *results), store(tmp_path / "b", *results)).pairs
    more, same = [505.5, 510.5, 502.5, 508.5], [501.0, 504.0, 496.0, 500.0]

    def above(*cells: CellTest) -> tuple[PairComparison, list[tuple[str, ...]]]:
        (tests,) = evaluate_pairs([cells])
        made = replace(pair, tests=tuple(tests), every_ending=())
        comparison = replace(compare(tmp_path / "a", tmp_path / "b"), pairs=(made,))
        return made, [table.above[1:] for table in build_tables(comparison) if table.name == "compare-memory"]

    found, said = above(memories(32, more), memories(64, same), memories(128, same))
    assert [test.overruled for test in found.cells] == [True, False, False]
    assert said == [(note(1, "4", "1"),)]  # three cells and their mean
    assert above(memories(32, same), memories(64, same))[1] == [()]


@pytest.mark.parametrize(
    ("interval", "p", "margin", "expected"),
    [
        ((0.1, 2.0), 0.06, 0.0, True),
        ((0.1, 2.0), 0.04, 0.0, False),
        ((-2.0, -0.1), 0.06, 0.0, True),
        ((-0.1, 2.0), 0.06, 0.0, False),
        ((0.1, 2.0), 0.06, 1.0, False),
        ((1.1, 2.0), 0.06, 1.0, True),
        ((math.nan, math.nan), math.nan, 0.0, False),
    ],
)
def test_a_verdict_is_overruled_if_only_the_correction_keeps_it(
    interval: tuple[float, float], p: float, margin: float, expected: bool
) -> None:
    assert is_overruled(*interval, p, margin) is expected
