"""Store the answers of a search; a later command that asks the same question adds to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console

from runner import setup
from runner.batch_size.largest import Bound
from runner.batch_size.question import Question
from runner.environments import definition
from runner.request.cli import Request
from runner.trial import format_now
from workloads import trainings
from workloads.records import files, network, validation
from workloads.records.batch_answers import ANSWERS_FILE, SCHEMA_VERSION, Answers, BatchAnswers, Target, Trained
from workloads.setting_words import OWN_CODE

ASIDE = "batch-size-{number}.json"  # answers to another question
# Conditions in which commands that ask the same question may differ.
OF_COMMAND = ("started_at", "commit", "runner_digest", "memory_bytes", "labels")
BY_SIZE = ("memory", "judged", "trained")  # of `Answers`: each has one entry per batch size


class AnswersFile:
    """ANSWERS_FILE, rewritten with every answer."""

    def __init__(self, request: Request, question: Question, bound: Bound, console: Console) -> None:
        """Take over the stored answers to the same question; nothing is written yet."""
        self.path, self.bound, self.console = request.results / ANSWERS_FILE, bound, console
        self.conditions, self.in_use = collect_conditions(request, question, bound), question.in_use
        self.answers = {name: Answers(name, devices=request.placement.devices) for name in request.frameworks}
        self.aside = ""  # why the stored file does not stay when the first answer comes
        if self.path.exists():
            self._take_over()

    def _take_over(self) -> None:
        """Read the stored answers; keep them if they are to the same question."""
        try:
            before = validation.read(self.path, BatchAnswers)
        except ValueError as error:
            self.aside = str(error)
            return
        assert before is not None
        others = {"schema_version": before.schema_version, "in_use": before.in_use, **before.conditions}
        own = {"schema_version": SCHEMA_VERSION, "in_use": self.in_use, **json.loads(json.dumps(self.conditions))}
        names = sorted({*own, *others} - {*OF_COMMAND})
        if differing := [name for name in names if own.get(name) != others.get(name)]:
            self.aside = f"it answers another question ({', '.join(differing)})"
            return
        self.answers |= {each.framework: each for each in before.frameworks}
        self.conditions["labels"] = others.get("labels", {}) | self.conditions["labels"]
        commits = [each for each in (others.get("commit"), self.conditions["commit"]) if each]
        if len(commits) == 2 and commits[1] not in commits[0]:
            self.conditions["commit"] = ", ".join(commits)

    def store(self, framework: str, **known_now: Any) -> None:
        """Store what is known about the framework so far. Answers of another version of it are dropped."""
        known, version = self.answers[framework], known_now.pop("version", None)
        if known.version is not None and version not in (None, known.version):
            known = Answers(framework, devices=known.devices)
        for name in known_now.keys() & {*BY_SIZE}:
            by_size = {each.batch_size: each for each in (*getattr(known, name), *known_now[name])}
            if name == "trained":  # the trials of more repeats are still in the folder
                by_size |= {each.batch_size: each for each in known.trained if is_fuller(each, by_size)}
            known_now[name] = tuple(by_size[size] for size in sorted(by_size))
        if known.target and (target := known_now.get("target")) and target.accuracy == known.target.accuracy:
            known_now["target"] = add_reached(known.target, target)
        self.answers[framework] = replace(known, version=version or known.version, **known_now)
        if self.aside:
            kept = files.set_aside(self.path, ASIDE)
            self.console.print(f"{self.path}: {self.aside}: it is kept as {kept.name}")
            self.aside = ""
        frameworks = tuple(self.answers.values())
        files.write_json(self.path, asdict(BatchAnswers(SCHEMA_VERSION, self.conditions, self.in_use, frameworks)))


def is_fuller(before: Trained, by_size: Mapping[int, Trained]) -> bool:
    """True if the earlier answer on a batch size has more repeats than the one now."""
    return before.repeats > by_size[before.batch_size].repeats


def add_reached(before: Target, now: Target) -> Target:
    """Return the answer over the trainings of both; a training of both is that of now."""
    reached = {(each.batch_size, each.repeat): each for each in (*before.reached, *now.reached)}
    return trainings.answer([*reached.values()], now.accuracy)


def collect_conditions(request: Request, question: Question, bound: Bound) -> dict[str, Any]:
    """Return the conditions of all answers: those of every command, what is trained, and the memory limit."""
    study, classes, shape = request.study, request.dataset.classes, request.workload.input_shape
    names = dict.fromkeys(model.workload for model in request.models.values())
    codes = {name: asdict(model.code(classes, shape)) for name, model in request.models.items()}
    task = replace(study.task, network=network.digest(request.workload), source=request.source)
    return setup.collect_conditions(request) | {
        **({"workload": f"{', '.join(names)} ({OWN_CODE})", "models": codes} if names else {}),
        **({"devices": request.placement.devices} if request.placement.devices > 1 else {}),
        "started_at": format_now(),
        "train_images": request.dataset.train_count,
        "optimizer": asdict(study.optimizer_spec),
        "epochs": study.epochs,
        "task": asdict(task),
        "last_batch": study.last_batch,
        "seed": study.seed,
        "window_s": question.window_s,
        "isolation": request.isolation,
        **({"limit": bound.limit, "limit_bytes": bound.limit_bytes} if bound.limit_bytes else {}),
        "labels": {name: definition.read_label(request.project, name) for name in request.frameworks},
    }
