"""A network in a custom file, by the real command line."""

from __future__ import annotations

from pathlib import Path

from conftest import PATIENT, by_cell, run_runner
from copied import run_in

from workloads.records import network
from workloads.records.check_name import CheckName

FILE = """
from workloads.layers import Conv2D, Dense, Flatten, Relu
from workloads.spec import Workload

MINE = Workload(
    name="mine",
    summary="one convolution",
    input_shape=(8, 8, 1),
    layers=(Conv2D("conv", filters=FILTERS, kernel=(3, 3)), Relu("relu"), Flatten("flatten"), Dense("dense", units=10)),
)
"""
NUMPY = ("--framework", "numpy", "--device", "cpu", "--isolation", "here")
ASKED = (*NUMPY, *PATIENT, "--dataset", "digits-64", "--batch-size", 16, "--epochs", 1, "--window", 0.3)


def test_a_network_of_ones_own_is_trained_judged_and_reported_as_the_catalogues_are(
    tmp_path: Path, forgetful: Path
) -> None:
    file, results = tmp_path / "my_cnn.py", tmp_path / "results"
    file.write_text(FILE.replace("FILTERS", "3"))
    asked = (*ASKED, "--workload", file, "--results", results)
    done = run_in(forgetful, *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = by_cell(results).values()
    (gate,) = (check for check in result["checks"] if check["name"] == CheckName.GATE)
    assert gate["passed"] and gate["detail"] == "compared with the referee"
    stored = network.read(results / result["spec"]["inputs"]["network"]["path"])
    assert stored.name == result["spec"]["task"]["workload"] == "mine"
    assert result["spec"]["task"]["network"] == network.digest(stored)
    report = (results / "report" / "report.md").read_text()
    assert "mine on digits-64" in report and f"digest {network.digest(stored)}" in report

    file.write_text(FILE.replace("FILTERS", "3").replace("one convolution", "in other words"))
    assert "1 of 1 trial is finished" in run_in(forgetful, *asked).stdout
    file.write_text(FILE.replace("FILTERS", "4"))
    assert "1 trial to run" in run_in(forgetful, *asked, "--plan").stdout


def test_a_file_that_is_no_network_is_one_line_and_nothing_is_started(tmp_path: Path) -> None:
    file, results = tmp_path / "my_cnn.py", tmp_path / "results"
    file.write_text(FILE.replace("FILTERS", "3").replace('Flatten("flatten"), ', ""))
    done = run_runner(*ASKED, "--workload", file, "--results", results)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"workload {file}: layer dense" in done.stderr
    assert not results.exists()
