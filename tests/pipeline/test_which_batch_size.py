"""`python -m runner batch-size`, asked as a person asks it."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT, TINY, by_cell, run_runner
from copied import add_framework, run_in
from rich.console import Console

from reports.batch_size import answers, recommendation
from runner.__main__ import train_cells
from runner.batch_size import command
from runner.batch_size.answers_file import AnswersFile
from runner.batch_size.question import find_bound
from workloads.records.advice import PASSED, choose_batch_size, passes
from workloads.records.batch_answers import Best, SizePoint
from workloads.records.check_name import CheckName
from workloads.records.status import Status

BAD = {
    "unknown answer": (["--answer", "fastests"], "did you mean fastest"),
    "batch size in use 0": (["--in-use", "0"], "--in-use 0: must be 1 or more"),
    "global batch below 1": (["--global-batch", "-8"], "--global-batch -8: must be 1 or more"),
    "accuracy in percent": (["--target-accuracy", "60"], "must be a share above 0 and up to 1"),
    "unknown framework": (["--framework", "pytorhc"], "did you mean pytorch"),
    "largest of several processes": (["--devices", "2"], "--devices 2: a memory limit per process does not limit"),
    "parts on several devices": (
        ["--devices", "2", "--answer", "fastest", "--global-batch", "64"],
        "--devices 2: several devices cannot accumulate gradients",
    ),
    "blocks of steps": (["--blocks", "127,128,129"], "--blocks: not for batch-size"),
    "updates of several batches": (["--accumulate", "8", "--plan"], "--accumulate: not for batch-size"),
    "sizes that nothing trains": (["--batch-size", "128"], "add --then-train or --target-accuracy"),
    "repeats of what is not trained": (["--repeat", "9"], "--repeat: repeats of trainings; add --then-train"),
    "size 0": (["--then-train", "--batch-size", "0"], "--batch-size"),
    "a size twice": (["--then-train", "--batch-size", "100", "100"], "--batch-size: batch_sizes: names 100 twice"),
    "unknown option": (["--largest"], "--largest"),
}


@pytest.mark.parametrize(("arguments", "telling"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_starts_nothing(arguments: list[str], telling: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused = run_runner("batch-size", *arguments, "--results", results)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and telling in refused.stderr
    assert not results.exists()


def test_its_help_offers_nothing_that_it_refuses() -> None:
    told = run_runner("batch-size", "--help-all").stdout
    shown = set(re.findall(r"--[a-z-]+", told))
    refused = {"--blocks", "--accumulate", "--until-stable", "--study"}
    assert {"--plan", "--answer", "--memory-limit", "--model", "--devices"} <= shown and not shown & refused
    assert "results/batch-size" in told and "results/STUDY" not in told


def test_a_plan_says_what_is_tried_by_which_limit_and_how_long_and_starts_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    asked = ("--answer", "largest", "fastest", "--memory-limit", 700, "--in-use", 4, "--plan")
    once = run_runner("batch-size", *REFEREE, *asked, "--results", results).stdout.splitlines()
    assert re.match("then every framework trains once at the sizes found, .+: up to 2 trials, about .+", once[2]), once
    done = run_runner("batch-size", *REFEREE, *asked, "--then-train", "--results", results)
    assert (done.returncode, results.exists()) == (0, False), done.stderr
    lines = done.stdout.splitlines()
    assert re.match(
        r"numpy: largest that fits into 700 MiB, a .+ \(a run has the same limit\): about \d+ trials .+, about \d+",
        lines[0],
    )
    assert re.match(r"numpy: fastest from 1 to 64 images, .+: about \d+ trials", lines[1])
    assert lines[2].startswith("then every framework trains at batch sizes 4, the largest, the fastest: up to 9 trials")
    assert re.match(r"about .+ in all; a rough guess", lines[3]) and len(lines) == 4


REFEREE = ("--framework", "numpy", "--isolation", "here", *TINY, "--device", "cpu", "--window", 0.2, "--epochs", 2)
ASKED = ("--answer", "fastest", "least-energy", "noise-scale", "--in-use", 4, "--then-train", "--target-accuracy", 0.05)


def ask(project: Path, results: Path) -> subprocess.CompletedProcess[str]:
    return run_in(project, "batch-size", *REFEREE, *ASKED, "--results", results)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory, without_charts: Path) -> tuple[Path, str]:
    results = tmp_path_factory.mktemp("answers") / "results"
    done = ask(without_charts, results)
    assert done.returncode == 0, done.stdout + done.stderr
    return results, done.stdout


def test_every_answer_is_stored_printed_and_on_one_page(answered: tuple[Path, str]) -> None:
    results, printed = answered
    stored = json.loads((results / "batch-size.json").read_text())
    (found,) = stored["frameworks"]
    assert found["fastest"]["batch_size"] in {2**power for power in range(7)} and found["fastest"]["trials"] >= 6
    assert found["noise"]["points"] and found["memory"]
    assert found["target"]["accuracy"] == 0.05 and found["target"]["reached"]
    assert (stored["in_use"], stored["conditions"]["train_images"]) == (4, 64)
    assert (results / "report" / "batch-size.csv").is_file() and (results / "report" / "report.html").is_file()
    assert "Train with numpy referee at batch size" in printed
    assert re.search(r"^numpy: fastest .+: about \d+ trials", printed, re.MULTILINE), "before it starts"
    row = printed[printed.index("Noise scale") :].splitlines()[2]  # below its heading and the line
    assert row.startswith("numpy referee") and f" {found['fastest']['batch_size']} " in row


def test_the_size_in_use_and_the_found_ones_are_trained_by_ordinary_trials(answered: tuple[Path, str]) -> None:
    results, _ = answered
    stored = answers.read(results)
    assert stored is not None
    (found,) = stored.frameworks
    looked_for = {found.fastest.batch_size, choose_batch_size(found)} if found.fastest else set()
    sizes = {size for _, size in by_cell(results)}
    assert sizes == {4, *looked_for}, "advised is smaller where the fastest is beyond the noise scale"
    assert {each.batch_size for each in found.trained} == sizes - {4}
    assert all(each.repeats == 3 for each in found.trained)
    assert {each.batch_size for each in found.judged} == looked_for and all(passes(found, size) for size in looked_for)


def test_the_same_question_again_measures_nothing_that_is_finished(
    answered: tuple[Path, str], without_charts: Path
) -> None:
    results, _ = answered
    before = {path: json.loads(path.read_text()) for path in results.glob("*/*/result.json")}
    again = ask(without_charts, results)
    assert again.returncode == 0, again.stdout + again.stderr
    after = {path: json.loads(path.read_text()) for path in results.glob("*/*/result.json")}
    assert all(after[path]["started_at"] == result["started_at"] for path, result in before.items())
    assert after.keys() == before.keys()


def test_an_adapter_that_trains_nothing_is_judged_by_an_ordinary_trial_and_not_recommended(tmp_path: Path) -> None:
    """Its search is made up here: nobody judges trials of steps alone, so it would find what it likes."""
    adapters, results = tmp_path / "adapters", tmp_path / "results"
    add_framework(adapters, "idle", label='"idle"')
    (adapters / "idle" / "adapter.py").write_text(
        """\
