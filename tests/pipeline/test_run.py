"""The main job from the command line to the pictures, with all three real frameworks; and interruptions of it."""

from __future__ import annotations

import csv
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from conftest import (
    PATIENT,
    QUICK,
    QUICK_SIZES,
    REAL_FRAMEWORKS,
    ROOT,
    TINY,
    QuickRun,
    bare_environment,
    by_cell,
    run_runner,
)
from copied import copy_project, report_in, run_in, without_memory_workers

from workloads.records.check_name import CheckName
from workloads.records.events import Event

ALL = ("--framework", "all", "--device", "cpu")
NUMPY = (
    *(*TINY, *PATIENT, "--framework", "numpy", "--device", "cpu", "--isolation", "here"),
    *("--batch-size", "512", "--window", "0.3"),
)
ENDLESS = ("--epochs", 100_000)  # minutes


def trial_folders(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob("trials/*/result.json"))


def test_no_framework_or_batch_size_is_missing_from_the_main_job(quick_run: QuickRun) -> None:
    _, cells, _ = quick_run
    assert set(cells) == {(name, size) for name in REAL_FRAMEWORKS for size in QUICK_SIZES}
    assert {result["status"] for result in cells.values()} == {"ok"}


def test_no_figure_contradicts_what_was_counted(quick_run: QuickRun) -> None:
    _, cells, _ = quick_run
    for (framework, batch_size), result in cells.items():
        value = {name: figure["value"] for name, figure in result["figures"].items()}
        assert value["images_per_s"] * value["step_time_s"] == pytest.approx(batch_size, rel=0.01)
        assert value["window_s"] >= 1
        assert 5 < value["cpu_percent"] <= 102, framework
        assert 50 * 2**20 < value["host_memory_bytes"] <= value["host_memory_peak_bytes"] < 2 * 2**30
        assert value["parameters_bytes"] == 4 * 122_570
        assert value["gpu_percent"] is None and result["figures"]["gpu_percent"]["reason"]
        assert len(result["epochs"]) == 10
        assert all(epoch["images"] == 1437 and epoch["steps"] == -(-1437 // batch_size) for epoch in result["epochs"])
        doubtful = (CheckName.COVERED, CheckName.LONG_ENOUGH)  # a busy machine, and a window that is short to save time
        assert not [check for check in result["checks"] if not check["passed"] and check["name"] not in doubtful]
        assert [check["passed"] for check in result["checks"] if check["name"] == CheckName.LONG_ENOUGH] == [False]


def test_no_number_lacks_its_conditions(quick_run: QuickRun) -> None:
    _, cells, _ = quick_run
    for result in cells.values():
        machine, facts = result["machine"], result["facts"]
        assert (
            machine["cpu_model"] and machine["cores"] and machine["memory_bytes"] and machine["os"] and machine["libc"]
        )
        assert machine["load_average_before"] >= 0
        assert facts["framework_version"] and facts["precision"] == "float32" and facts["tf32"] is False
        assert facts["intra_op_threads"] == result["spec"]["placement"]["threads"]


def test_worker_events_come_in_order(quick_run: QuickRun) -> None:
    results, _, _ = quick_run
    for folder in trial_folders(results):
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        names = [event["event"] for event in events]
        start = [
            Event.STARTED,
            Event.IMPORTED,
            Event.OPENED,
            Event.LOADED,
            Event.BUILT,
            Event.FIRST_STEP,
            Event.WARMED_UP,
        ]
        behind = [Event.WINDOW_SETTLED, Event.HOST_COUNTED, Event.ALLOCATOR_COUNTED, Event.END_PROBED]
        epochs, end = [Event.EPOCH_TRAINED, Event.EPOCH_EVALUATED] * 10, [Event.WINDOW_ENDED, Event.FINISHED, *behind]
        window = names.index(Event.WINDOW_STARTED)  # in front of an epoch that it is cut from, or of its end
        assert [*names[:window], *names[window + 1 :]] == [*start, *epochs, *end]
        cut = names[window + 1] == Event.EPOCH_TRAINED and names[:window].count(Event.EPOCH_EVALUATED) >= 2
        assert cut or names[window + 1] == Event.WINDOW_ENDED
        times = [event["t_ns"] for event in events]
        assert times == sorted(times)


def test_raw_samples_are_kept(quick_run: QuickRun) -> None:
    results, _, _ = quick_run
    for folder in trial_folders(results):
        with (folder / "samples.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["cpu_s"]]
        result = json.loads((folder / "result.json").read_text())
        assert len(rows) >= 0.5 * 10 * result["figures"]["window_s"]["value"]


def test_frameworks_of_one_batch_size_follow_each_other(quick_run: QuickRun) -> None:
    """They run one after the other; otherwise a change of the machine would look like a difference between
    frameworks."""
    _, cells, _ = quick_run
    in_time = sorted(cells.values(), key=lambda result: result["started_at"])
    sizes = [result["spec"]["cell"]["batch_size"] for result in in_time]
    count = len(REAL_FRAMEWORKS)
    assert all(len(set(sizes[i : i + count])) == 1 for i in range(0, len(sizes), count))
    names = [result["spec"]["cell"]["framework"] for result in in_time]
    orders = {tuple(names[i : i + count]) for i in range(0, len(names), count)}
    assert len(orders) > 1, "the order within the blocks was not mixed"


def test_rows_tables_and_pictures_appear(quick_run: QuickRun) -> None:
    results, _, printed = quick_run
    for framework in REAL_FRAMEWORKS:
        assert len(re.findall(rf"^{framework} .* ok ", printed, re.MULTILINE)) == len(QUICK_SIZES)
    count = len(QUICK_SIZES) * len(REAL_FRAMEWORKS)
    assert f"{count} trials: {count} ok" in printed
    written = {path.suffix for path in (results / "report").rglob("*")}
    assert {".md", ".csv", ".png", ".svg"} <= written


def test_finished_trials_are_not_measured_again(quick_run: QuickRun, calm: Path) -> None:
    results, cells, _ = quick_run
    done = run_in(calm, *QUICK, "--results", results)
    assert done.returncode == 0 and f"{len(cells)} of {len(cells)} trials are finished" in done.stdout
    assert by_cell(results) == cells


SMALL_CNN = """
from workloads.layers import Conv2D, Dense, Flatten, Relu
from workloads.spec import Workload

SMALL_CNN = Workload(
    name="small-cnn",
    summary="seconds for 50,000 photographs",
    input_shape=(32, 32, 3),
    layers=(
        Conv2D("conv1", filters=8, kernel=(5, 5), stride=2, padding="same"),
        Relu("relu1"),
        Conv2D("conv2", filters=16, kernel=(5, 5), stride=2, padding="same"),
        Relu("relu2"),
        Flatten("flatten"),
        Dense("dense", units=10),
    ),
)
"""


def test_real_cifar10_is_learnt_within_2_gib(real_data: Path, tmp_path: Path, unreported: Path) -> None:
    network = tmp_path / "small_cnn.py"
    network.write_text(SMALL_CNN)
    done = run_in(
        unreported,
        *ALL, "--workload", network, "--dataset", "cifar10", "--data-dir", real_data, "--batch-size", 1024,
        "--epochs", 1, "--learning-rate", 0.05, "--window", 1, *PATIENT, "--results", tmp_path / "results",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    cells = by_cell(tmp_path / "results")
    assert {framework for framework, _ in cells} == set(REAL_FRAMEWORKS)
    for result in cells.values():
        assert result["figures"]["host_memory_peak_bytes"]["value"] < 2 * 2**30
        assert result["epochs"][0]["images"] == 50_000
        assert result["epochs"][0]["test_loss"] < math.log(10)  # better than guessing


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def none_outlives_its_test() -> Iterator[None]:
    """End the runners that a test started and, since it failed, left."""
    yield
    while STARTED:
        with STARTED.pop() as runner:
            runner.kill()  # its worker ends with it


def start_runner(*arguments: object, project: Path = ROOT) -> subprocess.Popen[str]:
    runner = subprocess.Popen(
        [sys.executable, "-m", "runner", *map(str, arguments)],
        cwd=project,
        env=bare_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(runner)
    return runner


def worker_of(
    runner: subprocess.Popen[str], framework: str, after: Event = Event.BUILT, within_s: float = 60
) -> psutil.Process:
    """Return the runner's measured worker for this framework, not the gate's, once it has passed an event."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        for process in psutil.Process(runner.pid).children():
            try:
                command = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            if "adapters.worker" in command and f"/trials/{framework}-" in command[-1]:
                events = Path(command[-1]) / "events.jsonl"
                if events.exists() and f'"{after}"' in events.read_text():
                    return process
        time.sleep(0.02)
    raise AssertionError(f"no worker of {framework} within {within_s} s")


@pytest.mark.real
def test_a_killed_worker_does_not_take_the_others_with_it(tmp_path: Path, forgetful: Path) -> None:
    names = ("pytorch", "mxnet")
    asked = ("--framework", *names, "--device", "cpu", "--batch-size", 64, "--epochs", 5, "--window", 1)
    runner = start_runner(*asked, *TINY, *PATIENT, "--results", tmp_path, project=forgetful)
    worker_of(runner, "pytorch", within_s=300).send_signal(signal.SIGKILL)
    printed, _ = runner.communicate(timeout=300)
    assert runner.returncode == 1
    cells = by_cell(tmp_path)
    # A test beside this one may have a process killed for memory: the kernel's count does not say whose it was.
    status = "out_of_memory" if "oom_kill" in cells["pytorch", 64]["reason"] else "failed"
    assert {name: cells[name, 64]["status"] for name in names} == {"pytorch": status, "mxnet": "ok"}
    assert re.search(rf"pytorch-cpu-b00064-r0-\w+: {status}: .*killed by SIGKILL", printed)
    report = (tmp_path / "report" / "report.md").read_text()
    assert status.replace("_", " ") in report and "SIGKILL" in report


def test_ctrl_c_leaves_no_worker_and_loses_no_finished_trial(tmp_path: Path, lean: Path) -> None:
    arguments = (*NUMPY[:-4], "--batch-size", 256, 512, "--epochs", 3, "--window", 2, "--results", tmp_path)
    runner = start_runner(*arguments, project=lean)
    until = time.monotonic() + 120
    while not trial_folders(tmp_path):
        assert runner.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    worker = worker_of(runner, "numpy")
    runner.send_signal(signal.SIGINT)
    _, told = runner.communicate(timeout=30)
    assert runner.returncode == 130
    assert "The same command continues" in told
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert len(trial_folders(tmp_path)) == 1
    done = run_in(lean, *arguments)
    assert done.returncode == 0 and "1 of 2 trials are finished" in done.stdout
    assert len(trial_folders(tmp_path)) == 2


@pytest.mark.parametrize(
    ("sent", "sampler_too"), [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
)
def test_no_worker_outlives_a_runner_that_was_ended(sent: signal.Signals, sampler_too: bool, tmp_path: Path) -> None:
    runner = start_runner(*NUMPY, *ENDLESS, "--results", tmp_path)
    worker = worker_of(runner, "numpy")
    (sampler,) = [child for child in psutil.Process(runner.pid).children() if "runner.sampler" in child.cmdline()]
    if sampler_too:
        sampler.kill()
    runner.send_signal(sent)
    runner.communicate(timeout=30)
    psutil.wait_procs([worker, sampler], timeout=5)
    for process in (worker, sampler):
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_no_worker_outlives_its_time_limit(tmp_path: Path, lean: Path) -> None:
    done = run_in(lean, *NUMPY, *ENDLESS, "--timeout", 2, "--results", tmp_path)
    assert done.returncode == 1
    (result,) = by_cell(tmp_path).values()
    assert result["status"] == "timeout" and result["wall_s"] < 5
    assert "not finished after 2 s" in result["reason"]


def test_results_folder_is_not_taken_for_one_of_the_checkout(tmp_path: Path, forgetful: Path) -> None:
    """A relative folder belongs to the person's working folder; brackets and letters beyond ASCII are only a name."""
    name = "r\N{LATIN SMALL LETTER E WITH ACUTE}sultats [b]x[/i]"
    asked = partial(run_runner, *NUMPY, "--epochs", 1, "--results", name, cwd=tmp_path, PYTHONPATH=str(forgetful))
    done = asked(PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(trial_folders(tmp_path / name)) == 1
    assert (tmp_path / name / "report" / "report.md").exists()
    assert not (ROOT / name).exists() and not (forgetful / name).exists()
    again = asked(PYTHONIOENCODING="ascii")
    assert again.returncode == 0 and "[b]x[/i]: not run again" in again.stdout


def test_a_full_or_foreign_disk_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_text("not a folder")
    done = run_runner(*NUMPY, "--results", tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "inputs: File exists" in done.stderr


def test_all_keeps_the_referee_named_beside_it(tmp_path: Path) -> None:
    done = run_runner("--framework", "all", "numpy", "--batch-size", 4, "--plan", "--results", tmp_path)
    planned = {line.split()[1] for line in done.stdout.splitlines() if re.search(r" batch +4  repeat", line)}
    assert planned == {*REAL_FRAMEWORKS, "numpy"}


def busy_neighbour() -> subprocess.Popen[bytes]:
    """Start a process that takes what it can of the core that a worker with one thread gets.

    It has a session of its own: Linux shares a core between sessions, and the tests' has other work. It ends with us.
    """
    core = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile os.getppid() == {os.getpid()}: pass"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def test_a_contended_trial_is_run_again_at_once_and_the_first_attempt_is_kept(tmp_path: Path, lean: Path) -> None:
    """The neighbour goes when the first attempt has been reported as contended."""
    neighbour = busy_neighbour()
    try:
        asked = (*NUMPY, "--epochs", 1, "--threads", 1, "--window", 1, "--results", tmp_path)
        runner = start_runner(*asked, project=lean)
        printed = ""
        assert runner.stdout
        for line in runner.stdout:
            printed += line
            if "run again" in line:
                neighbour.kill()
        assert runner.wait(300) == 0, printed
    finally:
        neighbour.kill()
        neighbour.wait()
    (result,) = by_cell(tmp_path).values()
    assert result["status"] == "ok", printed
    aside = [json.loads(path.read_text()) for path in tmp_path.glob("attempts/*/result.json")]
    assert [attempt["status"] for attempt in aside] == ["contended"] * len(aside) and 1 <= len(aside) <= 3
    assert all((path.parent / "samples.csv").is_file() for path in tmp_path.glob("attempts/*/result.json"))


def test_disturbed_trials_are_tried_once_more_at_the_end_and_alone_they_are_no_failure_of_a_run(tmp_path: Path) -> None:
    """The neighbour computes on the worker's core all the time."""
    project = copy_project(tmp_path / "project")
    report_in(project, "md")
    without_memory_workers(project)
    neighbour, results = busy_neighbour(), tmp_path / "results"
    asked = ("--framework", "numpy", *TINY, "--device", "cpu", "--isolation", "here", "--batch-size", 16, 32)
    try:
        done = run_in(project, *asked, "--epochs", 600, "--threads", 1, "--window", 0.5, "--results", results)
    finally:
        neighbour.kill()
        neighbour.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(results)
    assert [result["status"] for result in cells.values()] == ["contended"] * 2, done.stdout
    assert done.stdout.count("What helps: ") == done.stdout.count("OMP_WAIT_POLICY=PASSIVE") == 1
    assert "2 disturbed trials are run once more; each attempt is kept" in done.stdout
    aside = [json.loads(path.read_text()) for path in results.glob("attempts/*/result.json")]
    assert [attempt["status"] for attempt in aside] == ["contended"] * 2
    assert "2 of 2 trials contended: figures that this may have changed are withheld: speed, " in done.stdout
    for result in cells.values():
        assert result["figures"]["foreign_cpu_epochs_percent"]["value"] > 25
        assert result["figures"]["test_accuracy"]["value"] is not None
        gate = [check for check in result["checks"] if check["name"] == CheckName.GATE]
        assert [check["passed"] for check in gate] == [True]
    page = (results / "report" / "report.md").read_text()
    assert page.startswith("# No training speed: other processes disturbed 2 of 2 trials; accuracy and memory are")


def test_two_runs_do_not_write_into_one_results_folder(tmp_path: Path) -> None:
    first = start_runner(*NUMPY, *ENDLESS, "--results", tmp_path)
    worker_of(first, "numpy")
    done = run_runner(*NUMPY, "--results", tmp_path)
    search = ("batch-size", *TINY, "--framework", "numpy", "--device", "cpu", "--isolation", "here")
    plans = [run_runner(*words, "--plan", "--results", tmp_path / "2") for words in (NUMPY, search)]
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert done.returncode == 2 and "in use by another run" in done.stderr
    for plan in plans:
        held = [line for line in plan.stdout.splitlines() if f"in use by another run (process {first.pid})" in line]
        assert plan.returncode == 0 and len(held) == 1 and held[0].endswith("; a run would be refused now"), plan


def test_terminal_shows_the_time_left(tmp_path: Path, lean: Path) -> None:
    """On a real pseudo-terminal the live line says how long it will take, and rows are shown above it."""
    primary, secondary = pty.openpty()
    command = [sys.executable, "-m", "runner", *map(str, (*NUMPY, "--epochs", 1, "--results", tmp_path))]
    with subprocess.Popen(
        command, cwd=lean, stdin=secondary, stdout=secondary, stderr=secondary, env=os.environ | {"COLUMNS": "140"}
    ) as runner:
        os.close(secondary)
        shown = b""
        while runner.poll() is None or select.select([primary], [], [], 0)[0]:
            if select.select([primary], [], [], 0.1)[0]:
                try:
                    shown += os.read(primary, 65536)
                except OSError:
                    break
    os.close(primary)
    text = shown.decode()
    assert runner.returncode == 0
    assert re.search(r"about \d+ s left", text) and "numpy batch 512" in text
    assert re.search(r"numpy +512 +0 +ok", text)


def test_plan_runs_nothing_and_tells_the_estimate(tmp_path: Path) -> None:
    done = run_runner("--plan", "--study", "osu-2020", "--results", tmp_path / "results")
    assert done.returncode == 0
    count = 27 * len(REAL_FRAMEWORKS)  # nine batch sizes, three repeats
    assert len(re.findall(r"batch +\d+  repeat", done.stdout)) == count
    assert re.search(rf"{count} trials to run, about \d+ (h|min)", done.stdout)
    memory = "peak memory not estimated (needs 4 measured batch sizes); the run does not need it"
    assert done.stdout.count(memory) == len(REAL_FRAMEWORKS), "nobody has to measure four"
    assert not (tmp_path / "results").exists()


def test_list_leaves_nothing_out() -> None:
    done = run_runner("--list")
    assert done.returncode == 0
    for name in (
        *REAL_FRAMEWORKS,
        "osu-cnn",
        "digits",
        "cifar10",
        "fashion-mnist",
        "mnist",
        "synthetic",
        "quick",
        "osu-2020",
    ):
        assert f"  {name} " in done.stdout
    assert "cpu: ready" in done.stdout
