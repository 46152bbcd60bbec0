"""The first line of a report and its first table: true of whatever results come, and no more than intervals say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from stored import ended, on_gpu, run, store, study, trial

from reports import best, headline
from reports.conditions import Section, group_into_sections
from reports.sentences import spans
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

NO_MEMORY = "the device has 16 GiB"
TOO_FEW = "One run per cell is not enough to rank training speeds: the spread between runs on this machine is unknown"


def speedy(framework: str, size: int, speed: float, repeat: int = 0, accuracy: float = 0.9) -> TrialResult:
    figures = {"images_per_s": Figure(speed, "worker"), "test_accuracy": Figure(accuracy, "worker")}
    return trial(framework, size, repeat, figures=figures)


def section(*results: TrialResult) -> Section:
    (found,), _ = group_into_sections(results)
    return found


def once(speeds: Mapping[str, Mapping[int, float]]) -> list[TrialResult]:
    return [speedy(name, size, value) for name, of_size in speeds.items() for size, value in of_size.items()]


def repeated(speeds: Mapping[str, Mapping[int, float]], spread: float = 1.0) -> list[TrialResult]:
    """Three repeats each, `spread` apart: their interval is +- 2.48 times that."""
    return [
        speedy(name, size, value + step * spread, repeat)
        for name, of_size in speeds.items()
        for size, value in of_size.items()
        for repeat, step in enumerate((-1, 0, 1))
    ]


def said(*results: TrialResult) -> str:
    return headline.write_headline(section(*results))


def test_one_that_leads_everywhere_is_fastest_at_all_and_the_widest_lead_is_named_with_whom() -> None:
    speeds = {"pytorch": {4: 200.0, 8: 300.0}, "mxnet": {4: 100.0, 8: 200.0}, "tensorflow": {4: 90.0, 8: 250.0}}
    assert said(*repeated(speeds)) == (
        "PyTorch is fastest at all 2 batch sizes on this CPU, up to 2 times as fast as MXNet"
    )
    assert "on this GPU" in said(*map(on_gpu, repeated(speeds)))


def test_one_repeat_names_nobody_unless_its_lead_is_beyond_the_spread_that_other_cells_show() -> None:
    speeds = {"pytorch": {4: 200.0, 8: 300.0}, "mxnet": {4: 100.0, 8: 200.0}, "tensorflow": {4: 90.0, 8: 250.0}}
    assert said(*once(speeds)) == TOO_FEW
    # 2 cells of 3 repeats, s = 2 %: one repeat lies within 2.776445 x 2 % = 5.55 %, two within 11.1 % of each other
    known = repeated({"pytorch": {16: 100.0, 32: 100.0}}, spread=2.0)
    assert said(*once(speeds), *known) == ("PyTorch was fastest at all 2 batch sizes in this run on this CPU"), (
        "how many times as fast needs an interval"
    )
    near = {"pytorch": {4: 109.0}, "mxnet": {4: 100.0}}
    assert said(*once(near), *known) == "One run in a cell is not enough to rank training speeds within 11 %"
    assert said(*once({"pytorch": {4: 113.0}, "mxnet": {4: 100.0}}), *known).startswith("PyTorch was fastest")
    wide = repeated({"pytorch": {16: 100.0, 32: 100.0}}, spread=20.0)
    assert said(*once(near), *wide).endswith(" within 111 %"), "no exponent"
    assert said(*once(near), *known[:3]) == TOO_FEW.replace("per cell", "in a cell"), "one cell shows too little"
    three = repeated({"pytorch": {4: 300.0}}, spread=2.0)
    assert said(*three, *once({"mxnet": {4: 100.0}})) == TOO_FEW.replace("per cell", "in a cell")


def test_leaders_that_change_are_named_with_their_sizes_or_their_number_where_they_alternate() -> None:
    early, late = {4: 200.0, 8: 200.0, 16: 200.0, 32: 100.0}, {4: 100.0, 8: 100.0, 16: 100.0, 32: 200.0}
    assert said(*repeated({"pytorch": early, "mxnet": late})) == (
        "PyTorch is fastest at batch sizes 4 to 16, MXNet at 32 on this CPU"
    )
    sizes = [2**power for power in range(2, 11)]
    one = {size: 100.0 + 100 * (place % 2 == 0) for place, size in enumerate(sizes)}
    other = {size: 150.0 for size in sizes}
    assert said(*repeated({"pytorch": one, "mxnet": other})) == (
        "PyTorch is fastest at 5 of 9 batch sizes, MXNet at 4 on this CPU"
    )


@pytest.mark.parametrize("speeds", [{"pytorch": {4: 300.0}, "mxnet": {4: 299.0}}])
def test_where_nothing_can_be_told_that_is_the_headline(speeds: dict[str, dict[int, float]]) -> None:
    alone = "At batch size 4 no framework is significantly faster than all others"
    assert said(*repeated(speeds)) == alone
    assert said(*once(speeds)) == alone
    two = {name: of_size | {8: of_size[4]} for name, of_size in speeds.items()}
    assert said(*repeated(two)) == "No framework is significantly faster than all others at any of 2 batch sizes"


def test_a_fastest_of_two_says_that_the_third_has_no_number_and_the_findings_say_why() -> None:
    speeds = repeated({"pytorch": {4: 300.0, 8: 300.0}, "mxnet": {4: 200.0, 8: 200.0}, "tensorflow": {4: 100.0}})
    gone = [ended(Status.OUT_OF_MEMORY, NO_MEMORY, "tensorflow", 8, repeat=repeat) for repeat in range(3)]
    found = section(*speeds, *gone)
    assert headline.write_headline(found).endswith("; no number for TensorFlow at 8")
    assert headline.explain_missing(headline.collect_race(found)) == [f"TensorFlow at 8: out of memory: {NO_MEMORY}"]
    nowhere = section(*speeds[:12], ended(Status.FAILED, "it fell", "tensorflow", 4))
    assert headline.write_headline(nowhere).endswith("; no number for TensorFlow")
    assert headline.explain_missing(headline.collect_race(nowhere)) == ["TensorFlow at 4: failed: it fell"]


def test_a_batch_size_that_one_framework_alone_has_a_number_at_is_no_place_where_it_won() -> None:
    speeds = repeated({"pytorch": {4: 300.0, 8: 300.0}, "mxnet": {4: 200.0, 8: 200.0, 16: 200.0}})
    found = section(*speeds, ended(Status.OUT_OF_MEMORY, NO_MEMORY, "pytorch", 16))
    assert headline.write_headline(found) == (
        "PyTorch is fastest at 2 of 3 batch sizes on this CPU, up to 1.5 times as fast as MXNet; "
        "no number for PyTorch at 16"
    )
    assert headline.explain_missing(headline.collect_race(found)) == [f"PyTorch at 16: out of memory: {NO_MEMORY}"]
    found = section(*repeated({"pytorch": {4: 300.0, 8: 300.0}, "mxnet": {4: 200.0}}))
    assert (
        headline.write_headline(found) == "PyTorch is fastest at batch size 4 on this CPU, 1.5 times as fast as MXNet"
    )
    assert said(speedy("pytorch", 4, 100), speedy("mxnet", 8, 200)) == (
        "PyTorch and MXNet were not measured at the same batch sizes"
    )


def test_one_framework_alone_has_a_best_batch_size_and_those_that_tie_with_it() -> None:
    assert said(*repeated({"pytorch": {4: 100.0, 8: 300.0, 16: 200.0}})) == "PyTorch trains fastest at batch size 8"
    tied = repeated({"pytorch": {4: 100.0, 8: 300.0, 16: 299.0, 32: 301.0}})
    assert said(*tied) == "PyTorch trains fastest at batch sizes 8 to 32"
    every = said(*repeated({"pytorch": {8: 300.0, 16: 299.0}}))
    assert every == "PyTorch: none of 2 batch sizes is significantly faster than all others", "no fastest one is named"
    assert said(speedy("pytorch", 4, 1234.5)) == "PyTorch: 1,234 images/s at batch size 4"
    assert said(speedy("pytorch", 4, 1.4)) == "PyTorch: 1.40 images/s at batch size 4", "three digits, as in tables"
    two = speedy("pytorch", 4, 100), speedy("pytorch", 8, 200)
    assert said(*two) == "PyTorch: one run per cell is not enough to rank 2 batch sizes by speed"
    assert rows(section(*two))["PyTorch"][0] == "8 or 4"
    known = repeated({"mxnet": {16: 100.0, 32: 100.0}}, spread=2.0)
    assert rows(section(*two, *known))["PyTorch"][0] == "8"


def test_one_repeat_of_the_best_batch_size_or_of_another_is_no_certain_best_one() -> None:
    known = repeated({"pytorch": {32: 100.0, 128: 200.0, 2048: 250.0}})
    in_this_run = "PyTorch trained fastest at batch size 512 in this run"
    assert said(*known, speedy("pytorch", 512, 300)) == in_this_run
    other = repeated({"pytorch": {32: 100.0, 128: 200.0, 512: 300.0}})
    assert said(*other, speedy("pytorch", 2048, 250)) == in_this_run, "one repeat of what it is compared with"
    assert said(*other, *repeated({"pytorch": {2048: 250.0}})) == "PyTorch trains fastest at batch size 512"
    few = "PyTorch: one run in a cell is not enough to rank 2 batch sizes by speed"
    assert said(*known[:3], speedy("pytorch", 512, 300)) == few, "the spread is unknown"


def test_who_is_slowest_for_certain_is_said_before_that_nobody_is_fastest() -> None:
    near = {"tensorflow": {64: 300.0, 128: 300.0, 256: 300.0}, "mxnet": {64: 299.0, 128: 299.0, 256: 299.0}}
    slow = {"pytorch": {64: 100.0, 128: 298.0, 256: 100.0}}
    nobody = "no framework is significantly faster than all others"
    assert said(*repeated(near | slow)) == (
        f"PyTorch is slowest at batch sizes 64 and 256 on this CPU; {nobody} at any of 3 batch sizes"
    )
    one = {name: {64: of_size[64]} for name, of_size in (near | slow).items()}
    assert said(*repeated(one)) == f"PyTorch is slowest at batch size 64 on this CPU; {nobody}"
    everywhere = {"pytorch": dict.fromkeys(near["mxnet"], 100.0)}
    assert said(*repeated(near | everywhere)).startswith("PyTorch is slowest at all 3 batch sizes on this CPU; no ")
    assert "slowest" not in said(*once(near | everywhere)), "one repeat is not certain"
    only_once = once({"tensorflow": {512: 320.0}, "mxnet": {512: 300.0}})
    assert said(*repeated(near | everywhere, spread=9.0), *only_once) == (
        "PyTorch is slowest at batch sizes 64 to 256 on this CPU; one run in a cell is not enough to rank the other "
        "training speeds within 24 %"
    )
    fast = said(*repeated({"tensorflow": {64: 400.0}, "mxnet": {64: 299.0}} | {"pytorch": {64: 100.0}}))
    assert fast == "TensorFlow is fastest at batch size 64 on this CPU, 1.34 times as fast as MXNet"


def rows(found: Section) -> dict[str, list[str]]:
    table = best.build_table(found)
    assert table
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_the_best_batch_size_has_what_it_takes_and_what_it_reaches_there_with_ties_as_ties() -> None:
    results = [
        speedy("pytorch", size, speed + repeat, repeat, accuracy)
        for size, speed, accuracy in ((4, 100.0, 0.95), (8, 299.0, 0.9), (16, 300.0, 0.5))
        for repeat in range(3)
    ]
    found = rows(section(*results))
    assert [*found] == ["PyTorch"]
    fastest, speed, memory, accuracy, accurate, highest = found["PyTorch"]
    assert (fastest, speed.split()[0], accuracy.split()[0]) == ("16 or 8", "301", "50.00")
    assert memory.startswith("505 "), "500 MiB, a quarter of 16, and 1 in the mean of the repeats"
    assert (accurate, highest.split()[0]) == ("4", "95.00"), "fast is not accurate: both stand there"
    assert (accuracy.rpartition(" at ")[2], highest.rpartition(" at ")[2]) == ("16", "4"), "each says where"


def test_a_cell_of_the_best_batch_size_with_fewer_repeats_than_another_column_has_its_n() -> None:
    """A neighbour disturbed one repeat: its speed is withheld, its memory and accuracy are not."""
    results = repeated({"pytorch": {4: 100.0, 8: 300.0}})
    results = [
        replace(each, status=Status.CONTENDED, reason="others took 40 %") if each.spec.draw.repeat == 1 else each
        for each in results
    ]
    _, speed, memory, accuracy, *_ = rows(section(*results))["PyTorch"]
    assert speed.startswith("300 [") and speed.endswith("] n=2")
    assert memory.startswith("503 [") and accuracy == "90.00 [90.00, 90.00] at 8", "means of three have no n"
    table = best.build_table(section(*results))
    assert table and table.below[0].startswith("Mean of n = 3 repeats, ")
    assert table.below[0].endswith(" A cell with fewer repeats has its n.")


def test_a_framework_without_a_number_keeps_its_row_with_what_became_of_it() -> None:
    found = section(speedy("pytorch", 4, 100), ended(Status.OUT_OF_MEMORY, NO_MEMORY, "mxnet", 4))
    assert rows(found)["MXNet"] == ["OOM", "OOM", "OOM"], "of one batch size no best one is told"
    table = best.build_table(found)
    assert table and table.title == "Each framework at batch size 4"
    disturbed = replace(speedy("mxnet", 4, 100, accuracy=0.5), status=Status.CONTENDED, reason="others took 40 %")
    contended, memory, accuracy = rows(section(speedy("pytorch", 4, 100), disturbed))["MXNet"]
    assert (contended, accuracy) == ("contended", "50.00") and float(memory) > 0, "neighbours change neither"
    assert best.build_table(section(ended(Status.FAILED, "it fell"))) is None


def test_spans_of_batch_sizes_are_told_by_their_ends() -> None:
    among = [4, 8, 16, 32, 64]
    assert spans([4, 8, 16, 64], among) == "4 to 16 and 64"
    assert spans([4, 8], among) == "4 and 8"
    assert spans([4, 16, 64], among) == "4, 16 and 64"


def test_the_terminal_gets_about_ten_lines_and_the_tables_when_it_asks(tmp_path: Path) -> None:
    folder = store(tmp_path, *study())
    short = run(folder, "--format", "md").stdout.splitlines()
    assert len(short) <= 13 and short[0].startswith(TOO_FEW)
    assert [line.split()[0] for line in short if line.startswith(("TensorFlow ", "PyTorch ", "MXNet "))] == [
        "TensorFlow",
        "PyTorch",
        "MXNet",
    ]
    assert short[-1] == f"Report: {(folder / 'report' / 'report.md').as_uri()}"
    long = run(folder, "--format", "md", "--tables").stdout
    assert "### Training speed" in long and len(long.splitlines()) > 40
