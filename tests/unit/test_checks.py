from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import make_spec

from workloads.networks import WORKLOADS
from workloads.records.check_name import COUNTS, LATE_NAMES, MADE_AGAIN, NO_LONGER_MADE, CheckName
from workloads.records.checks import check_clocks, check_figures, check_samples
from workloads.records.columns import COLUMNS
from workloads.records.figures import Figure, Method
from workloads.records.job import TrialSpec
from workloads.records.result import Check, Epoch
from workloads.records.samples import Samples
from workloads.spec import OptimizerSpec

OSU = WORKLOADS["osu-cnn"]
TRAINABLE, TENSORS = 4 * OSU.parameter_count, len(OSU.parameter_shapes())
LAST_BIAS = 4 * 10
ADAM_SPEC = make_spec(optimizer=OptimizerSpec.named("adam"))


def adam(state_bytes: float, spec: TrialSpec = ADAM_SPEC) -> Check | None:
    found = check_figures(
        spec, WORKLOADS.get(spec.task.workload), {"optimizer_bytes": Figure(state_bytes, "worker")}, []
    )
    return next((check for check in found if check.name == CheckName.ADAM), None)


@pytest.mark.parametrize(
    ("state_bytes", "passed"),
    [
        (2 * TRAINABLE, True),
        (2 * TRAINABLE + 8 * TENSORS + 16, True),
        (2 * TRAINABLE + 256 * TENSORS, True),
        (2 * TRAINABLE + 256 * TENSORS + 1, False),
        (2 * TRAINABLE - LAST_BIAS, False),
        (TRAINABLE, False),
        (3 * TRAINABLE, False),
        (0, False),
    ],
    ids=["exact", "scalars", "most", "more", "a bias without a moment", "one moment", "three", "none"],
)
def test_adams_state_that_is_not_twice_the_trainable_bytes_is_caught(state_bytes: float, passed: bool) -> None:
    check = adam(state_bytes)
    assert check is not None
    assert check.passed is passed
    assert f"{TRAINABLE} trainable" in check.detail


def test_adams_state_is_held_to_float64_and_to_what_is_trained_and_other_rules_to_nothing() -> None:
    told = adam(4 * TRAINABLE, make_spec(optimizer=OptimizerSpec.named("adam"), precision="float64"))
    assert told is not None and told.passed
    mobile = WORKLOADS["mobilenet-v3-large"]
    assert mobile.statistic_shapes()
    spec = make_spec(optimizer=OptimizerSpec.named("adam"), workload="mobilenet-v3-large")
    told = adam(2 * 4 * mobile.parameter_count, spec)
    assert told is not None and told.passed
    assert adam(TRAINABLE, make_spec(optimizer=OptimizerSpec.named("momentum"))) is None
    assert adam(TRAINABLE, make_spec(optimizer=OptimizerSpec.named("adam"), workload="of another time")) is None
    unknown = {"optimizer_bytes": Figure(None, "worker", reason="the framework does not tell")}
    assert check_figures(ADAM_SPEC, OSU, unknown, []) == []


def test_every_check_can_be_found_again_by_its_name() -> None:
    figures = {
        "window_s": Figure(9.0, "w"), "images_per_s": Figure(3200, "w"), "step_time_s": Figure(0.01, "w"),
        "cpu_percent": Figure(50, "s", 90), "cpu_busy_percent": Figure(60, "s"),
        "process_gpu_memory_bytes": Figure(1, "n"), "device_memory_bytes": Figure(2, "n"),
        "energy_j": Figure(100, "n"), "energy_integrated_j": Figure(101, "n"),
        "optimizer_bytes": Figure(2 * TRAINABLE, "w"),
    }  # fmt: skip
    made = check_figures(ADAM_SPEC, OSU, figures, [])
    assert len(made) == 7 and {check.name for check in made} <= set(MADE_AGAIN)
    assert all(check.passed for check in made)


SECOND = 10**9


def failed(made: list[Check]) -> list[tuple[str, str]]:
    return [(check.name, check.detail) for check in made if not check.passed]


@pytest.mark.parametrize("name", ["cpu_percent", "gpu_percent", "power_w", "energy_j"])
def test_a_published_figure_of_exactly_zero_does_not_pass(name: str) -> None:
    """A driver's buffer may hold nothing but zeros, whatever was polled at the same time."""
    spec = make_spec(device="GPU-0")
    ((check, detail),) = failed(check_figures(spec, OSU, {name: Figure(0.0, "NVML", 60)}, []))
    assert check == CheckName.NOT_ALL_ZERO and detail.startswith(f"{name} is exactly 0")
    assert not failed(check_figures(spec, OSU, {name: Figure(0.1, "NVML", 60)}, []))


