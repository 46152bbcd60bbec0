"""The profile `compiled`, `--deterministic` and what workers say of them, before any framework is started."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT
from stored import trial

from adapters.base import Adapter, Unsupported
from adapters.worker.prepare import empty_folder, switch_deterministic
from reports.condition_text import describe_condition, describe_software
from reports.conditions import group_into_sections, read_condition
from runner.doctor import repetition
from runner.doctor.machine import State
from runner.environments import definition
from runner.request import programs
from runner.request.parser import BadInput
from runner.setup import find_refusal
from workloads.records.build import AUTOTUNE, COMPILED, DEFAULT
from workloads.records.files import EVENTS_FILE
from workloads.records.status import Status

RESULTS = Path("results")


def test_a_compiler_that_is_missing_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    programs.need_programs(PROJECT, {"": ["pytorch", "tensorflow@compiled", "mxnet@compiled"]}, "venv", RESULTS)
    with pytest.raises(BadInput, match=r"--profile compiled: pytorch needs the program g\+\+, which is not on this"):
        programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "venv", RESULTS)
    series = {"plain": ["pytorch"], "compilers": ["tensorflow@compiled", "pytorch@compiled"], "more": ["mxnet"]}
    with pytest.raises(BadInput, match=r"install it, or choose series without it: --series plain more$"):
        programs.need_programs(PROJECT, series, "venv", RESULTS)
    with pytest.raises(BadInput, match=r"install it, or leave out compiled, or series compilers$"):
        programs.need_programs(PROJECT, {"compilers": series["compilers"]}, "venv", RESULTS)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "venv", RESULTS)
    with pytest.raises(BadInput, match="which its image does not have"):
        programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "docker", RESULTS)


@pytest.mark.parametrize("name", ["My Drive", "it's", "a\\b"])
def test_a_folder_that_a_compiler_would_not_find_is_named_before_anything_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    results = tmp_path / name / "results"
    programs.need_programs(PROJECT, {"": ["pytorch", "tensorflow@compiled"]}, "venv", results)
    programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "venv", tmp_path / "Größe")
    with pytest.raises(
        BadInput, match=r"a path with a space, quote or backslash: .*; name another --results, or leave"
    ):
        programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "venv", results)
    project = replace(PROJECT, environments=tmp_path / name / ".envs")
    with pytest.raises(BadInput, match="; use a checkout elsewhere, or leave compiled out"):
        programs.need_programs(project, {"": ["pytorch@compiled"]}, "venv", tmp_path)
    built = {"pytorch": tmp_path / name / "bin" / "python"}
    with pytest.raises(BadInput, match="; name another --python, or leave compiled out"):
        programs.need_programs(PROJECT, {"": ["pytorch@compiled"]}, "venv", tmp_path, built)
    programs.need_programs(project, {"": ["pytorch@compiled"]}, "venv", tmp_path, {"pytorch": tmp_path / "python"})


def test_mxnet_says_why_it_has_no_such_profile_and_no_environment_is_outdated_by_it() -> None:
    refused = find_refusal(PROJECT, "mxnet@compiled", "cpu", None)
    assert refused and refused.status is Status.UNSUPPORTED and "graph of hybridize" in refused.reason
    assert find_refusal(PROJECT, "pytorch@compiled", "cpu", None) is None
    environment = definition.read(PROJECT, "pytorch", "cpu")
    without = {name: each for name, each in environment.profile_variables.items() if name != COMPILED}
    assert COMPILED in environment.profile_variables and not environment.profile_variables[COMPILED]
    assert replace(environment, profile_variables=without).digest == environment.digest
    assert replace(environment, profile_variables=without | {COMPILED: {"A": "1"}}).digest != environment.digest


def test_nothing_that_an_earlier_attempt_compiled_is_used(tmp_path: Path) -> None:
    (tmp_path / "compiled" / "fx").mkdir(parents=True)
    assert empty_folder(tmp_path / "compiled") == tmp_path / "compiled" and not (tmp_path / "compiled").exists()
    empty_folder(tmp_path / "compiled")


def test_an_adapter_without_a_switch_and_a_choice_by_timing_are_refused() -> None:
    class Plain(Adapter):
        """Adapter without any switch."""

    Plain.__abstractmethods__ = frozenset()
    with pytest.raises(Unsupported, match="--deterministic: not in this adapter yet"):
        switch_deterministic(Plain(), DEFAULT)  # type: ignore[abstract]
    with pytest.raises(Unsupported, match="chooses by timing"):
        switch_deterministic(Plain(), AUTOTUNE)  # type: ignore[abstract]


def test_determinism_and_execution_are_conditions_and_frameworks_may_differ_in_the_second() -> None:
    plain, other = trial("pytorch"), trial("mxnet")
    asked = replace(plain, spec=replace(plain.spec, task=replace(plain.spec.task, deterministic=True)))
    assert "determinism" not in describe_condition(read_condition(plain)) and asked.spec.id != plain.spec.id
    assert describe_condition(read_condition(asked))["determinism"] == "by the framework's own switch"
    ran = [
        replace(each, facts=each.facts | {"execution": said})
        for each, said in ((plain, "eager"), (other, "hybridized"))
    ]
    sections, _ = group_into_sections(ran)
    (section,) = sections
    words = describe_software(section)
    assert (words["PyTorch execution"], words["MXNet execution"]) == ("eager", "hybridized")
    assert "PyTorch execution" not in describe_software(group_into_sections([plain])[0][0]), "it was not reported"


def test_losses_are_compared_to_the_last_digit(tmp_path: Path) -> None:
    events = tmp_path / EVENTS_FILE
    trained = {"steps": 2, "images": 64, "train_loss": 0.1, "first_losses": [0.3, 0.2]}
    lines = ({"event": "started", "t_ns": 1}, {"event": "epoch_trained", "t_ns": 2, **trained})
    events.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"event": "epoch_tr')  # cut short by a kill
    losses = repetition.read_losses(events)
    assert losses == [0.3, 0.2, 0.1] and repetition.read_losses(tmp_path / "none") == []
    ended = (losses, Status.OK, "")
    same = repetition.compare_losses("pytorch", ended, (list(losses), Status.OK, ""))
    assert same.state is State.OK and "3 losses are the same" in same.text
    last = repetition.compare_losses("pytorch", ended, ([0.3, 0.20000000000000004, 0.1], Status.OK, ""))
    assert last.state is State.PROBLEM and "loss 2 is 0.2, then 0.20000000000000004" in last.text
    assert repetition.compare_losses("mxnet", ended, None).state is State.PROBLEM
    refused = repetition.compare_losses("numpy", ([], Status.UNSUPPORTED, "no switch"), ended)
    assert refused.state is State.UNKNOWN and refused.text == "unsupported: no switch"
    assert repetition.compare_losses("numpy", ([], Status.FAILED, "why"), ended).state is State.PROBLEM
    assert repetition.compare_losses("numpy", (losses[:2], Status.OK, ""), ended).text.endswith("2 losses, then 3")
