"""A sampler that waits between workers, so that none waits for its imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import PROJECT, ROOT, living_children, make_spec

from runner.launch import SAMPLER, LaunchFailed, open_sampler, watch
from runner.spare import Spare
from workloads.records.files import SAMPLER_LOG_FILE, SAMPLES_FILE

SPEC = make_spec()


def test_no_sampler_loads_numpy_or_the_figures_which_would_triple_the_cost_of_its_start() -> None:
    code = "import sys, runner.sampler.__main__; print(sorted({'numpy', 'runner.results'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def sampled(folder: Path, spare: Spare | None) -> int:
    """Run a sampler for this process as its worker; return its process id."""
    folder.mkdir()
    with open_sampler(PROJECT, folder, SPEC.placement, spare) as sampling:
        watch(sampling, os.getpid())
        time.sleep(0.3)
    assert len((folder / SAMPLES_FILE).read_text().splitlines()) > 3
    assert not (folder / SAMPLER_LOG_FILE).exists()
    return sampling.pid


def samplers() -> list[psutil.Process]:
    return [each for each in living_children() if each.cmdline() == [*SAMPLER]]


def test_the_next_worker_has_the_sampler_that_waited(tmp_path: Path) -> None:
    with Spare() as spare:
        first = sampled(tmp_path / "first", spare)
        (waiting,) = samplers()
        assert sampled(tmp_path / "second", spare) == waiting.pid != first
        assert len(samplers()) == 1
    assert samplers() == []


def test_none_waits_beside_a_worker(tmp_path: Path) -> None:
    with Spare() as spare:
        sampled(tmp_path / "first", spare)
        with open_sampler(PROJECT, tmp_path, SPEC.placement, spare) as sampling:
            assert [each.pid for each in samplers()] == [sampling.pid]


def test_of_a_single_worker_none_waits(tmp_path: Path) -> None:
    sampled(tmp_path / "first", None)
    assert samplers() == []


def test_one_that_died_while_it_waited_is_replaced(tmp_path: Path) -> None:
    with Spare() as spare:
        sampled(tmp_path / "first", spare)
        (waiting,) = samplers()
        waiting.kill()
        waiting.wait(5)
        sampled(tmp_path / "second", spare)


def test_what_one_that_waited_says_is_in_the_folder_of_its_trial(tmp_path: Path) -> None:
    with Spare() as spare:
        sampled(tmp_path / "first", spare)
        (tmp_path / "second" / SAMPLES_FILE).mkdir(parents=True)
        with (
            pytest.raises(LaunchFailed, match="did not start"),
            open_sampler(PROJECT, tmp_path / "second", SPEC.placement, spare),
        ):
            pass
    assert "IsADirectoryError" in (tmp_path / "second" / SAMPLER_LOG_FILE).read_text()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_waits_ends_with_the_runner(sent: signal.Signals) -> None:
    code = (
        "import time\nfrom pathlib import Path\nfrom runner.launch import SAMPLER\nfrom runner.spare import Spare\n"
        "with Spare() as spare:\n    spare.make(SAMPLER, Path('.'))\n    print('made', flush=True)\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout and runner.stdout.readline() == "made\n"
        (waiting,) = psutil.Process(runner.pid).children()
        runner.send_signal(sent)
        runner.wait(10)
    psutil.wait_procs([waiting], timeout=5)
    assert not waiting.is_running() or waiting.status() == psutil.STATUS_ZOMBIE
