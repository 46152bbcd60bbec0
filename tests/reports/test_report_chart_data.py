"""Contents of charts: values, intervals, trials, published series, words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from stored import BATCH_SIZES, charts, ended, labels, memory_parts, on_gpu, series, study, trained, trial

from reports.charts import Scale, SeriesKind
from reports.conditions import group_into_sections
from reports.drawing import section_charts, trade_offs
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

MIB = 2**20
OF_QUANTITIES = ["speed", "memory", "accuracy", "usage", "step-time"]


def with_figures(result: TrialResult, **values: float | None) -> TrialResult:
    told = {
        name: Figure(value, "w") if value is not None else Figure(None, "w", reason="not told")
        for name, value in values.items()
    }
    return replace(result, figures=result.figures | told)


def test_a_section_on_a_cpu_has_every_chart_but_energy() -> None:
    found = charts(*(trained(result, (1.0, 1.0, 0.5)) for result in study()))
    of_memory = ["memory-split", "memory-shares", "memory-line"]
    assert list(found) == [*OF_QUANTITIES, *trade_offs.NAMES, *of_memory, "accuracy-by-epoch", "loss-by-epoch"]
    assert set(found) | {"energy"} == set(section_charts.NAMES)


def test_energy_per_image_is_charted_where_the_device_tells_it() -> None:
    found = charts(on_gpu(trial("pytorch", 32)))
    assert series(found["energy"], "PyTorch").y == pytest.approx(((150 + 4) / (400 + 160),))
    assert found["energy"].y_label == "GPU energy, J per image"
    found = charts(trial("pytorch", 32, figures={"cpu_energy_per_image_j": Figure(0.25, "RAPL")}))
    assert series(found["energy"], "PyTorch").y == (0.25,) and found["energy"].y_label == "CPU energy, J per image"


def test_a_trial_or_size_without_a_value_is_no_point_and_a_chart_without_one_is_left_out() -> None:
    # a chart without a value is left out
    assert "speed" not in charts(with_figures(trial(), images_per_s=None))
    assert charts(ended(Status.FAILED, "it fell")) == {}
    # a trial that failed or cannot tell stands behind no point
    good = with_figures(trial("pytorch", 32), cpu_percent=50.0)
    silent, failed = with_figures(trial("pytorch", 32, 1), cpu_percent=None), ended(Status.FAILED, "no", repeat=2)
    found = series(charts(good, silent, failed)["usage"], "PyTorch")
    assert (found.y, found.trials, found.low) == ((50.0,), ((good.spec.id,),), ())
    # a batch size without a value is a gap
    full = ended(Status.OUT_OF_MEMORY, "full", "pytorch", 8)
    found = series(charts(trial("pytorch", 4), full, trial("pytorch", 16))["memory"], "PyTorch")
    assert found.x == (4, 8, 16)
    assert found.y == (501.0, None, 504.0)
    assert found.trials[1] == ()
    # a policy of its own enters no chart
    absurd = with_figures(on_gpu(trial("pytorch", 32, allocator="default")), process_gpu_memory_bytes=1e12)
    shown = charts(on_gpu(trial("pytorch", 32)), absurd)
    assert series(shown["memory"], "PyTorch").y == (782.0,)
    assert charts(absurd) == {}


def test_points_are_means_with_their_interval_and_the_trials_behind() -> None:
    """Student's t, 2 degrees of freedom: 4.302653; the standard deviation of 71, 72, 76 is sqrt(7)."""
    repeats = [with_figures(trial("pytorch", 32, n), cpu_percent=value) for n, value in enumerate((71.0, 72.0, 76.0))]
    found = series(charts(*repeats)["usage"], "PyTorch")
    reach = 4.302653 * math.sqrt(7) / math.sqrt(3)
    assert found.y == (73.0,)
    assert found.low == pytest.approx((73 - reach,), abs=1e-4)
    assert found.high == pytest.approx((73 + reach,), abs=1e-4)
    assert found.trials == (tuple(result.spec.id for result in repeats),)


def test_one_trial_has_no_bars_and_the_caption_says_what_that_means() -> None:
    one, three = (charts(*study(repeats))["usage"] for repeats in (1, 3))
    assert all(found.low == () for found in one.panels[0].series)
    assert "One trial per point: nothing is said about the spread" in one.caption
    assert "bars" not in one.caption
    assert "mean of up to 3 repeats; bars: its 95 % interval (Student's t)" in three.caption
    for told in ("2 cores, 2 threads", "PyTorch 2.13.0", "TF32 off", "seed 0", "Commit afa2864"):
        assert told in one.provenance


