"""The report's sentences on blocks of steps whose true effect is known."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stored import simulated_blocks, spec_of_blocks, store_blocks, study_of_blocks

from reports import __main__ as command
from reports import blocks, build, load, neighbours
from reports.neighbours import Contrast, convert_to_percent
from reports.report import Chapter
from reports.reproduction import size_claims
from reports.reproduction.claim_tests import Outcome
from reports.reproduction.publication import read_size_article
from reports.table import EMPTY
from workloads.records.blocks import BLOCKS_FILE, Block, Phase, read_blocks, whole_rounds
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.status import Status
from workloads.statistics import Verdict, trimmed_mean


def contrast_of(processes: int, effect: float, generator: np.random.Generator, **settings: float) -> Contrast:
    """Contrast of 128 with 127 and 129, training, as the only test."""
    every = [simulated_blocks(generator, effects={128: effect}, **settings) for _ in range(processes)]  # type: ignore[arg-type]
    values = []
    for process in every:
        rounds = map(neighbours.times_of, whole_rounds(process, Phase.TRAINING))
        above = [neighbours.compute_distance(times, 128, (127, 129)) for times in rounds]
        values.append(trimmed_mean(above, neighbours.TRIMMED))
    estimate = neighbours.estimate_sizes([[values]])
    made = Contrast("pytorch", Phase.TRAINING, 128, (127, 129), 20, (127, 128, 129), tuple(values), estimate)
    return neighbours.correct_contrasts([made])[0]


def many(effect: float, **settings: float) -> list[Contrast]:
    generator = np.random.default_rng(2022)
    return [contrast_of(5, effect, generator, **settings) for _ in range(400)]


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_the_interval_holds_the_true_effect_as_often_as_it_says_also_under_drift(drift: float) -> None:
    found = many(0.01, drift=drift)
    held = [low <= convert_to_percent(0.01) <= high for _, low, high in (each.percents for each in found)]
    assert 0.92 < np.mean(held) < 0.98
    assert abs(np.mean([each.value for each in found]) - 0.01) < 0.0007


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_a_size_that_is_as_fast_as_its_neighbours_is_seldom_said_to_be_another(drift: float) -> None:
    wrong = np.mean([each.verdict in (Verdict.BETTER, Verdict.WORSE) for each in many(0.0, drift=drift)])
    assert wrong < 0.08


@pytest.mark.slow
def test_the_smallest_effect_that_could_have_been_found_is_found_four_times_in_five() -> None:
    detectable = float(np.sqrt(np.mean([each.detectable**2 for each in many(0.0)])))
    found = np.mean([each.verdict is Verdict.BETTER for each in many(detectable)])
    assert 0.7 < found < 0.92


@pytest.mark.slow
def test_rounds_of_one_process_are_no_independent_repeats() -> None:
    """A deviation that belongs to a process does not go away with more rounds in it."""
    few, lots = (many(0.0, rounds=rounds, process_spread=0.01) for rounds in (20, 80))
    assert np.mean([each.detectable for each in lots]) > 0.8 * np.mean([each.detectable for each in few])
    assert np.mean([each.verdict in (Verdict.BETTER, Verdict.WORSE) for each in lots]) < 0.08


def test_what_a_step_costs_in_any_case_is_no_advantage_of_the_larger_size() -> None:
    """The line is drawn at the size, not halfway where neighbours are at different distances."""
    times = {100: 120 / 100, 128: 148 / 128, 129: 149 / 129}
    of_round = {size: Block(Phase.TRAINING, 0, size, 1, size * each, 0.0) for size, each in times.items()}
    assert neighbours.compute_distance(neighbours.times_of(of_round), 128, (100, 129)) == pytest.approx(0, abs=1.5e-3)
    assert neighbours.map_neighbours((129, 100, 128, 140)) == {128: (100, 129), 129: (128, 140)}


def read(results: Path) -> Chapter:
    ([found], _) = blocks.build_chapters(load.read_all(results))
    return found


def rows(found: Chapter, name: str) -> list[dict[str, object]]:
    (table,) = [table for table in found.tables if table.name == name]
    return table.tidy.to_dict("records")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("effect", "told", "claimed"),
    [(0.05, "faster", "+"), (-0.05, "slower", "slower: -"), (0.0, "within 1 %", "within 1 %: ")],
)
def test_a_planted_claim_is_upheld_or_violated(tmp_path: Path, effect: float, told: str, claimed: str) -> None:
    found = read(study_of_blocks(tmp_path, {128: effect}, process_spread=0.001))
    assert [row["verdict"] for row in rows(found, "powers-of-two")] == [told, told]
    outcome = Outcome.HOLDS if effect > 0 else Outcome.FAILS
    powers = [row for row in rows(found, "powers-of-two-claims") if ": powers of two" in str(row["claim"])]
    assert [(row["batch_sizes"], row["measured"]) for row in powers] == [("128", outcome)] * 2
    assert all(str(row["why_measured"]).startswith(claimed) for row in powers)
    word = "slower" if effect < 0 else "faster"
    assert effect == 0 or all(f"% {word} per image than its neighbours (speed " in line for line in found.findings)


def test_one_process_or_too_wide_a_spread_has_no_verdict_and_says_what_it_could_have_found(tmp_path: Path) -> None:
    found = read(study_of_blocks(tmp_path, {}, processes=3, process_spread=0.02))
    assert {row["verdict"] for row in rows(found, "powers-of-two")} == {"uncertain"}
    assert all(
        ": no significant difference between " in line and "would have been detected" in line for line in found.findings
    )
    assert all(float(str(row["detectable_percent"])) > 1 for row in rows(found, "powers-of-two"))
    found = read(study_of_blocks(tmp_path / "2", {128: 0.2}, processes=1))
    assert {row["verdict"] for row in rows(found, "powers-of-two")} == {"uncertain"}
    assert all("in the one process that measured it" in line for line in found.findings)
    of_powers = [row for row in rows(found, "powers-of-two-claims") if ": powers of two" in str(row["claim"])]
    assert {row["why_measured"] for row in of_powers} == {size_claims.ONE_PROCESS}


def test_multiples_are_claims_of_their_own_that_a_power_of_two_tells_nothing_of(tmp_path: Path) -> None:
    groups = ((127, 128, 129), (119, 120, 121), (191, 192, 193))
    found = read(study_of_blocks(tmp_path, {120: 0.05}, groups, process_spread=0.001))
    told = {row["batch_sizes"]: (row["claim"], row["measured"]) for row in rows(found, "powers-of-two-claims")}
    beside = "are faster per image than their neighbours"
    assert told["120"] == (f"PyTorch, evaluation: multiples of 8, not of 64, no powers of two {beside}", Outcome.HOLDS)
    assert told["192"] == (f"PyTorch, evaluation: multiples of 64, no powers of two {beside}", Outcome.FAILS)
    assert told["128"] == (f"PyTorch, evaluation: powers of two {beside}", Outcome.FAILS)


def test_a_claim_without_a_size_or_a_gpu_has_no_verdict_and_a_reason(tmp_path: Path) -> None:
    found = rows(read(study_of_blocks(tmp_path, {})), "powers-of-two-claims")
    of_64 = next(row for row in found if ": multiples of 64" in str(row["claim"]))
    assert (of_64["measured"], of_64["why_measured"]) == (
        "uncertain", "PyTorch measured no such size between two others",
    )  # fmt: skip
    rule = [row for row in found if ": Coulom's rule" in str(row["claim"])]
    assert len(rule) == 4 and all(
        row["why_measured"] == size_claims.NO_GPU and math.isnan(float(str(row["low"]))) for row in rule
    )


def test_coulom_s_rule_names_the_sizes_that_fill_a_gpu() -> None:
    # 2^14 * 80 / (32 * 32 * 64) = 20 per step: V100, a map of 32 x 32 x 64
    assert size_claims.compute_coulom_sizes(80, (32, 32, 64), 100) == {20, 40, 60, 80, 100}
    assert size_claims.compute_coulom_sizes(80, (224, 224, 3), 30) == {8, 17, 26}


def test_coulom_s_rule_is_a_claim_on_a_gpu_that_told_its_multiprocessors(tmp_path: Path) -> None:
    generator, group = np.random.default_rng(3), (19, 20, 21)
    for process in range(4):
        spec = spec_of_blocks("pytorch", group, process, device="GPU-1")
        blocks = simulated_blocks(generator, group, {20: 0.1}, process_spread=0.001)
        store_blocks(tmp_path, spec, blocks, multiprocessors=80)
    ((measurement,), _) = neighbours.measurements(load.read_all(tmp_path))
    shape = size_claims.find_widest_shape(measurement.workload) if measurement.workload else ()
    kinds = {each.kind for each in read_size_article().claims if each.kind.coulom == "widest map"}
    (found,) = [size_claims.select_sizes(kind, measurement, group) for kind in kinds]
    assert found == (size_claims.compute_coulom_sizes(80, shape, 21).intersection(group), "")


def test_processes_of_two_machines_keep_their_own_rounds_though_their_ids_are_the_same(tmp_path: Path) -> None:
    group, folders = (127, 128, 129), [tmp_path / "a", tmp_path / "b"]
    for folder, effect, cpu in zip(folders, (0.0, 0.2), ("CPU one", "CPU two"), strict=True):
        generator = np.random.default_rng(5)
        for process in range(4):
            kept = store_blocks(
                folder, spec_of_blocks("pytorch", group, process), simulated_blocks(generator, group, {128: effect})
            )
            result = json.loads((kept / RESULT_FILE).read_text())
            write_json(kept / RESULT_FILE, result | {"machine": result["machine"] | {"cpu_model": cpu}})
    alone = [neighbours.measurements(load.read_all(folder))[0][0] for folder in folders]
    together, _ = neighbours.measurements(load.read_all(*folders))
    assert [each.processes for each in together] == [each.processes for each in alone]


def test_steps_an_epoch_and_the_article_stand_beside_ours(tmp_path: Path) -> None:
    times = rows(read(study_of_blocks(tmp_path, {}, ((255, 256, 257),))), "block-times")
    steps = {row["batch_size"]: row["steps_an_epoch"] for row in times if row["phase"] == "training"}
    assert steps == {255: 197, 256: 196, 257: 195}
    assert all(math.isnan(float(str(row["steps_an_epoch"]))) for row in times if row["phase"] == "evaluation")
    found = read(study_of_blocks(tmp_path / "2", {}, ((127, 128, 129), (255, 256, 257))))
    made = {table.name: table for table in found.tables if table.name.startswith("published-")}
    assert {name: table.head[1:] for name, table in made.items()} == {
        "published-powers-of-two-training-1xv100": ("128", "512"),
        "published-powers-of-two-evaluation-1xv100": ("128", "512"),
        "published-powers-of-two-training-4xv100": ("256",),
    }
    of_one = made["published-powers-of-two-training-1xv100"]
    assert [cell.text for cell in of_one.rows[0]] == [
        "PyTorch, published (table)",
        "0.82",
        "0.23",
    ]  # 9.78 of 9.80, 9.92
    ours = rows(found, "powers-of-two")[0]
    row = of_one.tidy.iloc[0]
    assert (row["batch_size"], row["measured"], row["n"]) == (128, ours["faster_percent"], 6)
    assert row["difference"] == row["measured"] - row["published_table"]
    assert row["published_rounding_points"] == pytest.approx(0.1023, abs=1e-4)
    assert all(cell.text != "0.23" for cell in of_one.rows[1]) and of_one.rows[1][2].text == "not run"
    assert "one step more than at 256" in of_one.below[1] and "its inference column by 7" in of_one.below[1]


def test_what_others_took_is_a_dash_where_the_kernel_did_not_say_it_of_any_block(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    for process in range(3):
        unknown = [
            replace(block, foreign_cpu_percent=None) if process or block.phase is Phase.TRAINING else block
            for block in simulated_blocks(generator)
        ]
        store_blocks(tmp_path, spec_of_blocks("pytorch", (127, 128, 129), process), unknown)
    (table,) = [table for table in read(tmp_path).tables if table.name == "block-times"]
    place = table.head.index("Foreign CPU, %")
    shown = {(phase, row[place].text) for phase, row in zip(table.tidy["phase"], table.rows, strict=True)}
    assert shown == {("training", EMPTY.text), ("evaluation", "1.0")}


def test_processes_that_did_not_end_well_are_left_out_and_named(tmp_path: Path) -> None:
    study_of_blocks(tmp_path, {}, processes=3)
    blocks = simulated_blocks(np.random.default_rng(1))
    contended = store_blocks(tmp_path, spec_of_blocks("pytorch", (127, 128, 129), 8), blocks, Status.CONTENDED)
    broken = store_blocks(tmp_path, spec_of_blocks("pytorch", (127, 128, 129), 9), blocks)
    (broken / BLOCKS_FILE).write_text('{"blocks": [')
    (tmp_path / "blocks" / f"{contended.name}-1").mkdir()
    report = build.build_report([tmp_path])
    (found,) = report.chapters
    assert [row["processes"] for row in rows(found, "powers-of-two")] == [3, 3]
    assert report.problems["Trials that are not ok"] == (f"{contended.name}: contended: made up",)
    assert any(str(broken) in line and "blocks.json: JSONDecodeError" in line for line in found.remarks)


@pytest.mark.parametrize(
    "change",
    [
        {"wall_s": 0}, {"wall_s": "1"}, {"steps": 0}, {"steps": 1.5}, {"round": -1}, {"batch_size": 2**40},
        {"phase": "sleep"}, {"foreign_cpu_percent": "1"}, {"invented": 1},
    ],
)  # fmt: skip
def test_a_block_that_nobody_can_have_measured_is_refused(tmp_path: Path, change: Mapping[str, object]) -> None:
    block = {"phase": "training", "round": 0, "batch_size": 8, "steps": 2, "wall_s": 1.0, "foreign_cpu_percent": 0.0}
    path = tmp_path / BLOCKS_FILE
    path.write_text(json.dumps({"blocks": [block]}))
    assert read_blocks(path)[0].image_s == 1 / 16
    path.write_text(json.dumps({"blocks": [block | dict(change)]}))
    with pytest.raises(ValueError, match=r"^blocks\.json: "):
        read_blocks(path)


def test_rounds_that_are_not_whole_are_refused() -> None:
    blocks = simulated_blocks(np.random.default_rng(1), rounds=2)
    with pytest.raises(ValueError, match="of different batch sizes"):
        whole_rounds(blocks[:-1], Phase.EVALUATION)
    with pytest.raises(ValueError, match="twice"):
        whole_rounds([*blocks, blocks[-1]], Phase.EVALUATION)


def test_the_report_command_writes_every_format_without_any_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_of_blocks(tmp_path, {128: 0.05}, frameworks=("pytorch", "mxnet"), processes=3)
    formats = ("html", "md", "csv", "json", "latex", "png", "svg")
    assert command.run([str(tmp_path), "--format", *formats]) == 0
    printed = capsys.readouterr().out
    assert "osu-cnn on cifar10, CPU" in printed and ": blocks of steps" in printed and "128 is 5." in printed
    out = tmp_path / "report"
    names = {path.name for path in out.iterdir()}
    for stem in ("powers-of-two", "powers-of-two-claims", "block-times", "published-powers-of-two-training-1xv100"):
        assert {f"{stem}.csv", f"{stem}.json", f"{stem}.tex"} <= names
    assert {"report.html", "report.md", "powers-of-two.png", "powers-of-two.svg"} <= names
    html = (out / "report.html").read_text()
    assert "Is a round batch size faster" in html and 'data-table="s1-powers-of-two"' in html
    with (out / "powers-of-two.csv").open() as file:
        assert {row["framework"] for row in csv.DictReader(file)} == {"pytorch", "mxnet"}
