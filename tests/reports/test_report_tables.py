from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import BATCH_SIZES, ended, numbers, on_gpu, report, rows, study, trial

from reports.quantities import QUANTITIES
from reports.tables import STATISTICS
from workloads.records.check_name import CheckName
from workloads.records.figures import Figure
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status

DASH = "\N{EN DASH}"


def number(file: Path, framework: str, batch_size: int) -> dict[str, str]:
    return next(row for row in numbers(file) if (row["framework"], row["batch_size"]) == (framework, str(batch_size)))


def test_a_row_is_a_framework_in_fixed_order_and_a_column_a_batch_size(tmp_path: Path) -> None:
    out = report(tmp_path, *study(), trial("numpy", 4))
    table = rows(out / "usage.md")
    assert list(table) == ["Framework / batch size", "TensorFlow", "PyTorch", "MXNet", "numpy"]
    assert table["Framework / batch size"] == [str(size) for size in BATCH_SIZES]
    assert table["TensorFlow"] == ["67.0", "71.0", "75.0", "79.0", "83.0", "87.0", "91.0", "95.0", "99.0"]


def test_each_quantity_is_in_its_own_unit_and_start_up_stands_beside_the_window(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch", 32))
    found = {
        name: rows(out / f"{name}.md")["PyTorch"] for name in ("usage", "memory", "accuracy", "speed", "step-time")
    }
    assert found == {
        "usage": ["71.0"],
        "memory": ["508"],
        "accuracy": ["71.00"],
        "speed": ["3306"],
        "step-time": ["9.68"],
    }
    out = report(tmp_path / "2", trial("tensorflow", 4), trial("pytorch", 4))
    start_up = [rows(out / f"{name}.md") for name in ("import-time", "first-step", "warm-up")]
    assert [table["TensorFlow"] for table in start_up] == [["1.00"], ["0.104"], ["0.204"]]
    assert [table["PyTorch"] for table in start_up] == [["2.00"], ["0.604"], ["0.204"]]
    assert "### Start-up: first training step, compilation included, s" in (out / "report.md").read_text()
    assert not list(out.glob("first-step.png"))


@pytest.mark.parametrize("figure", [None, Figure(None, "RAPL", reason="Permission denied")])
def test_the_processors_energy_is_not_mentioned_where_no_trial_has_it(tmp_path: Path, figure: Figure | None) -> None:
    figures = {"cpu_energy_per_image_j": figure} if figure else {}
    out = report(tmp_path, trial("pytorch", 32, figures=figures), trial("mxnet", 32, figures=figures))
    assert not (out / "energy.md").exists() and "CPU energy" not in (out / "report.md").read_text()


def test_the_processors_energy_is_a_table_where_a_trial_has_it(tmp_path: Path) -> None:
    out = report(
        tmp_path,
        trial("pytorch", 32, figures={"cpu_energy_per_image_j": Figure(0.25, "RAPL")}),
        trial("mxnet", 32, figures={"cpu_energy_per_image_j": Figure(None, "RAPL", reason="Permission denied")}),
    )
    cells = rows(out / "energy.md")
    assert cells["PyTorch"] == ["0.250"] and cells["MXNet"][0].startswith(DASH)
    assert "CPU energy (whole package), J per image, over the steady window" in (out / "energy.md").read_text()


@pytest.mark.parametrize(
    ("value", "cell"), [(0.0, "0"), (0.000423, "0.000423"), (3.14159, "3.14"), (31.4159, "31.4"), (99999.6, "100000")]
)
def test_speed_keeps_three_digits_at_any_size(tmp_path: Path, value: float, cell: str) -> None:
    out = report(tmp_path, trial(figures={"images_per_s": Figure(value, "worker")}))
    assert rows(out / "speed.md")["PyTorch"] == [cell]


def repeated(figure: str, *values: float, **changes: Any) -> list[TrialResult]:
    return [trial(repeat=repeat, figures={figure: Figure(v, "s")}, **changes) for repeat, v in enumerate(values)]


def test_repeats_give_the_mean_with_its_interval_and_one_has_none(tmp_path: Path) -> None:
    # mean 61, s sqrt(7); t(0.975, 2) = 4.302653: +- 4.302653 x sqrt(7 / 3) = 6.572411
    out = report(tmp_path, *repeated("cpu_percent", 60, 64, 59))
    assert rows(out / "usage.md")["PyTorch"] == ["61.0 [54.4, 67.6] [1]"]
    told = "Mean of n = 3 repeats, in brackets its 95 % interval (Student's t)"
    assert told in (out / "usage.md").read_text()
    cell = number(out / "usage.csv", "pytorch", 32)
    found = [float(cell[key]) for key in ("n", "median", "min", "max", "mean", "low", "high", "cv_percent")]
    assert found == pytest.approx([3, 60, 59, 64, 61, 61 - 6.572411, 61 + 6.572411, 100 * 7**0.5 / 61], abs=1e-6)
    # s = 0.1 x sqrt(2), t(0.975, 1) = 12.706205: +- 12.706205 x 0.1
    two = report(tmp_path / "2" / "two", *repeated("cpu_percent", 50, 50.2))
    assert rows(two / "usage.md")["PyTorch"] == ["50.1 [48.8, 51.4]"]
    one = report(tmp_path / "2" / "one", trial())
    assert rows(one / "usage.md")["PyTorch"] == ["71.0"]
    assert [number(one / "usage.csv", "pytorch", 32)[key] for key in ("low", "high", "cv_percent")] == ["", "", ""]


def test_a_cell_is_noisy_above_three_percent_of_what_noise_changes(tmp_path: Path) -> None:
    # CV of (a - d, a, a + d) is 100 d / a
    quiet, loud = repeated("images_per_s", 970, 1000, 1030), repeated("images_per_s", 960, 1000, 1040, batch_size=64)
    out = report(tmp_path, *quiet, *loud)
    first, second = rows(out / "speed.md")["PyTorch"]
    assert not first.endswith("[1]")
    assert second.endswith("[1]")
    assert "- [1] noisy: coefficient of variation 4.0 %\n" in (out / "speed.md").read_text()
    out = report(
        tmp_path / "2", *repeated("host_memory_bytes", 1e8, 2e8), *repeated("test_accuracy", 0.1, 0.9, batch_size=4)
    )
    assert "noisy" not in (out / "memory.md").read_text() + (out / "accuracy.md").read_text()


def test_a_short_window_is_marked_on_what_was_cut_from_it_and_on_nothing_else(tmp_path: Path) -> None:
    short = [Check(CheckName.LONG_ENOUGH, False, "3.00 s, 8 samples")]
    out = report(tmp_path, trial("pytorch", 4), replace(trial("pytorch", 8), checks=short))
    for name in ("usage", "usage-busy", "speed", "step-time", "memory"):
        assert rows(out / f"{name}.md")["PyTorch"][1].endswith(" [1]"), name
        assert "- [1] short window: less than 5 s or 10 samples" in (out / f"{name}.md").read_text(), name
    for name in ("accuracy", "import-time", "first-step", "warm-up"):
        assert "[1]" not in rows(out / f"{name}.md")["PyTorch"][1], name
    assert "[1]" not in rows(out / "usage.md")["PyTorch"][0]


def test_the_busy_mean_has_a_table_of_its_own_and_the_main_one_keeps_idle_samples(tmp_path: Path) -> None:
    out = report(tmp_path / "cpu", trial(figures={"cpu_busy_percent": Figure(90.0, "s")}))
    assert (rows(out / "usage.md")["PyTorch"], rows(out / "usage-busy.md")["PyTorch"]) == (["71.0"], ["90.0"])
    out = report(tmp_path / "gpu", on_gpu(trial()))
    assert (rows(out / "usage.md")["PyTorch"], rows(out / "usage-busy.md")["PyTorch"]) == (["51.0"], ["52.0"])


def test_power_energy_and_gpm_are_told_on_a_gpu_and_what_no_trial_has_is_one_line(tmp_path: Path) -> None:
    out = report(tmp_path, on_gpu(trial("pytorch", 32)), on_gpu(trial("mxnet", 32)))
    assert rows(out / "power.md")["PyTorch"] == ["164"]
    assert rows(out / "energy.md")["PyTorch"] == ["0.275"]
    assert rows(out / "sm-active.md")["PyTorch"] == ["50.0"]
    text = (out / "report.md").read_text()
    told = "No value: Tensor cores active, % of their cycles, mean over the steady window: unknown: GPM is there from"
    assert text.count(told) == 1
    assert "No value: DRAM active" in text
    assert not (out / "tensor-active.md").exists()
    known = on_gpu(trial("pytorch", 32))
    known = replace(known, figures=known.figures | {"tensor_active_percent": Figure(7.0, "GPM")})
    out = report(tmp_path / "2", known, on_gpu(trial("mxnet", 32)))
    assert rows(out / "tensor-active.md")["PyTorch"] == ["7.0"]
    assert rows(out / "tensor-active.md")["MXNet"] == [DASH + " [1]"]
    assert "Power" not in (report(tmp_path / "3", trial()) / "report.md").read_text().split("## 1.")[1]


def test_power_and_energy_say_how_far_they_may_be_off_where_a_trial_knows(tmp_path: Path) -> None:
    known = {"power_error_w": Figure(4.2, "NVML"), "energy_resolution_percent": Figure(0.5, "NVML")}
    close = {"power_error_w": Figure(0.42, "NVML"), "energy_resolution_percent": Figure(0.05, "NVML")}
    unknown = {name: Figure(None, "NVML", reason="no counter") for name in known}
    trials = [on_gpu(trial(repeat=repeat, batch_size=32)) for repeat in range(3)]
    told = [replace(one, figures=one.figures | more) for one, more in zip(trials, (known, close, unknown), strict=True)]
    lines = {"power": "GPU power, may be off by: 0.420 to 4.20 W.",
             "energy": "GPU energy, resolution of the counter: 0.0500 to 0.500 %."}  # fmt: skip
    out, without = report(tmp_path / "known", *told), report(tmp_path / "unknown", *trials[:2], told[2])
    for name, line in lines.items():
        for file in (f"{name}.md", "report.md"):
            assert line in (out / file).read_text(), (name, file)
        assert line.partition(":")[0] not in (without / f"{name}.md").read_text()
    columns = {row["repeat"]: [row[name] for name in known] for row in numbers(out / "trials.csv")}
    assert columns == {"0": ["4.2", "0.5"], "1": ["0.42", "0.05"], "2": ["", ""]}


def test_a_cell_of_fewer_repeats_says_its_n_and_how_the_others_ended(tmp_path: Path) -> None:
    out = report(
        tmp_path,
        *(trial("tensorflow", 32, repeat) for repeat in range(3)),
        trial("pytorch", 32, 0),
        trial("pytorch", 32, 1),
        ended(Status.TIMEOUT, "not finished after 300 s", "pytorch", 32, repeat=2),
    )
    assert rows(out / "usage.md")["PyTorch"] == ["71.5 [65.1, 77.9] n=2 [1]"]
    assert "- [1] repeat 2: timeout\n" in (out / "usage.md").read_text()
    assert number(out / "usage.csv", "pytorch", 32)["n"] == "2"
    wrong = dict.fromkeys(("cpu_percent", "test_accuracy", "images_per_s"), Figure(0.001, "s"))
    unverified = trial("pytorch", 32, 1, figures=wrong, status=Status.UNVERIFIED, reason="losses of its own")
    out = report(tmp_path / "2", trial(repeat=0), unverified, trial(repeat=2), trial(repeat=3))
    assert rows(out / "usage.md")["PyTorch"] == ["72.7 [68.9, 76.5] [1]"]
    assert rows(out / "accuracy.md")["PyTorch"] == ["72.67 [68.87, 76.46] [1]"]
    for quantity in ("usage", "memory", "accuracy", "speed", "step-time"):
        assert "- [1] repeat 1: unverified\n" in (out / f"{quantity}.md").read_text(), quantity
        assert number(out / f"{quantity}.csv", "pytorch", 32)["n"] == "3", quantity
    assert f"- {unverified.spec.id}: unverified: losses of its own. It measured: " in (out / "report.md").read_text()


def test_the_csv_holds_numbers_unrounded_and_one_row_a_cell(tmp_path: Path) -> None:
    out = report(tmp_path, trial("tensorflow", 4), *(trial("pytorch", 32, repeat) for repeat in range(2)))
    header = (out / "accuracy.csv").read_text().splitlines()[0]
    assert header == "framework,batch_size,n,median,min,max,mean,low,high,cv_percent,unit,status,notes,sources,trials"
    assert len(numbers(out / "accuracy.csv")) == 4
    cell = number(out / "accuracy.csv", "pytorch", 32)
    assert [float(cell[key]) for key in ("median", "min", "max")] == pytest.approx([71.5, 71.0, 72.0], abs=1e-9)
    assert (cell["n"], cell["unit"], cell["status"]) == ("2", "%", "ok")
    speed = number(out / "speed.csv", "tensorflow", 4)
    assert float(speed["median"]) == pytest.approx(4 / 0.0028)
    missing = number(out / "speed.csv", "tensorflow", 32)
    assert [missing[key] for key in STATISTICS[:8]] == ["0", *[""] * 7]
    assert missing["status"] == "not_run"


@pytest.mark.parametrize(
    ("status", "cell"),
    [
        (Status.OUT_OF_MEMORY, "OOM"),
        (Status.TIMEOUT, "timeout"),
        (Status.FAILED, "failed"),
        (Status.UNSUPPORTED, "unsupported"),
        (Status.UNVERIFIED, "unverified"),
    ],
)
def test_a_cell_without_an_ok_trial_says_how_it_ended(tmp_path: Path, status: Status, cell: str) -> None:
    measured_yet_not_ok = replace(trial("mxnet", 64), status=status, reason="why")
    out = report(tmp_path, trial("pytorch", 32), measured_yet_not_ok)
    for quantity in ("usage", "memory", "accuracy", "speed", "step-time"):
        assert rows(out / f"{quantity}.md")["MXNet"] == ["not run", cell]
        assert number(out / f"{quantity}.csv", "mxnet", 64)["status"] == status.value


def test_a_contended_trial_shows_what_neighbours_cannot_change_and_withholds_the_rest(tmp_path: Path) -> None:
    disturbed = trial("mxnet", 64, status=Status.CONTENDED, reason="others took 40 %")
    calm = trial("mxnet", 64)
    out, same = report(tmp_path / "a", trial("pytorch", 64), disturbed), report(tmp_path / "b", calm)
    for quantity in ("usage", "speed", "step-time", "import-time", "first-step"):
        assert rows(out / f"{quantity}.md")["MXNet"] == ["contended"], quantity
        assert number(out / f"{quantity}.csv", "mxnet", 64)["status"] == "contended"
    for quantity in ("memory", "accuracy", "memory-parts"):
        assert rows(out / f"{quantity}.md")["MXNet"] == rows(same / f"{quantity}.md")["MXNet"], quantity
    with_pss, without = (rows(folder / "memory-kinds.md")["MXNet"] for folder in (same, out))
    assert [text for text in with_pss if text not in without] == ["606"] and "contended" in without
    diverged = replace(disturbed, figures=disturbed.figures | {"diverged_step": Figure(3, "worker")})
    assert rows(report(tmp_path / "c", diverged) / "accuracy.md")["MXNet"] == ["contended"]


def test_a_figure_that_is_null_or_was_never_stored_is_a_dash_with_its_reason_below(tmp_path: Path) -> None:
    unknown = Figure(None, "sampler", reason="2 samples | <b>too</b> few")
    changes: dict[str, Any] = {"figures": {"cpu_percent": unknown}}
    out = report(tmp_path, trial("pytorch", 4), trial("pytorch", 8, **changes), trial("mxnet", 8, **changes))
    table = rows(out / "usage.md")
    assert (table["PyTorch"], table["MXNet"]) == (["59.0", DASH + " [1]"], ["not run", DASH + " [1]"])
    assert "- [1] unknown: 2 samples \\| \\<b\\>too\\</b\\> few\n" in (out / "usage.md").read_text()
    assert number(out / "usage.csv", "pytorch", 8)["status"] == "unknown"
    assert rows(out / "memory.md")["PyTorch"] == ["501", "502"]
    out = report(tmp_path / "2", replace(trial("pytorch", 4), figures={}), trial("mxnet", 4))
    assert rows(out / "usage.md") == {"Framework / batch size": ["4"], "PyTorch": [DASH + " [1]"], "MXNet": ["51.0"]}
    assert "[1] unknown: the stored result has no figure cpu_percent" in (out / "usage.md").read_text()


def test_a_time_taken_while_others_used_the_cores_is_marked_and_listed(tmp_path: Path) -> None:
    loud, quiet = ({"foreign_cpu_percent": Figure(share, "sampler")} for share in (48.4, 9.9))
    disturbed = trial("pytorch", 8, figures=loud)
    out = report(tmp_path, trial("pytorch", 4, figures=quiet), disturbed)
    marked = {name: "[1]" in rows(out / f"{name}.md")["PyTorch"][1] for name in ("usage", "speed", "step-time")}
    assert all(marked.values())
    assert rows(out / "usage.md")["PyTorch"] == ["59.0", "63.0 [1]"]
    assert "- [1] disturbed: other processes took more than 10 % of the cores" in (out / "usage.md").read_text()
    assert rows(out / "accuracy.md")["PyTorch"] == ["62.00", "65.00"]
    listed = (out / "report.md").read_text().split("## Trials disturbed by other processes\n\n")[1]
    assert listed == f"- {disturbed.spec.id}: they took 48 % of the cores in the steady window\n"
    shares = {"foreign_cpu_percent": Figure(2.0, "sampler"), "foreign_cpu_epochs_percent": Figure(20.0, "sampler")}
    disturbed = trial("pytorch", 8, figures=shares | {"epoch_s": Figure(3.0, "worker")})
    out = report(tmp_path / "2", disturbed)
    assert (
        "[1] disturbed: other processes took more than 10 % of the cores in the epochs"
        in (out / "epoch-time.md").read_text()
    )
    assert (
        rows(out / "speed.md")["PyTorch"]
        == rows(report(tmp_path / "2" / "calm", trial("pytorch", 8)) / "speed.md")["PyTorch"]
    )
    stalled = replace(trial("mxnet", 32), checks=[Check(CheckName.NO_STALL, False, "the longest call took 2 s")])
    out = report(tmp_path / "3", stalled)
    assert "stalled: " in number(out / "speed.csv", "mxnet", 32)["notes"]
    assert number(out / "accuracy.csv", "mxnet", 32)["notes"] == ""


def test_usage_and_memory_are_those_of_the_device_and_nothing_is_called_gpu_on_a_cpu(tmp_path: Path) -> None:
    out = report(tmp_path, *study())
    own = [table for quantity in QUANTITIES if (table := out / f"{quantity.name}.md").exists()]
    told = "".join(path.read_text(encoding="utf-8") for path in (*own, *out.glob("memory-*.md")))
    assert "GPU" not in told
    assert "### CPU usage, % of the 2 cores allotted, mean over the steady window" in told
    assert "### Host memory, MiB, peak resident size of the worker in the steady window" in told
    out = report(tmp_path / "2", on_gpu(trial("pytorch", 32)))
    assert (out / "usage.md").read_text().startswith("### GPU usage, %")
    assert (out / "memory.md").read_text().startswith("### GPU memory of the process, MiB")
    assert rows(out / "usage.md")["PyTorch"] == ["51.0"]
    assert rows(out / "memory.md")["PyTorch"] == ["782"]
    assert "device GPU, NVIDIA H200" in (out / "report.md").read_text()


def test_a_trial_that_diverged_shows_its_speed_with_a_mark_and_no_accuracy(tmp_path: Path) -> None:
    steady = trial("pytorch", 32)
    diverged = replace(
        trial("mxnet", 32, figures={"diverged_step": Figure(3, "worker")}), status=Status.DIVERGED, reason="why"
    )
    out = report(tmp_path, steady, diverged)
    speed = number(out / "speed.csv", "mxnet", 32)
    assert speed["median"] == str(diverged.figures["images_per_s"].value)
    assert speed["notes"] == "diverged: the loss of step 3 is not a number"
    assert rows(out / "accuracy.md")["MXNet"] == ["diverged"]
    assert number(out / "accuracy.csv", "mxnet", 32)["status"] == "diverged"
    assert number(out / "speed.csv", "pytorch", 32)["notes"] == ""


@pytest.mark.parametrize(
    ("changed", "device_kind", "noted"),
    [
        ({"call_p50_s": 0.1, "call_p95_s": 0.24, "cpu_percent": 45.0}, "cpu", ""),
        ({"call_p50_s": 0.1, "call_p95_s": 0.3}, "cpu", "uneven: one call in 20 took more than 2.5 times the median"),
        ({"cpu_percent": 30.0}, "cpu", "idle: CPU usage below 80 % of the usage of one busy thread"),
        ({"cpu_percent": 30.0, "foreign_cpu_percent": 15.0}, "cpu", "disturbed: other processes took more than 10 %"),
        ({"cpu_percent": 5.0}, "cuda", ""),
    ],
)
def test_a_speed_that_looks_like_waiting_has_a_footnote(
    tmp_path: Path, changed: dict[str, float], device_kind: str, noted: str
) -> None:
    figures = {name: Figure(value, "x") for name, value in changed.items()}
    result = trial("pytorch", 32, figures=figures)
    out = report(tmp_path, on_gpu(result) if device_kind == "cuda" else result)
    text = (out / "speed.md").read_text()
    assert noted in text and sum(word in text for word in ("uneven:", "idle:", "disturbed:")) == bool(noted)