def test_a_step_time_of_nought_has_no_logarithm() -> None:
    assert charts(trial("pytorch", 4))["step-time"].y_log
    nought = with_figures(trial("pytorch", 4), step_time_s=0.0)
    assert not charts(nought)["step-time"].y_log
    assert not charts(trial("pytorch", 4))["speed"].y_log


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        ((4, 8, 16, 32, 64, 128, 256, 512, 1024), Scale.LOG),
        ((4, 6, 8, 12, 16), Scale.LOG),
        ((64,), Scale.LOG),
        ((127, 128, 129), Scale.ORDINAL),
        ((509, 510, 511, 512, 513, 514, 515), Scale.ORDINAL),
        ((100, 127, 128, 129, 156), Scale.ORDINAL),
        ((4, 255, 256, 257), Scale.ORDINAL),
    ],
)
def test_batch_sizes_that_are_neighbours_have_one_place_each_in_every_chart_of_them(
    sizes: tuple[int, ...], scale: Scale
) -> None:
    found = charts(*(trial("pytorch", size, workload="mlp") for size in sizes))
    words = {Scale.LOG: "logarithmic", Scale.ORDINAL: "evenly spaced"}
    for name in ("usage", "memory", "accuracy", "speed", "step-time", "memory-split", "memory-shares"):
        assert found[name].x_scale is scale
        assert found[name].x_label == f"Batch size, images ({words[scale]})"


def test_only_charts_of_the_accuracy_and_of_two_quantities_need_not_start_at_nought() -> None:
    found = charts(*(trained(result, (2.0, 1.9, 0.3)) for result in study()))
    assert {name for name, chart in found.items() if not chart.from_zero} == {
        "accuracy", "accuracy-by-epoch", *trade_offs.NAMES
    }  # fmt: skip


def test_only_the_published_figures_of_what_was_measured_stand_behind_ours() -> None:
    found = charts(*study())
    behind = {name: labels(chart, SeriesKind.PUBLISHED_TABLE) for name, chart in found.items()}
    assert {name: told for name, told in behind.items() if told} == {"accuracy": ["TensorFlow, published table"]}
    assert not any(labels(chart, SeriesKind.PUBLISHED_CHART) for chart in found.values())
    found = charts(on_gpu(trial("pytorch", 32)))
    assert labels(found["usage"], SeriesKind.PUBLISHED_TABLE) == ["PyTorch, published table"]
    assert labels(found["accuracy"], SeriesKind.PUBLISHED_TABLE) == ["TensorFlow, published table"]
    for chart in charts(on_gpu(trial("pytorch", 32, workload="mlp"))).values():
        assert "ublished" not in chart.caption + chart.alt
        assert labels(chart, SeriesKind.PUBLISHED_TABLE) == []


def test_on_a_gpu_the_published_chart_is_drawn_where_it_contradicts_its_table() -> None:
    found = charts(*(on_gpu(result) for result in study()))
    tables = [f"{name}, published table" for name in ("TensorFlow", "PyTorch", "MXNet")]
    assert (
        labels(found["usage"], SeriesKind.PUBLISHED_TABLE)
        == labels(found["memory"], SeriesKind.PUBLISHED_TABLE)
        == tables
    )
    assert labels(found["usage"], SeriesKind.PUBLISHED_CHART) == ["TensorFlow, published chart"]
    assert labels(found["memory"], SeriesKind.PUBLISHED_CHART) == ["MXNet, published chart"]
    assert series(found["usage"], "TensorFlow, published chart").y == (*[20.1] * 8, 60.0)
    assert series(found["memory"], "MXNet, published table").x == BATCH_SIZES
    assert labels(found["speed"], SeriesKind.PUBLISHED_TABLE) == []
    assert "both are drawn" in found["usage"].caption
    assert "both are drawn" not in found["accuracy"].caption
    assert "Published: TensorFlow 9.9, PyTorch 9.9 and MXNet 9.9" in found["usage"].caption
    assert "Its memory looks like means of readings over the whole run" in found["memory"].caption


def test_the_caption_says_when_the_data_set_is_hardly_that_of_the_thesis() -> None:
    other, same = (charts(trial("pytorch", 32, dataset=name))["accuracy"] for name in ("digits", "cifar10"))
    assert "the best guess is CIFAR-10; these trials are on digits" in other.caption
    assert "best guess" not in same.caption
    assert "does not name its network, data set and optimizer." in same.caption


