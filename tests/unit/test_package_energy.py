"""The energy of the processor's packages, from a planted powercap tree to a report."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.machine.counters import PackageEnergy
from runner.results.window import package_energy
from runner.sampler.meter import Sampler, sample
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.figures import Method
from workloads.records.samples import Samples, read_samples

SECOND = 10**9
RANGE_UJ = 262_143_328_850
EVENTS: dict[str, Any] = {
    Event.WINDOW_STARTED: {"t_ns": 2 * SECOND},
    Event.WINDOW_ENDED: {"t_ns": 7 * SECOND, "steps": 1, "images": 50, "segments": [[2 * SECOND, 7 * SECOND]]},
}
ACCOUNT = {"source": "energy_uj", "reason": None, "calls": 81, "failures": 0, "first_failure": None}


def plant(powercap: Path, folder: str, name: str, energy_uj: int, range_uj: int = RANGE_UJ) -> Path:
    zone = powercap / folder
    zone.mkdir(parents=True, exist_ok=True)
    for file, content in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", range_uj)):
        (zone / file).write_text(f"{content}\n")
    return zone / "energy_uj"


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * SECOND)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the counters' readings."""
    made = Clock()
    monkeypatch.setattr("runner.machine.counters.time", made)
    return made


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """A powercap tree with two packages, and counters that must not be added to them."""
    folder = tmp_path / "powercap"
    plant(folder, "intel-rapl:0", "package-0", 1000)
    plant(folder, "intel-rapl:1", "package-1", RANGE_UJ - 100)
    plant(folder, "intel-rapl:0:0", "core", 10**9)
    plant(folder, "intel-rapl:0:1", "dram", 10**9)
    plant(folder, "intel-rapl:2", "psys", 10**9)
    plant(folder, "intel-rapl-mmio:0", "package-0", 10**9)
    plant(folder, "intel-rapl", "", 10**9)
    return folder


def test_packages_are_summed_from_the_start_on_without_their_parts_and_beyond_their_range(powercap: Path) -> None:
    energy = PackageEnergy(powercap)
    assert energy.sample() == {"package_energy_uj": 0}
    (powercap / "intel-rapl:0/energy_uj").write_text("5000\n")
    (powercap / "intel-rapl:0:0/energy_uj").write_text("77\n")
    assert energy.sample() == {"package_energy_uj": 4000}
    source = energy.account()["source"]
    assert source.count("energy_uj") == 2 and "intel-rapl:0/" in source and "intel-rapl:1/" in source
    energy = PackageEnergy(powercap)
    counter = powercap / "intel-rapl:1/energy_uj"
    for now_uj, total_uj in ((RANGE_UJ - 40, 60), (30, 130), (500, 600)):
        counter.write_text(f"{now_uj}\n")
        assert energy.sample() == {"package_energy_uj": total_uj}


def sampled(energy: PackageEnergy, clock: Clock, counter: Path, now_uj: int, wait_s: float = 0.1) -> int | None:
    """Return the sum with this reading of the counter, so many seconds after the one before; None if unknown."""
    clock.now_s += wait_s
    counter.write_text(f"{now_uj}\n")
    sum_uj = energy.sample().get("package_energy_uj")
    return None if sum_uj is None else int(sum_uj)


def test_a_return_to_0_that_is_read_after_a_pause_is_one(powercap: Path, clock: Clock) -> None:
    energy, counter = PackageEnergy(powercap), powercap / "intel-rapl:1/energy_uj"
    whole_uj = RANGE_UJ + 20 - 500
    assert sampled(energy, clock, counter, 500) == 600
    assert sampled(energy, clock, counter, 20, wait_s=whole_uj / 300e6) == 600 + whole_uj  # it used 300 W
    assert energy.account()["failures"] == 0


