"""The main promises once, with the real frameworks: `make test` runs these. Nothing here needs a quiet machine.

Everything else that starts real frameworks is in the other folders: `make test-all`.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from browsing import CHROMIUM, chromium
from conftest import REAL_FRAMEWORKS, TINY, Cells, by_cell, run_runner, shared
from mistaken import DOUBLED, add_mistaken
from settings import CASES, THREADS, TRUTH
from suite import FRAMEWORKS, Found, Seen, checks_of, known_deviations, threads, verdict

from reports.batch_size import answers
from workloads.networks import WORKLOADS
from workloads.records.check_name import CheckName
from workloads.records.status import Status

FEW = {
    name: CASES[name] for name in ("plain-adam", "batchnorm-momentum", "branches", "padding", "transformer", "dropout")
}
PLANTED, _ = DOUBLED  # the referee with twice the learning rate
SIZE, EPOCHS = 16, 2
RUN = (*TINY, "--device", "cpu", "--batch-size", SIZE, "--epochs", EPOCHS, "--window", 0.3)
MEASURED = {Status.OK, Status.CONTENDED}  # the latter lacks only its speed: other processes computed at the same time
SEARCH = ("--framework", "numpy", "--isolation", "here", *TINY, "--device", "cpu", "--window", 0.2, "--epochs", 2)


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Answers of each framework to FEW, in one process each, by two threads on whatever machine."""
    return Found(shared(tmp_path_factory) / "smoke", FEW, **threads(THREADS))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_adapter_agrees_with_the_referee(framework: str, few: Found) -> None:
    known = known_deviations(framework)
    wrong: dict[tuple[str, str], str] = {}
    for name, case in FEW.items():
        seen = Seen(case, few.of(framework, case), few.of(TRUTH, case), few.initial(case))
        said = {check: verdict(ask(seen), known.get((name, check))) for check, ask in checks_of(case).items()}
        wrong |= {(name, check): words for check, words in said.items() if words}
    assert not wrong


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Cells, str]:
    """(results folder, its cells, what was printed) of all frameworks and a wrong one."""
    adapters, results = tmp_path_factory.mktemp("adapters"), tmp_path_factory.mktemp("run") / "results"
    add_mistaken(adapters, *DOUBLED)
    done = run_runner("--framework", *REAL_FRAMEWORKS, PLANTED, *RUN, "--adapters", adapters, "--results", results)
    assert done.returncode == 1, done.stdout + done.stderr  # for the wrong one
    return results, by_cell(results), done.stdout


def test_every_framework_is_trained_measured_and_passes_the_gate(run: tuple[Path, Cells, str]) -> None:
    _, cells, printed = run
    assert set(cells) == {(name, SIZE) for name in (*REAL_FRAMEWORKS, PLANTED)}
    for name in REAL_FRAMEWORKS:
        result = cells[name, SIZE]
        assert result["status"] in MEASURED, printed
        assert [check["passed"] for check in result["checks"] if check["name"] == CheckName.GATE] == [True]
        assert len(result["epochs"]) == EPOCHS and result["figures"]["images_per_s"]["value"] > 0


def test_the_memory_of_every_framework_is_split_into_its_parts(run: tuple[Path, Cells, str]) -> None:
    results, cells, _ = run
    for name in REAL_FRAMEWORKS:
        figures = {figure: stored["value"] for figure, stored in cells[name, SIZE]["figures"].items()}
        assert figures["parameters_bytes"] == 4 * WORKLOADS["tiny"].parameter_count
        assert 10 * 2**20 < figures["host_memory_bytes"] <= figures["host_memory_peak_bytes"]
        assert figures["activations_bytes"] > 0
    assert (results / "report" / "memory-parts.csv").is_file()


def test_a_planted_error_is_caught_and_left_out_of_the_tables(run: tuple[Path, Cells, str]) -> None:
    results, cells, printed = run
    result = cells[PLANTED, SIZE]
    assert result["status"] == Status.UNVERIFIED
    assert result["reason"].startswith("differs from the referee: the first gradients agree, the change of ")
    assert f"{PLANTED}-cpu" in printed and result["reason"] in printed
    speeds = dict(re.findall(r"(?m)^\| ([\w ]+?) +\| +(.+?) \|$", (results / "report" / "speed.md").read_text()))
    assert speeds[PLANTED] == "unverified"


def test_the_report_has_its_page_its_tables_and_every_framework(run: tuple[Path, Cells, str]) -> None:
    results, _, printed = run
    report = results / "report"
    assert (report / "report.html").as_uri() in printed
    with (report / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["framework"] for row in rows} == {*REAL_FRAMEWORKS, PLANTED}
    assert all((report / name).stat().st_size for name in ("report.md", "memory.md", "accuracy.svg", "RULES.md"))


@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: the page is not opened")
def test_the_page_opens_in_a_browser_and_shows_every_framework(run: tuple[Path, Cells, str]) -> None:
    results, cells, _ = run
    complaints: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.goto((results / "report" / "report.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        shown = page.locator("body").text_content() or ""
    assert complaints == []
    assert all(cells[name, SIZE]["machine"]["framework_label"] in shown for name in (*REAL_FRAMEWORKS, PLANTED))


def test_the_referee_finds_its_fastest_batch_size(tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = run_runner("batch-size", *SEARCH, "--answer", "fastest", "--results", results)
    stored = answers.read(results)
    assert stored is not None, done.stdout + done.stderr
    (found,) = stored.frameworks
    assert found.fastest and found.fastest.batch_size in {2**power for power in range(7)}
    assert json.loads((results / "batch-size.json").read_text())["frameworks"]
    assert (results / "report" / "batch-size.csv").is_file()
