from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import memory_parts, numbers, on_gpu, report, study, trial

from workloads.records.figures import Figure, Method
from workloads.records.result import TrialResult
from workloads.records.status import Status

MIB = 2**20
DASH = "\N{EN DASH}"


def table(file: Path) -> list[list[str]]:
    """Header and rows of a file's only table, stripped."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]


def parts(
    framework: str, batch_size: int, peak: float | None = None, steps_peak: float | None = None, **changed: float | None
) -> TrialResult:
    """A trial whose parts are those of `stored.memory_parts`, some of them changed; in bytes, None = unknown."""
    told: dict[str, float | None] = {**memory_parts(batch_size), **changed}
    figures = {
        f"{name}_bytes": Figure(value, "w") if value is not None else Figure(None, "w", reason=f"{name} is not told")
        for name, value in told.items()
    }
    for name, value in (("allocator", peak), ("steps", steps_peak)):
        if value is not None:
            figures[f"{name}_peak_bytes"] = Figure(value, "w")
    return trial(framework, batch_size, figures=figures)


def by_default(**changes: Any) -> TrialResult:
    """A trial of TensorFlow with its own policy: it takes nearly the whole card, and would win every table it got
    into."""
    absurd = {
        name: Figure(140_000.0 * MIB, "NVML") for name in ("process_gpu_memory_bytes", "allocator_reserved_bytes")
    }
    absurd |= {"gpu_percent": Figure(1.0, "NVML"), "test_accuracy": Figure(0.01, "w"), "images_per_s": Figure(1.0, "w")}
    result = on_gpu(trial("tensorflow", 32, allocator="default", **changes))
    facts = result.facts | {"allocator_policy": "the whole card"}
    return replace(result, figures=result.figures | absurd, facts=facts)


def test_four_kinds_of_memory_stand_beside_each_other(tmp_path: Path) -> None:
    out = report(tmp_path, on_gpu(trial("pytorch", 32)))
    kinds = ["Process peak", "Device peak minus baseline", "Allocator peak in use", "Allocator reserved"]
    assert table(out / "memory-kinds.md") == [
        ["Framework", "Batch size", "Allocator's policy", *kinds],
        ["PyTorch", "32", "on-demand (caching)", "782", "802", "21.1", "26.4"],
    ]
    out = report(tmp_path / "2", trial("pytorch", 32))
    kinds = ["Peak resident in the window", "PSS at the end", "Allocator peak in use", "Allocator reserved"]
    assert table(out / "memory-kinds.md") == [
        ["Framework", "Batch size", "Allocator's policy", *kinds],
        ["PyTorch", "32", "on-demand", "508", "498", "21.1", "26.4"],
    ]


def test_the_default_policy_is_a_row_below_its_twin_and_enters_no_other_table(tmp_path: Path) -> None:
    trials = [on_gpu(result) for result in study() if result.spec.cell.batch_size in (32, 64)]
    with_it, without = report(tmp_path / "a", *trials, by_default()), report(tmp_path / "b", *trials)
    for path in sorted(without.glob("*.csv")):
        same = path.read_bytes() == (with_it / path.name).read_bytes()
        assert same is (path.name not in ("memory-kinds.csv", "workers.csv", "trials.csv")), path.name
    found = table(with_it / "memory-kinds.md")
    assert [row[:4] for row in found[1:4]] == [
        ["TensorFlow", "32", "on-demand (caching)", "632"],
        ["TensorFlow", "32", "default (the whole card)", "140000"],
        ["TensorFlow", "64", "on-demand (caching)", "664"],
    ]
    assert "7 trials: 7 ok" in (with_it / "report.md").read_text()


def test_the_default_policy_is_no_repeat_of_its_twin_and_no_pair_of_another_framework(tmp_path: Path) -> None:
    three = [on_gpu(trial(name, 32, repeat)) for name in ("tensorflow", "pytorch") for repeat in range(3)]
    extra = replace(by_default(), started_at="2026-01-01T00:00:00+00:00")
    out = report(tmp_path, *three, extra)
    assert "Replaced by" not in (out / "report.md").read_text()
    assert [row["n"] for row in numbers(out / "parity.csv")] == ["3"]
    assert float(numbers(out / "parity.csv")[0]["mean_difference_points"]) == pytest.approx(1.0)


def test_a_default_policy_without_a_twin_or_that_failed_keeps_its_row(tmp_path: Path) -> None:
    out = report(tmp_path, by_default())
    assert table(out / "memory-kinds.md")[1][:4] == ["TensorFlow", "32", "default (the whole card)", "140000"]
    assert not (out / "usage.md").exists()
    failed = replace(by_default(), status=Status.OUT_OF_MEMORY, reason="the card is full", figures={})
    out = report(tmp_path / "2", on_gpu(trial("tensorflow", 32)), failed)
    assert table(out / "memory-kinds.md")[2][3:] == ["OOM"] * 4
    assert "out of memory: the card is full" in (out / "report.md").read_text()


def test_the_parts_of_the_memory_add_up_to_the_peak_of_the_steps(tmp_path: Path) -> None:
    out = report(tmp_path, on_gpu(trial("pytorch", 32)))
    head, row = table(out / "memory-parts.md")
    found = dict(zip(head, row, strict=True))
    assert found["Framework"] == "PyTorch"
    assert [found[name] for name in ("Parameters", "Gradients", "Optimizer state")] == ["1.00"] * 3
    # 32 images: 3 KiB, 512 KiB and 64 KiB each
    assert [found[name] for name in ("Inputs", "Activations", "Workspace")] == ["0.0938", "16.0", "2.00"]
    assert [found[name] for name in ("Sum", "Peak of the steps", "Sum against the peak, %")] == ["21.1", "21.1", "0.0"]
    assert found["Context"] == "400"  # in no sum


@pytest.mark.parametrize(
    ("factor", "cell", "note"),
    [
        (1 / 0.96, "-4.0", None),
        (1 / 1.04, "4.0", None),
        (1 / 0.94, "-6.0 [1]", "does not add up: the parts are 6.0 % less than the peak of the steps"),
        (1 / 1.06, "6.0 [1]", "does not add up: the parts are 6.0 % more than the peak of the steps"),
    ],
)
def test_parts_that_do_not_add_up_are_marked_with_how_far_they_are_off(
    tmp_path: Path, factor: float, cell: str, note: str | None
) -> None:
    peak = sum(memory_parts(32).values()) * factor
    out = report(tmp_path, parts("mxnet", 32, steps_peak=peak))
    head, row = table(out / "memory-parts.md")
    assert dict(zip(head, row, strict=True))["Sum against the peak, %"] == cell
    text = (out / "memory-parts.md").read_text()
    assert ("does not add up" in text) is (note is not None)
    assert note is None or f"- [1] {note}\n" in text


def counted(framework: str, batch_size: int, exact: float, indices: float | str, more: float = 0) -> TrialResult:
    """A trial with the figures that are not parts; steps called together hold `more` bytes than one waited for."""
    told = parts(framework, batch_size)
    waited = sum(memory_parts(batch_size).values())
    beside = {
        "activations_exact_bytes": Figure(exact, "records"),
        "pool_indices_bytes": Figure(None, "w", reason=indices) if isinstance(indices, str) else Figure(indices, "w"),
        "waited_step_peak_bytes": Figure(waited, "w"),
        "steps_peak_bytes": Figure(waited + more, "w"),
        "queued_steps_bytes": Figure(None, "w", reason="no whole number of steps"),
    }
    return replace(told, figures=told.figures | beside)


def test_the_exact_count_stands_beside_the_activations_and_the_places_of_maxima_beside_it(tmp_path: Path) -> None:
    silent = counted("tensorflow", 32, 7.0 * MIB, "it counts too coarsely")
    out = report(tmp_path, counted("pytorch", 32, 7.0 * MIB, 2.5 * MIB), silent)
    head, tensorflow, pytorch = table(out / "memory-parts.md")
    at = head.index("Activations")
    assert head[at : at + 3] == ["Activations", "Activations, exact count", "Places of pools' maxima"]
    assert pytorch[at : at + 3] == ["8.00", "7.00", "2.50"]
    assert tensorflow[at : at + 3] == ["8.00", "7.00", DASH + " [1]"]
    found = dict(zip(head, pytorch, strict=True))
    assert (found["Sum"], found["Sum against the peak, %"]) == ("13.1", "0.0")  # the sum includes neither
    text = (out / "memory-parts.md").read_text()
    assert "- [1] unknown: it counts too coarsely\n" in text and "The exact count of the activations is" in text
    tidy = {(row["framework"], row["kind"]): row["median"] for row in numbers(out / "memory-parts.csv")}
    assert float(tidy["pytorch", "activations_exact"]) == 7 and float(tidy["pytorch", "pool_indices"]) == 2.5


def test_a_part_without_a_figure_takes_no_column_and_where_none_can_be_told_one_line_says_so(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch", 32))
    assert not {"Activations, exact count", "Places of pools' maxima"} & set(table(out / "memory-parts.md")[0])
    assert "exact count" not in (out / "memory-parts.md").read_text()
    assert "Data set" not in table(report(tmp_path / "2" / "a", trial("pytorch", 32)) / "memory-parts.md")[0]
    there = report(tmp_path / "2" / "b", parts("pytorch", 32, dataset=2.0**20))
    assert "Data set" in table(there / "memory-parts.md")[0]
    silent = dict.fromkeys(memory_parts(32))
    out = report(tmp_path / "3", parts("tensorflow", 32, **silent))
    assert not (out / "memory-parts.md").exists()
    line = next(x for x in (out / "report.md").read_text().splitlines() if x.startswith("Memory is not split: "))
    assert "Memory is not split: unknown: parameters is not told; unknown: statistics is not told" in line
    assert line.endswith("unknown: workspace is not told.")


def test_figures_counted_in_chunks_say_so_in_their_cells_whatever_their_source_is_called(tmp_path: Path) -> None:
    told = counted("tensorflow", 32, 7.0 * MIB, 0.0)
    chunks = {
        name: replace(told.figures[name], method=Method.CHUNKS) for name in ("activations_bytes", "workspace_bytes")
    }
    plain = counted("pytorch", 32, 7.0 * MIB, 0.0)
    out = report(tmp_path, replace(told, figures=told.figures | chunks), plain)
    head, tensorflow, pytorch = table(out / "memory-parts.md")
    assert dict(zip(head, tensorflow, strict=True))["Activations"] == "8.00 [1]"
    assert dict(zip(head, tensorflow, strict=True))["Workspace"].endswith(" [1]")
    assert dict(zip(head, pytorch, strict=True))["Activations"] == "8.00"
    text = (out / "memory-parts.md").read_text()
    assert "- [1] the sum of the allocator's chunks, each up to twice the requested size" in text


@pytest.mark.parametrize(("steps", "words"), [(1, "step's"), (2, "2 steps'")])
def test_a_gap_of_queued_steps_says_how_much_of_it_they_are(tmp_path: Path, steps: int, words: str) -> None:
    held = memory_parts(32)
    a_step = held["activations"] + held["inputs"]
    told = counted("mxnet", 32, 7.0 * MIB, 0.0, more=steps * a_step + 2.0**17)
    queued = {"queued_steps_bytes": Figure(steps * a_step, "w", samples=steps)}
    out = report(tmp_path, replace(told, figures=told.figures | queued))
    text = (out / "memory-parts.md").read_text()
    mib = f"{steps * a_step / MIB:.1f} MiB"
    queue = f"{mib} of the difference: the next queued {words} activations and inputs"
    assert f"than the peak of the steps; {queue}\n" in text


def test_a_gap_that_nobody_can_explain_says_what_was_measured(tmp_path: Path) -> None:
    out = report(tmp_path, counted("mxnet", 32, 7.0 * MIB, 0.0, more=12.0 * MIB))
    text = (out / "memory-parts.md").read_text()
    assert "; steps called together hold 12.0 MiB more than one that is waited for\n" in text
    assert "queued" not in text


def test_the_peak_of_the_whole_trial_is_one_of_the_four_kinds_and_nothing_that_parts_of_steps_add_up_to(
    tmp_path: Path,
) -> None:
    """The trial evaluates and keeps what the memory worker does not: its peak is no sum of the parts."""
    peak = sum(memory_parts(32).values())
    out = report(tmp_path, parts("mxnet", 32, peak=2 * peak, steps_peak=peak))
    head, row = table(out / "memory-parts.md")
    found = dict(zip(head, row, strict=True))
    assert (found["Peak of the steps"], found["Sum against the peak, %"]) == ("13.1", "0.0")
    assert "13.1" not in table(out / "memory-kinds.md")[1] and "26.2" in table(out / "memory-kinds.md")[1]


NEVER_AT_ONCE = "a step never holds all the other parts at once: 11.1 MiB of 9.7 MiB"


@pytest.mark.parametrize(("factor", "gap"), [(0.875, "14.3"), (1.02, "-2.0")])
def test_without_a_workspace_the_sum_of_the_other_parts_is_shown_marked_with_its_gap(
    tmp_path: Path, factor: float, gap: str
) -> None:
    others = sum(memory_parts(32).values()) - memory_parts(32)["workspace"]
    told = parts("pytorch", 32, steps_peak=others * factor)
    unknown = Figure(None, "w", reason=NEVER_AT_ONCE)
    out = report(tmp_path, replace(told, figures=told.figures | {"workspace_bytes": unknown}))
    head, row = table(out / "memory-parts.md")
    found = dict(zip(head, row, strict=True))
    assert found["Workspace"] == DASH + " [1]"
    assert (found["Sum"], found["Sum against the peak, %"]) == ("11.1 [2]", f"{gap} [2]")
    text = (out / "memory-parts.md").read_text()
    side = "less" if gap.startswith("-") else "more"
    assert f"- [1] unknown: {NEVER_AT_ONCE}\n" in text
    told_gap = f"the other parts are {gap.lstrip('-')} % {side} than the peak of the steps"
    assert f"- [2] without the workspace: {told_gap}\n" in text


def test_a_part_or_peak_that_is_unknown_leaves_no_sum(tmp_path: Path) -> None:
    out = report(tmp_path, parts("pytorch", 32, inputs=None, workspace=None))
    head, row = table(out / "memory-parts.md")
    assert dict(zip(head, row, strict=True))["Sum"] == DASH + " [3]"
    assert "- [3] unknown: needs inputs and workspace\n" in (out / "memory-parts.md").read_text()
    told = trial("pytorch", 32)
    figures = {name: figure for name, figure in told.figures.items() if name != "steps_peak_bytes"}
    out = report(tmp_path / "2", replace(told, figures=figures))
    head, row = table(out / "memory-parts.md")
    found = dict(zip(head, row, strict=True))
    assert (found["Sum"], found["Peak of the steps"]) == ("21.1", DASH + " [1]")
    assert found["Sum against the peak, %"] == DASH + " [2]"
    text = (out / "memory-parts.md").read_text()
    assert "- [1] unknown: the stored result has no figure steps_peak_bytes\n" in text
    assert "- [2] unknown: the peak of the steps is unknown\n" in text
    # On a CPU it is the memory that is resident after import.
    told = trial("pytorch", 32)
    told = replace(told, figures=told.figures | {"host_context_bytes": Figure(300.0 * 2**20, "worker")})
    out = report(tmp_path / "3", told)
    header, row = table(out / "memory-parts.md")[0], table(out / "memory-parts.md")[1]
    assert row[header.index("Resident after import")] == "300"
    assert float(row[header.index("Sum")]) < 100


def test_the_line_of_memory_has_the_fixed_cost_and_the_slope_it_was_made_with(tmp_path: Path) -> None:
    out = report(tmp_path, *(result for result in study() if result.spec.cell.framework == "mxnet"))
    lines = numbers(out / "memory-line.csv")
    assert [(row["framework"], row["memory"], row["n"]) for row in lines] == [
        ("mxnet", "Allocator peak in use", "9"),
        ("mxnet", "Peak resident in the window", "9"),
    ]
    assert [float(row["fixed_bytes"]) for row in lines] == pytest.approx([3 * MIB, 600 * MIB])
    assert [float(row["per_sample_bytes"]) for row in lines] == pytest.approx([3072 + 2**16 + 3 * 2**18, 2**18])
    assert all(float(row["left_out_error"]) < 1e-9 for row in lines)
    shown = ["MXNet", "Allocator peak in use", "3.00", "835", "1.0000", "0.0 %", "9"]
    assert table(out / "memory-line.md")[1] == shown


def test_the_line_names_its_error_from_four_sizes_and_out_of_memory_is_no_point(tmp_path: Path) -> None:
    bent = [parts("mxnet", size, peak=peak * MIB) for size, peak in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 8.0))]
    four, three = report(tmp_path / "four", *bent), report(tmp_path / "three", *bent[:3])
    # as in the test of the line itself: R^2 = 1 - 4.8 / 29, and 8/3 at size 1
    assert table(four / "memory-line.md")[1][2:] == ["-2.00", "2253", "0.8345", "266.7 %", "4"]
    assert table(three / "memory-line.md")[1][2:] == ["0", "1024", "1.0000", "needs 4 sizes", "3"]
    two = report(tmp_path / "two", *bent[:2])
    assert "No line of memory against batch size: it needs 3 batch sizes" in (two / "report.md").read_text()
    full = replace(parts("mxnet", 1024), status=Status.OUT_OF_MEMORY, reason="full")
    out = report(tmp_path / "2", *(parts("mxnet", size) for size in (4, 8, 16)), full)
    assert [row["n"] for row in numbers(out / "memory-line.csv")] == ["3", "3"]


def test_the_tidy_table_has_a_row_a_cell(tmp_path: Path) -> None:
    out = report(tmp_path, on_gpu(trial("pytorch", 32)))
    with (out / "memory-kinds.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["kind"] for row in found] == ["process_peak", "device_rise", "allocator_peak", "allocator_reserved"]
    assert {(row["allocator"], row["unit"], row["n"], row["status"]) for row in found} == {
        ("on-demand (caching)", "MiB", "1", "ok")
    }
