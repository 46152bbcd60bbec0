"""Define the conditions that trials of one table must share, and group trials into sections by them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from workloads.conditions import BY_FRAMEWORK, REPORTED, read_mode, read_values
from workloads.records import processor
from workloads.records.build import ALL, DEFAULT, EVERYTHING, FLOAT32
from workloads.records.job import AS_BY_ITSELF, OF_THE_CALLER, Cell, Passes, Placement, Task, TrialSpec
from workloads.records.result import Key, TrialResult
from workloads.records.status import Status
from workloads.records.stored import read_start
from workloads.setting_words import describe_own_network, drop_unused
from workloads.study import OF_SERIES, Study, list_studies
from workloads.study_file import read

from .frameworks import FrameworkNames, read_names


@dataclass(frozen=True)
class Condition:
    """Conditions shared by all frameworks of a table: the settings, and what results reported, as (name, words)."""

    task: Task
    passes: Passes
    placement: Placement
    stated: tuple[tuple[str, str | None], ...]  # of conditions.REPORTED: None if not reported, "" where it is left out

    @property
    def sorted_by(self) -> list[list[str | float]]:
        """Sort key of sections; numbers sort by size, 2 before 16."""
        texts = (*map(str, (self.task, self.passes, self.placement)), *(str(words) for _, words in self.stated))
        return [[float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(text))] for text in texts]

    @property
    def device_model(self) -> str | None:
        """Model of the processor, or of the GPU for a trial on one."""
        return dict(self.stated)["device"]


@dataclass(frozen=True)
class Software:
    """Software shared by all trials of one framework in a table; frameworks may differ. None = not reported."""

    environment: str
    version: str | None
    cuda: str | None
    cudnn: str | None
    packages: str | None  # a digest of their versions
    kernels: str | None  # the code that its libraries chose for this processor; on a CPU
    stated: tuple[tuple[str, str | None], ...] = ()  # of conditions.BY_FRAMEWORK


RULE, DEVICE_KIND = "optimizer", "device_kind"  # settings that stand for others
NOT_COMPARED = ("feed", "last_batch", "threads")  # settings by which a trial is still of its series
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
Shared = TypeVar("Shared", Condition, Software)


@dataclass(frozen=True, eq=False)
class Section:
    """Trials of one condition, at most one for each (framework, batch size, repeat). Each framework has one software.

    `by_default` are trials with the framework's default allocator policy; only their memory is shown. `attempts`: by
    the key of a result with other attempts, what became of those. `beside`: publications that a reader asked for by
    name, whether they fit or not. `runs`: by the key of a result the number of its run, where several runs of one study
    are read together. `named`: the report's names of frameworks.
    """

    condition: Condition
    software: dict[str, Software]
    results: tuple[TrialResult, ...]
    named: FrameworkNames
    by_default: tuple[TrialResult, ...] = ()
    attempts: Mapping[Key, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    runs: Mapping[Key, int] = field(default_factory=dict)
    computed: dict[object, Any] = field(default_factory=dict, init=False, repr=False)  # tables ask for the same again

    @cached_property
    def default(self) -> Section:
        """Section of the trials with the framework's default policy."""
        return replace(self, results=self.by_default, by_default=())

    @property
    def every(self) -> tuple[TrialResult, ...]:
        """Trials of both allocator policies."""
        return self.results + self.by_default


@dataclass(frozen=True)
class Replaced:
    """A trial left out because a newer one has the same condition, software, batch size and repeat."""

    old: TrialResult
    new: TrialResult


def read_condition(result: TrialResult) -> Condition:
    """Return the conditions of a stored result; a part is None if it was not reported."""
    spec = result.spec
    own, said = spec.task, read_mode(result)
    task = replace(
        own,
        optimizer=drop_unused(own.optimizer),
        network=describe_own_network(own),
        profile=DEFAULT if said.profile == own.profile else own.profile,
        precision=FLOAT32 if said.precision == own.precision else own.precision,
    )
    stated = tuple((each.name, each.read(result)) for each in REPORTED)
    return Condition(task, spec.passes, spec.placement, stated)


def read_software(result: TrialResult) -> Software:
    """Return the worker's versions and kernels, from its facts; None for what was not reported."""
    facts, digest = result.facts, None
    packages = facts.get("packages")
    if isinstance(packages, dict) and packages:
        digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()[:8]
    stated = (facts.get(f"{name}_version") for name in ("framework", "cuda", "cudnn"))
    version, cuda, cudnn = (None if each is None else str(each) for each in stated)
    installation = result.spec.installation
    whose = "own interpreter, " if installation.isolation == OF_THE_CALLER else ""
    kernels, said = processor.describe_kernels(facts), tuple((each.name, each.read(result)) for each in BY_FRAMEWORK)
    return Software(whose + installation.environment, version, cuda, cudnn, digest, kernels, said)


def group_into_sections(
    results: Iterable[TrialResult], runs: Mapping[Key, int] = {}
) -> tuple[list[Section], list[Replaced]]:
    """Group results into sections; each result is in exactly one section or among the replaced.

    `runs` as in `Section`; `named` are the names in these results. If a framework has several softwares in one
    condition, the newest of each framework form one section. The second newest form the next section, and so on.
    """
    groups: dict[Condition, list[TrialResult]] = {}
    by_time = sorted(results, key=read_start)
    for result, condition in _completed(by_time, read_condition):
        groups.setdefault(condition, []).append(result)
    named, made = read_names(by_time), list[Section]()
    replaced: list[Replaced] = []
    for condition in sorted(groups, key=lambda each: each.sorted_by):
        for software, trials in _layers(groups[condition]):
            kept: dict[tuple[Cell, int, int], TrialResult] = {}
            for result in trials:
                place = result.spec.cell, result.spec.draw.repeat, runs.get(result.key, 0)
                if place in kept:
                    replaced.append(Replaced(kept[place], result))
                kept[place] = result
            by_default = tuple(result for (cell, *_), result in kept.items() if cell.allocator == AS_BY_ITSELF)
            others = tuple(result for (cell, *_), result in kept.items() if cell.allocator != AS_BY_ITSELF)
            made.append(Section(condition, software, others, named, by_default, runs=runs))
    return made, replaced


