"""What two trials must share before they may stand in one table, and the sections that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from workloads.spec import OptimizerSpec
from workloads.trial import Status, TrialResult

from .load import started


@dataclass(frozen=True)
class Condition:
    """None = the trial does not say. `seed` is that of repeat 0; `threads` also counts the cores allotted."""

    workload: str
    dataset: str
    optimizer: str
    epochs: int
    last_batch: str
    profile: str
    feed: str
    device: str
    device_name: str | None
    threads: int
    window_s: float
    precision: str | None
    seed: int

    @property
    def device_kind(self) -> str:
        return "cpu" if self.device == "cpu" else "cuda"


@dataclass(frozen=True)
class Section:
    """The trials of one condition, one for each (framework, batch size, repeat)."""

    condition: Condition
    results: tuple[TrialResult, ...]


@dataclass(frozen=True)
class Replaced:
    """A trial left out because a newer one has the same condition, framework, batch size and repeat."""

    old: TrialResult
    new: TrialResult


def condition_of(result: TrialResult) -> Condition:
    spec = result.spec
    return Condition(
        workload=spec.workload,
        dataset=spec.dataset,
        optimizer=optimizer_label(spec.optimizer),
        epochs=spec.epochs,
        last_batch=spec.last_batch,
        profile=spec.profile,
        feed=spec.feed,
        device=spec.device,
        device_name=_device_name(result),
        threads=spec.threads,
        window_s=spec.window_s,
        precision=_precision(result.facts),
        seed=spec.seed - spec.repeat,
    )


def sections(results: Iterable[TrialResult]) -> tuple[list[Section], list[Replaced]]:
    """Every result is either in exactly one section or among the replaced."""
    found = [(result, condition_of(result)) for result in results]
    complete = {condition for _, condition in found if condition.precision is not None}
    kept: dict[Condition, dict[tuple[str, int, int], TrialResult]] = {}
    replaced: list[Replaced] = []
    for result, condition in sorted(found, key=lambda pair: started(pair[0])):
        if result.status is not Status.OK:
            condition = _completed(condition, complete)
        cell = (result.spec.framework, result.spec.batch_size, result.spec.repeat)
        trials = kept.setdefault(condition, {})
        if cell in trials:
            replaced.append(Replaced(trials[cell], result))
        trials[cell] = result
    order = sorted(kept, key=lambda condition: [str(getattr(condition, field.name)) for field in fields(condition)])
    return [Section(condition, tuple(kept[condition].values())) for condition in order], replaced


def _completed(condition: Condition, complete: set[Condition]) -> Condition:
    """A trial that died early reported no precision; it joins the one section it can belong to, if there is one."""
    told = {f.name: value for f in fields(condition) if (value := getattr(condition, f.name)) is not None}
    fitting = [other for other in complete if all(getattr(other, name) == told[name] for name in told)]
    return fitting[0] if len(fitting) == 1 else condition


def optimizer_label(optimizer: OptimizerSpec) -> str:
    """The rule and those of its numbers that it uses."""
    rate = f"learning rate {optimizer.learning_rate}"
    match optimizer.name:
        case "sgd":
            return f"SGD, {rate}"
        case "momentum":
            return f"SGD with momentum {optimizer.momentum}, {rate}"
        case "nesterov":
            return f"SGD with Nesterov momentum {optimizer.momentum}, {rate}"
        case "adam":
            return f"Adam ({optimizer.beta1}, {optimizer.beta2}, epsilon {optimizer.epsilon}), {rate}"


def _device_name(result: TrialResult) -> str | None:
    name = result.machine.get("cpu_model")
    if result.spec.device != "cpu":
        gpus = result.machine.get("gpus")
        found = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
        name = next((gpu.get("name") for gpu in found if gpu.get("uuid") == result.spec.device), None)
    return name if isinstance(name, str) else None


def _precision(facts: dict[str, Any]) -> str | None:
    precision = facts.get("precision")
    if precision is None:
        return None
    return f"{precision}, TF32 on" if facts.get("tf32") is True else str(precision)
