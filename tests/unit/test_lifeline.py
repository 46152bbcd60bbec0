"""No process outlives the one that started it, whenever and by whatever signal that one ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from births import MARK
from conftest import PROJECT, make_spec

from runner import attendance, launch
from runner.ask import find_ending
from runner.launch import Local, WorkerOutcome, run_worker
from runner.log import HEAD_BYTES, TAIL_BYTES, CappedLog
from runner.owned import run
from workloads import temporary
from workloads.lifeline import start_time
from workloads.records.events import Event, Events
from workloads.records.files import LOG_FILE, SAMPLER_LOG_FILE, SAMPLES_FILE
from workloads.records.job import Job, Kind
from workloads.records.samples import read_samples
from workloads.records.status import Status
from workloads.temporary import new_folder, temporary_folder

ROOT = Path(__file__).parents[2]
SIGNALS = 100
DEAD_WITHIN_S = 5.0
BUILT: Events = [{"event": Event.BUILT, "t_ns": 0}]
FINISHED: Events = [*BUILT, {"event": Event.FINISHED, "t_ns": 1}]


def marked(mark: str) -> list[str]:
    """List the living processes with this mark in their environments: a dead one that nobody reaped has none."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def all_gone(mark: str) -> list[str]:
    """Return the processes with this mark that are still there after a while."""
    until_s = time.monotonic() + DEAD_WITHIN_S
    while (left := marked(mark)) and time.monotonic() < until_s:
        time.sleep(0.02)
    return left


