"""From a study to its trials: which, in which order, which are finished already, how long it may take."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from runner.command import own_code, training_inputs
from runner.command.cli import Request
from runner.environments import definition
from runner.gate.judge import lacks_evidence
from workloads.records import network, stored
from workloads.records.build import mode_of
from workloads.records.job import (
    AS_BY_ITSELF,
    ON_DEMAND,
    Cell,
    Draw,
    InputFile,
    Installation,
    Placement,
    Task,
    TrialSpec,
)
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS
from workloads.spec import Workload
from workloads.study import Study

# The rough guess where nothing has been measured yet: 27 MFLOP an image at 2,000 to 5,000 images/s on two cores.
GUESS_FLOPS_PER_CORE = 40e9
GUESS_GPU_FLOPS = 5e12
GUESS_STEP_S = 0.001
GUESS_START_S = 5.0


@dataclass(frozen=True)
class Plan:
    """Trials in the order in which they run; `finished` are results kept from earlier runs."""

    trials: list[TrialSpec]
    finished: dict[str, TrialResult]
    workload: Workload
    train_count: int  # images

    @property
    def to_run(self) -> list[TrialSpec]:
        """Trials without a result that counts, in their order."""
        return [spec for spec in self.trials if spec.id not in self.finished]

    @property
    def estimates_s(self) -> dict[str, float]:
        """{id: seconds} of what is to run."""
        measured = list(self.finished.values())
        return {spec.id: estimate_s(spec, self.workload, self.train_count, measured) for spec in self.to_run}

    def of_cells(self, cells: Collection[tuple[str, int]]) -> Plan:
        """What of it belongs to these (framework, batch size), none of it finished yet."""
        trials = [spec for spec in self.trials if (spec.cell.framework, spec.cell.batch_size) in cells]
        return replace(self, trials=trials, finished={})

    def with_stored(self, results: Iterable[TrialResult]) -> Plan:
        """Trials with a stored result that counts are finished. Where the plan has no inputs, as one that runs nothing,
        stored trials are known by all else.
        """
        ids = {spec.id for spec in self.trials}
        kept = [result for result in results if counts(result)]
        if not any(spec.inputs for spec in self.trials):
            kept = [replace(result, spec=replace(result.spec, inputs={})) for result in kept]
        return replace(self, finished={result.spec.id: result for result in kept if result.spec.id in ids})


def planned_trials(
    study: Study,
    installations: dict[str, Installation],
    placement: Placement,
    preallocating: Collection[str],
    repeats: range,
    inputs: dict[int, dict[str, InputFile]],
) -> list[TrialSpec]:
    """Randomised blocks: every repeat and batch size is one block, in which the frameworks follow each other
    directly, so that they meet the same state of the machine. `study.seed` decides both orders.

    `installations` is by framework; `inputs` is by repeat, or empty for a plan that runs nothing. Each of the
    `preallocating` frameworks has one trial more, the last, at the smallest batch size and with its own allocator
    policy, to show the policy against the need.
    """
    shuffle = random.Random(study.seed + repeats.start)
    blocks = [(repeat, batch_size) for repeat in repeats for batch_size in study.batch_sizes]
    shuffle.shuffle(blocks)
    trials = []
    for repeat, batch_size in blocks:
        frameworks = sorted(installations)
        shuffle.shuffle(frameworks)
        trials += [
            TrialSpec(
                Cell(framework, batch_size, ON_DEMAND),
                study.task,
                study.passes,
                placement,
                installations[framework],
                Draw(repeat, study.seed + repeat),
                training_inputs.of_batch_size(inputs.get(repeat, {}), batch_size),
                study.window_s,
                study.timeout_s,
                study.name,
                study.cool_down_s,
            )
            for framework in frameworks
        ]
    return trials + _policy_trials(trials, min(study.batch_sizes), preallocating)


def _policy_trials(trials: list[TrialSpec], batch_size: int, frameworks: Collection[str]) -> list[TrialSpec]:
    """Of these the first repeat's at this batch size, for these frameworks, with their own allocator policy."""
    return [
        replace(spec, cell=replace(spec.cell, allocator=AS_BY_ITSELF))
        for spec in trials
        if (spec.draw.repeat, spec.cell.batch_size) == (0, batch_size) and spec.cell.framework in frameworks
    ]


def plan_of(
    request: Request,
    installations: dict[str, Installation],
    repeats: range,
    inputs: dict[int, dict[str, InputFile]],
) -> Plan:
    """Of these repeats, none of them finished yet. `inputs` is by repeat, empty for a plan that runs nothing."""
    project, kind = request.project, request.placement.device_kind
    preallocating = {name for name in request.frameworks if definition.preallocates(project, name, kind)}
    task = replace(request.study.task, network=network.digest(request.workload), source=request.source)
    classes, input_shape = request.dataset.classes, request.workload.input_shape
    trials = [
        own_code.trial_of(_in_its_mode(spec, task), request.models, classes, input_shape)
        for spec in planned_trials(request.study, installations, request.placement, preallocating, repeats, inputs)
    ]
    return Plan(trials, {}, request.workload, request.dataset.train_count)


def _in_its_mode(spec: TrialSpec, task: Task) -> TrialSpec:
    """With this task, trained as the trial's column says."""
    return replace(spec, task=replace(task, **asdict(mode_of(spec.cell.framework))))


def counts(result: TrialResult) -> bool:
    """Whether the trial need not be measured again: it has an answer, or lacks nothing but a verdict."""
    return result.status in FINDINGS or lacks_evidence(result)


def read_result(path: Path) -> TrialResult | None:
    """None where there is none, or none that can be read."""
    try:
        return stored.read_result(path)
    except ValueError:
        return None


def estimate_s(spec: TrialSpec, workload: Workload, train_count: int, measured: list[TrialResult]) -> float:
    """Seconds that the trial may take: from the same cell measured before, else a guess good to a factor of 2 or 3."""
    for result in measured:
        if result.spec.setting == spec.setting:
            return result.wall_s + spec.cool_down_s
    images = train_count * spec.passes.epochs
    flops = workload.step_flop * images
    rate = GUESS_FLOPS_PER_CORE * spec.placement.threads if spec.placement.device == "cpu" else GUESS_GPU_FLOPS
    return (
        GUESS_START_S + flops / rate + images / spec.cell.batch_size * GUESS_STEP_S + spec.window_s + spec.cool_down_s
    )
