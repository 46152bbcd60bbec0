"""Claims that compare two series of a study: upheld, violated, and uncertain."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import on_gpu, store, trial

from reports import build, export
from reports.conditions import group_into_sections
from reports.order import Point
from reports.reproduction import claim_answers, claims, publication, published_figures
from reports.reproduction.claim_sides import are_above, compute_mean_difference, estimate_effect, is_times
from reports.reproduction.claim_tests import Outcome
from reports.reproduction.publication import PUBLICATIONS, read
from reports.reproduction.reproduced import Reproduced
from reports.table import Table
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerName, OptimizerSpec

STAND_IN: dict[str, Any] = {"workload": "cats-dogs-cnn-32", "dataset": "cifar10-cats-dogs", "epochs": 5}
SIZES = (16, 32, 64, 128, 256)
RULES: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": OptimizerSpec.named("sgd")},
    "adam": {"optimizer": OptimizerSpec.named("adam")},
    "augmented": {"optimizer": OptimizerSpec.named("adam"), "augment": "zoom-copy"},
    "copied": {"optimizer": OptimizerSpec.named("adam"), "augment": "copy"},
}
ABOVE = "Adam is above SGD at each batch size"
GAIN = "augmented images give more accuracy at each batch size, with twice the updates"
LARGER = "at equal updates, twice the batch size, augmented images gain nothing (1 point at most)"
TWICE = "at equal updates, each image twice, augmented images gain nothing (1 point at most)"


def series(
    name: str, percents: Sequence[float], framework: str = "pytorch", repeats: int = 5, **changes: Any
) -> list[TrialResult]:
    """Trials of so many percent at each batch size; a repeat is half a point above the one before, in every series."""
    return [
        trial(
            framework, size, repeat, figures={"test_accuracy": Figure((percent + repeat / 2) / 100, "worker")},
            **STAND_IN | RULES[name] | changes,
        )
        for size, percent in zip(SIZES, percents, strict=False)
        for repeat in range(repeats)
    ]  # fmt: skip


def table_of(*results: TrialResult) -> Table:
    (table,) = claims.tables_across(group_into_sections(results)[0])
    return table


def rows(table: Table, claim: str) -> list[list[str]]:
    """[sections, published, measured, why] of each row of the claim, by its framework."""
    return [[cell.text for cell in row[1:]] for row in table.rows if row[0].text.endswith(f": {claim}")]


def of(table: Table, claim: str, framework: str = "PyTorch") -> list[str]:
    return next([cell.text for cell in row[1:]] for row in table.rows if row[0].text == f"{framework}: {claim}")


FALLING = (70.0, 66.0, 62.0, 58.0, 54.0)


def test_claims_that_the_measured_series_uphold_hold() -> None:
    table = table_of(
        *series("sgd", [percent - 5 for percent in FALLING]),
        *series("adam", FALLING),
        *series("augmented", [percent + 4 for percent in FALLING]),  # as plain images give at half the batch size
        *series("copied", [percent + 4 for percent in FALLING]),
    )
    assert {claim: of(table, claim)[2] for claim in (ABOVE, GAIN, LARGER, TWICE)} == dict.fromkeys(
        (ABOVE, GAIN, LARGER, TWICE), "holds"
    )
    assert of(table, ABOVE)[3].startswith("measured: 71.00 against 66.00 % at 16")
    assert "mean difference +0.00 [" in of(table, LARGER)[3]


def test_claims_that_the_measured_series_violate_do_not_hold() -> None:
    table = table_of(
        *series("sgd", [percent + 5 for percent in FALLING]),
        *series("adam", FALLING),
        *series("augmented", [percent - 4 for percent in FALLING]),
        *series("copied", [percent - 9 for percent in FALLING]),
    )
    assert {claim: of(table, claim)[2] for claim in (ABOVE, GAIN, TWICE)} == dict.fromkeys(
        (ABOVE, GAIN, TWICE), "does not hold"
    )
    assert "mean difference +5.00 [" in of(table, TWICE)[3]


def test_what_a_seed_does_to_both_series_falls_out_of_their_difference_and_what_is_left_decides() -> None:
    plain, copied = series("augmented", FALLING), series("copied", [percent - 0.8 for percent in FALLING])
    assert of(table_of(*plain, *copied), TWICE)[2] == "holds", "each repeat differs by 0.8 points, below the bound of 1"
    shuffled = [
        replace(
            result, figures=result.figures | {"test_accuracy": Figure(0.5 + 0.01 * (result.spec.draw.repeat % 2), "")}
        )
        for result in copied
    ]
    assert of(table_of(*plain, *shuffled), TWICE)[2] != "holds"
    near = table_of(*series("augmented", FALLING), *series("copied", [percent - 0.999 for percent in FALLING]))
    assert of(near, TWICE)[2:] == [
        "uncertain",
        "measured: the interval reaches beyond the bound; " + of(near, TWICE)[3].split("; ", 1)[1],
    ]


def test_one_repeat_holds_no_claim_and_says_what_this_run_showed() -> None:
    table = table_of(
        *series("sgd", [percent - 9 for percent in FALLING], repeats=1),
        *series("adam", FALLING, repeats=1),
        *series("augmented", FALLING, repeats=1),
        *series("copied", [percent - 5 for percent in FALLING], repeats=1),
    )
    assert of(table, ABOVE)[2] == "seen in this run"
    assert of(table, TWICE)[2:] == ["not seen in this run", "measured: one repeat; mean difference +5.00 points"]


def test_each_framework_has_its_row_and_the_published_one_stands_beside_its_own() -> None:
    table = table_of(
        *series("sgd", FALLING, "mxnet"), *series("adam", FALLING, "mxnet"), *series("adam", FALLING, "pytorch")
    )
    assert [row[0].text.split(":")[0] for row in table.rows if row[0].text.endswith(ABOVE)] == ["MXNet", "TensorFlow"]
    assert of(table, ABOVE, "TensorFlow")[1:3] == ["holds", "uncertain"]
    assert of(table, ABOVE, "MXNet")[1] == "\u2013", "nobody published MXNet's"
    assert of(table, GAIN, "TensorFlow")[:3] == ["\u2013", "does not hold", "uncertain"]
    assert "published: 65.80 against 66.00 % at 16" in of(table, GAIN, "TensorFlow")[3]


def test_series_of_other_threads_software_or_epochs_are_not_held_against_each_other() -> None:
    sgd = series("sgd", FALLING)
    for changes in ({"threads": 1}, {"epochs": 6}, {"environment": "e2"}, {"precision": "bfloat16"}):
        table = table_of(*sgd, *series("adam", [percent + 9 for percent in FALLING], **changes))
        assert [row[:3] for row in rows(table, ABOVE)] == [["\u2013", "holds", "uncertain"]], changes


def test_a_setting_that_both_metrics_name_alike_keeps_the_numbers_of_its_rule_alike() -> None:
    plain = series("adam", FALLING, optimizer=OptimizerSpec.named("adam", 0.01))
    table = table_of(*plain, *series("augmented", [percent + 9 for percent in FALLING]))
    assert [row[2] for row in rows(table, GAIN)] == ["uncertain"], "another learning rate is another training"


def test_several_gpus_are_compared_with_one_though_they_name_further_cards() -> None:
    one, two = [], []
    for size in (255, 256, 257):
        for repeat in range(3):
            result = on_gpu(trial("pytorch", size, repeat, study="scaling"))
            speed = {"images_per_s": Figure(1000.0 + repeat, "")}
            one.append(replace(result, figures=result.figures | speed))
            spec = varied(result.spec, devices=2, others=("GPU-b",))
            faster = {"images_per_s": Figure(2000.0 + 2 * repeat, "")}
            two.append(replace(result, spec=spec, figures=result.figures | faster))
    table = table_of(*one, *two)
    assert of(table, "two GPUs train twice as many images a second as one (10 %)")[2] == "holds"


def test_halves_of_a_cpu_are_compared_within_one_version_of_a_framework() -> None:
    claim = "a CPU as two devices, half of the threads each, trains more images a second than as one"
    speeds = [
        trial("pytorch", size, repeat, study="scaling-cpu", devices=count, environment=f"e{software}",
              figures={"images_per_s": Figure(1000.0 * count * software + repeat, "")})
        for size in (64, 256) for repeat in range(3) for count in (1, 2) for software in (1, 3)
    ]  # fmt: skip
    pairs = [row[0] for row in rows(table_of(*speeds), claim)]
    assert len(pairs) == 2 and not {*pairs[0].split(" and ")} & {*pairs[1].split(" and ")}


def test_claims_are_tested_by_the_series_of_their_own_study_with_all_batch_sizes() -> None:
    table = table_of(*series("sgd", FALLING[:3]), *series("adam", FALLING))
    assert of(table, ABOVE)[2:] == ["uncertain", "measured: no value of both sides at 128"]
    assert claims.tables_across(group_into_sections([trial()])[0]) == []
    others = [replace(result, spec=replace(result.spec, study="quick")) for result in memories("adam", 2.0)]
    assert claims.tables_across(group_into_sections(others)[0]) == []


def test_each_section_keeps_its_own_claims_and_figures_and_says_that_it_stands_for_another_task() -> None:
    found, _ = group_into_sections([*series("sgd", FALLING), *series("adam", FALLING)])
    by_rule = {section.condition.task.optimizer.name: published_figures.of_section(section)[0] for section in found}
    assert [table.name for table in by_rule["sgd"]] == ["published-accuracy", "claims"]
    names = ["published-adam-beside-sgd", "published-adam-plain", "claims"]
    assert [table.name for table in by_rule["adam"]] == names
    (falls,) = (row for row in by_rule["sgd"][1].rows if row[0].text.startswith("PyTorch"))
    assert [cell.text for cell in falls][:4] == [
        "PyTorch: accuracy with SGD falls as the batch size grows", "\u2013", "\u2013", "holds",
    ]  # fmt: skip
    assert any("stand in for the published network" in line for line in by_rule["sgd"][1].below)
    assert "other model, cats-dogs-cnn-32" in by_rule["sgd"][0].below[0], "its figures are compared with none"


@pytest.mark.parametrize(
    ("pairs", "outcome"),
    [
        ([(Point(200, 199, 201, 3), Point(100, 99.5, 100.5, 3))], Outcome.HOLDS),
        ([(Point(200, 199, 201, 3), Point(90, 89.5, 90.5, 3))], Outcome.FAILS),
        ([(Point(200, 190, 210, 3), Point(100, 99.5, 100.5, 3))], Outcome.UNCERTAIN),
        ([(Point(200, 200, 200, 0), Point(100, 100, 100, 0))], Outcome.HOLDS),
        ([(Point(200, 199, 201, 3), Point(0, 0, 0, 3))], Outcome.UNCERTAIN),
        ([(Point(200, 190, 210, 2), Point(110, -17, 237, 2))], Outcome.UNCERTAIN),  # so noisy that it may be 0
        ([(Point(200, 190, 210, 2), Point(110, 0, 220, 2))], Outcome.UNCERTAIN),
        ([(Point(200, 190, 210, 2), Point(10, -1, 21, 2))], Outcome.FAILS),  # at least 9 times
    ],
)
def test_so_many_times_is_told_by_the_interval_of_the_ratio(pairs: list[tuple[Point, Point]], outcome: Outcome) -> None:
    assert is_times(pairs, 2.0, 0.02).outcome is outcome


@pytest.mark.parametrize(("held", "outcome"), [(0.0, Outcome.HOLDS), (8.0, Outcome.HOLDS), (900.0, Outcome.FAILS)])
def test_nothing_of_it_is_next_to_nothing_a_counter_beside_all_parameters_included(
    held: float, outcome: Outcome
) -> None:
    pairs = [(Point(held, held, held, 3), Point(10_000.0, 10_000.0, 10_000.0, 3))]
    assert is_times(pairs, 0.0, 0.02).outcome is outcome


def test_a_mean_difference_is_of_the_repeats_that_all_cells_have() -> None:
    pairs = [({0: 70.0, 1: 72.0, 2: 99.0}, {0: 69.0, 1: 70.0}), ({0: 60.0, 1: 62.0}, {0: 59.0, 1: 60.0})]
    shift = compute_mean_difference(pairs, 0.0)
    assert shift is not None and (shift.value, shift.n) == (1.5, 2)
    # differences of 1 and 2: standard deviation 1 / sqrt 2, t(0.975, 1) = 12.706
    assert shift.high - shift.value == pytest.approx(12.7062 / 2, rel=1e-4)
    assert compute_mean_difference([({0: 1.0}, {1: 1.0})], 0.0) is None


def definition(tmp_path: Path, old: str, new: str) -> Path:
    folder = tmp_path / "cats-dogs-2022"
    shutil.copytree(PUBLICATIONS / "cats-dogs-2022", folder)
    text = (folder / publication.DEFINITION).read_text()
    assert old in text
    (folder / publication.DEFINITION).write_text(text.replace(old, new))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('test = "no-gain"', 'test = "rises"', "no such test of a claim that compares two sides: rises"),
        ("against_sizes = [16, 32, 64, 128]", "against_sizes = [16]", "against_sizes has another number"),
        ('against = "sgd"', 'against = "momentum"', "'momentum'"),
        ('workload = "cats-dogs-cnn"\n', "", "these keys are needed, too: workload"),
    ],
)
def test_a_definition_that_fits_no_test_is_refused_by_file(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"publication\.toml") as caught:
        read(definition(tmp_path, old, new))
    assert told in str(caught.value)


def memories(optimizer: OptimizerName, factor: float, repeats: int = 2, accumulate: int = 1) -> list[TrialResult]:
    """Trials with 1 MiB of parameters, `factor` times that as optimizer state, and activations linear in the batch
    size."""
    return [
        trial(
            "pytorch", size, repeat, study="memory-cpu", optimizer=OptimizerSpec.named(optimizer),
            figures={"optimizer_bytes": Figure(factor * 2.0**20, "worker")}, accumulate=accumulate,
        )
        for size in SIZES
        for repeat in range(repeats)
    ]  # fmt: skip


@pytest.mark.parametrize(("factor", "outcome"), [(2.0, "holds"), (2.01, "holds"), (2.1, "does not hold")])
def test_a_count_of_bytes_tells_by_itself_and_what_is_worked_out_from_peaks_is_one_measurement(
    factor: float, outcome: str
) -> None:
    table = table_of(*memories("adam", factor), *memories("momentum", 1.0), *memories("sgd", 0.0))
    assert of(table, "the state of Adam is 2 times the parameters")[2] == outcome
    assert of(table, "the state of SGD with momentum is 1 times the parameters")[2] == "holds"
    assert of(table, "the state of plain SGD is 0 times the parameters")[2] == "holds"
    linear = "activations are linear in the batch size: twice the batch, twice the memory"
    assert of(table, linear)[2:] == ["seen in this run", "measured: one repeat; 2.000, 2.000, 2.000 and 2.000 times"]


@pytest.mark.slow
def test_a_report_of_series_begins_with_what_its_claims_come_to(tmp_path: Path) -> None:
    plain, better = [percent - 5 for percent in FALLING], [percent + 4 for percent in FALLING]
    results = store(
        tmp_path,
        *series("sgd", plain),
        *series("adam", FALLING),
        *series("augmented", better),
        *series("copied", better),
    )
    report = build.build_report([results])
    assert report.summary.headline == (
        "Does accuracy fall as the batch size grows, and what do Adam and augmented images gain? Yes: it falls "
        "with Adam; it falls with SGD; Adam is above SGD; augmented images gain with twice the updates; augmented "
        "images gain nothing at equal updates"
    )
    assert report.summary.about == "accuracy"
    told = [line for line in report.summary.not_verified if line.startswith("Not compared")]
    reasons = "other model, cats-dogs-cnn-32; other data set, cifar10-cats-dogs"
    assert told == [f"Not compared with the published figures of test accuracy: {reasons}."]
    assert report.summary.findings[0] == "Claims over the series: PyTorch: 4 hold."
    assert [table.name for table in report.across] == [claims.ACROSS]
    export.write(report, tmp_path / "report", ("html", "md", "csv", "latex"))
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert text.index("## Claims over the series of the study, tested") < text.index("## 1. ")
    assert (tmp_path / "report" / f"{claims.ACROSS}.csv").exists()


def test_a_title_says_the_worst_of_a_framework_s_claims_on_a_topic_and_names_no_framework_that_did_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def title(*results: TrialResult) -> str:
        told = claim_answers.say_headline(group_into_sections(results)[0])
        return told[0] if told else ""

    rows = [*memories("adam", 2.0), *memories("momentum", 1.0), *memories("sgd", 0.0)]
    asked = "Does a count of its parts predict the memory of training?"
    assert title(*rows) == f"{asked} Yes: state of the optimizer. Yes in this run: activations linear in the batch size"
    wrong = [*memories("adam", 3.0), *memories("momentum", 1.0), *memories("sgd", 0.0)]
    assert title(*wrong).startswith(f"{asked} No: state of the optimizer. Yes in this run: activations")
    other = [replace(each, spec=varied(each.spec, framework="mxnet")) for each in rows]
    started = f"{asked} Yes: state of the optimizer (MXNet). No: state of the optimizer (PyTorch). Yes in this run: "
    assert title(*wrong, *other).startswith(started)
    part = title(*memories("sgd", 0.0))
    assert part == f"{asked} All of it is uncertain", "of three rules one was run"
    monkeypatch.setattr(claim_answers, "_answer", lambda *_: None)
    assert title(*rows).startswith("Claims over the series: ")


def devices(speed: float, percent: float, gpu: bool, study: str = "devices") -> list[TrialResult]:
    """Trials of so many images/s at each batch size; each repeat is one image/s faster."""
    results = []
    for size in (4, 16, 64, 256, 1024):
        for repeat in range(3):
            result = trial("pytorch", size, repeat, study=study, environment="cuda" if gpu else "cpu")
            result = on_gpu(result) if gpu else result
            figures = {"images_per_s": Figure(speed + repeat, ""), "test_accuracy": Figure(percent / 100, "")}
            results.append(replace(result, figures=result.figures | figures))
    return results


def test_two_devices_of_a_machine_are_held_against_each_other_each_in_its_own_installation() -> None:
    faster, same = (
        "the GPU trains more images a second than the CPU at each batch size",
        "the accuracy is the same on the GPU and on the CPU (1 point)",
    )
    table = table_of(*devices(1000, 70, gpu=True), *devices(500, 70.2, gpu=False))
    assert (of(table, faster)[2], of(table, same)[2]) == ("holds", "holds")
    table = table_of(*devices(500, 70, gpu=True), *devices(1000, 75, gpu=False))
    assert (of(table, faster)[2], of(table, same)[2]) == ("does not hold", "does not hold")


def test_one_thread_stands_against_all_and_no_section_against_itself() -> None:
    text = "all threads train more images a second than one, at the largest batch sizes"
    one = [replace(r, spec=varied(r.spec, threads=1)) for r in devices(500, 70, gpu=False, study="devices-cpu")]
    table = table_of(*one, *devices(900, 70, gpu=False, study="devices-cpu"))
    assert of(table, text)[2] == "holds"
    assert claims.tables_across(group_into_sections(one)[0]) == []


def test_sides_are_compared_in_pairs_of_repeats_so_what_changes_both_cancels() -> None:
    """1000, 2000 and 4000 images/s, each 1.3 times as many with all threads: the intervals of the cells overlap."""
    text = "all threads train more images a second than one, at the largest batch sizes"

    def at(speed: float, threads: int | None = None, order: Sequence[int] = (0, 1, 2)) -> list[TrialResult]:
        found = devices(0, 70, gpu=False, study="devices-cpu")
        figures = [{"images_per_s": Figure(speed * 2.0 ** order[r.spec.draw.repeat], "")} for r in found]
        found = [replace(r, figures=r.figures | each) for r, each in zip(found, figures, strict=True)]
        return [replace(r, spec=varied(r.spec, threads=threads)) for r in found] if threads else found

    assert of(table_of(*at(1000, threads=1), *at(1300)), text)[2] == "holds"
    assert of(table_of(*at(1300, threads=1), *at(1000)), text)[2] == "does not hold"
    found = of(table_of(*at(1000, threads=1), *at(1300, order=(1, 2, 0))), text)
    assert found[2] == "uncertain" and "an interval of the paired repeats reaches both sides" in found[3]


def test_repeats_that_agree_exactly_leave_no_doubt_about_a_bound() -> None:
    equal = compute_mean_difference([({0: 500.0, 1: 500.0}, {0: 501.0, 1: 501.0})], 0.0)
    assert equal is not None and equal.estimate is not None and equal.value == -1.0
    assert (equal.estimate.p_beyond(5.0), equal.estimate.p_beyond(0.5)) == (1.0, 0.0)
    assert (equal.estimate.p_apart, replace(equal.estimate, value=0.0).p_apart) == (0.0, 1.0)


def test_a_pair_that_only_the_number_of_batch_sizes_overrules_is_told_with_that_number() -> None:
    """Ratios of 1.02 and of 0.98 at the two sizes: p of the second is below 0.05 alone, and above it for two."""
    above = estimate_effect({0: 120.0, 1: 121.0, 2: 119.0}, {0: 100.0, 1: 100.0, 2: 100.0}, 0.0, absolute=False)
    below = estimate_effect({0: 98.0, 1: 97.3, 2: 98.7}, {0: 100.0, 1: 100.0, 2: 100.0}, 0.0, absolute=False)
    assert above and below and 0.025 < below.p_apart < 0.05
    found = are_above([above, below], "so many")
    assert (found.outcome, found.tests) == (Outcome.UNCERTAIN, 2) and "corrected for 2 batch sizes" in found.why
    assert are_above([below], "so many").outcome is Outcome.FAILS


def test_a_part_of_the_memory_that_was_asked_for_once_is_one_repeat() -> None:
    """The same number stands in every repeat; three of them say nothing about its spread."""
    rows = [*memories("adam", 2.0, repeats=3), *memories("momentum", 1.0, repeats=3), *memories("sgd", 0.0, repeats=3)]
    found, _ = group_into_sections(rows)
    article = read(PUBLICATIONS / "memory")
    (metric,) = (each for each in article.metrics if each.name == "adam_state")
    (section,) = (each for each in found if not metric.other_conditions(each.condition))
    repeats = Reproduced(section, article, metric).repeats
    assert repeats and all(len(of_cell) == 1 for of_cell in repeats.values())


def test_a_verdict_that_only_one_comparison_would_allow_is_overruled_and_the_table_says_so() -> None:
    """The difference of TWICE is 2.27 [1.03, 3.51] points, p 0.024 alone; other claims hold because nothing differs."""
    beyond = {0: 1.77, 1: 2.27, 2: 2.77}

    def raise_zoomed(result: TrialResult) -> TrialResult:
        points = beyond[result.spec.draw.repeat] if result.spec.task.augment == "zoom-copy" else 0.0
        accuracy = (result.figures["test_accuracy"].value or 0.0) + points / 100
        return replace(result, figures={"test_accuracy": Figure(accuracy, "")})

    def tables(*frameworks: str) -> Table:
        found = [*series("augmented", FALLING, repeats=3), *series("copied", FALLING, repeats=3)]
        own = [
            each
            for name in frameworks
            for each in (*series("augmented", FALLING, name, 3), *series("copied", FALLING, name, 3))
        ]
        return table_of(*(raise_zoomed(each) for each in found), *own)

    alone, among = tables(), tables("mxnet", "tensorflow")
    assert of(alone, TWICE)[2] == "does not hold" and len(alone.above) == 1
    assert of(among, TWICE)[2] == "uncertain" and "corrected p 0.07" in of(among, TWICE)[3]
    assert among.above[1:] == (
        "In 1 comparison of this table the interval excludes 0, or the bound of the claim, and yet no difference is "
        "stated: its verdict was corrected for 3 comparisons.",
    )
    assert {of(among, TWICE, name)[2] for name in ("MXNet", "TensorFlow")} == {"holds"}


def test_claims_of_which_nothing_is_known_are_left_out_and_counted() -> None:
    rates = (0.0001, 0.0004, 0.0016)
    results = [
        trial(
            "pytorch",
            size,
            study="learning-rates",
            optimizer=OptimizerSpec.named("adam", rate),
            figures={"test_accuracy": Figure(0.9, "worker")},
        )
        for size in (16, 64, 256)
        for rate in rates
    ]
    table = table_of(*results)
    assert len(table.rows) == 4 and all("Adam" in str(row[0].text) for row in table.rows)
    assert table.below[-1].startswith("Left out: 16 claims without published figures")


def speeds(framework: str, *values: float) -> list[TrialResult]:
    return [
        trial(framework, 32, repeat, study="frameworks", epochs=1, figures={"images_per_s": Figure(value, "worker")})
        for repeat, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("rival", "outcome"),
    [((500.0, 510.0, 520.0), "holds"), ((900.0, 910.0, 920.0), "does not hold"), ((), "uncertain")],
)
def test_a_claim_about_two_columns_of_one_table_is_judged_between_them(rival: tuple[float, ...], outcome: str) -> None:
    results = [*speeds("pytorch", 700.0, 710.0, 720.0), *speeds("pytorch@compiled", *rival)]
    (section,), _ = group_into_sections(results)
    tested, _ = claims.evaluate_section(section, read(PUBLICATIONS / "frameworks"))
    told = {(each.claim.text, each.framework): each.measured for each in tested}
    found = told["keras#21851: {framework} trains more images a second than torch.compile", "pytorch"]
    assert str(found.outcome) == outcome, found.why
    assert {str(each.outcome) for (_, name), each in told.items() if name == "jax"} == {"uncertain"}
    table = claims.build_table(tested, read(PUBLICATIONS / "frameworks"), section)
    assert table.below[0].startswith("Each claim compares two columns of this section's tables, in pairs of repeats")
    assert table.head == ("Claim", "Measured", "Why")


@pytest.mark.parametrize("test", ["same", "no-gain"])
def test_a_difference_is_uncertain_where_every_repeat_of_a_cell_diverged(test: str) -> None:
    results = [*speeds("pytorch", 700.0, 710.0), *speeds("pytorch@compiled", 500.0, 510.0)]
    results = [
        replace(each, status=Status.DIVERGED, reason="loss is not finite")
        if each.spec.cell.framework == "pytorch"
        else each
        for each in results
    ]
    (section,), _ = group_into_sections(results)
    article = read(PUBLICATIONS / "frameworks")
    claim = next(each for each in article.claims if each.rival == "pytorch@compiled")
    tested, _ = claims.evaluate_section(section, replace(article, claims=(replace(claim, test=test, within=1.0),)))
    (measured,) = (each.measured for each in tested if each.framework == "pytorch")
    assert (measured.outcome, measured.why) == (Outcome.UNCERTAIN, "no repeat is on both sides")


def test_a_claim_with_a_rival_names_whom_it_is_compared_with(tmp_path: Path) -> None:
    shutil.copytree(PUBLICATIONS / "frameworks", tmp_path / "frameworks")
    path = tmp_path / "frameworks" / publication.DEFINITION
    path.write_text(path.read_text().replace('frameworks = ["keras_jax"]', 'frameworks = ["keras_torch"]'))
    with pytest.raises(ValueError, match="a claim with a rival names other frameworks than the rival"):
        read(path.parent)