import numpy as np
from adapters.numpy import adapter

class Adapter(adapter.Adapter):
    def train(self, order, rates=None, part=None):
        return np.full(len(order), 2.3, np.float32)
"""
    )
    words = (*REFEREE[2:], "--framework", "numpy", "idle", "--adapters", adapters, "--answer", "fastest")
    request, question = command.build_request([*map(str, words), "--results", str(results)], PROJECT)
    printed = io.StringIO()
    file = AnswersFile(request, question, find_bound(request, question), Console(file=printed, width=300))
    for name, speed in (("idle", 5e6), ("numpy", 5e3)):
        file.store(name, fastest=Best(32, None, (SizePoint(32, speed, None, None, 3),), trials=9))
    command._train(request, question, train_cells, file, Console(file=printed, width=300))
    judged = {name: each.judged[0] for name, each in file.answers.items()}
    assert judged["numpy"].status in PASSED and judged["idle"].status is Status.UNVERIFIED, printed.getvalue()
    assert (judged["idle"].reason or "").startswith("differs from the referee: ")
    assert f"idle: batch size 32 is not recommended: its ordinary trial was unverified: {judged['idle'].reason}" in (
        printed.getvalue()
    )
    advice, *_, refused = recommendation.recommend(answers.read(results))  # type: ignore[arg-type]  # it was stored
    assert advice.startswith("Train with numpy referee at batch size 32: 5,000 images/s")
    assert refused.startswith("idle at batch size 32 is not recommended: ")


def test_all_frameworks_are_asked_and_stand_in_one_table(tmp_path: Path, forgetful: Path) -> None:
    """The conformance suite asks the real ones for their noise."""
    adapters, results = tmp_path / "adapters", tmp_path / "results"
    add_framework(adapters, "again", label='"again"')
    asked = (*REFEREE[2:], "--framework", "numpy", "again", "--adapters", adapters, "--answer", "noise-scale")
    done = run_in(forgetful, "batch-size", *asked, "--epochs", 1, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = json.loads((results / "batch-size.json").read_text())
    assert {answers["framework"] for answers in stored["frameworks"]} == {"numpy", "again"}
    assert all(answers["noise"]["reason"] is None for answers in stored["frameworks"])


OWN_MODEL = "from workloads.catalogue import TINY\n\ndef make(classes):\n    return TINY\n"
DATA_PARALLEL = """\
from adapters.numpy import adapter

