from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import BATCH_SIZES, ended, on_gpu, study, trial
from written import numbers, report, rows

from workloads.spec import OptimizerSpec
from workloads.trial import Figure, Status


@pytest.fixture(autouse=True)
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of a report's time and are tested apart."""
    monkeypatch.setattr("reports.figures.draw", lambda *arguments: False)


def number(file: Path, framework: str, batch_size: int) -> dict[str, str]:
    return next(row for row in numbers(file) if (row["framework"], row["batch_size"]) == (framework, str(batch_size)))


def test_a_row_is_a_framework_in_fixed_order_and_a_column_a_batch_size(tmp_path: Path) -> None:
    out = report(tmp_path, *study(), trial("numpy", 4))
    table = rows(out / "usage.md")
    assert list(table) == ["Framework / batch size", "TensorFlow", "PyTorch", "MXNet", "numpy"]
    assert table["Framework / batch size"] == [str(size) for size in BATCH_SIZES]
    assert table["TensorFlow"] == ["67.0", "71.0", "75.0", "79.0", "83.0", "87.0", "91.0", "95.0", "99.0"]


def test_every_quantity_is_in_its_own_unit(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("value", "cell"), [(0.0, "0"), (0.000423, "0.000423"), (3.14159, "3.14"), (31.4159, "31.4"), (99999.6, "100000")]
)
def test_speed_keeps_three_digits_at_any_size(tmp_path: Path, value: float, cell: str) -> None:
    out = report(tmp_path, trial(figures={"images_per_s": Figure(value, "worker")}))
    assert rows(out / "speed.md")["PyTorch"] == [cell]


def test_repeats_give_the_median_with_range_and_the_caption_says_n(tmp_path: Path) -> None:
    shifted = [trial(repeat=repeat, figures={"cpu_percent": Figure(v, "s")}) for repeat, v in enumerate((50, 90, 60))]
    out = report(tmp_path, *shifted)
    assert rows(out / "usage.md")["PyTorch"] == ["60.0 (50.0\N{EN DASH}90.0)"]
    assert "Median of n = 3 repeats (lowest\N{EN DASH}highest)." in (out / "usage.md").read_text()


def test_a_cell_of_fewer_repeats_says_its_n_and_how_the_others_ended(tmp_path: Path) -> None:
    out = report(
        tmp_path,
        *(trial("tensorflow", 32, repeat) for repeat in range(3)),
        trial("pytorch", 32, 0),
        trial("pytorch", 32, 1),
        ended(Status.TIMEOUT, "not finished after 300 s", "pytorch", 32, repeat=2),
    )
    assert rows(out / "usage.md")["PyTorch"] == ["71.5 (71.0\N{EN DASH}72.0) n=2 [1]"]
    assert "- [1] repeat 2: timeout\n" in (out / "usage.md").read_text()
    assert number(out / "usage.csv", "pytorch", 32)["n"] == "2"


def test_an_unverified_repeat_is_not_in_the_median_and_the_cell_says_so(tmp_path: Path) -> None:
    wrong = dict.fromkeys(("cpu_percent", "test_accuracy", "images_per_s"), Figure(0.001, "s"))
    unverified = trial("pytorch", 32, 1, figures=wrong, status=Status.UNVERIFIED, reason="losses of its own")
    out = report(tmp_path, trial(repeat=0), unverified, trial(repeat=2), trial(repeat=3))
    assert rows(out / "usage.md")["PyTorch"] == ["73.0 (71.0\N{EN DASH}74.0) [1]"]
    assert rows(out / "accuracy.md")["PyTorch"] == ["73.00 (71.00\N{EN DASH}74.00) [1]"]
    for quantity in ("usage", "memory", "accuracy", "speed", "step-time"):
        assert "- [1] repeat 1: unverified\n" in (out / f"{quantity}.md").read_text(), quantity
        assert number(out / f"{quantity}.csv", "pytorch", 32)["n"] == "3", quantity
    assert f"- {unverified.spec.id}: unverified: losses of its own\n" in (out / "report.md").read_text()


def test_the_csv_holds_numbers_unrounded_and_one_row_a_cell(tmp_path: Path) -> None:
    out = report(tmp_path, trial("tensorflow", 4), *(trial("pytorch", 32, repeat) for repeat in range(2)))
    header = (out / "accuracy.csv").read_text().splitlines()[0]
    assert header == "framework,batch_size,n,median,min,max,unit,status"
    assert len(numbers(out / "accuracy.csv")) == 4
    cell = number(out / "accuracy.csv", "pytorch", 32)
    assert [float(cell[key]) for key in ("median", "min", "max")] == pytest.approx([71.5, 71.0, 72.0], abs=1e-9)
    assert (cell["n"], cell["unit"], cell["status"]) == ("2", "%", "ok")
    speed = number(out / "speed.csv", "tensorflow", 4)
    assert float(speed["median"]) == pytest.approx(4 / 0.0028)
    missing = number(out / "speed.csv", "tensorflow", 32)
    assert [missing[key] for key in ("n", "median", "min", "max", "status")] == ["0", "", "", "", "not_run"]


