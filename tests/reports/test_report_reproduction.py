"""Published and measured figures: every line of the tables, and the verdicts below them."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from conftest import ROOT
from stored import BATCH_SIZES, VERSIONS, ended, on_gpu, trial

from reports.charts import SeriesKind
from reports.conditions import Section, group_into_sections
from reports.drawing import section_charts
from reports.quantities import QUANTITIES, USAGE
from reports.reproduction import publication, published_figures
from reports.reproduction.agreement import caveats, finding
from reports.table import Table
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

PUBLISHED = dict(zip(BATCH_SIZES, (32.55, 45.83, 63.06, 68.59, 68.97, 69.77, 64.82, 57.28, 51.02), strict=True))
BEHIND = {SeriesKind.PUBLISHED_TABLE, SeriesKind.PUBLISHED_CHART}
CONTRADICTED = "table and chart of the publication contradict each other here"


def accurate(percent: float, framework: str = "tensorflow", size: int = 8, repeat: int = 0, **more: Any) -> TrialResult:
    """A CPU trial of the thesis's likeliest setting."""
    figures = {"test_accuracy": Figure(percent / 100, "worker")}
    return trial(framework, size, repeat, dataset="cifar10", figures=figures, **more)


def card(framework: str, size: int, usage: float, repeat: int = 0, mib: float = 600.0, **more: Any) -> TrialResult:
    """A GPU trial of that setting."""
    result = on_gpu(trial(framework, size, repeat, dataset="cifar10", **more))
    known = {"gpu_percent": usage, "gpu_busy_percent": usage + 2.5, "process_gpu_memory_bytes": mib * 2**20}
    return replace(result, figures=result.figures | {name: Figure(value, "NVML") for name, value in known.items()})


def section_of(*results: TrialResult) -> Section:
    (found,), _ = group_into_sections(results)
    return replace(found, beside=("osu-2020",))


def made(*results: TrialResult) -> dict[str, Table]:
    tables, remarks = published_figures.of_section(section_of(*results))
    assert remarks == []
    return {table.name: table for table in tables}


def line(table: Table, name: str) -> dict[str, str]:
    """{batch size: text} of the row of that name."""
    row = next(row for row in table.rows if row[0].text == name)
    return {head: cell.text for head, cell in zip(table.head[1:], row[1:], strict=True)}


def notes(table: Table, name: str, size: int) -> tuple[str, ...]:
    row = next(row for row in table.rows if row[0].text == name)
    return row[table.head.index(str(size))].notes


def below(table: Table, start: str) -> str:
    (found,) = [sentence for sentence in table.below if sentence.startswith(start)]
    return found


def test_every_row_is_as_long_as_the_head() -> None:
    for table in made(*(accurate(50, name, size) for name in VERSIONS for size in BATCH_SIZES)).values():
        assert {len(row) for row in table.rows} == {len(table.head)}


def test_accuracy_stands_below_the_published_row_with_its_difference_and_leads_to_its_trials() -> None:
    table = made(accurate(46.70))["published-accuracy"]
    assert table.head[1:] == tuple(map(str, BATCH_SIZES))
    assert line(table, "TensorFlow 2.0.0, published (table)")["8"] == "45.83"
    assert line(table, "TensorFlow 2.16.1, measured")["8"] == "46.70"
    assert line(table, "TensorFlow, measured minus published (table)")["8"] == "+0.87"
    result = accurate(46.70)
    row = next(row for row in made(result)["published-accuracy"].rows if row[0].text.endswith("measured"))
    assert row[2].trials == (result.spec.id,)
    assert row[2].number == pytest.approx(46.70)
    # mean 47, s 1, t(0.975, 2) = 4.302653: +- 4.302653 / sqrt(3) = 2.484138; published 45.83
    table = made(*(accurate(value, repeat=repeat) for repeat, value in enumerate((46, 47, 48))))["published-accuracy"]
    assert line(table, "TensorFlow 2.16.1, measured")["8"] == "47.00 [44.52, 49.48]"
    assert line(table, "TensorFlow, measured minus published (table)")["8"] == "+1.17 [-1.31, +3.65]"


def test_every_framework_is_held_against_tensorflows_row_and_the_table_says_so() -> None:
    table = made(accurate(46.70), accurate(45.00, "mxnet"))["published-accuracy"]
    assert line(table, "MXNet, measured minus TensorFlow's published (table)")["8"] == "-0.83"
    assert any("every framework is compared with that row" in sentence for sentence in table.above)
    assert not [row for row in table.rows if row[0].text.startswith("MXNet 1.5.0")]


