"""The base class of adapters: what a trial needs is mandatory, and the default of anything else is a shown reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from test_worker import Results, results  # noqa: F401  # a fixture

from adapters import base
from adapters.base import MEMORY_KINDS, NOT_YET, Unsupported
from adapters.numpy import adapter as numpy_adapter
from adapters.worker.__main__ import main
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import Job, Kind
from workloads.records.status import Status
from workloads.records.stored_events import read_events

MANDATORY = {
    "open", "load", "build", "train", "read", "predict", "weights", "probe", "synchronize", "out_of_memory",
}  # fmt: skip


class Short(numpy_adapter.Adapter):
    """The referee with no more than the mandatory verbs."""

    memory = base.Adapter.memory
    count_memory = base.Adapter.count_memory
    memory_use = base.Adapter.memory_use
    build_model = base.Adapter.build_model


def test_ten_verbs_are_mandatory_and_an_adapter_without_one_is_not_made() -> None:
    assert base.Adapter.__abstractmethods__ == MANDATORY
    unfinished = type("Adapter", (base.Adapter,), {verb: None for verb in MANDATORY - {"predict"}})
    with pytest.raises(TypeError, match=r"abstract method.*predict"):
        unfinished()


def test_a_model_of_the_callers_is_unsupported_with_its_reason() -> None:
    with pytest.raises(Unsupported, match=f"custom models: {NOT_YET}"):
        Short().build_model(lambda classes: None, None, None, 0)  # type: ignore[arg-type]


def test_a_trial_runs_to_its_end_and_its_memory_counts_are_reasons(
    results: Results, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setattr(numpy_adapter, "Adapter", Short)
    folder = results.asked("short", epochs=1, window_s=0.01)
    main(folder)
    events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
    assert Event.END_PROBED in events and "reason" not in events[Event.END_PROBED]
    assert events[Event.ALLOCATOR_COUNTED]["counts"] == dict.fromkeys(MEMORY_KINDS, f"memory counts: {NOT_YET}")


def test_the_memory_worker_reports_the_reason_for_each_batch_size_and_what_it_measures_itself(
    results: Results, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setattr(numpy_adapter, "Adapter", Short)
    monkeypatch.setattr("adapters.worker.memory_steps.WIDTHS", (16,))
    folder = results.asked("short memory", Kind.MEMORY)
    job = Job.from_json(json.loads((folder / JOB_FILE).read_text()))
    write_json(folder / JOB_FILE, replace(job, batch_sizes=(4, 8)).to_json())
    main(folder)
    events = read_events(folder / EVENTS_FILE)
    told = {event["batch_size"]: event["reason"] for event in events if event["event"] == Event.MEMORY_TOLD}
    assert told == dict.fromkeys((4, 8), f"memory in use: {NOT_YET}")
    assert [event["flop_per_s"] > 0 for event in events if event["event"] == Event.PRODUCT_TIMED] == [True]
    assert events[-1]["event"] == Event.FINISHED


@pytest.mark.parametrize("kind", [Kind.TRIAL, Kind.STEPS])
def test_a_worker_that_trains_and_evaluates_shows_that_it_is_alive(
    kind: Kind, results: Results, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    beats: list[float] = []

    def beat(log: Any, now_s: float) -> None:
        beats.append(now_s)

    monkeypatch.setattr("adapters.worker.event_log.EventLog.beat", beat)
    main(results.asked(f"alive {kind}", kind, epochs=0 if kind is Kind.STEPS else 1, window_s=0.01))
    assert len(beats) > 1 and beats == sorted(beats)


class ForOtherCards(Short):
    """A framework whose build has no code for the card; this is found where it first computes."""

    def load(self, images: Any, labels: Any) -> None:
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nCompile with ...")


def test_a_card_newer_than_a_build_s_code_is_unsupported(
    results: Results, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setattr(numpy_adapter, "Adapter", ForOtherCards)
    folder = results.asked("other cards", epochs=1, window_s=0.01)
    main(folder)
    ended = read_events(folder / EVENTS_FILE)[-1]
    assert ended["event"] == Event.ENDED and ended["status"] == Status.UNSUPPORTED
    assert str(ended["reason"]).startswith("this build has no code for this GPU: ") and "\n" not in ended["reason"]
