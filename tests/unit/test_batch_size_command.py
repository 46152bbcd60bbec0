"""Training of `python -m runner batch-size` after its searches, and the limit that it searches under."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PROJECT, make_spec
from copied import add_framework
from each import for_each
from rich.console import Console

from reports.batch_size import answers as page
from runner.batch_size import command
from runner.batch_size.answers_file import AnswersFile
from runner.batch_size.command import explain_untrained, list_found_sizes
from runner.batch_size.memory_limit import bound_request
from runner.batch_size.noise import read_version
from runner.batch_size.question import Question, find_bound
from runner.batch_size.steps import StepTrials
from runner.machine.description import Gpu
from runner.request.cli import Request
from runner.request.parser import BadInput
from workloads.records.advice import passes
from workloads.records.batch_answers import (
    LIMIT_NAMES,
    Answers,
    BatchAnswers,
    Best,
    Holds,
    Judged,
    Largest,
    Limit,
    Noise,
    NoisePoint,
    SizePoint,
    Trained,
)
from workloads.records.check_name import CheckName
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status
from workloads.trainings import answer, reached

WORDS = ("--isolation", "here", "--workload", "tiny", "--dataset", "digits-64", "--device", "cpu")
IMAGES = 64


def asked(tmp_path: Path, *words: str, frameworks: Sequence[str] = ("numpy",)) -> tuple[Request, Question]:
    return command.build_request(["--framework", *frameworks, *WORDS, *words, "--results", str(tmp_path)], PROJECT)


def largest(batch_size: int | None) -> Largest:
    return Largest(batch_size, None, Limit.GROUP, 2**30)


@pytest.mark.parametrize(("group", "limit"), [(True, Limit.GROUP), (False, Limit.ASKED)])
def test_a_search_has_the_kind_of_limit_that_the_next_run_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: bool, limit: Limit
) -> None:
    monkeypatch.setattr("runner.family.can_limit_memory", lambda: group)
    request, question = asked(tmp_path, "--memory-limit", "700")
    bound = find_bound(request, question)
    assert (bound.limit, bound.limit_bytes, request.placement.control_group) == (limit, 700 * 2**20, group)
    assert bound_request(request, bound.limit, bound.limit_bytes).placement == request.placement


def test_every_kind_of_limit_has_a_name_and_without_one_a_search_bounds_its_own_trials(tmp_path: Path) -> None:
    request, question = asked(tmp_path, "--plan")
    bound = find_bound(request, question)
    assert bound.limit is Limit.HOST and not list(tmp_path.iterdir())
    searched = bound_request(request, bound.limit, bound.limit_bytes).placement
    assert (searched.memory_limit_bytes, searched.control_group) == (bound.limit_bytes, False)
    assert set(LIMIT_NAMES) == set(Limit)


def test_a_card_that_does_not_report_its_memory_is_refused_only_where_what_fits_is_asked(tmp_path: Path) -> None:
    request, question = asked(tmp_path, "--plan", "--answer", "fastest", "noise-scale")
    gpu = Gpu("GPU-1", "unified", "570", None, None)
    request = replace(request, placement=replace(request.placement, device="GPU-1"), gpus=(gpu,))
    bound = find_bound(request, question)
    file = AnswersFile(request, question, bound, Console(file=io.StringIO()))
    assert bound.limit is Limit.GPU and not {"limit", "limit_bytes"} & set(file.conditions)
    with pytest.raises(BadInput, match="unified does not report how much memory it has: what fits is unknown"):
        find_bound(request, replace(question, answers=("largest",)))


def test_processes_of_several_devices_share_a_limit_and_a_container_holds_all_of_them(tmp_path: Path) -> None:
    request, _ = asked(tmp_path, "--plan")
    several = replace(request, placement=replace(request.placement, devices=2))
    assert bound_request(several, Limit.HOST, 1000).placement.memory_limit_bytes == 500
    contained = replace(several, isolation="docker")
    assert bound_request(contained, Limit.HOST, 1000).placement.memory_limit_bytes == 1000


def trained_sizes(tmp_path: Path, answers: Answers, words: Sequence[str]) -> tuple[set[int], str]:
    """(batch sizes of the training after these answers, what is printed)."""
    given, printed, _ = trained(tmp_path, answers, words)
    return set(given.study.batch_sizes), printed


def trained(
    tmp_path: Path, answers: Answers, words: Sequence[str], *ends: tuple[int, Status, str | None]
) -> tuple[Request, str, AnswersFile]:
    """(what is trained, what is printed, the file) where trials of these batch sizes end so."""
    request, question = asked(tmp_path, *words)
    file = AnswersFile(request, question, find_bound(request, question), Console(file=io.StringIO()))
    file.answers = {"numpy": answers}
    given: list[Any] = []

    def train(request: Request, console: Console, cells: Collection[tuple[str, int]]) -> list[TrialResult]:
        given.append(request)
        assert {size for _, size in cells} == set(request.study.batch_sizes)
        results = []
        for repeat, (size, status, reason) in enumerate(ends):
            spec = make_spec(framework="numpy", batch_size=size, repeat=repeat)
            checks = [Check(CheckName.GATE, False, "no other framework")]
            results.append(TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, checks=checks))
        return results

    printed = io.StringIO()
    command._train(request, question, train, file, Console(file=printed, width=200))
    assert json.loads(file.path.read_text())["frameworks"]
    return given[0], printed.getvalue(), file


def test_every_found_size_and_the_one_to_recommend_are_trained_once_and_judged(tmp_path: Path) -> None:
    points = (SizePoint(8, 90.0, None, None, 3), SizePoint(32, 100.0, None, None, 3))
    noisy = Noise((NoisePoint(0.0, 1.0, 10.0, 10.0, 8.0, 12.0, None, 20, 32, 640),))
    answers = Answers("numpy", largest=largest(48), fastest=Best(32, None, points), noise=noisy)
    ends = (8, Status.OK, None), (32, Status.UNVERIFIED, "differs"), (48, Status.OUT_OF_MEMORY, "no memory")
    given, printed, file = trained(tmp_path, answers, (), *ends)
    assert (given.study.batch_sizes, given.study.repeats) == ((8, 32, 48), 1), "8 is within the noise scale"
    judged = file.answers["numpy"].judged
    assert [(each.batch_size, each.status, each.reason) for each in judged] == [
        (8, Status.OK, "no other framework"),
        *ends[1:],
    ]
    assert [passes(file.answers["numpy"], size) for size in (8, 32, 48, 64)] == [True, False, False, False]
    assert "numpy: batch size 32 is not recommended: its ordinary trial was unverified: differs\n" in printed


def test_one_repeat_that_did_not_pass_is_what_judges_its_size(tmp_path: Path) -> None:
    ends = (16, Status.OK, None), (16, Status.DIVERGED, "a loss is no number"), (16, Status.OK, None)
    words = ("--answer", "fastest", "--then-train", "--in-use", "16")
    given, _, file = trained(tmp_path, Answers("numpy", fastest=Best(16, None)), words, *ends)
    assert given.study.repeats == 3 and not passes(file.answers["numpy"], 16)


def test_a_training_that_failed_or_noise_that_nobody_measured_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, question = asked(tmp_path, "--answer", "noise-scale", "--then-train", "--in-use", "4")
    measured = Noise(reason="training diverged", folder="noise/numpy")
    assert command.is_unanswered(Answers("numpy"), question)
    assert command.is_unanswered(Answers("numpy", noise=Noise(reason="no environment")), question)
    assert not command.is_unanswered(Answers("numpy", noise=measured), question)
    monkeypatch.setattr(command, "measure_noise", lambda *_: {"numpy": measured})
    for name in ("make_environments", "prove_searches", "print_forecast", "Search", "_search"):
        monkeypatch.setattr(command, name, lambda *_: {})
    monkeypatch.setattr(command, "build_plan", lambda *_: SimpleNamespace(trials=[]))
    monkeypatch.setattr(StepTrials, "prepare", lambda *_: SimpleNamespace(specs={}))
    for status, code in ((Status.OK, 0), (Status.FAILED, 1)):
        spec = make_spec(framework="numpy", batch_size=4)
        end = TrialResult(spec, status, None if code == 0 else "it fell", "2026-01-01T00:00:00+00:00", 1.0)
        printed = io.StringIO()
        found = command.run(request, question, lambda *_, end=end: [end], Console(file=printed))
        assert (found, "it fell" in printed.getvalue()) == (code, code == 1)


@pytest.mark.parametrize("answer", ["largest", "fastest"])
def test_then_train_trains_whatever_was_asked_for_and_found(tmp_path: Path, answer: str) -> None:
    answers = Answers("numpy", largest=largest(48), fastest=Best(16, None))
    words = ("--answer", answer, "--then-train", "--in-use", "4")
    found = {"largest": 48, "fastest": 16}[answer]
    assert trained_sizes(tmp_path, answers, words)[0] == {4, found}


def test_sizes_that_were_asked_for_are_compared_with_the_one_in_use_as_found_ones_are(tmp_path: Path) -> None:
    words = ("--answer", "fastest", "--then-train", "--in-use", "4", "--batch-size", "4", "8")
    _, _, file = trained(tmp_path, Answers("numpy", fastest=Best(16, None)), words)
    assert [(each.batch_size, each.in_use) for each in file.answers["numpy"].trained] == [(8, 4), (16, 4)]


def test_a_found_size_that_is_not_trained_is_named_with_its_reason(tmp_path: Path) -> None:
    answers = Answers("numpy", largest=largest(1765), fastest=Best(None, "none of 3 trials gave a figure"))
    words = ("--answer", "largest", "fastest", "--then-train", "--in-use", "4")
    sizes, printed = trained_sizes(tmp_path, answers, words)
    assert sizes == {4}
    assert f"numpy: largest: 1,765 is not trained: an epoch has {IMAGES} images" in printed
    assert "numpy: fastest: no batch size was found, so none is trained for it" in printed


def test_a_found_size_at_which_the_warm_up_never_ends_is_named_and_others_are_trained(tmp_path: Path) -> None:
    answers = Answers("numpy", largest=largest(64), fastest=Best(4, None))
    words = ("--answer", "largest", "fastest", "--warm-up", "20", "--in-use", "4", "--epochs", "2")
    sizes, printed = trained_sizes(tmp_path, answers, words)
    assert sizes == {4}
    assert "numpy: largest: 64 is not trained: --warm-up 20: at batch size 64 " in printed


def test_a_forecast_of_one_training_is_one_trial(tmp_path: Path) -> None:
    request, question = asked(tmp_path, "--answer", "fastest", "--plan")
    shown = io.StringIO()
    command.print_plan(request, question, Console(file=shown, width=300))
    assert ": up to 1 trial, about " in shown.getvalue(), shown.getvalue()


def test_a_size_larger_than_the_training_split_is_refused_before_the_searches(tmp_path: Path) -> None:
    words = ("--then-train", "--batch-size", "5000", "--last-batch", "drop", "--dataset", "digits", "--framework")
    with pytest.raises(BadInput, match="batch size 5000 is larger than the training split of digits"):
        command.build_request([*words, "numpy", "--device", "cpu", "--results", str(tmp_path / "r")], PROJECT)


def test_the_size_in_use_may_be_named_among_those_to_train(tmp_path: Path) -> None:
    words = ("--then-train", "--batch-size", "64", "128", "--dataset", "digits", "--framework", "numpy")
    request, question = command.build_request([*words, "--device", "cpu", "--results", str(tmp_path / "r")], PROJECT)
    assert command.build_trainings(request, question).batch_sizes == (64, 128)


@for_each("words, most", [((), 8), (("--then-train", "--in-use", "4", "--batch-size", "5"), 60)])
def test_the_forecast_of_the_trainings_is_an_upper_bound(tmp_path: Path, words: Sequence[str], most: int) -> None:
    """Two frameworks find other sizes for every answer, and one more each within the noise scale."""
    if not (adapters := tmp_path / "adapters").exists():
        add_framework(adapters, "again", label='"again"')
    columns = ("--adapters", str(adapters), "--plan")
    request, question = asked(tmp_path, *columns, *words, frameworks=("numpy", "again"))
    shown = io.StringIO()
    command.print_plan(request, question, Console(file=shown, width=300))
    assert f": up to {most} trials, " in shown.getvalue(), shown.getvalue()

    console, trials = Console(file=io.StringIO()), Counter[str]()
    file = AnswersFile(request, question, find_bound(request, question), console)
    for framework, size in (("numpy", 32), ("again", 31)):
        points = tuple(SizePoint(each, 90.0, None, None, 3) for each in (size, size - 24))
        noisy = Noise((NoisePoint(0.0, 1.0, 10.0, 10.0, 8.0, 12.0, None, 20, 32, 640),))
        fastest, least_energy = Best(size, None, points), Best(size - 16, None)
        file.answers[framework] = Answers(framework, (), largest(size + 16), fastest, least_energy, noisy)

    def train(request: Request, console: Console, cells: Collection[tuple[str, int]]) -> list[TrialResult]:
        trials["made"] += len(cells) * request.study.repeats
        return []

    command._train(request, question, train, file, console)
    assert trials["made"] == most


def test_what_a_global_batch_looked_for_is_not_trained(tmp_path: Path) -> None:
    """It was found for its parts; nobody asked for it as an answer."""
    _, question = asked(tmp_path, "--answer", "fastest", "--global-batch", "256", "--then-train")
    answers = Answers("numpy", largest=largest(48), fastest=Best(16, None))
    assert question.searches == ("largest", "fastest") and list_found_sizes(answers, question) == {16}
    assert list(explain_untrained([replace(answers, largest=largest(None))], question, lambda size: "")) == []


class SeveralCommands:
    """Commands of one results folder, which search for two frameworks, and what they print."""

    def __init__(self, results: Path, adapters: Path) -> None:
        add_framework(adapters, "again", label='"again"')
        self.results, self.printed = results, io.StringIO()
        self.usual = "--adapters", str(adapters), "--memory-limit", "900"

    def begin(self, framework: str, *words: str, answer: str = "fastest") -> tuple[Request, Question, AnswersFile]:
        """Begin a command; its file has no answer yet."""
        words = *self.usual, *words, "--answer", answer
        request, question = asked(self.results, *words, frameworks=(framework,))
        console = Console(file=self.printed, width=1000)
        return request, question, AnswersFile(request, question, find_bound(request, question), console)

    def read(self) -> BatchAnswers:
        """Return the answers as reports read them."""
        stored = page.read(self.results)
        assert stored is not None
        return stored

    def read_of(self, framework: str) -> Answers:
        """Return the answers of a framework."""
        return next(each for each in self.read().frameworks if each.framework == framework)


@pytest.fixture
def several(tmp_path: Path) -> SeveralCommands:
    """A folder in which numpy has a fastest size, which was trained."""
    commands = SeveralCommands(tmp_path / "results", tmp_path / "adapters")
    memory, judged = (SizePoint(32, 100.0, None, None, 1),), (Judged(32, Status.OK, None, "trials/a"),)
    _, _, file = commands.begin("numpy")
    file.store("numpy", fastest=Best(32, None, memory), memory=memory, judged=judged, version="1")
    return commands


def test_another_framework_or_answer_is_added_to_the_answers_of_the_same_question(several: SeveralCommands) -> None:
    several.begin("again")[2].store("again", fastest=Best(16, None))
    assert {each.framework for each in several.read().frameworks} == set(several.read().conditions["labels"])
    _, _, file = several.begin("numpy", answer="largest")
    file.store("numpy", largest=largest(48), memory=(SizePoint(48, 140.0, None, None, 1),), version=None)
    of_numpy, of_again = several.read_of("numpy"), several.read_of("again")
    assert (of_again.fastest, of_numpy.largest, of_numpy.version) == (Best(16, None), largest(48), "1")
    assert of_numpy.fastest and (of_numpy.fastest.batch_size, passes(of_numpy, 32)) == (32, True)
    assert [each.batch_size for each in of_numpy.memory] == [32, 48] and several.printed.getvalue() == ""
    assert not (several.results / "batch-size-1.json").exists()


def test_trainings_of_fewer_repeats_do_not_replace_those_of_more(several: SeveralCommands) -> None:
    many = Trained(32, 64, 3.5, 3.2, 3.8, 0.0, -0.001, 0.001, 5, Holds.HOLDS)
    few = replace(many, speed_up_low=None, speed_up_high=None, repeats=1, verdict=Holds.UNCERTAIN)
    for trained_now, kept in ((few, few), (many, many), (few, many)):
        several.begin("numpy")[2].store("numpy", trained=(trained_now,))
        assert several.read_of("numpy").trained == (kept,)


def test_sizes_of_a_later_command_join_those_that_reached_the_same_target(several: SeveralCommands) -> None:
    spec = make_spec(framework="numpy", batch_size=32)
    trial = TrialResult(spec, Status.FAILED, "killed", "2026-01-01T00:00:00+00:00", 1.0)
    first = reached(trial, 0.6)
    second = replace(first, batch_size=64)
    several.begin("numpy")[2].store("numpy", target=answer([first], 0.6))
    several.begin("numpy")[2].store("numpy", target=answer([second], 0.6))
    target = several.read_of("numpy").target
    assert target and target == answer([first, second], 0.6)
    several.begin("numpy")[2].store("numpy", target=answer([second], 0.7))
    assert several.read_of("numpy").target == answer([second], 0.7), "another target is another answer"


def test_trainings_of_another_computer_in_the_folder_do_not_count(tmp_path: Path) -> None:
    request, question = asked(tmp_path, "--answer", "fastest", "--then-train", "--in-use", "16")
    file = AnswersFile(request, question, find_bound(request, question), Console(file=io.StringIO()))
    file.answers = {"numpy": Answers("numpy", fastest=Best(16, None))}
    spec, printed = make_spec(framework="numpy", batch_size=16), io.StringIO()

    def train(*_: object) -> list[TrialResult]:
        elsewhere = {"cpu_model": "another processor"}
        return [TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, machine=elsewhere)]

    command._train(request, question, train, file, Console(file=printed, width=200))
    assert file.answers["numpy"].judged == ()
    assert "1 training ran on another computer: not counted; train again here with another --results" in (
        printed.getvalue()
    )


def test_answers_of_another_version_of_a_framework_are_not_kept(several: SeveralCommands) -> None:
    several.begin("numpy")[2].store("numpy", largest=largest(48), version="2")
    assert several.read_of("numpy") == Answers("numpy", largest=largest(48), version="2")


def test_a_noise_scale_of_another_version_of_a_framework_drops_the_answers_of_the_old_one(
    several: SeveralCommands,
) -> None:
    folder = several.results / "noise" / "numpy-cpu"
    folder.mkdir(parents=True)
    events = {"event": "built", "t_ns": 1}, {"event": "opened", "t_ns": 2, "facts": {"framework_version": "2"}}
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    answer = Noise(noise_scale=90.0, folder="noise/numpy-cpu")
    assert [read_version(several.results, each) for each in (answer, Noise(reason="diverged"))] == ["2", None]
    several.begin("numpy")[2].store("numpy", noise=answer, version=read_version(several.results, answer))
    assert several.read_of("numpy") == Answers("numpy", noise=answer, version="2")


def test_only_the_frameworks_of_the_command_are_trained(several: SeveralCommands) -> None:
    request, question, file = several.begin("again")
    file.answers["again"] = Answers("again", fastest=Best(16, None))
    given: list[tuple[str, int]] = []

    def train(_: Request, __: Console, cells: Collection[tuple[str, int]]) -> list[TrialResult]:
        given.extend(cells)
        return []

    command._train(request, question, train, file, Console(file=io.StringIO()))
    assert given == [("again", 16)] and several.read_of("numpy").fastest


@pytest.mark.parametrize("words", [("--optimizer", "adam"), ("--in-use", "8"), ("--memory-limit", "800"), None])
def test_answers_to_another_question_are_set_aside_once_there_is_an_answer(
    several: SeveralCommands, words: tuple[str, ...] | None
) -> None:
    path, aside = several.results / "batch-size.json", several.results / "batch-size-1.json"
    if words is None:
        path.write_text("{")
    before = path.read_bytes()
    _, _, file = several.begin("again", *(words or ()))
    assert (path.read_bytes(), several.printed.getvalue(), aside.exists()) == (before, "", False)
    for size in (16, 24):
        file.store("again", fastest=Best(size, None))
    assert aside.read_bytes() == before and several.read().frameworks == (Answers("again", fastest=Best(24, None)),)
    (line,) = several.printed.getvalue().splitlines()
    assert line.startswith(f"{path}: ") and line.endswith(": it is kept as batch-size-1.json")
    assert words is None or "it answers another question (" in line