def polled(**columns: float) -> Samples:
    """Samples at 10 Hz for 6 s, each column at one value."""
    t_ns = np.arange(61) * SECOND / 10
    rows = {name: np.full(61, np.nan) for name in COLUMNS}
    return rows | {"t_ns": t_ns} | {name: np.full(61, value) for name, value in columns.items()}


def test_a_running_sum_that_stands_still_does_not_pass() -> None:
    made = failed(check_samples((SECOND, 5 * SECOND), polled(cpu_s=7.5, energy_mj=5e9, power_mw=2e5)))
    assert [name for name, _ in made] == [CheckName.NOT_ALL_ZERO, CheckName.NOT_ALL_ZERO]
    assert "cpu_s: all 42 samples in the window are 7.5" in made[0][1] and "energy_mj" in made[1][1]
    samples = polled(cpu_s=0.0, power_mw=2e5)
    samples["cpu_s"] += samples["t_ns"] / SECOND * 0.01
    assert not failed(check_samples((SECOND, 5 * SECOND), samples))


def test_power_of_busy_readings_is_held_to_more_than_a_lagging_utilisation_tells() -> None:
    for busy_w, passed in ((96.0, True), (94.0, False)):
        figures = {"power_w": Figure(100.0, "NVML", 60), "power_busy_w": Figure(busy_w, "NVML", 40)}
        assert [check.passed for check in check_figures(make_spec(), OSU, figures, [])] == [passed]
    exact = {"gpu_percent": Figure(50.0, "NVML", 60), "gpu_busy_percent": Figure(49.0, "NVML", 40)}
    assert [name for name, _ in failed(check_figures(make_spec(), OSU, exact, []))] == [CheckName.BUSY_ABOVE_ALL]


def test_memory_made_of_the_devices_is_held_against_the_device() -> None:
    figures = {"process_gpu_memory_bytes": Figure(9, "NVML list"), "device_memory_bytes": Figure(8, "NVML")}
    assert [name for name, _ in failed(check_figures(make_spec(), OSU, figures, []))] == [CheckName.PROCESS_IN_DEVICE]
    figures["process_gpu_memory_bytes"] = Figure(5, "NVML", method=Method.DEVICE_RISE)
    assert check_figures(make_spec(), OSU, figures, []) == []


@pytest.mark.parametrize(("moved_ms", "passed"), [(0, True), (49, True), (-49, True), (51, False), (-3_600_000, False)])
def test_a_clock_that_was_set_in_mid_run_does_not_pass(moved_ms: int, passed: bool) -> None:
    figures = {"gpu_percent": Figure(90.0, "NVML", 60, method=Method.DRIVER_SAMPLES)}
    start = {"monotonic_ns": 5 * SECOND, "epoch_ns": 10**18}
    end = {"monotonic_ns": 65 * SECOND, "epoch_ns": 10**18 + 60 * SECOND + moved_ms * 10**6}
    (check,) = check_clocks(figures, [start, end])
    assert check.name == CheckName.KEPT_PACE in MADE_AGAIN and check.passed is passed
    (untold,) = check_clocks(figures, [start])
    assert not untold.passed and "uncertain" in untold.detail
    assert check_clocks({"gpu_percent": Figure(90.0, "NVML", 60, method=Method.POLLED)}, [start, end]) == []


def test_what_a_run_alone_can_tell_is_not_made_again_from_its_files() -> None:
    of_the_worker = {
        CheckName.PRECISION,
        CheckName.TIMES,
        CheckName.CALLS_ADD_UP,
        CheckName.ENDED_WELL,
        CheckName.ALONE,
    }
    of_the_run = {*of_the_worker, CheckName.GATE, CheckName.SOURCE, *LATE_NAMES, *NO_LONGER_MADE}
    assert set(MADE_AGAIN) == set(CheckName) - of_the_run
    assert len(MADE_AGAIN) == 26


def trained(seconds: float, images: int = 1000) -> Epoch:
    return Epoch(seconds, 32, images, 1.0, 0.1, 1.0, 0.5)


