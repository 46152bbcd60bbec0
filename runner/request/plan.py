"""Plan a study's trials: which they are, their order, which are finished already, and how long they may take."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from runner.environments import definition
from runner.estimate import Paces, estimate_s, limit_s
from runner.gate.probes import lacks_evidence
from runner.request import inputs, own_code
from runner.request.cli import Request
from workloads.records import network, stored
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


@dataclass(frozen=True)
class TrainedSeries:
    """Network and image count that the trials of one series train; used for their estimate."""

    series: str
    workload: Workload
    train_count: int


@dataclass(frozen=True)
class Plan:
    """Trials in the order in which they run.

    `finished` holds results kept from earlier runs. `trained`, by trial id, is filled if the study has series.
    """

    trials: list[TrialSpec]
    finished: dict[str, TrialResult]
    workload: Workload
    train_count: int  # images
    trained: dict[str, TrainedSeries] = field(default_factory=dict)
    paces: Paces = field(default_factory=Paces)

    @property
    def to_run(self) -> list[TrialSpec]:
        """Trials without a result that counts, in their order."""
        return [spec for spec in self.trials if spec.id not in self.finished]

    @property
    def estimates_s(self) -> dict[str, float]:
        """{id: seconds} of the trials that are to run."""
        measured = list(self.finished.values())
        usual = TrainedSeries("", self.workload, self.train_count)
        of = {spec.id: self.trained.get(spec.id, usual) for spec in self.to_run}
        return {
            spec.id: estimate_s(spec, of[spec.id].workload, of[spec.id].train_count, measured, self.paces)
            for spec in self.to_run
        }

    @property
    def series(self) -> dict[str, str]:
        """{id: series of the trial}; empty for a study without series."""
        return {name: trained.series for name, trained in self.trained.items()}

    def of_cells(self, cells: Collection[tuple[str, int]]) -> Plan:
        """Return the plan of only these cells (framework, batch size), with none of it finished yet."""
        trials = [spec for spec in self.trials if (spec.cell.framework, spec.cell.batch_size) in cells]
        return replace(self, trials=trials, finished={})

    def with_stored(self, results: Iterable[TrialResult]) -> Plan:
        """Return this plan with its stored results that count as finished.

        A plan that runs nothing has no inputs. Stored trials are then matched by everything else.
        """
        ids = {spec.id for spec in self.trials}
        kept = [result for result in results if is_counted(result)]
        if not any(spec.inputs for spec in self.trials):
            kept = [replace(result, spec=replace(result.spec, inputs={})) for result in kept]
        finished = {result.spec.id: result for result in kept if result.spec.id in ids}
        return replace(self, finished=finished)


@dataclass(frozen=True)
class PlanPart:
    """A series, or a study without series. `inputs` are by repeat; a plan that runs nothing has none. `columns` None:
    every framework of the plan, in each of its modes.
    """

    study: Study
    placement: Placement
    inputs: dict[int, dict[str, InputFile]]
    columns: Collection[str] | None = None

    def trial(self, framework: str, installation: Installation, repeat: int, batch_size: int) -> TrialSpec:
        """Return the trial of this framework, installation, repeat and batch size."""
        return TrialSpec(
            Cell(framework, batch_size, ON_DEMAND),
            self.study.task,
            self.study.passes,
            self.placement,
            installation,
            Draw(repeat, self.study.seed + repeat),
            inputs.select_inputs(self.inputs.get(repeat, {}), batch_size),
            self.study.window_s,
            self.study.limit_s,
            self.study.name,
            self.study.cool_down_s,
        )


Planned = tuple[str, TrialSpec]  # series, trial


def plan_trials(
    parts: dict[str, PlanPart],
    installations: dict[str, Installation],
    preallocating: Collection[str],
    repeats: range,
    in_rounds: bool = False,
) -> list[Planned]:
    """Plan trials in randomised blocks: every repeat, series and batch size is one block.

    In a block the frameworks follow each other directly, so that they meet the same state of the machine. Series whose
    columns are in one table share their blocks. The study's seed decides both orders. With `in_rounds`, each repeat of
    all cells comes before the next repeat, in an order drawn anew for each round. `parts` are by series,
    `installations` by framework. Each of the `preallocating` frameworks gets one trial more, at the end. It runs the
    first series that has the framework, at its smallest batch size, with the framework's default allocator policy, and
    shows the policy next to the need.
    """
    shuffle = random.Random(next(iter(parts.values())).study.seed + repeats.start)
    tables = _find_tables(parts)
    blocks: list[tuple[tuple[int, str, int], list[str]]] = []
    for shuffled in [range(each, each + 1) for each in repeats] if in_rounds else [repeats]:
        together: dict[tuple[int, str, int], list[str]] = {}
        for repeat in shuffled:
            for series, part in parts.items():
                for size in part.study.batch_sizes:
                    together.setdefault((repeat, tables[series], size), []).append(series)
        drawn = list(together.items())
        shuffle.shuffle(drawn)
        blocks += drawn
    trials: list[Planned] = []
    for (repeat, _, batch_size), members in blocks:
        columns = sorted((name, series) for series in members for name in _list_columns(parts[series], installations))
        shuffle.shuffle(columns)
        trials += [
            (series, parts[series].trial(name, installations[name], repeat, batch_size)) for name, series in columns
        ]
    return trials + _list_policy_trials(trials, parts, preallocating)


def _list_columns(part: PlanPart, installations: Collection[str]) -> Collection[str]:
    return installations if part.columns is None else part.columns


def _find_tables(parts: Mapping[str, PlanPart]) -> dict[str, str]:
    """Return {series: the first series whose table its columns are in: they differ in their columns alone}."""
    first: dict[tuple[Study, Placement], str] = {}
    tables = {}
    for name, part in parts.items():
        table = part.study.without_columns, part.placement
        tables[name] = name if part.columns is None else first.setdefault(table, name)
    return tables


def _list_policy_trials(
    trials: list[Planned], parts: Mapping[str, PlanPart], frameworks: Collection[str]
) -> list[Planned]:
    """Return each framework's trial of the first repeat, in its first series, with the default allocator policy."""
    left, own = set(frameworks), list[Planned]()
    for series, part in parts.items():
        smallest = 0, min(part.study.batch_sizes)
        found = [spec for name, spec in trials if name == series and spec.cell.framework in left]
        own += [
            (series, replace(spec, cell=replace(spec.cell, allocator=AS_BY_ITSELF)))
            for spec in found
            if (spec.draw.repeat, spec.cell.batch_size) == smallest
        ]
        left -= {spec.cell.framework for spec in found}
    return own