class DataParallel(adapter.Adapter):
    def __init__(self, devices):
        super().__init__()
        self.devices = devices

    def accumulate(self, images, labels, part):
        return self.divide(images, labels, self.devices)
"""


@pytest.fixture
def plain(tmp_path: Path) -> tuple[object, ...]:
    """A framework of numpy that is not the referee: it trains own code, and on several devices."""
    adapters = tmp_path / "adapters"
    add_framework(adapters, "plain", label='"plain"', referee="false")
    (adapters / "plain" / "adapter.py").write_text((ROOT / "tests" / "own_numpy.py").read_text())
    (adapters / "plain" / "data_parallel.py").write_text(DATA_PARALLEL)
    (tmp_path / "net.py").write_text(OWN_MODEL)
    return (*REFEREE[2:], "--framework", "plain", "--adapters", adapters, "--answer", "fastest", "noise-scale")


def test_own_code_gets_its_answers_its_checks_and_the_word_that_it_is_compared_with_nothing(
    plain: tuple[object, ...], tmp_path: Path, forgetful: Path
) -> None:
    model, results = ("--model", f"plain={tmp_path / 'net.py'}:make"), tmp_path / "results"
    done = run_in(forgetful, "batch-size", *plain, *model, "--in-use", 8, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = json.loads((results / "batch-size.json").read_text())
    (found,) = stored["frameworks"]
    assert found["fastest"]["batch_size"] and found["noise"]["noise_scale"]
    assert (found["noise"]["cautions"], found["noise"]["reason"]) == (["own-code"], None)
    assert all(each["reason"] == "custom code, not compared" for each in found["judged"]) and found["judged"]
    assert stored["conditions"]["workload"] == "net (custom code, not compared)"
    assert "Train with plain at batch size" in done.stdout and "(custom code, not compared)" in done.stdout
    for result in by_cell(results).values():
        passed = {check["name"]: check["passed"] for check in result["checks"]}
        assert passed[CheckName.SAME_LOSSES] and passed[CheckName.OWN_EVALUATION]


def test_several_devices_have_a_batch_each_and_share_the_update(
    plain: tuple[object, ...], tmp_path: Path, forgetful: Path
) -> None:
    results = tmp_path / "results"
    done = run_in(forgetful, "batch-size", *plain, "--devices", 2, "--in-use", 4, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = answers.read(results)
    assert stored is not None and stored.conditions["devices"] == 2
    (found,) = stored.frameworks
    assert found.devices == 2 and found.fastest and found.fastest.batch_size
    assert max(point.batch_size for point in found.fastest.points) == 32, "64 images are 32 for each"
    assert found.noise and found.noise.noise_scale and found.noise.reason is None
    for path in results.glob("steps/*/result.json"):
        result = json.loads(path.read_text())
        product = result["figures"]["images_per_s"]["value"] * result["figures"]["step_time_s"]["value"]
        assert product == pytest.approx(2 * result["spec"]["cell"]["batch_size"], rel=0.01)
    assert found.fastest.batch_size in {each.batch_size for each in found.judged}
    assert {each.status for each in found.judged} == {Status.OK}, found.judged
    assert "on each of 2 devices" in done.stdout


def test_own_code_on_several_devices_is_refused_in_one_line(plain: tuple[object, ...], tmp_path: Path) -> None:
    model = ("--model", f"plain={tmp_path / 'net.py'}:make")
    refused = run_runner("batch-size", *plain, *model, "--devices", 2, "--results", tmp_path / "results")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "--devices 2: custom code (--model) trains on one device" in refused.stderr
    assert not (tmp_path / "results").exists()