def _layers(by_time: list[TrialResult]) -> list[tuple[dict[str, Software], list[TrialResult]]]:
    """Split the trials of one condition so that each framework has one software per part; newest part first."""
    layers: list[tuple[dict[str, Software], list[TrialResult]]] = []
    for framework in dict.fromkeys(result.spec.cell.framework for result in by_time):
        of_software: dict[Software, list[TrialResult]] = {}
        trials = [result for result in by_time if result.spec.cell.framework == framework]
        for result, software in reversed(_completed(trials, read_software)):
            of_software.setdefault(software, []).append(result)
        for place, (software, results) in enumerate(of_software.items()):
            layers += [({}, [])] if place == len(layers) else []
            layers[place][0][framework] = software
            layers[place][1].extend(results)
    return [(softwares, sorted(trials, key=read_start)) for softwares, trials in layers]


def _parts(shared: Condition | Software) -> dict[str, Any]:
    """Parts that are known."""
    parts = vars(shared) | dict(shared.stated)
    return {name: value for name, value in parts.items() if value is not None and name != "stated"}


def _completed(
    results: list[TrialResult], shared_by: Callable[[TrialResult], Shared]
) -> list[tuple[TrialResult, Shared]]:
    """Pair each trial with what it shares with others.

    A trial that failed early reported less. It joins the only complete group that fits, if there is exactly one. Trials
    that are ok or reported everything keep their own group.
    """
    pairs = [(result, shared_by(result)) for result in results]
    complete = {shared for result, shared in pairs if result.facts}
    completed = []
    for result, shared in pairs:
        if result.status is not Status.OK:
            fitting = [other for other in complete if _parts(shared).items() <= _parts(other).items()]
            shared = fitting[0] if len(fitting) == 1 else shared
        completed.append((result, shared))
    return completed


def settings(condition: Condition) -> dict[str, Any]:
    """Return {key of a study: value}: task, passes and placement, the update rule's numbers, the kind of device."""
    rule = asdict(condition.task.optimizer)
    return read_values(condition) | rule | {RULE: rule.pop("name"), DEVICE_KIND: condition.placement.device_kind}


def alike(a: Condition, b: Condition, but: Collection[str]) -> bool:
    """True if two conditions differ at most in these keys; with another update rule, its numbers may differ too."""
    return _rest(a, but) == _rest(b, but)


def _rest(condition: Condition, but: Collection[str]) -> dict[str, Any]:
    """Return everything that must be the same."""
    left_out = {*but, *(asdict(condition.task.optimizer) if RULE in but else ())}
    left_out |= {"device"} if DEVICE_KIND in but else set()
    left_out |= {"others"} if "devices" in but else set()  # the UUIDs of the further devices
    by_device = {each.name for each in REPORTED if each.by_device and DEVICE_KIND in but}
    known = {key: value for key, value in settings(condition).items() if key not in left_out}
    return known | {f"stated {name}": words for name, words in condition.stated if name not in by_device}


@cache
def read_series(study: str) -> dict[str, Study]:
    """Return {series: its study} for one of our studies, {} for any other; {"": the study} if it has no series."""
    path = list_studies().get(study)
    return read(path).parts if path else {}


@cache
def has_own_columns(study: str) -> bool:
    """True if it is one of our studies, and series of it set their frameworks or profiles."""
    path = list_studies().get(study)
    return path is not None and any({"frameworks", "profiles"} & {*each.keys} for each in read(path).series)


def is_of_series(spec: TrialSpec, part: Study) -> bool:
    """True if a trial trains what the study does; an option may have asked for something else.

    Its framework and profile count only where series of its study differ in them.
    """
    task, column = part.task, spec.cell.column
    trained, asked = read_values(spec), vars(part) | {"optimizer": task.optimizer, "initial": task.initial}
    if has_own_columns(spec.study) and (
        column.mode.profile not in part.profiles or not {column.framework, ALL, EVERYTHING} & {*part.frameworks}
    ):
        return False
    return all(trained[name] == asked[name] for name in OF_SERIES if name in trained and name not in NOT_COMPARED)


def name_series(section: Section) -> str:
    """Names of the series of a section's columns; "" if a column belongs to none, or to more than one."""
    columns = {result.spec.cell.framework: result.spec for result in section.every}
    names = list(dict.fromkeys(map(_name_series_of, columns.values())))
    return ", ".join(names) if all(names) else ""


def _name_series_of(spec: TrialSpec) -> str:
    names = list_series_of(spec)
    return names[0] if len(names) == 1 else ""


def list_series_of(spec: TrialSpec) -> list[str]:
    """List the series of its study that a trial is of: those with its number of threads, else those that set none."""
    found = {name: part for name, part in read_series(spec.study).items() if is_of_series(spec, part)}
    placed = [name for name, part in found.items() if part.threads == spec.placement.threads]
    return placed or [name for name, part in found.items() if part.threads is None]