@pytest.mark.slow
def test_of_100_signals_at_a_workers_birth_none_leaves_a_process(tmp_path: Path) -> None:
    """Signals: SIGINT, SIGTERM and SIGKILL of the runner, SIGKILL of runner and sampler, 0 to 10 ms after the birth."""
    command = [sys.executable, str(Path(__file__).with_name("births.py")), str(tmp_path), "16", str(SIGNALS)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    codes = {"SIGINT": 130, "SIGTERM": 130, "SIGKILL": -9, "SIGKILL of both": -9}
    assert Counter((case["name"], case["code"]) for case in cases) == dict.fromkeys(codes.items(), SIGNALS // 4)
    assert {case["begun"] for case in cases} == {True, False}  # before the go-ahead, and after it
    assert all_gone(str(tmp_path)) == []


def light(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, timeout_s: float = 30, kind: Kind = Kind.TRIAL
) -> WorkerOutcome:
    """Run a worker that is this piece of Python, in the trial's folder."""
    (folder / "light.py").write_text(code)
    (folder / "trial").mkdir()
    monkeypatch.setattr(launch, "WORKER", "light")
    monkeypatch.chdir(folder)
    local = Local(sys.executable, {"PYTHONPATH": f"{folder}:{ROOT}", MARK: str(folder)}, PROJECT)
    return run_worker(folder / "trial", Job(kind, make_spec(threads=1, timeout_s=timeout_s)), local)


def log_of(folder: Path) -> str:
    return (folder / "trial" / LOG_FILE).read_text()


def test_children_that_left_a_workers_group_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os\nos.system('sleep 600 & setsid sleep 601 & (setsid sh -c \"sleep 602 & sleep 603\" &)')"
    assert light(tmp_path, monkeypatch, code).exit_code == 0
    assert all_gone(str(tmp_path)) == []


BURNS = """
import ctypes, os, time
if {gives_up}:
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # it adopts no orphans any more: its runner does
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            pass
    os._exit(0)
os.wait()
time.sleep(2.5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gives_up", [False, True])
def test_processor_time_of_a_daemon_that_left_the_tree_is_the_workers(
    gives_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert light(tmp_path, monkeypatch, BURNS.format(gives_up=gives_up)).exit_code == 0
    assert np.nanmax(read_samples(tmp_path / "trial" / SAMPLES_FILE)["cpu_s"]) > 0.3
    assert all_gone(str(tmp_path)) == []


def test_a_worker_and_nobody_else_is_the_first_that_the_kernel_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Path("/proc/self/oom_score_adj").read_text()
    outcome = light(tmp_path, monkeypatch, "print(open('/proc/self/oom_score_adj').read())")
    assert outcome.killed_first and log_of(tmp_path).split() == ["1000"]
    assert Path("/proc/self/oom_score_adj").read_text() == before


def test_300_megabytes_of_output_cost_neither_disk_nor_memory(tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    before = memory_bytes()
    with CappedLog(path) as log:
        shell = "echo first; head -c 300000000 /dev/zero | tr '\\0' x; echo last"
        assert subprocess.run(["sh", "-c", shell], stdout=log.fileno()).returncode == 0
        assert log.last().endswith("xlast\n")
    text = path.read_text()
    assert text.startswith("firs") and text.endswith("xlast\n")
    assert len(text) < HEAD_BYTES + TAIL_BYTES + 2**17
    (line,) = [line for line in text.splitlines() if "left out" in line]
    assert int(line.split()[0].strip("[")) + len(text) - len(f"\n{line}\n") == 300_000_000 + len("first\nlast\n")
    assert memory_bytes() - before < 16 * 2**20


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_short_log_is_as_it_was_printed_and_there_while_the_worker_runs(tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    with CappedLog(path) as log:
        os.write(log.fileno(), b"one\n")
        log.settle()
        assert path.read_text() == "one\n"
        os.write(log.fileno(), b"two\n")
    assert path.read_text() == "one\ntwo\n"


def test_a_process_that_keeps_the_log_open_holds_nobody_up(tmp_path: Path) -> None:
    with CappedLog(tmp_path / LOG_FILE) as log:
        spammer = subprocess.Popen(["sh", "-c", "while :; do echo spam; done"], stdout=log.fileno())
        time.sleep(0.1)
        started_s = time.monotonic()
    assert time.monotonic() - started_s < 2
    spammer.kill()
    spammer.wait()


HANGS = "import time\nfrom workloads.lifeline import begin\nbegin(False)\ndef stuck():\n time.sleep(60)\nstuck()"


def test_a_worker_without_a_sign_of_life_is_ended_with_its_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendance, "SILENCE_S", 1.0)
    outcome = light(tmp_path, monkeypatch, HANGS)
    assert not outcome.timed_out and outcome.wall_s < 10 and "in stuck" in log_of(tmp_path)
    status, reason = find_ending(BUILT, outcome, tmp_path / "trial" / LOG_FILE, killed_for_memory=False)
    assert status is Status.TIMEOUT
    assert reason == "stopped: no sign of life for 1 s; last event: built; its stacks: log.txt"


def test_a_worker_whose_time_is_up_says_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = light(tmp_path, monkeypatch, HANGS, timeout_s=1.5)
    assert outcome.timed_out and outcome.hung is None and "in stuck" in log_of(tmp_path)


def test_a_worker_that_goes_on_without_events_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The touches of its loop show it, for twice the silence that would end it."""
    monkeypatch.setattr(attendance, "SILENCE_S", 2.0)
    code = (
        "import pathlib, sys, time\nfrom adapters.worker.event_log import EventLog\n"
        "events = EventLog(pathlib.Path(sys.argv[1], 'events.jsonl'))\n"
        "for _ in range(40):\n time.sleep(0.1)\n events.beat(time.monotonic())"
    )
    outcome = light(tmp_path, monkeypatch, code)
    assert outcome.exit_code == 0 and outcome.hung is None


def sampler(folder: Path, monkeypatch: pytest.MonkeyPatch, behind_the_start: str) -> None:
    script = folder / "sampler"
    script.write_text(f"#!/bin/sh\nread asked\necho ready\nread pid\n{behind_the_start}\n")
    script.chmod(0o755)
    monkeypatch.setattr(launch, "SAMPLER", (str(script),))


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        ("echo Traceback >&2; echo boom >&2; exit 3", "ended with exit code 3: boom"),
        ("kill -9 $$", "ended with exit code -9: it printed nothing"),
        ("sleep 60", "took no sample for 1 s"),
    ],
)
def test_a_trial_that_lost_its_sampler_is_not_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], behind: str, reason: str
) -> None:
    monkeypatch.setattr(attendance, "SAMPLES_S", 1.0)
    sampler(tmp_path, monkeypatch, behind)
    outcome = light(tmp_path, monkeypatch, "import time; time.sleep(30)")
    assert outcome.wall_s < 10
    status, told = find_ending(FINISHED, outcome, tmp_path / "trial" / LOG_FILE, killed_for_memory=False)
    assert (status, told) == (
        Status.FAILED, f"the sampler, python -m runner.sampler, {reason}; last event: finished"
    )  # fmt: skip
    assert capfd.readouterr().err == ""
    assert (tmp_path / "trial" / SAMPLER_LOG_FILE).exists() == ("boom" in reason)


