"""examples/adapters/minimal: the adapter of the tutorial trains, passes the gate and is shown in every table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT, TINY, Cells, by_cell
from copied import run_in

from adapters.base import NOT_YET
from runner.environments.definition import read
from workloads.records.check_name import CheckName
from workloads.records.status import Status

pytestmark = pytest.mark.real

ADAPTERS = ROOT / "examples" / "adapters"
MOST_LINES = 150
SIZE, EPOCHS = 64, 2


def run_with(project: Path, frameworks: tuple[str, ...], results: Path, *words: object) -> Cells:
    """Run these; the interpreter of PyTorch's environment has what the minimal adapter needs."""
    python = read(PROJECT, "pytorch", "cpu").interpreter
    done = run_in(
        project,
        *("--adapters", ADAPTERS, "--framework", *frameworks, "--python", f"minimal={python}", *TINY),
        *("--device", "cpu", "--batch-size", SIZE, "--epochs", EPOCHS, "--window", 0.3, "--results", results, *words),
    )
    cells = by_cell(results)
    assert {name for name, _ in cells} == set(frameworks), done.stdout + done.stderr
    return cells


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, without_charts: Path) -> Path:
    folder = tmp_path_factory.mktemp("minimal") / "results"
    run_with(without_charts, ("minimal", "pytorch"), folder)
    return folder


def test_it_is_two_files_of_at_most_150_lines_together() -> None:
    files = [path for path in (ADAPTERS / "minimal").iterdir() if path.is_file()]
    assert {path.name for path in files} == {"adapter.py", "environment.toml"}
    assert sum(len(path.read_text().splitlines()) for path in files) <= MOST_LINES


def test_it_trains_and_passes_the_gate(results: Path) -> None:
    result = by_cell(results)["minimal", SIZE]
    assert result["status"] in (Status.OK, Status.CONTENDED), result  # on a machine that others use, too
    passed = {check["name"]: check["passed"] for check in result["checks"]}
    assert passed[CheckName.GATE] and passed[CheckName.END_EVALUATION]
    assert len(result["epochs"]) == EPOCHS and result["figures"]["images_per_s"]["value"] > 0


def test_it_is_in_every_table_that_has_another_framework(results: Path) -> None:
    tables = {path.name: list(csv.DictReader(path.open())) for path in (results / "report").glob("*.csv")}
    shown = {name: {row["framework"] for row in rows if "framework" in row} for name, rows in tables.items()}
    with_pytorch, with_minimal = ({name for name in shown if who in shown[name]} for who in ("pytorch", "minimal"))
    assert {"speed.csv", "accuracy.csv", "memory.csv", "trials.csv"} <= with_pytorch == with_minimal


def test_the_memory_that_it_does_not_report_is_a_reason_in_the_tables(results: Path) -> None:
    figures = by_cell(results)["minimal", SIZE]["figures"]
    assert figures["activations_bytes"]["value"] is None and NOT_YET in figures["activations_bytes"]["reason"]
    assert NOT_YET in (results / "report" / "report.md").read_text()


def test_an_optimizer_that_it_does_not_have_is_an_unsupported_row_with_its_reason(
    tmp_path: Path, without_charts: Path
) -> None:
    result = run_with(without_charts, ("minimal",), tmp_path / "results", "--optimizer", "adam")["minimal", SIZE]
    assert (result["status"], result["reason"]) == (Status.UNSUPPORTED, f"adam: {NOT_YET}")
    speeds = (tmp_path / "results" / "report" / "speed.md").read_text()
    assert re.search(r"(?m)^\| Minimal \(PyTorch\)[^|]*\| +unsupported", speeds)
