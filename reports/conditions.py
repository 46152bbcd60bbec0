"""Define the conditions that trials of one table must share, and group trials into sections by them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from workloads.networks import WORKLOADS
from workloads.records import network, processor
from workloads.records.build import DEFAULT, FLOAT32, TF32, Mode, mode_of
from workloads.records.job import ANY_GPU, AS_BY_ITSELF, OF_THE_CALLER, Cell, Passes, Placement, Task
from workloads.records.result import Key, TrialResult
from workloads.records.status import Status
from workloads.records.stored import started

from .image_source import source_words
from .reference_words import reference
from .training_text import accumulation_label, augmentation_label, devices_label, in_use, optimizer_label

VARIABLES = "caller's variables"
OWN_CODE = "own code, not compared"
ACCUMULATION, COOL_DOWN, DEVICES, DEVICE_ID = "accumulation", "cool-down", "devices", "device id"


@dataclass(frozen=True)
class Condition:
    """Conditions shared by all frameworks of a table. `stated` are (part, its words), None if not reported."""

    task: Task
    passes: Passes
    placement: Placement
    stated: tuple[tuple[str, str | None], ...]

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


NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
Shared = TypeVar("Shared", Condition, Software)


@dataclass(frozen=True, eq=False)
class Section:
    """Trials of one condition, at most one for each (framework, batch size, repeat). Each framework has one software.

    `by_default` are trials with the framework's default allocator policy; only their memory is shown. `attempts`: by
    the key of a result with other attempts, what became of those. `beside`: publications that a reader asked for by
    name, whether they fit or not. `runs`: by the key of a result the number of its run, where several runs of one study
    are read together.
    """

    condition: Condition
    software: dict[str, Software]
    results: tuple[TrialResult, ...]
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


def condition_of(result: TrialResult) -> Condition:
    """Return the conditions of a stored result; a part is None if it was not reported."""
    spec = result.spec
    own, said = spec.task, mode_said(result)
    task = replace(
        own,
        optimizer=in_use(own.optimizer),
        network=_network(own),
        profile=DEFAULT if said.profile == own.profile else own.profile,
        precision=FLOAT32 if said.precision == own.precision else own.precision,
    )
    return Condition(task, spec.passes, spec.placement, tuple(_stated(result, task.profile, said).items()))


def mode_said(result: TrialResult) -> Mode:
    """Return the mode named in the trial's column label, if the trial did train in that mode."""
    said, task = mode_of(result.spec.cell.framework), result.spec.task
    return Mode(
        said.profile if said.profile == task.profile else DEFAULT,
        said.precision if said.precision == task.precision else FLOAT32,
    )


def _network(task: Task) -> str:
    """Digest of a network that differs from the catalogue's network of that name; "" if it does not differ."""
    return "" if task.network == _of_catalogue(task.workload) else task.network


@cache  # a report asks for it twice per trial
def _of_catalogue(name: str) -> str:
    return network.digest(WORKLOADS[name]) if name in WORKLOADS else ""


def model_words(task: Task) -> str:
    """Name of the model, with the note that must accompany it everywhere."""
    return f"{task.workload} ({OWN_CODE})" if task.own_code else task.workload


def _stated(result: TrialResult, profile: str, said: Mode) -> dict[str, str | None]:
    """Describe every part of a condition, in display order; leaves out what the column label says."""
    spec, machine, precision = result.spec, result.machine, result.facts.get("precision")
    task, passes, placement = spec.task, spec.passes, spec.placement
    tf32 = result.facts.get("tf32") is True and said.precision != TF32
    gpu, cpu_model, container = _gpu(result), _text(machine.get("cpu_model")), _container(result)
    cores, flags = machine.get("cores"), machine.get("cpu_flags")
    return {
        "model": model_words(task),
        **reference(task),
        **({"own code": f"{task.own_code.words}, initial weights by the framework itself"} if task.own_code else {}),
        **({"network": f"digest {digest}"} if (digest := _network(task)) else {}),
        "data set": task.dataset,
        **(source_words(task.source) if task.source else {}),
        **({"augmentation": augmentation_label(task)} if task.augment != "none" else {}),
        **({ACCUMULATION: accumulation_label(task)} if task.accumulate > 1 else {}),
        "optimizer": optimizer_label(task.optimizer, task.accumulate * placement.devices),
        "epochs": str(passes.epochs),
        "last batch": {"keep": "kept", "drop": "dropped"}.get(passes.last_batch, passes.last_batch),
        "profile": profile,
        "feed": task.feed,
        "device": cpu_model if placement.device_kind == "cpu" else _text(gpu.get("name")),
        DEVICE_ID: ", ".join([placement.device, *placement.others]),
        **({DEVICES: devices_label(placement)} if placement.devices > 1 else {}),
        "processor": cpu_model,
        "processor's flags": processor.listed(flags) if isinstance(flags, list) else None,
        "cores": str(cores) if isinstance(cores, int) and cores else None,
        "GPU driver": _text(gpu.get("driver")),
        "kernel": _text(machine.get("os")),
        "libc": None if container is None else _text(machine.get("libc")),  # the worker's
        "runner's code": _measurement(machine),
        "threads": str(placement.threads),
        VARIABLES: " ".join(f"{name}={value}" for name, value in sorted(placement.variables.items())) or "none set",
        "steady window": f"{spec.window_s:g} s",
        **({COOL_DOWN: f"{spec.cool_down_s:g} s"} if spec.cool_down_s else {}),
        "precision": FLOAT32 if precision == said.precision else _text(precision),
        "TF32": None if precision is None else "on" if tf32 else "off",
        "seed": str(spec.draw.first_seed),
        "container": container,
        "limits": _limits(result),
    }