def test_the_alternative_text_tells_the_ends_the_extremes_and_the_gaps() -> None:
    speeds = ((4, 1115.4), (8, 2137.0), (16, None), (32, 1546.0))
    found = charts(*(with_figures(trial("pytorch", size), images_per_s=speed) for size, speed in speeds))["speed"]
    assert found.alt == (
        "Training speed, images/s, mean over the steady window, against batch size. "
        "PyTorch 1,115 at batch size 4, 1,546 at 32, highest 2,137 at 8; no value at 16."
    )


def test_the_parts_of_the_memory_are_stacked_in_mib_and_as_shares_of_their_sum() -> None:
    """Inputs of half a MiB and of one: they can be seen."""
    found = charts(*(with_figures(trial("mxnet", size), inputs_bytes=2.0**17 * size) for size in (4, 8)))
    names = ["Parameters", "Gradients", "Optimizer state", "Inputs", "Activations", "Workspace"]
    assert labels(found["memory-split"], SeriesKind.PART) == labels(found["memory-shares"], SeriesKind.PART) == names
    assert [panel.title for panel in found["memory-split"].panels] == ["MXNet"]
    # 4 images: 3 MiB, then 128 KiB, 3 x 256 KiB and 64 KiB per image
    assert [part.y[0] for part in found["memory-split"].panels[0].series[:6]] == [1, 1, 1, 0.5, 3, 0.25]
    assert series(found["memory-split"], "Peak of the steps").y[0] == 3 + 835 / 256
    shares = found["memory-shares"].panels[0].series
    assert shares[4].y[0] == pytest.approx(100 * 3 / 6.75)
    assert sum(part.y[1] or 0 for part in shares) == pytest.approx(100)
    assert "MXNet 6.75 at batch size 4, 10.5 at 8" in found["memory-split"].alt
    assert "at batch size 4 the largest part is activations, 44 %" in found["memory-shares"].alt
    assert "stacked by part" in found["memory-split"].title and not found["memory-split"].y_log


def test_parts_that_a_stack_would_hide_are_lines_on_a_logarithmic_axis_and_shares_stay_stacked() -> None:
    """Inputs have 3 KiB per image, activations 768."""
    found = charts(trial("mxnet", 64), trial("mxnet", 128))
    split, shares = found["memory-split"], found["memory-shares"]
    names = ["Parameters", "Gradients", "Optimizer state", "Inputs", "Activations", "Workspace"]
    assert labels(split, SeriesKind.PART_LINE) == labels(shares, SeriesKind.PART) == names
    assert labels(split, SeriesKind.PART) == [] and split.y_log and not shares.y_log
    assert series(split, "Inputs").y == (0.1875, 0.375)
    assert "stack" not in split.title and split.caption.endswith("this axis cannot show 0.")
    assert "statistics" not in {one.key for one in split.series}, "what is 0 everywhere"


def test_a_part_of_nought_unknown_or_negative_leaves_no_stack() -> None:
    plain = with_figures(trial("mxnet", 4), inputs_bytes=2.0**19, optimizer_bytes=0.0)
    assert not charts(plain)["memory-split"].y_log
    assert (
        series(charts(with_figures(plain, inputs_bytes=1.0))["memory-split"], "Workspace").kind is SeriesKind.PART_LINE
    )
    assert "Optimizer state" not in labels(
        charts(with_figures(plain, inputs_bytes=1.0))["memory-split"], SeriesKind.PART_LINE
    )
    whole = with_figures(trial("mxnet", 4), inputs_bytes=2.0**19)
    silent = with_figures(trial("mxnet", 8), workspace_bytes=None)
    negative = with_figures(trial("mxnet", 16), inputs_bytes=-1.0)
    found = charts(whole, silent, negative)["memory-split"]
    assert [part.y[1:] for part in found.panels[0].series if part.kind is SeriesKind.PART] == [(None, None)] * 6
    assert "MXNet 6.75 at batch size 4; no value at 8 and 16" in found.alt
    assert not {"memory-split", "memory-shares"} & set(charts(silent, negative))
    silent = with_figures(trial("mxnet", 8), **{f"{name}_bytes": None for name in memory_parts(8)})
    found = charts(trial("pytorch", 8), silent)["memory-split"]
    assert [panel.title for panel in found.panels] == ["PyTorch"]