@pytest.mark.parametrize("before_uj", [30_000, 250 * 10**9])
def test_a_counter_that_was_reset_is_unknown_and_counts_anew(powercap: Path, clock: Clock, before_uj: int) -> None:
    """A suspended machine or a reloaded driver begins at 0 again: from 250 kJ to 0 was taken for 12 kJ in 0.1 s."""
    counter = plant(powercap, "intel-rapl:1", "package-1", before_uj)
    energy, other = PackageEnergy(powercap), powercap / "intel-rapl:0/energy_uj"
    assert sampled(energy, clock, counter, before_uj + 700) == 700
    other.write_text("1300\n")
    assert sampled(energy, clock, counter, 10_000) is None
    other.write_text("6300\n")
    assert sampled(energy, clock, counter, 10_040) == 40 + 5000  # of both since the reset: below the sum before it
    assert sampled(energy, clock, counter, 10_090) == 90 + 5000
    account = energy.account()
    assert (account["calls"], account["failures"], account["reason"]) == (4, 1, None)
    reason = account["first_failure"]["reason"]
    assert f"{counter}: the counter was reset: from {before_uj + 700} to 10000 uJ in 0.1 s" in reason


def test_a_counter_of_another_machine_is_a_reset_though_it_is_higher(powercap: Path, clock: Clock) -> None:
    energy, counter = PackageEnergy(powercap), powercap / "intel-rapl:0/energy_uj"
    assert sampled(energy, clock, counter, 200 * 10**9) is None
    assert sampled(energy, clock, counter, 200 * 10**9 + 5) == 5


def test_two_readings_at_the_same_moment_are_no_reset(powercap: Path, clock: Clock) -> None:
    """Rows lie at random moments, and a counter may be renewed between two that are next to each other."""
    energy, counter = PackageEnergy(powercap), powercap / "intel-rapl:0/energy_uj"
    assert sampled(energy, clock, counter, 1000 + 30 * 10**6, wait_s=0.0) == 30 * 10**6  # 0.1 s of 300 W


def test_packages_of_several_dies_are_packages(tmp_path: Path) -> None:
    counter = plant(tmp_path, "intel-rapl:0", "package-0-die-0", 5)
    energy = PackageEnergy(tmp_path)
    counter.write_text("9\n")
    assert energy.sample() == {"package_energy_uj": 4}