def build_plan(
    request: Request,
    installations: dict[str, Installation],
    repeats: range,
    inputs: dict[int, dict[str, InputFile]],
) -> Plan:
    """Plan a study without series; `inputs` is by repeat."""
    return build_series_plan(request, installations, repeats, {"": inputs})


def build_series_plan(
    request: Request,
    installations: dict[str, Installation],
    repeats: range,
    inputs: dict[str, dict[int, dict[str, InputFile]]],
) -> Plan:
    """Plan these repeats of a study, none of them finished yet.

    `inputs` is by series and repeat. It is empty for a plan that runs nothing.
    """
    project, kind = request.project, request.placement.device_kind
    preallocating = {name for name in request.frameworks if definition.preallocates(project, name, kind)}
    requests = request.parts
    parts = {
        name: PlanPart(each.study, each.placement, inputs.get(name, {}), each.frameworks)
        for name, each in requests.items()
    }
    trials = [
        (series, _whole(spec, requests[series], request.paces))
        for series, spec in plan_trials(
            parts, installations, preallocating, repeats, in_rounds=request.until_stable is not None
        )
    ]
    trained = {name: TrainedSeries(name, each.workload, each.dataset.train_count) for name, each in requests.items()}
    of_series = {spec.id: trained[series] for series, spec in trials} if request.series else {}
    specs, count = [spec for _, spec in trials], request.dataset.train_count
    if request.shard:
        specs = request.shard.select(specs)
    return Plan(specs, {}, request.workload, count, of_series, request.paces)


def _whole(spec: TrialSpec, request: Request, paces: Paces) -> TrialSpec:
    """Return the trial with the network and images of its request, or with custom code, trained as its column says."""
    task = replace(request.study.task, network=network.digest(request.workload), source=request.source)
    spec = _in_its_mode(spec, task)
    if request.study.timeout_s is None:
        least_s, count = request.study.limit_s, request.dataset.train_count
        spec = replace(spec, timeout_s=limit_s(spec, request.workload, count, least_s, paces))
    return own_code.build_trial(spec, request.models, request.dataset.classes, request.workload.input_shape)


def _in_its_mode(spec: TrialSpec, task: Task) -> TrialSpec:
    """Return the trial with this task, trained as the trial's column says."""
    return replace(spec, task=replace(task, **asdict(spec.cell.column.mode)))


def is_counted(result: TrialResult) -> bool:
    """True if the trial need not be measured again: it has an answer, or lacks only a verdict."""
    return result.status in FINDINGS or lacks_evidence(result)


def read_result(path: Path) -> TrialResult | None:
    """Return the stored result, or None if it is missing or cannot be read."""
    try:
        return stored.read_result(path)
    except ValueError:
        return None
