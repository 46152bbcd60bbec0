"""An image run without the runner, as somebody types `docker run`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from conftest import REAL_FRAMEWORKS, ROOT, Cells, by_cell
from engines import SIZES, STUDY, alone, in_image, learnt

from workloads.records.samples import read_samples

sys.path.append(str(ROOT / "tests" / "gpu"))
from stand_in import UUID, build as build_stand_in, write_trace  # noqa: I001


@pytest.fixture(scope="module")
def by_themselves(built: None, tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """{cell: result} of each image run alone."""
    results = tmp_path_factory.mktemp("alone")
    for framework in REAL_FRAMEWORKS:
        done = alone(framework, results, *STUDY)
        assert done.returncode == 0, done.stdout + done.stderr
    return by_cell(results / "quick")


def test_losses_in_an_image_run_alone_are_those_in_a_virtual_environment(by_themselves: Cells, in_venvs: Cells) -> None:
    assert set(by_themselves) == {(framework, size) for framework in REAL_FRAMEWORKS for size in SIZES}
    for cell, result in by_themselves.items():
        assert result["status"] == "ok", result["reason"]
        assert learnt(result) == learnt(in_venvs[cell]), cell
        assert result["spec"]["installation"]["isolation"] == "here" and result["machine"]["image"].startswith(
            f"{cell[0]}-cpu "
        )
        assert result["machine"]["commit"]


def test_results_of_an_image_belong_to_the_user_who_runs_it(built: None, tmp_path: Path) -> None:
    done = alone("numpy", tmp_path / "results", "--framework", "numpy", *STUDY[:2], user="12345:54321")
    assert done.returncode == 0, done.stdout + done.stderr
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in (tmp_path / "results").rglob("*")}
    assert owners == {(12345, 54321)}
    assert "python -m reports" in done.stdout


def test_a_folder_that_cannot_be_written_is_a_clear_line(built: None) -> None:
    done = in_image("numpy", "python", "-m", "runner", "--framework", "numpy")
    assert done.returncode == 2 and '--user "$(id -u):$(id -g)"' in done.stderr and len(done.stderr.splitlines()) == 1


def test_limits_of_a_container_are_kept_and_recorded(built: None, tmp_path: Path) -> None:
    limited = ["--cpus", "1.2", "--memory", "700m"]
    done = alone("numpy", tmp_path / "results", "--framework", "numpy", *STUDY[:2], options=limited)
    assert done.returncode == 0, done.stdout + done.stderr
    for result in by_cell(tmp_path / "results" / "quick").values():
        told = result["machine"]
        assert (told["cpu_limit_cores"], told["memory_limit_bytes"], told["cores"]) == (1.2, 700 * 2**20, 1)
        assert result["spec"]["placement"]["threads"] == 1


ON_THE_HOST = """

class OnTheHost(Adapter):
    def open(self, device, *arguments):
        return super().open("cpu", *arguments)


Adapter = OnTheHost
"""


def test_a_card_metered_in_a_container_makes_the_worker_no_stranger_to_itself(built: None, tmp_path: Path) -> None:
    """A stand-in for the driver is mounted. It lists the worker by an id of the host, which the container does not
    know."""
    tmp_path.chmod(0o755)  # read by another user there
    library = build_stand_in(tmp_path) / "libnvidia-ml.so.1"
    busy: dict[str, float] = {"gpu": 80, "process": 2000, "power": 200}
    write_trace(tmp_path / "trace.csv", [(1000 * second, busy | {"used": 500 + 10 * second}) for second in range(300)])
    (tmp_path / "pid").write_text("4000000")
    adapter = tmp_path / "adapter.py"
    adapter.write_text((ROOT / "adapters" / "pytorch" / "adapter.py").read_text() + ON_THE_HOST)
    told = {"NVML_TRACE": "/given/trace.csv", "NVML_PID_FILE": "/given/pid", "NVML_T0": str(time.monotonic_ns())}
    options = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
    options += [
        "--volume",
        f"{tmp_path}:/given:ro",
        "--volume",
        f"{adapter}:/opt/batchwise/adapters/pytorch/adapter.py:ro",
    ]
    options += ["--volume", f"{library}:/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1:ro"]
    study = ("--batch-size", "128", "--epochs", "1", "--window", "5", "--device", UUID)
    done = alone("pytorch", tmp_path / "results", *study, options=options)
    (result,) = by_cell(tmp_path / "results" / "quick").values()
    assert result["status"] != "contended", result["reason"]
    figures = result["figures"]
    assert figures["gpu_percent"]["value"] > 0, done.stdout + done.stderr
    memory = figures["process_gpu_memory_bytes"]
    assert "less its baseline" in memory["source"] and "a container's differ" in memory["source"]
    (samples,) = (tmp_path / "results" / "quick" / "trials").glob("*/samples.csv")
    used = read_samples(samples)["device_memory_bytes"]
    assert 50 * 2**20 <= memory["value"] <= used.max() - used[0]
