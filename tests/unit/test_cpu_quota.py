"""Time withheld by a CPU quota, from planted control groups of both versions, and from this kernel's, to a report."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec
from limited import control_group

from reports.checking.recompute import recompute_from_samples
from reports.doubts import DOUBTS_IN_WORDS, Doubt, find_doubts
from runner.machine.counters import CpuQuota
from runner.results.usage import compute_usage
from runner.results.window import cpu_quota
from workloads import control_groups
from workloads.records.check_name import CheckName
from workloads.records.checks import check_figures
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.figures import CPU_BUSY, CPU_QUOTA, CPU_THROTTLED, CPU_USAGE, SPEED
from workloads.records.result import TrialResult
from workloads.records.samples import Samples
from workloads.records.status import Status

SECOND = 10**9
WORKER = 4711
EVENTS: dict[str, Any] = {
    Event.WINDOW_STARTED: {"t_ns": 2 * SECOND},
    Event.WINDOW_ENDED: {"t_ns": 7 * SECOND, "steps": 1, "images": 1, "segments": [[2 * SECOND, 7 * SECOND]]},
}
ACCOUNT = {
    "source": "cpu.stat", "reason": None, "quota_cores": 0.1, "periods": 1109, "throttled_periods": 705, "calls": 80,
    "failures": 0, "first_failure": None,
}  # fmt: skip

Tree = dict[str, str]
OLD_CONTAINER = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n"  # the folder's name outside of the container


def old(quota_us: int, throttled_ns: int, periods: int, throttled: int) -> Tree:
    """Version 1, as a container without a separate name space sees it: at the root of what is mounted."""
    return {
        "cpu,cpuacct/cpu.cfs_quota_us": f"{quota_us}\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/cpu.stat": f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {throttled_ns}\n",
    }


def new(quota_us: int, throttled_ns: int, periods: int, throttled: int) -> Tree:
    """Version 2: the quota is the slice's, the worker's group has none."""
    counts = f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {throttled_ns // 1000}\n"
    return {
        "system.slice/cpu.max": f"{quota_us} 100000\n",
        "system.slice/cpu.stat": f"usage_usec 5\nuser_usec 4\nsystem_usec 1\n{counts}",
        "system.slice/job/cpu.max": "max 100000\n",
        "system.slice/job/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 77\n",
    }


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Tree, str], Path]:
    """plant({file: content}, lines of the worker's /proc/PID/cgroup) returns the /proc."""
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")

    def write(files: Tree, groups: str) -> Path:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "proc" / str(WORKER)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / str(WORKER) / "cgroup").write_text(groups)
        return tmp_path / "proc"

    return write


@pytest.mark.parametrize(("tree", "groups"), [(old, OLD_CONTAINER), (new, "0::/system.slice/job\n")])
def test_time_withheld_counts_from_the_workers_start_on_in_both_versions(
    plant: Callable[[Tree, str], Path], tree: Callable[[int, int, int, int], Tree], groups: str
) -> None:
    quota = CpuQuota(WORKER, plant(tree(10_000, 3 * SECOND, 50, 40), groups))
    assert quota.sample() == {"throttled_s": 0}
    plant(tree(10_000, 5 * SECOND + 250_000_000, 150, 120), groups)
    assert quota.sample() == {"throttled_s": 2.25}
    account = quota.account()
    assert (account["quota_cores"], account["periods"], account["throttled_periods"]) == (0.1, 100, 80)
    assert account["reason"] is None and account["source"].endswith("cpu.stat")


@pytest.mark.parametrize(("tree", "groups"), [(old, OLD_CONTAINER), (new, "0::/system.slice/job\n")])
def test_a_count_that_cannot_be_read_is_a_gap_with_its_reason(
    plant: Callable[[Tree, str], Path], tree: Callable[[int, int, int, int], Tree], groups: str, tmp_path: Path
) -> None:
    quota = CpuQuota(WORKER, plant(tree(10_000, 0, 0, 0), groups))
    stat = tmp_path / "cgroup" / next(name for name in tree(1, 0, 0, 0) if name.endswith("cpu.stat"))
    stat.unlink()
    assert quota.sample() == {}
    stat.write_text("nr_periods 5\n")
    assert quota.sample() == {}
    account = quota.account()
    assert account["failures"] == 2 and account["first_failure"]["reason"].endswith("No such file or directory")
    late = CpuQuota(WORKER, tmp_path / "proc")
    assert late.sample() == {} and "throttled_time" in (late.reason or "") and late.account()["quota_cores"] == 0.1


