"""Checks of a trial's end, of its speed, and of work left after its window."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec
from each import for_each

from runner.gate import end_referee, trial_end
from runner.gate.end_referee import EndReferee
from runner.gate.trial_end import (
    EVALUATION,
    GROSS,
    LAST_LOSS,
    LOSSES,
    ROUNDINGS,
    TOO_LARGE,
    TURNED,
    UPDATES,
    check_end,
    gather,
)
from workloads.catalogue import OSU_CNN
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import END_FILE, Difference, EndCall, EndStep, Missing, TrialEnd
from workloads.records.events import Event
from workloads.records.figures import DIVERGED_STEP, PRODUCT, Figure
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import Job, Kind
from workloads.records.outstanding import COPIES_AGAIN, LEFT_SHARE, Outstanding
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored import parse_result
from workloads.records.validation import build_record
from workloads.spec import OptimizerName, OptimizerSpec
from workloads.words import compare_with_allowed, show_both

SETTLED = Outstanding(0.002, 0.001, 0.002, 0.001)
STEPS = (
    EndStep(128, False, Difference(1e-7)),
    EndStep(128, False, Difference(1e-7), Difference(2e-6, resolution=1e-5), "conv1/bias"),
    EndStep(29, True, Difference(1e-7), Difference(2e-6, resolution=1e-5), "conv1/bias"),
)
RIGHT_CALL = EndCall(4, 32, 2, Difference(1e-6), Difference(1e-6, resolution=1e-5), "conv1/bias")
RIGHT = TrialEnd(SETTLED, images=64, evaluation=Difference(1e-6), steps=STEPS, asked_steps=12)
CALLED = replace(RIGHT, call=RIGHT_CALL)


def trial(end: TrialEnd | None = RIGHT, speed: float | None = 3000.0, **changes: Any) -> TrialResult:
    return TrialResult(
        spec=make_spec(**changes),
        status=Status.OK,
        reason=None,
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
        figures={"images_per_s": Figure(speed, "-"), "window_s": Figure(5.0, "-")},
        end={} if end is None else end.to_json(),
    )


def failed(result: TrialResult) -> dict[str, str]:
    return {check.name: check.detail for check in check_end(result, OSU_CNN) if not check.passed}


def with_updates(update: Difference | None) -> TrialEnd:
    return replace(RIGHT, steps=tuple(replace(step, update=step.update and update) for step in STEPS))


def with_step(number: int, **changes: Any) -> TrialEnd:
    steps = list(STEPS)
    steps[number] = replace(steps[number], **changes)
    return replace(RIGHT, steps=tuple(steps))


def test_a_right_trial_passes_every_check_and_one_stored_before_there_was_a_probe_passes_what_it_can() -> None:
    every = [
        CheckName.POSSIBLE,
        CheckName.NOTHING_LEFT,
        CheckName.END_EVALUATION,
        CheckName.END_LOSSES,
        CheckName.END_UPDATES,
    ]
    assert [(check.name, check.passed) for check in check_end(trial(), OSU_CNN)] == [(name, True) for name in every]
    assert [(check.name, check.passed) for check in check_end(trial(None), OSU_CNN)] == [(CheckName.POSSIBLE, True)]


def test_a_last_loss_is_judged_by_its_own_bound_and_by_what_a_kink_may_do() -> None:
    def judged(apart: float | None, kinks: float) -> bool:
        end = replace(RIGHT, last=Difference(apart, resolution=kinks))
        (check,) = (each for each in check_end(trial(end), OSU_CNN) if each.name == CheckName.LAST_LOSS)
        assert check.detail.startswith("the loss of the trial's last update differs by ")
        return check.passed

    assert [judged(*each) for each in ((0.9 * LAST_LOSS, 0.0), (1.1 * LAST_LOSS, 0.0), (0.01, 0.01), (None, 0.0))] == [
        True, False, True, False,
    ]  # fmt: skip


def test_an_end_survives_the_file_it_is_stored_in() -> None:
    assert TrialEnd.from_json(RIGHT.to_json()) == RIGHT
    assert TrialEnd.from_json(CALLED.to_json()) == CALLED and not failed(trial(CALLED))
    assert build_record(CALLED.to_json(), TrialEnd, "end") == CALLED
    before = RIGHT.to_json()
    del before["call"]  # as in results stored before there was one
    assert TrialEnd.from_json(before) == RIGHT
    silent = TrialEnd(None, Missing.WORKER, "it died")
    assert TrialEnd.from_json(silent.to_json()) == silent


def test_an_end_without_numbers_is_read_as_earlier_versions_stored_it() -> None:
    lost = replace(RIGHT, evaluation=Difference(None))
    data = trial(lost).to_json()
    data["end"]["evaluation"] |= {"rounding": None, "resolution": None}
    assert TrialEnd.from_json(parse_result(json.dumps(data).encode()).end) == lost


@pytest.mark.parametrize(
    ("end", "name", "detail"),
    [
        (
            replace(RIGHT, evaluation=Difference(2 * EVALUATION)),
            CheckName.END_EVALUATION,
            "at the trial's end the logits of 64 test images in evaluation mode differ by 2.0e-04 (allowed 1e-04)",
        ),
        (
            with_step(0, loss=Difference(2 * LOSSES)),
            CheckName.END_LOSSES,
            "at the trial's end the loss of a step of 128 images differs by 1.0e-03 (allowed 5e-04)",
        ),
        (
            with_step(2, update=Difference(0.9), parameter="dense1/kernel"),
            CheckName.END_UPDATES,
            "at the trial's end the update of dense1/kernel by a step of 29 images differs by 9.0e-01 (allowed 2e-01)",
        ),
        (
            with_step(1, update=Difference(None)),
            CheckName.END_UPDATES,
            "at the trial's end the update of conv1/bias by a step of 128 images differs by a value that is not a"
            " number (allowed 2e-01)",
        ),
        (
            replace(CALLED, call=replace(RIGHT_CALL, loss=Difference(0.3))),
            CheckName.END_LOSSES,
            "at the trial's end the loss of step 2 of a call of 4 steps of 32 images differs by 3.0e-01"
            " (allowed 2e-02)",
        ),
        (
            replace(CALLED, call=replace(RIGHT_CALL, update=Difference(0.5))),
            CheckName.END_UPDATES,
            "at the trial's end the update of conv1/bias by a call of 4 steps of 32 images differs by 5.0e-01"
            " (allowed 2e-01)",
        ),
        (replace(RIGHT, idle_steps=1), CheckName.END_UPDATES, "at the trial's end 1 of 12 steps changed no weight"),
        (
            TrialEnd(SETTLED, Missing.WORKER, "ValueError: no"),
            CheckName.END_ANSWERED,
            "it gave no evidence at the trial's end: ValueError: no",
        ),
    ],
)
def test_what_differs_at_the_end_is_named_with_its_size_and_what_is_allowed(
    end: TrialEnd, name: str, detail: str
) -> None:
    assert failed(trial(end)) == {name: detail}


@for_each("beyond", [1.0 + 1e-9, 1.001, 1.02, 1.4])
@for_each("allowed", [EVALUATION, 1.9e-4, 2.04e-4, 0.109, 3e7])
def test_a_failed_comparison_is_visibly_false_and_one_that_held_is_visibly_true(allowed: float, beyond: float) -> None:
    def hold(text: str) -> bool:
        shown, bound = map(float, text.rstrip(")").split(" (allowed "))
        return shown <= bound

    assert not hold(compare_with_allowed(allowed * beyond, allowed))
    assert hold(compare_with_allowed(allowed / beyond, allowed))
    assert hold(compare_with_allowed(allowed, allowed))
    left, most = (float(text.replace(",", "")) for text in show_both(allowed * beyond, allowed, "f", 3, 0))
    assert left > most


def test_a_bound_that_rounds_up_to_the_difference_is_named_with_more_digits() -> None:
    end = replace(RIGHT, evaluation=Difference(1.9e-4, rounding=1.85e-4 / ROUNDINGS))
    assert failed(trial(end))[CheckName.END_EVALUATION].endswith("differ by 1.90e-04 (allowed 1.8e-04)")
    late = replace(RIGHT, outstanding=Outstanding(0.1004, 0.0, 0.1004, 0.0))
    assert "0.1004 s of work " in failed(trial(late))[CheckName.NOTHING_LEFT]


def test_rounding_widens_what_is_allowed_at_the_end() -> None:
    assert CheckName.END_UPDATES in failed(trial(with_updates(Difference(2 * UPDATES))))
    assert not failed(trial(with_updates(Difference(2 * UPDATES, rounding=UPDATES))))
    assert not failed(trial(with_updates(Difference(2 * UPDATES, resolution=2 * UPDATES))))
    small = with_updates(Difference(30.0, resolution=0.6))
    assert CheckName.END_UPDATES not in [check.name for check in check_end(trial(small), OSU_CNN)]
    by_chance = with_step(0, loss=Difference(2.8e-3, rounding=1.2e-4))  # seen in a correct trial in bfloat16
    assert CheckName.END_LOSSES in failed(trial(by_chance))
    other = replace(by_chance.steps[1], loss=Difference(1e-3, rounding=1e-3))
    assert not failed(trial(replace(by_chance, steps=(by_chance.steps[0], other, by_chance.steps[2]))))
    alone = replace(RIGHT, steps=(EndStep(16, False, Difference(2.8e-3, rounding=1.2e-4)),))
    assert CheckName.END_LOSSES in failed(trial(alone))
    assert CheckName.END_LOSSES in failed(trial(alone, precision="float16"))
    assert not failed(trial(alone, precision="bfloat16"))
    wrong = replace(RIGHT, steps=(EndStep(16, False, Difference(8e-3, rounding=1.2e-4)),))
    assert CheckName.END_LOSSES in failed(trial(wrong, precision="bfloat16"))


def test_one_update_whose_float16_gradients_overflowed_is_no_idle_step_and_none_at_all_are() -> None:
    assert not failed(trial(replace(RIGHT, idle_steps=1), precision="float16"))
    all_idle = replace(RIGHT, idle_steps=RIGHT.asked_steps)
    assert CheckName.END_UPDATES in failed(trial(all_idle, precision="float16"))


def test_a_trial_whose_losses_left_no_step_to_ask_about_is_not_idle_in_any_precision() -> None:
    for precision in ("float32", "float16"):
        assert not failed(trial(replace(RIGHT, asked_steps=0, idle_steps=0), precision=precision))


def test_a_value_on_a_kink_in_one_batch_is_not_suspect_and_a_gross_difference_in_one_is() -> None:
    assert not failed(trial(with_step(1, update=Difference(0.05))))
    assert CheckName.END_UPDATES in failed(trial(with_step(1, update=Difference(1.1 * GROSS))))
    alone = with_updates(Difference(0.05))
    alone = replace(alone, steps=alone.steps[:2])
    assert not failed(trial(alone)), "one judged step alone cannot tell a kink from a mistake"


@pytest.mark.parametrize("rule", ["adam", "adamw"])
def test_adams_directions_have_a_bound_of_their_own(rule: OptimizerName) -> None:
    end, adam = with_updates(Difference(TURNED * 0.9)), OptimizerSpec.named(rule)
    assert not failed(trial(end, optimizer=adam))
    assert CheckName.END_UPDATES in failed(trial(end))
    assert CheckName.END_UPDATES in failed(trial(with_updates(Difference(TURNED * 1.1)), optimizer=adam))


def test_what_a_referee_is_never_asked_or_a_diverged_trial_has_no_numbers_for_is_not_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unasked = TrialEnd(SETTLED, Missing.REFEREE, TOO_LARGE)
    with monkeypatch.context() as patched:
        patched.setattr(trial_end, "REFEREE_MULTIPLY_ADDS", OSU_CNN.multiply_adds - 1)
        checks = check_end(trial(unasked), OSU_CNN)
    assert [check.name for check in checks] == [CheckName.POSSIBLE, CheckName.NOTHING_LEFT]
    assert all(check.passed for check in checks)
    lost = replace(RIGHT, evaluation=Difference(None), steps=(EndStep(128, False, Difference(None)),))
    diverged = trial(lost)
    diverged.figures[DIVERGED_STEP.name] = Figure(3.0, "-")
    assert not failed(diverged)
    assert failed(trial(lost)).keys() == {CheckName.END_EVALUATION, CheckName.END_LOSSES}


def test_a_speed_that_no_processor_has_is_suspect_and_one_that_a_card_may_have_is_not() -> None:
    assert CheckName.POSSIBLE in failed(trial(speed=50_980_893.0))
    assert not failed(trial(speed=30_000.0, threads=2))
    card: dict[str, Any] = {"device": "GPU-00000000-1111-2222-3333-444444444444"}
    assert not failed(trial(speed=1e6, **card))
    flop = OSU_CNN.multiply_adds * 2 * 3 / 4
    assert CheckName.POSSIBLE in failed(trial(speed=2.1e15 / flop, **card))
    for device, most in (({"threads": 2}, 16 * 768e9), (card, 5e16)):
        assert CheckName.POSSIBLE not in failed(trial(speed=0.9 * most / flop, precision="bfloat16", **device))
        assert CheckName.POSSIBLE in failed(trial(speed=1.1 * most / flop, precision="bfloat16", **device))


def test_a_speed_on_a_cpu_that_needs_more_than_the_frameworks_own_product_of_matrices_is_suspect() -> None:
    flop = OSU_CNN.multiply_adds * 2 * 3 / 4

    def suspected(share: float, **changes: Any) -> bool:
        measured = trial(speed=share * 60e9 / flop, **changes)
        measured.figures[PRODUCT.name] = Figure(60e9, "memory worker")
        told = failed(measured).get(CheckName.POSSIBLE)
        assert told is None or told.endswith("GFLOP/s; its fastest product of matrices does 60 GFLOP/s"), told
        return told is not None

    assert suspected(1.1) and not suspected(0.9)
    assert not suspected(1.1, precision="bfloat16")
    assert not suspected(1.1, device="GPU-00000000-1111-2222-3333-444444444444")


@pytest.mark.parametrize(
    ("copies", "suspect"),
    [
        (Outstanding(0.5, 0.001, 0.9, 0.001), True),
        (Outstanding(0.5, 0.001, 0.002, 0.001), False),  # a neighbour had the processor
        (Outstanding(0.5, 0.5, 0.9, 0.9), False),  # a large model is copied as slowly twice
        (Outstanding(0.9 * LEFT_SHARE * 5.0, 0.0, 0.2, 0.0), False),
    ],
)
def test_work_that_the_window_left_behind_is_told_from_a_slow_copy(copies: Outstanding, suspect: bool) -> None:
    assert (CheckName.NOTHING_LEFT in failed(trial(replace(RIGHT, outstanding=copies)))) == suspect


# Seconds of copies of cats-dogs-cnn's weights, 41 million, on a busy machine, where nothing was left: (wall, processor
# time in user mode). By all of their processor time the first copies took 0.3 to 0.5 s longer than the later ones.
COLD = [
    ((1.604, 0.947), (0.320, 0.386), (0.998, 1.261, 0.652, 0.737, 0.956), (0.323, 0.390, 0.344, 0.371, 0.331)),
    ((2.731, 1.193), (0.431, 0.404), (1.248, 1.112, 1.338, 1.521, 0.956), (0.395, 0.376, 0.349, 0.427, 0.331)),
    ((1.261, 1.414), (0.452, 0.438), (0.836, 0.767, 1.122, 1.279, 0.855), (0.307, 0.337, 0.446, 0.431, 0.377)),
]  # fmt: skip


@pytest.mark.parametrize(("wall_s", "cpu_s", "again_s", "again_cpu_s"), COLD)
def test_copies_of_a_large_network_with_nothing_left_accuse_nobody_and_a_tenth_of_the_window_does(
    wall_s: tuple[float, float], cpu_s: tuple[float, float], again_s: tuple[float, ...], again_cpu_s: tuple[float, ...]
) -> None:
    copies = Outstanding(*wall_s, *cpu_s, again_s=again_s, again_cpu_s=again_cpu_s)
    assert not copies.seems_left(5.0, on_cpu=True)
    late = replace(copies, first_s=wall_s[0] + 1.0, first_cpu_s=cpu_s[0] + 0.5)
    told = failed(trial(replace(RIGHT, outstanding=late)))[CheckName.NOTHING_LEFT]
    assert told.endswith(f"; copied {COPIES_AGAIN} times again")


def test_a_spread_is_that_of_as_many_copies_as_the_window_has_segments() -> None:
    copies = Outstanding(0.9, 0.1, 0.9, 0.1, 3, (0.1, 0.2, 0.15), (0.1, 0.2, 0.15))
    left_s, allowed_s = copies.compare_with_allowed(5.0, on_cpu=True)
    assert [left_s, allowed_s] == pytest.approx([0.9 - 3 * 0.15, 0.1 + 2 * 3 * 0.1])


def test_on_a_card_the_clock_alone_tells_what_was_left() -> None:
    card: dict[str, Any] = {"device": "GPU-00000000-1111-2222-3333-444444444444"}
    waited = replace(RIGHT, outstanding=Outstanding(0.5, 0.001, 0.002, 0.001))
    assert CheckName.NOTHING_LEFT in failed(trial(waited, **card))


def events_of(folder: Path, **data: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    write_json(folder / JOB_FILE, Job(Kind.TRIAL, make_spec()).to_json())
    lines = [json.dumps({"event": event, "t_ns": 1, **told}) for event, told in data.items()]
    (folder / EVENTS_FILE).write_text("".join(f"{line}\n" for line in lines))


def test_what_the_worker_left_unanswered_is_its_own_and_what_the_referee_did_is_the_referees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished, silent, answered = (tmp_path / "trials" / name for name in ("unfinished", "silent", "answered"))
    events_of(unfinished, started={})
    assert gather(EndReferee(PROJECT), unfinished, make_spec(), 10**9) == {}
    events_of(silent, finished={}, host_counted={})
    assert TrialEnd.from_json(gather(EndReferee(PROJECT), silent, make_spec(), 10**9)).missing is Missing.WORKER
    events_of(answered, finished={}, window_settled=asdict(SETTLED), end_probed={})
    np.savez(answered / END_FILE, steps=np.array(3))
    too_large = TrialEnd.from_json(gather(EndReferee(PROJECT), answered, make_spec(), 10))
    assert (too_large.missing, too_large.reason) == (Missing.REFEREE, TOO_LARGE)
    fallen = TrialEnd.from_json(
        gather(EndReferee(PROJECT), answered, make_spec(), 10**9)
    )  # its job.json names no inputs
    assert fallen.missing is Missing.REFEREE and "KeyError" in (fallen.reason or "")
    assert (answered / END_FILE).exists(), "what is not stored yet is gone with it"


def test_steps_that_change_nothing_are_seen_in_a_network_that_is_too_large_for_the_referee(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_end, "REFEREE_MULTIPLY_ADDS", 10)
    folder = tmp_path / "trials" / "one"
    idle = {"asked_steps": 12, "idle_steps": 12}
    events_of(folder, finished={}, window_settled=asdict(SETTLED), end_probed=idle)
    np.savez(folder / END_FILE, steps=np.array(3))
    end = TrialEnd.from_json(gather(EndReferee(PROJECT), folder, make_spec(), 10))
    assert (end.missing, end.reason) == (Missing.REFEREE, TOO_LARGE)
    assert failed(trial(end)) == {CheckName.END_UPDATES: "at the trial's end 12 of 12 steps changed no weight"}


def test_weights_that_could_not_be_copied_behind_the_window_are_evidence_that_is_missing(tmp_path: Path) -> None:
    """Whatever it answers later: nobody saw what was left to do after its window."""
    folder = tmp_path / "trials" / "one"
    events_of(folder, finished={}, window_settled={"reason": "RuntimeError: no copy"}, end_probed={})
    np.savez(folder / END_FILE, steps=np.array(3))
    end = TrialEnd.from_json(gather(EndReferee(PROJECT), folder, make_spec(), 10**9))
    assert (end.missing, end.reason) == (Missing.WORKER, "RuntimeError: no copy")
    assert CheckName.END_ANSWERED in failed(trial(end))


@pytest.mark.parametrize(
    ("limit", "told", "missing"),
    [(2**28, True, Missing.MEMORY), (2**28, False, Missing.WORKER), (None, True, Missing.WORKER)],
)
@pytest.mark.parametrize("event", [Event.WINDOW_SETTLED, Event.END_PROBED])
def test_a_probe_that_is_refused_memory_under_a_limit_is_our_failure_and_without_one_the_frameworks(
    event: Event, limit: int | None, told: bool, missing: Missing, tmp_path: Path
) -> None:
    folder = tmp_path / "trials" / "one"
    refused = {"reason": "MemoryError: no", **({"out_of_memory": True} if told else {})}
    events: dict[str, dict[str, Any]] = {"window_settled": asdict(SETTLED), "end_probed": {}, event: refused}
    events_of(folder, finished={}, **events)
    end = TrialEnd.from_json(gather(EndReferee(PROJECT), folder, make_spec(memory_limit_bytes=limit), 10**9))
    assert (end.missing, end.reason) == (missing, "MemoryError: no")


def test_the_referee_is_a_process_that_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A referee that says nothing: the real one may answer before a slow machine looks whether it is late."""
    monkeypatch.setattr(trial_end, "REFEREE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(end_referee, "COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    folder = tmp_path / "trials" / "one"
    events_of(folder, finished={}, window_settled=asdict(SETTLED), end_probed={})
    np.savez(folder / END_FILE, steps=np.array(3))
    assert "TimeoutExpired" in (
        TrialEnd.from_json(gather(EndReferee(PROJECT), folder, make_spec(), 10**9)).reason or ""
    )
