"""A plan's forecast of what will not fit, from made-up peaks on a known line."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENT, PROJECT, TINY, make_spec, varied
from copied import run_in
from rich.console import Console

from runner import show
from runner.machine.description import Gpu
from runner.request import cli, parser
from runner.request.plan import build_plan
from runner.results import memory
from runner.setup import collect_installations
from workloads.records.figures import Figure
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.memory_line import Line
from workloads.records.result import TrialResult
from workloads.records.status import Status

MIB = 2**20


def measured(batch_size: int, peak_bytes: float | None, **changes: Any) -> TrialResult:
    status = changes.pop("status", Status.OK)
    spec = make_spec(batch_size=batch_size, **changes)
    name = "host_memory_peak_bytes" if spec.placement.device == "cpu" else "process_gpu_memory_bytes"
    reason = None if status == Status.OK else "because"
    return TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, figures={name: Figure(peak_bytes, "s")})


def on_a_line(**changes: Any) -> list[TrialResult]:
    """Trials with 100 MiB plus 2 MiB per image."""
    return [measured(size, (100 + 2 * size) * MIB, **changes) for size in (4, 16, 64, 256)]


def only(found: dict[Any, Line]) -> Line:
    (line,) = found.values()
    return line


@pytest.mark.parametrize("device", ["cpu", "GPU-1"])
def test_the_line_meets_the_peaks_of_its_device(device: str) -> None:
    line = only(memory.fit_memory_lines(on_a_line(device=device)))
    assert (line.fixed_bytes, line.per_sample_bytes) == pytest.approx((100 * MIB, 2 * MIB))


@pytest.mark.parametrize(("device", "others", "share"), [("GPU-1", ("GPU-2",), 2), ("cpu", (), 1)])
def test_the_line_of_two_gpus_is_that_of_one_of_them(device: str, others: tuple[str, ...], share: int) -> None:
    """A GPU has its own memory, and two devices of the CPU have the host's."""
    line = only(memory.fit_memory_lines(on_a_line(device=device, devices=2, others=others)))
    assert (line.fixed_bytes, line.per_sample_bytes) == pytest.approx((100 * MIB / share, 2 * MIB / share))


def test_three_sizes_do_not_pass_for_a_line() -> None:
    assert memory.fit_memory_lines(on_a_line()[:3]) == {}


def test_peaks_of_trials_that_did_not_end_well_or_took_the_whole_card_stay_out_of_the_line() -> None:
    others = [measured(512, 9 * MIB, status=Status.FAILED), measured(1024, 9 * MIB, allocator="default")]
    assert only(memory.fit_memory_lines([*on_a_line(), *others])) == only(memory.fit_memory_lines(on_a_line()))


def test_repeats_are_not_taken_for_other_sizes_and_the_highest_of_them_counts() -> None:
    low = [replace(r, spec=varied(r.spec, repeat=1, seed=1), figures=lower(r)) for r in on_a_line()]
    assert only(memory.fit_memory_lines([*on_a_line(), *low])) == only(memory.fit_memory_lines(on_a_line()))


def lower(result: TrialResult) -> dict[str, Figure]:
    return {name: Figure((figure.value or 0) / 2, "s") for name, figure in result.figures.items()}


def test_other_conditions_do_not_share_a_line() -> None:
    assert len(memory.fit_memory_lines([*on_a_line(), *on_a_line(feed="device"), *on_a_line(framework="other")])) == 3


@pytest.mark.parametrize(
    ("batch_size", "told"),
    [(400, None), (462, "may not fit"), (500, "will not fit: 1.1 GiB predicted, 1.0 GiB available")],
)
def test_what_will_not_fit_is_said(batch_size: int, told: str | None) -> None:
    line = replace(only(memory.fit_memory_lines(on_a_line())), left_out_error=0.02)
    found = memory.warn_of_memory(make_spec(batch_size=batch_size), line, 1024 * MIB)
    assert found == told or (told and found and told in found)


def test_capacity_is_that_of_the_device_asked_about() -> None:
    gpus = (Gpu("GPU-a", "a", "1", None, 8), Gpu("GPU-b", "b", "1", None, None))
    assert memory.find_capacity_bytes("GPU-a", gpus) == 8
    assert memory.find_capacity_bytes("GPU-b", gpus) is None
    assert (memory.find_capacity_bytes("cpu", gpus) or 0) > 2**28


def test_a_plan_for_other_machines_does_not_compare_with_the_memory_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (*TINY, "--framework", "numpy", "--isolation", "here", "--device", "cpu", "--results", "r")

    def ask(*sizes: int) -> cli.Request:
        options = parser.run_parser().parse_args([*words, "--batch-size", *map(str, sizes)])
        return cli.build_request(options, PROJECT)

    request = ask(4, 16, 64, 256)
    for spec in build_plan(request, collect_installations(request), range(1), {}).trials:
        peak = Figure((100 + 2.0 * spec.cell.batch_size) * MIB, "s")
        figures = {"host_memory_peak_bytes": peak}
        result = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=figures)
        path = Path("r", "trials", spec.id, RESULT_FILE)
        path.parent.mkdir(parents=True)
        write_json(path, result.to_json())
    printed: dict[str | None, str] = {}
    for address in (None, "auto"):
        show.print_plan(replace(ask(10_000_000), ray=address), Console(file=(told := StringIO()), width=200))
        printed[address] = told.getvalue()
    assert "will not fit" in printed[None] and "4 sizes" in printed["auto"]
    assert "fit:" not in printed["auto"]


@pytest.mark.slow
def test_the_plan_tells_what_it_knows_of_memory(tmp_path: Path, lean: Path) -> None:
    """Four small trials of the referee are measured; then a batch is planned that no machine holds."""
    asked: tuple[object, ...] = (*TINY, *PATIENT, "--framework", "numpy", "--device", "cpu", "--isolation", "here")
    asked += ("--epochs", 1, "--window", 0.2)
    done = run_in(lean, *asked, "--batch-size", 64, 256, 1024, 4096, "--results", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = run_in(lean, *asked, "--batch-size", 64, 10_000_000, "--plan", "--results", tmp_path)
    assert plan.returncode == 0, plan.stderr
    (line,) = [line for line in plan.stdout.splitlines() if "10000000" in line and not line.startswith("data set ")]
    assert "will not fit" in line and "GiB available" in line
    assert "numpy: peak memory = " in plan.stdout and "4 sizes" in plan.stdout
    assert plan.stdout.count("fit:") == 1