def test_a_size_that_was_not_run_and_one_that_was_not_published_say_so() -> None:
    table = made(accurate(46.70), accurate(50, size=100))["published-accuracy"]
    difference = "TensorFlow, measured minus published (table)"
    assert line(table, "TensorFlow 2.16.1, measured")["16"] == "not run"
    assert (line(table, difference)["16"], notes(table, difference, 16)) == ("\u2013", ("not measured: not run",))
    assert (line(table, difference)["100"], notes(table, difference, 100)) == ("\u2013", ("not published",))
    assert line(table, "TensorFlow 2.0.0, published (table)")["100"] == "\u2013"


def test_a_trial_without_memory_left_and_one_with_an_unknown_figure_are_named_not_dropped() -> None:
    dead = ended(Status.OUT_OF_MEMORY, "no room", "tensorflow", 1024, dataset="cifar10")
    silent = trial(
        "tensorflow", 512, dataset="cifar10", figures={"test_accuracy": Figure(None, "", reason="no logits")}
    )
    table = made(accurate(46.70), dead, silent)["published-accuracy"]
    measured, difference = "TensorFlow 2.16.1, measured", "TensorFlow, measured minus published (table)"
    assert line(table, measured)["1024"] == "OOM"
    assert notes(table, difference, 1024) == ("not measured: OOM",)
    assert (line(table, measured)["512"], notes(table, measured, 512)) == ("\u2013", ("unknown: no logits",))
    assert notes(table, difference, 512) == ("not measured: unknown: no logits",)


def test_the_tidy_table_has_a_row_a_framework_size_and_series_with_unknown_as_nan() -> None:
    tidy = made(card("tensorflow", 128, 40.0))["published-usage"].tidy
    assert list(tidy.columns) == [
        "framework", "quantity", "unit", "batch_size", "published_table", "published_chart", "contradicted",
        "compared_with", "measured", "low", "high", "n", "difference", "difference_low", "difference_high", "status",
        "reason",
    ]  # fmt: skip
    assert len(tidy) == 3 * 9 * 2
    here = tidy[(tidy["framework"] == "tensorflow") & (tidy["batch_size"] == 128)].set_index("compared_with")
    assert here["published_table"].to_list() == [30.67, 30.67]
    assert here["published_chart"].to_list() == [26.0, 26.0]
    assert here["difference"].to_dict() == pytest.approx({"table": 9.33, "chart": 14.0})
    other = tidy[(tidy["framework"] == "pytorch") & (tidy["batch_size"] == 4)].iloc[0]
    assert math.isnan(other["measured"]) and math.isnan(other["difference"])
    assert (other["n"], other["status"], other["reason"]) == (0, "not_run", "not measured: not run")


def test_a_cell_where_table_and_chart_contradict_each_other_is_marked_in_every_line_of_it_and_no_other_is() -> None:
    table = made(card("tensorflow", 128, 40.0), card("tensorflow", 64, 40.0))["published-usage"]
    assert line(table, "TensorFlow, measured minus published (table)")["128"] == "+9.3"
    assert line(table, "TensorFlow, measured minus published (chart)")["128"] == "+14.0"
    assert line(table, "TensorFlow 2.0.0, published (chart)")["1024"] == "64.9"
    marked = {
        (row[0].text, head)
        for row in table.rows
        for head, cell in zip(table.head, row, strict=True)
        if CONTRADICTED in cell.notes
    }
    both = {f"TensorFlow 2.0.0, published ({series})" for series in ("table", "chart")}
    assert {name for name, size in marked if size == "256"} == both
    assert {size for _, size in marked} == {"128", "256", "512", "1024"}
    assert len({name for name, size in marked if size == "128"}) == 4


@pytest.mark.parametrize(
    ("name", "ours", "reason"),
    [
        ("published-usage", "CPU usage", "another quantity: CPU usage here, GPU usage published"),
        ("published-memory", "Host memory", "another quantity: Host memory here, GPU memory published"),
    ],
)
def test_a_cpu_runs_usage_and_memory_are_shown_and_never_subtracted(name: str, ours: str, reason: str) -> None:
    table = made(accurate(50, "pytorch"))[name]
    assert line(table, f"PyTorch 2.13.0, measured ({ours})")["8"] not in ("", "\u2013", "not run")
    difference = "PyTorch, measured minus published (table)"
    assert (line(table, difference)["8"], notes(table, difference, 8)) == ("\u2013", (reason,))
    assert table.tidy["difference"].isna().all()
    assert table.below == ("Not compared: CPU run.",)


