"""State what trainings at several batch sizes show, and the answers of a page that recommends nothing."""

from __future__ import annotations

from collections.abc import Iterator

from workloads.records.advice import PASSED, find_judged
from workloads.records.batch_answers import Answers, BatchAnswers, Holds, Trained
from workloads.records.status import Status
from workloads.trainings import LEAST_SPEED_UP, TOLERATED_LOSS

from ..condition_text import ABSENT
from ..frameworks import FrameworkNames, order_frameworks
from ..sentences import say, status_words
from . import tables

CERTAIN_FIRST = (Holds.HOLDS, Holds.DOES_NOT, Holds.UNCERTAIN)


def list_answers(answers: BatchAnswers, named: FrameworkNames) -> list[str]:
    """Write what was asked for in place of a fastest size, a sentence each; the one on trainings comes first."""
    faster = [_answer_trainings(answers, named)] if any(each.trained for each in answers.frameworks) else []
    return [*faster, *state_trainings(answers, named), *_list_sizes(answers, named)]


def _answer_trainings(answers: BatchAnswers, named: FrameworkNames) -> str:
    """Answer whether larger batches are much faster at equal quality, in the form of every question of a study."""
    bounds = {"in_use": answers.in_use, "times": LEAST_SPEED_UP, "points": 100 * TOLERATED_LOSS}
    outcomes = _group_trainings(answers)
    uncertain = outcomes.pop(tables.HELD[Holds.UNCERTAIN], None) is not None
    question = say("batch_size.faster", **bounds)
    return say("published.answer", named, question=question, answers=outcomes, uncertain=uncertain)


def _list_sizes(answers: BatchAnswers, named: FrameworkNames) -> Iterator[str]:
    """Yield a line for each question that any framework answers with a size."""
    of_targets = ((target, tables.at_target(target)) for target in tables.list_targets(answers))
    for question, target, column in (
        *((question, None, column) for question, column in tables.SIZES.items()),
        *(("target", target, column) for target, column in of_targets),
    ):
        known: dict[str, tuple[str, str | None]] = {}
        for each in answers.frameworks:
            cell, doubt = column(each), _find_doubt(each, question)
            if cell.text not in (ABSENT, Status.UNVERIFIED):
                known[named(each.framework)] = cell.text, doubt
        if known:
            yield say("batch_size.sizes", question=question, sizes=known, target=target)


def _find_doubt(each: Answers, question: str) -> str | None:
    """Return how the ordinary trial of a found size ended if not well, else what the search left open."""
    found = {"largest": each.largest, "energy": each.least_energy, "target": each.target}.get(question)
    if found is None:
        return None
    trial = None if question == "target" else find_judged(each, found.batch_size)
    return found.reason if trial is None or trial.status in PASSED else status_words(trial.status)


def _group_trainings(answers: BatchAnswers) -> dict[str, dict[str, list[str]]]:
    """Map {verdict: {"at" a batch size: frameworks, none if it is so for all}}, the certain verdicts first."""
    by_size: dict[int, dict[str, Holds]] = {}
    for each in answers.frameworks:
        for training in each.trained:
            by_size.setdefault(training.batch_size, {})[each.framework] = training.verdict
    groups: dict[str, dict[str, list[str]]] = {}
    for verdict in CERTAIN_FIRST:
        for size, verdicts in sorted(by_size.items()):
            names = order_frameworks(name for name, found in verdicts.items() if found is verdict)
            if names:
                some = [] if len(names) == len(answers.frameworks) else names
                groups.setdefault(tables.HELD[verdict], {})[f"at {size:,}"] = some
    return groups


def state_trainings(answers: BatchAnswers, named: FrameworkNames) -> list[str]:
    """Write a sentence for each size that was compared with the one in use."""
    return [
        say("batch_size.trained", named, name=each.framework, training=training, **_describe(training))
        for each in answers.frameworks
        for training in each.trained
    ]


def _describe(training: Trained) -> dict[str, list[float]]:
    """Return (mean, low, high) of the speed-up and of the change in points; the mean alone without an interval."""
    speed_up = (training.speed_up, training.speed_up_low, training.speed_up_high)
    change = (training.accuracy_change, training.accuracy_low, training.accuracy_high)
    return {
        "speed_up": [end for end in speed_up if end is not None],
        "points": [100 * end for end in change if end is not None],
    }