def gone(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "energy_uj").unlink(), "energy_uj: No such file or directory"),
        (lambda folder: (folder / "energy_uj").write_text("no\n"), "invalid literal"),
        (gone, "No such file or directory"),
    ],
)
def test_what_cannot_be_read_has_a_reason_and_no_value(
    powercap: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(powercap / "intel-rapl:1")
    energy = PackageEnergy(powercap)
    assert energy.sample() == {} and reason in energy.account()["reason"]


def test_a_counter_that_only_root_may_read_says_so(powercap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as root in places, and no mode keeps root out."""
    read_text = Path.read_text

    def refused(path: Path, *arguments: Any, **named: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", refused)
    assert PackageEnergy(powercap).account()["reason"].endswith("intel-rapl:0/energy_uj: Permission denied")


@pytest.mark.parametrize("made", [True, False])
def test_a_machine_without_counters_says_so(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "powercap"
    if made:
        folder.mkdir()
    account = PackageEnergy(folder).account()
    assert account["source"] is None and str(folder) in account["reason"]


def test_a_reading_that_fails_is_counted_and_the_sum_goes_on(powercap: Path) -> None:
    energy = PackageEnergy(powercap)
    counter = powercap / "intel-rapl:0/energy_uj"
    counter.unlink()
    assert energy.sample() == {}
    counter.write_text("1500\n")
    assert energy.sample() == {"package_energy_uj": 500}
    account = energy.account()
    assert (account["calls"], account["failures"]) == (2, 1) and "No such file" in account["first_failure"]["reason"]


def test_the_sampler_writes_the_sum_and_the_account(powercap: Path, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    with path.open("w", newline="") as file:
        sampler = Sampler(path, file, (), powercap)
        sampler.write(sample(None, None, sampler.packages))
        (powercap / "intel-rapl:0/energy_uj").write_text("8000\n")
        sampler.write(sample(None, None, sampler.packages))
        sampler.store_account(None)
    assert read_samples(path)["package_energy_uj"].tolist() == [0, 7000]
    assert json.loads((tmp_path / "meter.json").read_text())["package_energy"]["calls"] == 2


def polled(watts: float, first_s: float = 0.0, last_s: float = 8.0, reset_s: float | None = None) -> Samples:
    """Samples at 10 Hz with the running sum of so much power, which counts anew after the reset."""
    t_s = np.arange(0, 8.05, 0.1)
    samples = {name: np.full(len(t_s), np.nan) for name in COLUMNS}
    known = (t_s >= first_s - 1e-9) & (t_s <= last_s + 1e-9)
    since_s = t_s
    if reset_s is not None:
        known &= np.abs(t_s - reset_s) > 1e-9
        since_s = np.where(t_s > reset_s, t_s - reset_s, t_s)
    return samples | {"t_ns": t_s * SECOND, "package_energy_uj": np.where(known, watts * 1e6 * since_s, np.nan)}


def test_the_figures_are_the_windows() -> None:
    figures = package_energy(EVENTS, polled(30.0), {"package_energy": ACCOUNT})
    whole, per_image = figures["cpu_energy_j"], figures["cpu_energy_per_image_j"]
    assert whole.value == pytest.approx(150) and per_image.value == pytest.approx(3)
    assert whole.method is per_image.method is Method.COUNTER and whole.samples == 50


@pytest.mark.parametrize("reset_s", [1.0, 1.9, 7.1, 7.5])
def test_a_reset_outside_of_the_window_leaves_its_energy(reset_s: float) -> None:
    figures = package_energy(EVENTS, polled(30.0, reset_s=reset_s), {"package_energy": ACCOUNT})
    assert figures["cpu_energy_j"].value == pytest.approx(150)


@pytest.mark.parametrize(
    ("events", "samples", "account", "reason"),
    [
        ({}, polled(30), ACCOUNT, "did not reach the end of its steady window"),
        (EVENTS, polled(30), None, "wrote no report"),
        (EVENTS, polled(30), ACCOUNT | {"reason": "Permission denied"}, "Permission denied"),
        (EVENTS, polled(30, first_s=2.1), ACCOUNT, "both edges"),
        (EVENTS, polled(30, last_s=6.9), ACCOUNT, "both edges"),
        (EVENTS, polled(30, last_s=5), ACCOUNT | {"first_failure": {"reason": "gone"}, "failures": 3}, "gone"),
        (EVENTS, polled(30, first_s=9), ACCOUNT, "both edges"),
        (EVENTS, polled(0), ACCOUNT, "the counter stood still"),
        (EVENTS, polled(30, reset_s=2.0), ACCOUNT, "the counter was reset in the window"),  # readings around an edge
        (EVENTS, polled(30, reset_s=4.0), ACCOUNT, "the counter was reset in the window"),
        (EVENTS, polled(30, reset_s=7.0), ACCOUNT, "the counter was reset in the window"),
    ],
)
def test_without_readings_over_the_window_both_are_null_with_the_reason(
    events: dict[str, Any], samples: Samples, account: dict[str, Any] | None, reason: str
) -> None:
    meter = {} if account is None else {"package_energy": account}
    figures = package_energy(events, samples, meter)
    assert len(figures) == 2
    for figure in figures.values():
        assert figure.value is None and figure.reason is not None and reason in figure.reason


def test_samples_stored_before_there_was_such_a_column_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in COLUMNS if name != "package_energy_uj"], restval="")
        writer.writeheader()
        writer.writerow({"t_ns": 5, "cpu_s": 1})
    samples = read_samples(path)
    assert samples["cpu_s"].tolist() == [1] and np.isnan(samples["package_energy_uj"]).tolist() == [True]