def test_the_line_of_the_memory_starts_at_its_fixed_cost() -> None:
    """3 MiB of parts and (3 + 64 + 768) KiB per image; resident 600 MiB and 256 KiB per image."""
    chart = charts(*(result for result in study() if result.spec.cell.framework == "mxnet"))["memory-line"]
    assert [panel.title for panel in chart.panels] == ["Peak resident in the window", "Allocator peak in use"]
    resident, allocator = (series(chart, "MXNet, fitted line", panel) for panel in (0, 1))
    assert resident.x == allocator.x == (0, 1024)
    assert resident.y == pytest.approx((600, 856))
    assert allocator.y == pytest.approx((3, 3 + 835))
    assert chart.x_scale is Scale.LINEAR
    assert "Allocator peak in use, MXNet: 3.00 MiB + 835 KiB per sample, R^2 1.0000" in chart.alt
    assert "memory-line" not in charts(trial("mxnet", 4), trial("mxnet", 8))


def test_curves_are_of_a_few_batch_sizes_spread_over_the_range() -> None:
    found = charts(*(trained(result, (2.0, 1.9, 0.3), (1.0, 1.1, 0.5)) for result in study()))
    accuracy, loss = found["accuracy-by-epoch"], found["loss-by-epoch"]
    sizes = [4, 32, 128, 1024]
    assert [panel.title for panel in accuracy.panels] == [f"Batch {size}" for size in sizes]
    assert [panel.title for panel in loss.panels] == [
        *(f"Training, batch {size}" for size in sizes),
        *(f"Test, batch {size}" for size in sizes),
    ]
    assert "4 of the 9 batch sizes" in accuracy.caption
    first = series(accuracy, "MXNet")
    assert (first.x, first.y) == ((1, 2), (30, 50))
    assert (series(loss, "MXNet", 0).y, series(loss, "MXNet", 4).y) == ((2.0, 1.0), (1.9, 1.1))
    assert accuracy.alt.startswith(
        "Test accuracy, %, after each epoch; at its end. Batch 4: TensorFlow 50.0, PyTorch 50.0, "
    )


@pytest.mark.parametrize(("sizes", "shown"), [((8,), [8]), ((8, 16, 96, 100), [8, 16, 96, 100])])
def test_few_batch_sizes_have_all_their_curves(sizes: tuple[int, ...], shown: list[int]) -> None:
    found = charts(*(trained(trial("pytorch", size), (1.0, 1.0, 0.5)) for size in sizes))["accuracy-by-epoch"]
    assert [panel.title for panel in found.panels] == [f"Batch {size}" for size in shown]
    assert "batch sizes, spread" not in found.caption


def test_curves_of_repeats_have_bars_and_a_loss_that_was_not_finite_is_a_gap() -> None:
    lost = charts(trained(trial("pytorch", 8), (2.0, 1.9, 0.3), (None, None, 0.1)))["loss-by-epoch"]
    assert series(lost, "PyTorch", 0).y == (2.0, None)
    assert series(lost, "PyTorch", 1).y == (1.9, None)
    # Student's t, 1 degree of freedom: 12.70620; the standard deviation of 30 and 40 is 7.071068.
    repeats = [trained(trial("pytorch", 8, n), (2.0, 1.9, accuracy)) for n, accuracy in enumerate((0.3, 0.4))]
    failed = trained(ended(Status.FAILED, "it fell", "pytorch", 8, repeat=2), (9.0, 9.0, 0.9))
    found = series(charts(*repeats, failed)["accuracy-by-epoch"], "PyTorch")
    reach = 12.70620 * 7.071068 / math.sqrt(2)
    assert found.y == (35.0,)
    assert (*found.low, *found.high) == pytest.approx((0, 35 + reach), abs=1e-3), "no accuracy is below 0"
    assert found.trials == (tuple(result.spec.id for result in repeats),)


def test_the_thesis_itself_contradicts_itself_in_tensorflows_usage_and_mxnets_memory() -> None:
    (section,), _ = group_into_sections([on_gpu(result) for result in study()])
    asked = replace(section, beside=("osu-2020",))
    found = {chart.name: chart for chart in section_charts.build_charts(asked)}
    assert labels(found["usage"], SeriesKind.PUBLISHED_CHART) == ["TensorFlow, published chart"]
    assert labels(found["memory"], SeriesKind.PUBLISHED_CHART) == ["MXNet, published chart"]
    assert series(found["memory"], "MXNet, published table").y[5:7] == (2495.153, 2485.639)
    assert series(found["memory"], "MXNet, published chart").y[5:7] == (965, 1404)
    assert series(found["accuracy"], "TensorFlow, published table").y[0] == 32.55