def test_without_a_quota_nothing_is_read_and_nothing_is_made_up(plant: Callable[[Tree, str], Path]) -> None:
    quota = CpuQuota(WORKER, plant({"cpu.stat": "usage_usec 9\n", "cpu.max": "max 100000\n"}, "0::/\n"))
    assert quota.sample() == {} and quota.account()["calls"] == 0
    figures = cpu_quota(EVENTS, polled(), make_spec(), {"cpu_quota": quota.account()})
    assert [figure.value for figure in figures.values()] == [None, None]
    assert all("no control group" in (figure.reason or "") for figure in figures.values())
    older = cpu_quota(EVENTS, polled(), make_spec(), {})
    assert all("no report" in (figure.reason or "") for figure in older.values())


def polled(used_cores: float = 0.09, throttled_per_s: float = 0.62) -> Samples:
    """Samples at 10 Hz from 0 s to 8 s."""
    t_s = np.arange(0, 8.05, 0.1)
    samples = {name: np.full(len(t_s), np.nan) for name in COLUMNS}
    sums = {"cpu_s": used_cores * t_s, "cores_cpu_s": used_cores * t_s, "throttled_s": throttled_per_s * t_s}
    return samples | sums | {"t_ns": t_s * SECOND}


def throttled(threads: int = 1, **more: float) -> TrialResult:
    """A trial of a worker with 0.1 cores."""
    spec, samples = make_spec(threads=threads), polled(**more)
    figures = cpu_quota(EVENTS, samples, spec, {"cpu_quota": ACCOUNT})
    figures |= compute_usage(EVENTS, samples, spec, figures[CPU_QUOTA.name].value)
    checks = check_figures(spec, None, figures, [])
    return TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 9.0, figures=figures, checks=checks)


def test_a_throttled_trial_says_how_much_was_withheld_and_fails_its_check() -> None:
    """Usage is a share of the quota, not of a core that nobody gave it."""
    result = throttled()
    value = {name: figure.value for name, figure in result.figures.items()}
    assert value["cpu_throttled_percent"] == pytest.approx(62) and value["cpu_quota_cores"] == 0.1
    assert value["cpu_percent"] == pytest.approx(90) and value["cpu_busy_percent"] == pytest.approx(90)
    assert "705 of 1109 periods" in result.figures["cpu_throttled_percent"].source
    (check,) = [check for check in result.checks if check.name == CheckName.NOT_THROTTLED]
    assert not check.passed and "62.0 %" in check.detail and "0.1 cores" in check.detail


def test_time_withheld_is_a_share_of_the_cores_allotted() -> None:
    assert throttled(threads=2).figures["cpu_throttled_percent"].value == pytest.approx(31)
    assert throttled(throttled_per_s=3.0).figures["cpu_throttled_percent"].value == 100
    (check,) = [check for check in throttled(throttled_per_s=0.005).checks if check.name == CheckName.NOT_THROTTLED]
    assert check.passed
    spec, samples = make_spec(threads=1), polled(used_cores=0.9, throttled_per_s=0.0)
    figures = compute_usage(EVENTS, samples, spec, 1.5)
    assert figures["cpu_percent"].value == pytest.approx(90) and "quota" not in figures["cpu_percent"].source


def test_the_reports_own_computation_agrees_under_a_quota() -> None:
    for threads in (1, 2):
        result = throttled(threads)
        again = recompute_from_samples(polled(), [(2.0 * SECOND, 7.0 * SECOND)], threads, 0.1)
        for spec in (CPU_USAGE, CPU_BUSY, CPU_THROTTLED):
            assert again[spec.name] == pytest.approx(result.figures[spec.name].value), spec.name


def test_tables_say_that_a_trial_was_throttled_and_what_its_usage_is_a_share_of() -> None:
    result = throttled()
    doubted = find_doubts([(result, result.figures[CPU_USAGE.name])], CPU_USAGE, 0.0)
    assert doubted[Doubt.THROTTLED] == DOUBTS_IN_WORDS[Doubt.THROTTLED] and Doubt.QUOTA in doubted
    assert Doubt.QUOTA not in find_doubts([(result, result.figures[CPU_USAGE.name])], SPEED, 0.0)


@pytest.fixture
def fifth_of_a_core() -> Iterator[Path]:
    """A control group of this kernel with a quota of 0.2 cores."""
    limits = {"cpu.cfs_quota_us": "20000", "cpu.max": "20000 100000"}
    with control_group(["cpu,cpuacct", "cpu"], limits) as group:
        yield group


def test_a_real_quota_of_this_kernel_is_seen_to_withhold_time(fifth_of_a_core: Path) -> None:
    program = "import time\ninput()\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        try:
            (fifth_of_a_core / "cgroup.procs").write_text(str(process.pid))
            quota = CpuQuota(process.pid)
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
            until_s = time.monotonic() + 20
            while (quota.sample()["throttled_s"] or 0) < 0.2 and time.monotonic() < until_s:
                time.sleep(0.1)
        finally:
            process.kill()
    account = quota.account()
    assert account["quota_cores"] == 0.2 and account["throttled_periods"] > 0
    assert account["source"] == str(fifth_of_a_core / "cpu.stat")
    assert quota.now.throttled_s - quota.before.throttled_s >= 0.2
