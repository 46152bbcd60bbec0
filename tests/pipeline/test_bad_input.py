"""Every bad input: exit code 2, one clear line on standard error, nothing started and nothing written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_runner

from runner.machine.description import list_gpus
from workloads.datasets import DATASETS

CASES = {
    "unknown framework": (["--framework", "pytorhc"], "did you mean pytorch"),
    "unknown workload": (["--workload", "osu-cn"], "did you mean osu-cnn"),
    "unknown data set": (["--dataset", "cifar"], "did you mean cifar10"),
    "unknown study": (["--study", "quik"], "did you mean quick"),
    "unknown optimizer": (["--optimizer", "rmsprob"], "did you mean rmsprop"),
    "unknown schedule": (["--schedule", "cosin"], "did you mean cosine"),
    "test with all of a data set that leaves none over": (
        ["--dataset", "digits", "--test-all"],
        "data set digits has no images left over; these have some: cifar10-cats-dogs, cats-dogs",
    ),
    "unknown augmentation": (["--augment", "flip"], "did you mean flip-crop"),
    "warm-up longer than training": (
        ["--warm-up", "120", "--batch-size", "128", "--epochs", "10"],
        "--warm-up 120: at batch size 128 a warm-up of 120 steps leaves none of the 120 steps",
    ),
    "unknown framework beside all": (["--framework", "all", "mxnett"], "did you mean mxnet"),
    "unknown device": (["--device", "cdua"], "did you mean cuda"),
    "card that is not there": (["--device", "cuda:99"], "--device cuda:99: "),
    "card of another machine": (["--device", "GPU-1234"], "no such GPU"),
    "unknown isolation": (["--isolation", "chroot"], "known: docker, here, venv"),
    "batch size 0": (["--batch-size", "0"], "batch_sizes: Expected `int` >= 1"),
    "batch size twice": (["--batch-size", "4", "4"], "names 4 twice"),
    "batch size larger than the split": (["--batch-size", "1438", "--last-batch", "drop"], "1437 images"),
    "repeat 0": (["--repeat", "0"], "repeats: Expected `int` >= 1"),
    "retry of what comes out the same": (["--retry", "out_of_memory"], "known: contended, failed"),
    "more threads than cores": (["--threads", "4096"], "this process may use"),
}


@pytest.mark.skipif(bool(list_gpus()), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_refused(tmp_path: Path) -> None:
    refused(run_runner("--device", "cuda", "--results", tmp_path / "results"), "no NVIDIA GPU")
    assert not (tmp_path / "results").exists()


def refused(done: subprocess.CompletedProcess[str], telling: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("runner: ") and telling in lines[0], done.stderr


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_and_told_clearly(name: str, tmp_path: Path) -> None:
    arguments, telling = CASES[name]
    refused(run_runner(*arguments, "--results", tmp_path / "results"), telling)
    assert not (tmp_path / "results").exists()


def test_bad_study_file_is_refused_and_told_clearly(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("epochs = 3\nbatchsizes = [4]\n")
    telling = "study.toml, line 2: batchsizes: unknown key"
    refused(run_runner("--study", tmp_path / "study.toml", "--results", tmp_path / "results"), telling)
    assert not (tmp_path / "results").exists()


def test_study_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(run_runner("--study", tmp_path / "none.toml", "--results", tmp_path / "results"), "cannot be read")


def test_results_folder_that_cannot_be_written_is_found_out_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(run_runner("--results", tmp_path / "file" / "results"), "cannot be written")


def test_missing_data_is_not_trained_on(tmp_path: Path) -> None:
    done = run_runner("--dataset", "mnist", "--data-dir", tmp_path, "--results", tmp_path / "results")
    refused(done, "train-images-idx3-ubyte.gz is missing")
    assert not list((tmp_path / "results").glob("trials/*"))


def test_an_archive_of_the_users_own_that_is_not_there_is_a_line_that_says_what_to_fetch(tmp_path: Path) -> None:
    asked = ("--workload", "cats-dogs-cnn", "--dataset", "cats-dogs", "--data-dir", tmp_path)
    refused(
        run_runner(*asked, "--results", tmp_path / "results"), f"no kagglecatsanddogs_*.zip in {tmp_path}; it is not"
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("dataset", ["cifar10", "fashion-mnist", "mnist"])
def test_files_with_a_wrong_checksum_are_not_trained_on(dataset: str, tmp_path: Path) -> None:
    first, *_ = files = DATASETS[dataset].files
    for file in files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(b"not what was published")
    done = run_runner("--dataset", dataset, "--data-dir", tmp_path, "--results", tmp_path / "results")
    refused(done, f"md5 expected {first.md5}, found ")
    assert not list((tmp_path / "results").glob("trials/*"))


@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_damaged_data_is_not_trained_on(damage: str, real_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    shutil.copytree(real_data / "mnist", folder)
    victim = folder / "t10k-labels-idx1-ubyte.gz"
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    done = run_runner("--dataset", "mnist", "--data-dir", tmp_path, "--results", tmp_path / "results")
    refused(done, "md5 expected ec29112dd5afa0611ce80d1b7f02629c, found ")
    assert not list((tmp_path / "results").glob("trials/*"))


@pytest.mark.parametrize("module", ["runner", "reports", "workloads", "runner.import_model"])
def test_a_package_that_is_not_installed_is_a_line_that_says_what_to_do(module: str) -> None:
    """The environment's packages are missing, as in a Python that is not .venv's."""
    done = subprocess.run([sys.executable, "-S", "-m", module], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert "is not installed for" in done.stderr and "make setup" in done.stderr


def test_a_module_of_our_own_that_is_missing_has_its_traceback() -> None:
    program = "from workloads import program; program.report_missing_packages(); import runner.nothing"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("Traceback")


@pytest.mark.parametrize(
    ("module", "system", "telling"),
    [
        ("runner", "darwin", "runs on Linux only"),
        ("runner", "win32", "runs on Linux only (on Windows: in WSL 2)"),
        ("reports", "win32", "runs on Linux or macOS only (on Windows: in WSL 2)"),
    ],
)
def test_a_system_that_a_command_cannot_run_on_is_named_in_one_line(module: str, system: str, telling: str) -> None:
    run = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", f"import sys; sys.platform = {system!r}; {run}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert telling in done.stderr