@pytest.mark.parametrize(
    ("status", "cell"),
    [
        (Status.OUT_OF_MEMORY, "out of memory"),
        (Status.TIMEOUT, "timeout"),
        (Status.FAILED, "failed"),
        (Status.UNSUPPORTED, "unsupported"),
        (Status.UNVERIFIED, "unverified"),
        (Status.CONTENDED, "contended"),
    ],
)
def test_a_cell_without_an_ok_trial_says_how_it_ended(tmp_path: Path, status: Status, cell: str) -> None:
    measured_yet_not_ok = replace(trial("mxnet", 64), status=status, reason="why")
    out = report(tmp_path, trial("pytorch", 32), measured_yet_not_ok)
    for quantity in ("usage", "memory", "accuracy", "speed", "step-time"):
        assert rows(out / f"{quantity}.md")["MXNet"] == ["not run", cell]
        assert number(out / f"{quantity}.csv", "mxnet", 64)["status"] == status.value


def test_a_null_figure_is_unknown_with_its_reason_below(tmp_path: Path) -> None:
    unknown = Figure(None, "sampler", reason="2 samples | <b>too</b> few")
    changes: dict[str, Any] = {"figures": {"cpu_percent": unknown}}
    out = report(tmp_path, trial("pytorch", 4), trial("pytorch", 8, **changes), trial("mxnet", 8, **changes))
    table = rows(out / "usage.md")
    assert (table["PyTorch"], table["MXNet"]) == (["59.0", "unknown [1]"], ["not run", "unknown [1]"])
    assert "- [1] unknown: 2 samples \\| \\<b\\>too\\</b\\> few\n" in (out / "usage.md").read_text()
    assert number(out / "usage.csv", "pytorch", 8)["status"] == "unknown"
    assert rows(out / "memory.md")["PyTorch"] == ["501", "502"]


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


def test_a_figure_that_was_never_stored_is_unknown_too(tmp_path: Path) -> None:
    out = report(tmp_path, replace(trial("pytorch", 4), figures={}), trial("mxnet", 4))
    assert rows(out / "usage.md") == {
        "Framework / batch size": ["4"],
        "PyTorch": ["unknown [1]"],
        "MXNet": ["51.0"],
    }
    assert "[1] unknown: the stored result has no figure cpu_percent" in (out / "usage.md").read_text()


def test_nothing_is_called_gpu_on_a_cpu(tmp_path: Path) -> None:
    out = report(tmp_path, *study())
    told = "".join(file.read_text(encoding="utf-8") for file in out.glob("*.md") if file.name != "RULES.md")
    assert "GPU" not in told.replace("GPU memory is the highest of the whole trial", "")
    assert "### CPU usage, % of the 2 cores allotted, mean over the steady window" in told
    assert "### Host memory, MiB, highest resident size of the process tree in the steady window" in told


def test_on_a_gpu_usage_and_memory_are_those_of_the_gpu(tmp_path: Path) -> None:
    out = report(tmp_path, on_gpu(trial("pytorch", 32)))
    assert (out / "usage.md").read_text().startswith("### GPU usage, %")
    assert (out / "memory.md").read_text().startswith("### GPU memory of the process, MiB")
    assert rows(out / "usage.md")["PyTorch"] == ["51.0"]
    assert rows(out / "memory.md")["PyTorch"] == ["782"]
    assert "device GPU, NVIDIA H200" in (out / "report.md").read_text()


ADAM, FASTER = OptimizerSpec("adam", 0.001), OptimizerSpec("momentum", 0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "other"},
        {"dataset": "cifar10"},
        {"optimizer": ADAM},
        {"optimizer": FASTER},
        {"epochs": 1},
        {"last_batch": "drop"},
        {"profile": "tuned"},
        {"feed": "device"},
        {"threads": 1},
        {"seed": 7},
        {"device": "GPU-1"},
        {"machine": {"cpu_model": "another"}},
        {"facts": {"precision": "bfloat16"}},
        {"facts": {"precision": "float32", "tf32": True}},
    ],
    ids=str,
)
def test_trials_of_different_conditions_are_never_in_one_table(tmp_path: Path, changes: dict[str, Any]) -> None:
    out = report(tmp_path, trial("pytorch", 32), trial("mxnet", 64, **changes))
    assert not (out / "usage.md").exists()
    tables = [rows(out / f"usage-{number}.md") for number in (1, 2)]
    assert sorted(list(table)[1] for table in tables) == ["MXNet", "PyTorch"]
    assert all(len(table) == 2 for table in tables)
    headings = [line for line in (out / "report.md").read_text().splitlines() if line.startswith(("## 1.", "## 2."))]
    assert len(headings) == 2
    assert headings[0][5:] != headings[1][5:]


def test_settings_that_an_optimizer_ignores_do_not_split_a_table(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch"), trial("mxnet", optimizer=OptimizerSpec("momentum", beta1=0.5)))
    assert len(rows(out / "usage.md")) == 3


def test_a_trial_that_died_before_it_reported_stays_beside_its_rivals(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch", 32), ended(Status.UNSUPPORTED, "no wheel", "mxnet", 32))
    assert rows(out / "usage.md")["MXNet"] == ["unsupported"]


def test_the_newest_of_the_same_cell_wins_across_time_zones_and_the_report_says_so(tmp_path: Path) -> None:
    old = trial(started_at="2025-11-21T12:30:00+02:00", figures={"cpu_percent": Figure(1, "s")})
    new = trial(environment="e2", started_at="2025-11-21T11:00:00Z", figures={"cpu_percent": Figure(2, "s")})
    out = report(tmp_path, new, old)
    assert rows(out / "usage.md")["PyTorch"] == ["2.0"]
    text = (out / "report.md").read_text()
    assert f"- {old.spec.id} of {old.started_at} by {new.spec.id} of {new.started_at}" in text