def test_a_published_figure_that_only_gpus_have_is_shown_beside_a_cpu_run(monkeypatch: pytest.MonkeyPatch) -> None:
    power = next(each for each in QUANTITIES if each.name == "power")
    (article,) = (each for each in publication.read_articles() if each.name == "osu-2020")
    metrics = tuple(replace(m, quantity=power if m.quantity is USAGE else m.quantity) for m in article.metrics)
    monkeypatch.setattr(published_figures, "find_articles", lambda *_: [replace(article, metrics=metrics, claims=())])
    tables, _ = published_figures.of_section(section_of(accurate(50, "pytorch")))
    assert any("CPU run" in "".join(table.below) for table in tables)


def test_another_data_set_or_number_of_epochs_is_shown_and_gets_no_verdict() -> None:
    table = made(trial("tensorflow", 8))["published-accuracy"]
    assert line(table, "TensorFlow, measured minus published (table)")["8"].startswith("+")
    assert table.below == ("Not compared: other data set, digits.",)
    assert any("The data set here is digits" in sentence for sentence in table.above)
    table = made(accurate(46.7, epochs=2))["published-accuracy"]
    assert "2 epochs, published after 10" in table.below[0]


@pytest.mark.parametrize("other", [{"workload": "cats-dogs-cnn"}, {"dataset": "mnist"}])
def test_what_was_published_of_another_task_is_shown_to_those_who_ask_for_it_and_to_nobody_else(
    other: dict[str, str],
) -> None:
    setting: dict[str, Any] = {"dataset": "cifar10"} | other
    asked = section_of(trial(**setting))
    (obstacle,) = other.values()
    tables, _ = published_figures.of_section(asked)
    assert tables and all(obstacle in "".join(table.below) for table in tables if table.name != "claims")
    unasked = replace(asked, beside=())
    assert published_figures.of_section(unasked) == ([], [])
    assert finding([unasked]) == "" and caveats([unasked]) == []
    charts = section_charts.build_charts(unasked)
    assert charts and {series.kind for chart in charts for series in chart.series}.isdisjoint(BEHIND)
    fitting = replace(section_of(trial(dataset="cifar10")), beside=())
    assert published_figures.of_section(fitting)[0]


def test_a_section_of_default_policy_trials_alone_has_a_line_that_says_why() -> None:
    tables, remarks = published_figures.of_section(section_of(on_gpu(trial("tensorflow", 4, allocator="default"))))
    assert tables == []
    assert "no trial took its memory on demand" in remarks[0]


def test_a_framework_that_was_only_published_or_only_run_keeps_its_line() -> None:
    table = made(accurate(50, "numpy"), accurate(50))["published-usage"]
    assert [row[0].text for row in table.rows if "numpy" in row[0].text] == ["numpy 2.4.6, measured (CPU usage)"]
    table = made(accurate(50, "mxnet"))["published-usage"]
    names = [row[0].text for row in table.rows]
    assert "PyTorch 1.4.0, published (table)" in names
    assert not [name for name in names if name.startswith("PyTorch") and "measured" in name]
    table = made(card("pytorch", 8, 12.0))["published-usage"]
    names = [row[0].text for row in table.rows if row[0].text.startswith("PyTorch")]
    assert names == [
        "PyTorch 1.4.0, published (table)", "PyTorch 2.13.0, measured", "PyTorch, measured minus published (table)"
    ]  # fmt: skip


def three(framework: str, size: int, usage: float) -> list[TrialResult]:
    """Three trials with the interval: usage -+ 4.302653 x 0.1 / sqrt(3) = 0.25."""
    return [card(framework, size, usage + step, repeat) for repeat, step in enumerate((-0.1, 0, 0.1))]


def agreement(*results: TrialResult) -> dict[tuple[str, str], Any]:
    """Rows of the table of agreement on usage, by series and framework."""
    rows = made(*results)["agreement"].tidy.to_dict("records")
    return {(row["series"], row["framework"]): row for row in rows if row["quantity"] == "gpu_usage_percent"}


def orders(row: Any) -> tuple[str, str, str]:
    """Batch sizes at which the framework stands as published, otherwise, uncertainly."""
    return row["same_order_at"], row["other_order_at"], row["uncertain_order_at"]