def software_of(result: TrialResult) -> Software:
    """Return the worker's versions and kernels, from its facts; None for what was not reported."""
    facts, digest = result.facts, None
    packages = facts.get("packages")
    if isinstance(packages, dict) and packages:
        digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()[:8]
    version, cuda, cudnn = (_text(facts.get(f"{name}_version")) for name in ("framework", "cuda", "cudnn"))
    installation = result.spec.installation
    whose = "own interpreter, " if installation.isolation == OF_THE_CALLER else ""
    return Software(whose + installation.environment, version, cuda, cudnn, digest, processor.kernels(facts))


def sections(results: Iterable[TrialResult], runs: Mapping[Key, int] = {}) -> tuple[list[Section], list[Replaced]]:
    """Group results into sections; each result is in exactly one section or among the replaced.

    `runs` as in `Section`. If a framework has several softwares in one condition, the newest of each framework form one
    section. The second newest form the next section, and so on.
    """
    groups: dict[Condition, list[TrialResult]] = {}
    for result, condition in _completed(sorted(results, key=started), condition_of):
        groups.setdefault(condition, []).append(result)
    made: list[Section] = []
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
            made.append(Section(condition, software, others, by_default, runs=runs))
    return made, replaced


def _layers(by_time: list[TrialResult]) -> list[tuple[dict[str, Software], list[TrialResult]]]:
    """Split the trials of one condition so that each framework has one software per part; newest part first."""
    layers: list[tuple[dict[str, Software], list[TrialResult]]] = []
    for framework in dict.fromkeys(result.spec.cell.framework for result in by_time):
        of_software: dict[Software, list[TrialResult]] = {}
        trials = [result for result in by_time if result.spec.cell.framework == framework]
        for result, software in reversed(_completed(trials, software_of)):
            of_software.setdefault(software, []).append(result)
        for place, (software, results) in enumerate(of_software.items()):
            layers += [({}, [])] if place == len(layers) else []
            layers[place][0][framework] = software
            layers[place][1].extend(results)
    return [(softwares, sorted(trials, key=started)) for softwares, trials in layers]


def _parts(shared: Condition | Software) -> dict[str, Any]:
    """Parts that are known."""
    parts = vars(shared) | (dict(shared.stated) if isinstance(shared, Condition) else {})
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


def _gpu(result: TrialResult) -> dict[str, Any]:
    """Facts that the machine reported about the trial's GPU; empty on a CPU or if nothing was reported."""
    gpus = result.machine.get("gpus")
    known = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    device = result.spec.placement.device  # in a sweep, the machine reported the assigned device
    return next((gpu for gpu in known if device in (ANY_GPU, gpu.get("uuid"))), {})


def _container(result: TrialResult) -> str | None:
    """Describe the container of worker or runner; None if the trial should have had one and never started."""
    container = result.machine.get("container")
    if isinstance(container, dict):
        return f"one for each trial, {container.get('engine')}"
    if result.spec.installation.isolation == "docker":
        return None
    return "one for the whole study" if result.machine.get("image") else "none"


def _measurement(machine: dict[str, Any]) -> str | None:
    """Version of the runner's measurement; for older results a digest of all its code."""
    version = machine.get("measurement_version")
    return _text(machine.get("runner_digest")) if version is None else f"measurement version {version}"


def _limits(result: TrialResult) -> str:
    cores, memory = result.machine.get("cpu_limit_cores"), result.machine.get("memory_limit_bytes")
    placed = result.spec.placement.memory_limit_bytes
    memory = placed or memory
    limits = [f"{cores:g} cores"] if isinstance(cores, int | float) else []
    kind = " of data segment" if placed and result.spec.installation.isolation != "docker" else ""
    kind = " of a control group" if result.spec.placement.control_group else kind
    limits += [f"{memory / 2**20:.0f} MiB{kind}"] if isinstance(memory, int | float) else []
    return ", ".join(limits) or "none"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
