"""One framework's searches over made-up trials of steps alone: which results become an answer, and what is shown."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import make_spec
from rich.console import Console

from runner.batch_size.largest import Bound
from runner.batch_size.question import SearchDisplay
from runner.batch_size.searches import MOST, Search
from runner.batch_size.steps import StepTrials
from runner.launch import Unavailable
from runner.request.parser import RETRIES
from workloads.records.batch_answers import Largest, Limit, MicroBatches
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

IMAGES = 50_000
BOUND = Bound(Limit.CONTAINER, 2**30)  # which counts resident memory


@dataclass
class MadeUp:
    """StepTrials with figures by batch size; None: it crashed. Trials of `contended` sizes are contended, once each."""

    figures: Callable[[int], dict[str, float] | None]
    contended: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    show: Callable[[TrialResult, Path], None] = lambda *_: None
    devices: int = 1
    specs: dict[str, Any] = field(default_factory=lambda: {"numpy": make_spec()})
    fits_in_parts: int = MOST
    parts: int = 1
    launchers: dict[str, Any] = field(default_factory=lambda: {"numpy": object()})

    @property
    def request(self) -> Any:
        return SimpleNamespace(
            dataset=SimpleNamespace(train_count=IMAGES),
            placement=SimpleNamespace(devices=self.devices),
            results=Path(),
        )

    def accumulating(self, parts: int) -> MadeUp:
        return replace(self, parts=parts)

    def run(self, framework: str, batch_size: int, *_: Any) -> tuple[TrialResult, Path]:
        self.sizes.append(batch_size)
        spec, figures = make_spec(framework=framework, batch_size=batch_size), self.figures(batch_size)
        known = {name: Figure(value, "test") for name, value in (figures or {}).items()}
        status, reason = (Status.OK, None) if figures is not None else (Status.FAILED, "killed by SIGSEGV")
        if batch_size in self.contended:
            self.contended.remove(batch_size)
            status, reason = Status.CONTENDED, "others took 40 % of the cores"
        if self.parts > 1:
            spec = replace(spec, task=replace(spec.task, accumulate=self.parts))
            status, reason = (
                (status, reason) if batch_size <= self.fits_in_parts else (Status.OUT_OF_MEMORY, "no memory")
            )
        result = TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, figures=known)
        self.show(result, Path())
        return result, Path().resolve()


def search(figures: Callable[[int], dict[str, float] | None]) -> tuple[Search, MadeUp, io.StringIO]:
    trials, shown = MadeUp(figures), io.StringIO()
    return Search("numpy", cast(StepTrials, trials), BOUND, Console(file=shown, width=200)), trials, shown


def saturating(batch_size: int) -> dict[str, float]:
    """Images/s that 32 images reach to 97.9 %, 64 to 99.9 %."""
    speed = 1000.0 * min(1.0, batch_size / 32) if batch_size <= 32 else 1000.0
    return {"images_per_s": speed, "host_memory_peak_bytes": 1e8 + 1e5 * batch_size}


def fits(batch_size: int | None) -> Largest:
    return Largest(batch_size, None, Limit.ASKED, 2**30)


def test_the_fastest_is_the_smallest_that_reaches_the_plateau() -> None:
    asked, trials, shown = search(saturating)
    answer = asked.fastest()
    assert answer.batch_size == 32 and answer.trials == len(trials.sizes)
    assert "numpy batch 32: ok, 1,000 images/s, 98 MiB" in shown.getvalue()


@pytest.mark.parametrize(("largest", "most"), [(None, MOST), (300, 300)])
def test_nothing_beyond_what_fits_is_tried_for_speed(largest: int | None, most: int) -> None:
    asked, trials, _ = search(saturating)
    asked.fitting = fits(largest)
    asked.fastest()
    assert max(trials.sizes) == most


def test_sizes_that_crash_do_not_end_the_search_and_where_all_do_there_is_a_reason() -> None:
    asked, trials, shown = search(lambda size: None if size > 128 else saturating(size))
    answer = asked.fastest()
    assert answer.batch_size == 32 and "failed" in shown.getvalue()
    unknown = ", ".join(f"{size:,} (failed)" for size in sorted({*trials.sizes}) if size > 128)
    assert answer.reason == f"no figure at {unknown}", "no size is called the fastest of those that have no figure"
    asked, trials, _ = search(saturating)
    asked.trial(7)
    assert asked.fastest().reason is None, "7 was tried for another answer"
    asked, _, _ = search(lambda _: None)
    answer = asked.fastest()
    assert answer.batch_size is None and answer.reason and "SIGSEGV" in answer.reason


def test_a_trial_that_neighbours_disturbed_is_made_again() -> None:
    trials = MadeUp(saturating, contended=[32, 32, 64])
    answer = Search("numpy", cast(StepTrials, trials), BOUND, Console(file=io.StringIO())).fastest()
    assert answer.batch_size == 32 and not trials.contended


def test_a_disturbed_trial_says_why_in_its_row_and_the_first_one_says_what_helps() -> None:
    trials, shown = MadeUp(saturating, contended=[32, 32, 64]), io.StringIO()
    console = Console(file=shown, width=300)
    Search("numpy", cast(StepTrials, trials), BOUND, console, advice=SearchDisplay(console, []).advice).fastest()
    lines = shown.getvalue().splitlines()
    disturbed = [place for place, line in enumerate(lines) if "contended" in line]
    assert len(disturbed) == 3 and all(lines[place].endswith("  others took 40 % of the cores") for place in disturbed)
    (help_place,) = [place for place, line in enumerate(lines) if "What helps: " in line]
    assert help_place == disturbed[0] + 1 and "--retry" not in lines[help_place], "they are tried again at once"


def test_a_size_whose_repeats_neighbours_disturbed_for_a_while_is_still_the_answer() -> None:
    calls: Counter[int] = Counter()

    def figures(batch_size: int) -> dict[str, float]:
        calls[batch_size] += 1
        if (batch_size, calls[batch_size]) == (32, 3):
            trials.contended += [32] * 2 * (1 + RETRIES)  # in two blocks
        return saturating(batch_size)

    asked, trials, _ = search(figures)
    answer = asked.fastest()
    assert (answer.batch_size, answer.reason, trials.contended) == (32, None, [])


def test_a_size_without_any_undisturbed_trial_is_named() -> None:
    asked, trials, _ = search(saturating)
    trials.contended += [64] * (1 + RETRIES)
    answer = asked.fastest()
    assert answer.batch_size == 32 and answer.reason and "disturbed every trial of 64" in answer.reason


def test_least_energy_is_not_the_fastest_where_the_counter_says_otherwise() -> None:
    def joules(batch_size: int) -> dict[str, float]:
        return saturating(batch_size) | {"energy_per_image_j": 0.02 + 0.001 * abs(batch_size.bit_length() - 8)}

    asked, _, _ = search(joules)
    assert asked.least_energy().batch_size == 128


def test_without_a_counter_least_energy_is_unknown_after_one_trial_and_says_why() -> None:
    asked, trials, _ = search(saturating)
    answer = asked.least_energy()
    assert answer.batch_size is None and answer.reason and "energy" in answer.reason
    assert len(trials.sizes) == 1


def test_without_a_counter_a_disturbed_first_trial_ends_the_search_as_well() -> None:
    trials = MadeUp(saturating, contended=[32])
    answer = Search("numpy", cast(StepTrials, trials), BOUND, Console(file=io.StringIO())).least_energy()
    assert (answer.batch_size, answer.reason, trials.sizes) == (None, "no energy counter on this device", [32])


def test_an_update_in_parts_is_tried_for_its_gradients_take_memory() -> None:
    """A plain batch of 48 images fits, one of 40 in parts."""
    asked, trials, shown = search(saturating)
    asked.fitting = fits(48)
    assert asked.split(48) == MicroBatches(48, 1, 48) and trials.sizes == []
    steps = cast(MadeUp, asked.steps)
    steps.fits_in_parts = 40
    assert asked.split(256) == MicroBatches(256, 7, 37) and trials.sizes == [43, 37]
    assert "in 6 parts" in shown.getvalue() and asked.results == [] and asked.memory() == ()
    steps.fits_in_parts = 0
    assert asked.split(256) is None and trials.sizes[-1] == 1
    steps.fits_in_parts, trials.sizes[:] = 40, []
    crashed = search(lambda size: None if len(trials.sizes) == 1 else saturating(size))[1]
    asked.steps = cast(StepTrials, replace(crashed, sizes=trials.sizes, show=steps.show))
    assert asked.split(80) == MicroBatches(80, 2, 40) and trials.sizes == [40, 40], "a crash is tried once more"


def test_memory_is_the_highest_peak_of_the_trials_of_each_size() -> None:
    peaks = iter([100.0 * 2**20, 140.0 * 2**20, 120.0 * 2**20])
    asked, _, _ = search(lambda _: {"host_memory_peak_bytes": next(peaks)})
    for size in (32, 32, 64):
        asked.trial(size)
    points = {point.batch_size: (point.mean / 2**20, point.trials) for point in asked.memory()}
    assert points == {32: (140, 2), 64: (120, 1)}


def test_a_framework_that_cannot_be_started_is_not_tried_and_says_why() -> None:
    asked, trials, _ = search(saturating)
    trials.launchers["numpy"] = Unavailable("no environment for this device")
    for answer in (asked.fastest(), asked.least_energy()):
        assert (answer.batch_size, answer.reason) == (None, "no environment for this device")
    assert trials.sizes == []


def test_a_trial_with_the_limit_lifted_does_not_count_as_memory_under_it() -> None:
    asked, trials, shown = search(saturating)
    lifted = trials.run("numpy", 64)[0]
    placement = replace(lifted.spec.placement, memory_limit_bytes=2**31)
    asked.results.clear()
    asked.peaks.clear()
    asked.show(replace(lifted, spec=replace(lifted.spec, placement=placement)), Path())
    assert asked.results == [] and asked.memory() == ()
    assert "with the limit lifted" in shown.getvalue()
    failed = replace(lifted, spec=replace(lifted.spec, placement=placement), status=Status.FAILED, reason="killed")
    asked.show(failed, Path())
    assert shown.getvalue().endswith("with the limit lifted  killed\n")


def cliff(batch_size: int) -> dict[str, float]:
    return {"images_per_s": 1000.0 if batch_size <= 96 else 300.0, "host_memory_peak_bytes": 1e8}


def test_a_largest_that_is_slow_is_said_with_the_speed_that_a_smaller_size_has() -> None:
    asked, _, shown = search(cliff)
    asked.fitting = fits(640)
    answer = asked.fastest()
    assert answer.batch_size == 1 and 96 in {point.batch_size for point in answer.points}
    found = asked.compare_largest()
    assert found is not None and found.speed is not None and found.speed.falls
    assert "numpy: 640: 300 images/s there, 30 % [30, 30] of the best measured, 1,000 at " in shown.getvalue()


def test_a_largest_that_is_unknown_has_no_speed() -> None:
    asked, trials, _ = search(cliff)
    assert asked.compare_largest() is None
    asked.fitting = fits(None)
    assert asked.compare_largest() == fits(None) and trials.sizes == []


def test_a_largest_of_which_every_trial_was_disturbed_says_why_it_has_no_speed() -> None:
    trials, shown = MadeUp(cliff, contended=[640] * 20), io.StringIO()
    asked = Search("numpy", cast(StepTrials, trials), BOUND, Console(file=shown, width=200))
    asked.fitting = fits(640)
    found = asked.compare_largest()
    reason = "its speed is unknown: the last trial of it was contended: others took 40 % of the cores"
    assert found is not None and (found.speed, found.speed_reason) == (None, reason)
    assert f"numpy: 640: {reason}" in shown.getvalue()


def test_several_devices_share_an_epoch() -> None:
    trials = MadeUp(saturating, devices=8)
    Search("numpy", cast(StepTrials, trials), BOUND, Console(file=io.StringIO())).fastest()
    assert max(trials.sizes) == IMAGES // 8