def test_a_sampler_that_is_lost_in_the_last_moment_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler(tmp_path, monkeypatch, "exit 1")
    assert light(tmp_path, monkeypatch, "import time; time.sleep(0.3)").sampler_lost


def test_a_command_that_is_run_ends_with_all_it_started_when_it_is_interrupted(tmp_path: Path) -> None:
    environment = os.environ | {MARK: str(tmp_path)}
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", "sleep 600 & sleep 600"], timeout_s=0.3, env=environment)
    assert all_gone(str(tmp_path)) == []


def test_a_command_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    done = run([str(tmp_path / "nothing")], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (127, "cannot be started: No such file or directory\n")


DRAWS = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from reports import export, load
from reports.drawing import figures
def draw(*_):
    os.write(1, b"d")
    time.sleep(600)
figures.draw = draw
export._pictures = lambda *_: {(0, str(n)): (None, str(n)) for n in range(4)}
export._tables = lambda *_: iter(())
export.write(SimpleNamespace(stored=load.NOTHING, charts_across=(), chapters=()), Path(sys.argv[1]), ("png",))
"""


@pytest.mark.parametrize("ended", ["terminate", "kill"])
def test_a_report_that_was_ended_leaves_no_drawing_process_and_its_folder_goes_with_the_next(
    tmp_path: Path, ended: str
) -> None:
    environment = os.environ | {MARK: str(tmp_path)}
    report = subprocess.Popen(
        [sys.executable, "-c", DRAWS, str(tmp_path)], cwd=ROOT, env=environment, stdout=subprocess.PIPE
    )
    assert report.stdout and report.stdout.read(1) == b"d"
    getattr(report, ended)()
    report.communicate(timeout=10)  # returns when nobody holds the pipe any more
    assert all_gone(str(tmp_path)) == [] and len(list(tmp_path.glob(".report-*"))) == 1
    with temporary_folder(".report-", tmp_path) as own:
        assert list(tmp_path.glob(".report-*")) == [own]
    assert not list(tmp_path.iterdir())


def test_a_folder_of_a_living_process_or_of_another_name_or_machine_is_left_alone(tmp_path: Path) -> None:
    own = new_folder("x-", tmp_path)
    machine, pid, started = own.name.split("-")[1:4]
    assert (int(pid), int(started)) == (os.getpid(), start_time(os.getpid()))
    kept = [tmp_path / name for name in ("x-abc", f"x-00000000-{pid}-1-abc", f"y-{machine}-{pid}-1-abc", "x-1-2")]
    for folder in kept:
        folder.mkdir()
    reused = tmp_path / f"x-{machine}-{pid}-1-abc"  # the process of this id was another
    reused.mkdir()
    (tmp_path / f"x-{machine}-{pid}-2-abc").symlink_to(kept[0])
    new_folder("x-", tmp_path)
    assert all(folder.exists() for folder in (own, *kept)) and not reused.exists()
    assert (tmp_path / f"x-{machine}-{pid}-2-abc").is_symlink()


def test_a_folder_of_a_process_in_another_namespace_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(temporary, "_process_namespace", lambda: 1)
        other = new_folder("x-", tmp_path)
    machine, pid = other.name.split("-")[1:3]
    ended = tmp_path / f"x-{machine}-{pid}-1-abc"  # in its namespace it has ended; from here that is unknown
    ended.mkdir()
    own = new_folder("x-", tmp_path)
    assert other.is_dir() and ended.is_dir() and own.name.split("-")[1] != machine


WORKS = """
import sys
from pathlib import Path
from workloads.temporary import temporary_folder
with temporary_folder("x-", Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.readline()
"""
OTHER_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


def test_a_container_of_the_same_name_keeps_the_folder_that_it_works_in(tmp_path: Path) -> None:
    try:
        tried = subprocess.run([*OTHER_NAMESPACE, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if tried.returncode:
        pytest.skip(f"unshare: {tried.stderr.strip()}")
    command = [*OTHER_NAMESPACE, sys.executable, "-c", WORKS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as container:
        assert container.stdin and container.stdout
        folder = Path(container.stdout.readline().strip())
        with temporary_folder("x-", tmp_path):
            assert folder.parent == tmp_path and folder.is_dir()
        container.stdin.close()
        assert container.wait(30) == 0 and not folder.exists()