def test_the_order_of_frameworks_is_judged_by_intervals_size_by_size_and_series_by_series() -> None:
    # 8: published MXNet 24.65 > PyTorch 9.98. 512: MXNet > TensorFlow > PyTorch in the table, in the chart TensorFlow
    # 61.1 > MXNet 46.0 > PyTorch
    results = [
        *three("pytorch", 8, 10), *three("mxnet", 8, 20),
        *three("pytorch", 16, 10), *three("mxnet", 16, 10.4),
        *three("tensorflow", 512, 60), *three("mxnet", 512, 50), *three("pytorch", 512, 40),
    ]  # fmt: skip
    found = agreement(*results)
    assert orders(found["table", "mxnet"]) == ("8", "512", "16")
    assert orders(found["chart", "mxnet"]) == ("8 512", "", "16")
    assert orders(found["table", "tensorflow"]) == ("", "512", "")


def test_an_order_from_one_repeat_is_marked_and_one_framework_has_none() -> None:
    found = agreement(
        *three("pytorch", 8, 10), *three("mxnet", 8, 20), *three("pytorch", 16, 10), card("mxnet", 16, 20)
    )
    assert orders(found["table", "mxnet"]) == ("8 16*", "", "")
    assert orders(agreement(card("pytorch", 8, 10))["table", "pytorch"]) == ("", "", "")


def test_the_shape_is_a_rank_correlation_of_five_varied_sizes_or_more() -> None:
    # MXNet's published usage rises from 4 to 64, so does TensorFlow's from 8 to 64
    sizes = (4, 8, 16, 32, 64)
    results = [card("mxnet", size, size / 2) for size in sizes]
    results += [card("tensorflow", size, 40 - size / 2) for size in sizes[1:]]
    found = agreement(*results)
    # five in order: p = 2 / 120; four in opposite order: p = 2 / 24, which is no proof, so there is none
    told = {name: [found["table", name][key] for key in ("rank_correlation", "p")] for name in ("mxnet", "tensorflow")}
    assert told["mxnet"] == [1, pytest.approx(0.017, abs=5e-4)]
    assert all(map(math.isnan, told["tensorflow"]))
    found = agreement(*(card("pytorch", size, 10.0) for size in (4, 8, 16, 32, 64)))
    assert math.isnan(found["table", "pytorch"]["rank_correlation"])


def test_the_distance_is_the_root_of_the_mean_square_with_the_largest_difference_named() -> None:
    # +3 at 8 and -4 at 16: sqrt((9 + 16) / 2) = 3.5355
    table = made(accurate(48.83), accurate(59.06, size=16))["agreement"]
    (row,) = [row for row in table.rows if row[0].text == "accuracy percent, table"]
    assert [cell.text for cell in row[1:5]] == ["TensorFlow", "2", "3.54", "-4.00 at 16"]


def test_what_differs_is_named_as_what_may_be_the_cause_and_nothing_where_nothing_does() -> None:
    told = below(made(accurate(46.7))["published-accuracy"], "Cause of the differences")
    assert told.startswith("Cause of the differences: unknown. Known differences: the hardware (NVIDIA GTX 1060")
    assert "TensorFlow 2.0.0 published, 2.16.1 here" in told
    assert "PyTorch" not in told  # it did not run
    assert "The publication's data set, network, optimizer and way of reading usage and memory are unknown." in told
    result = card("tensorflow", 8, 6.0)
    gpu = {**result.machine["gpus"][0], "name": "NVIDIA GeForce GTX 1060 6GB"}
    same = replace(
        result, machine=result.machine | {"gpus": [gpu]}, facts=result.facts | {"framework_version": "2.0.0"}
    )
    told = below(made(same)["published-usage"], "Cause of the differences")
    assert "Hardware and versions are those published." in told
    assert "Known differences" not in told


def test_a_report_without_a_comparison_does_not_pay_for_scipys_statistics() -> None:
    program = (
        "import sys; sys.path[:0] = ['tests', 'tests/reports']\n"
        "from stored import study; from reports.conditions import group_into_sections\n"
        "from reports.reproduction import published_figures\n"
        "from dataclasses import replace\n"
        "asked = replace(group_into_sections(study())[0][0], beside=('osu-2020',))\n"
        "assert len(published_figures.of_section(asked)[0]) == 4\n"
        "sys.exit('scipy.stats' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