def test_an_epoch_with_another_number_of_steps_than_its_images_need_fails_a_check() -> None:
    whole, short = trained(1.0), replace(trained(1.0), steps=31)
    found = [each for each in check_figures(make_spec(), OSU, {}, [whole, short]) if each.name == "steps of an epoch"]
    assert [(each.passed, each.detail) for each in found] == [(False, "epoch 1: 1000 images in 31 steps, expected 32")]


@pytest.mark.parametrize(
    ("epochs", "passed"),
    [
        ([trained(9.0), trained(1.0), trained(1.1)], True),  # the first compiles
        ([trained(1.0), trained(1.8), trained(2.1)], True),
        ([trained(1.0), trained(4.0), trained(4.5)], False),  # another process: only the window was undisturbed
        ([trained(1.0), trained(0.3), trained(0.8)], True),
        ([trained(1.0), trained(0.2), trained(0.3), trained(0.6)], False),  # faster than the window by more
        ([trained(1.0), trained(0.4), trained(0.5)], None),  # too short in all: fixed costs decide
        ([trained(1.0), trained(0.9), trained(9.0), trained(1.1)], True),  # one disturbed epoch of three
        ([trained(4.0)], None),
    ],
)
def test_epochs_several_times_off_the_windows_speed_fail_a_check(epochs: list[Epoch], passed: bool | None) -> None:
    figures = {"images_per_s": Figure(1000.0, "worker")}
    found = [each for each in check_figures(make_spec(), OSU, figures, epochs) if each.name == CheckName.EPOCHS_SPEED]
    assert [check.passed for check in found] == ([] if passed is None else [passed])
    assert all("images/s in the epochs after the first, 1,000 in the steady window" in each.detail for each in found)


def window_speed(
    speed: float, taken: tuple[float | None, ...] = (1.0, 2.0), seconds: float = 1.1, **changes: Any
) -> bool | None:
    """Return the result of the window's check after epochs of 1000 images in 32 steps of 32; None where they are not
    compared."""
    shares = zip(("foreign_cpu_percent", "foreign_cpu_epochs_percent"), taken, strict=True)
    figures = {name: Figure(share, "sampler", reason=None if share else "-") for name, share in shares}
    figures |= {"images_per_s": Figure(speed, "worker")}
    epochs = [trained(0.1), trained(2 * seconds), trained(seconds), trained(3 * seconds)]  # the first is ignored
    made = check_figures(make_spec(batch_size=32, **changes), OSU, figures, epochs)
    return next((check.passed for check in made if check.name == CheckName.WINDOW_SPEED), None)


def test_a_window_beyond_the_fastest_epochs_speed_fails_but_for_fixed_costs_and_disturbance() -> None:
    assert CheckName.WINDOW_SPEED in COUNTS and CheckName.WINDOW_SPEED in MADE_AGAIN
    assert window_speed(1.29 * 1024) is True and window_speed(1.31 * 1024) is False
    assert window_speed(80 * 1024) is False
    unseen: tuple[tuple[float | None, ...], ...] = ((None, 2.0), (1.0, None), (11.0, 2.0), (1.0, 11.0))
    assert [window_speed(80 * 1024, taken) for taken in unseen] == [None] * 4
    assert window_speed(80 * 1024, device="GPU-0") is None
    assert window_speed(80 * 1024, augment="flip-crop", feed="device") is None
    assert window_speed(2.5 * 1000 / 0.2, seconds=0.2) is True
    assert window_speed(3.0 * 1000 / 0.2, seconds=0.2) is False
    assert window_speed(80 * 1000 / 0.1, seconds=0.1) is None


@pytest.mark.parametrize(
    ("augment", "feed", "compared"),
    [("flip-crop", "device", False), ("flip-crop", "host", True), ("zoom-copy", "device", True)],
)
def test_epochs_that_copy_the_whole_split_anew_are_not_held_against_the_windows_speed(
    augment: str, feed: str, compared: bool
) -> None:
    figures, epochs = {"images_per_s": Figure(1000.0, "worker")}, [trained(1.0), trained(4.0)]
    checks = check_figures(make_spec(augment=augment, feed=feed), OSU, figures, epochs)
    assert (CheckName.EPOCHS_SPEED in [check.name for check in checks]) is compared


def test_a_window_of_no_time_is_judged_without_an_error() -> None:
    values = {"window_s": 0.0, "call_p50_s": 0.1, "call_longest_s": 0.9}
    figures = {name: Figure(value, "worker") for name, value in values.items()}
    checks = {check.name: check.passed for check in check_figures(make_spec(), None, figures, [])}
    assert checks[CheckName.NO_STALL] is False
