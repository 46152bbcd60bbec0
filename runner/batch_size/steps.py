"""Run trials of steps only for the searches: by framework and batch size, each in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner import rebuild
from runner.environments import definition
from runner.launch import Launcher, Unavailable
from runner.machine import description
from runner.request import inputs, own_code
from runner.request.cli import Request
from runner.request.plan import build_plan, read_result
from runner.storage import Storage
from runner.trial import format_now, run_trial
from workloads.records import files
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import ON_DEMAND, ROOMS, Cell, InputFile, Installation, Job, Kind, Passes, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status

ROOM = ROOMS[Kind.STEPS]


@dataclass
class StepTrials:
    """Trials of steps of one command.

    A trial that an earlier run finished is taken from the results folder. Every attempt has its own folder,
    ROOM/ID-NUMBER; nothing in it is deleted or overwritten.
    """

    request: Request
    specs: dict[str, TrialSpec]  # by framework: of any batch size
    inputs: dict[str, InputFile]  # of repeat 0
    launchers: dict[str, Launcher | Unavailable]  # or the reason why a framework's workers cannot be started
    machine: dict[str, Any]
    storage: Storage
    given: set[Path] = field(default_factory=set)  # folders of attempts that were already returned
    show: Callable[[TrialResult, Path], None] = lambda *_: None  # called with every attempt once it is known

    @classmethod
    def prepare(
        cls,
        request: Request,
        installed: dict[str, Installation],
        inputs: dict[int, dict[str, InputFile]],
        launchers: dict[str, Launcher | Unavailable],
    ) -> StepTrials:
        """Return the trials of this request; `inputs` are by repeat, as request.inputs.write_repeats returns them."""
        plan = build_plan(request, installed, range(1), inputs)
        specs = {spec.cell.framework: spec for spec in plan.trials}
        machine = description.describe(request.project, request.placement.device, request.gpus)
        return cls(request, specs, inputs[0], launchers, machine, Storage(request.results))

    def limited(self, limit_bytes: int) -> StepTrials:
        """Return the same trials under another memory limit."""
        specs = {
            name: replace(spec, placement=replace(spec.placement, memory_limit_bytes=limit_bytes))
            for name, spec in self.specs.items()
        }
        return replace(self, specs=specs)

    def accumulating(self, parts: int) -> StepTrials:
        """Return the same trials with updates of this many batches."""
        specs = {name: replace(spec, task=replace(spec.task, accumulate=parts)) for name, spec in self.specs.items()}
        request = replace(self.request, study=self.request.study.changed(accumulate=parts))
        return replace(self, request=request, specs=specs)

    def spec(self, framework: str, batch_size: int) -> TrialSpec:
        """Return the trial of this batch size, whose learning rates are written if steps differ in theirs.

        It has no epochs, so no ordinary trial has its id.
        """
        spec, request = self.specs[framework], self.request
        available = self.inputs | inputs.write_step_rates(request, batch_size)
        spec = replace(
            spec,
            cell=Cell(framework, batch_size, ON_DEMAND),
            passes=Passes(0, spec.passes.last_batch),
            inputs=inputs.select_inputs(available, batch_size),
        )
        return own_code.build_trial(spec, request.models, request.dataset.classes, request.workload.input_shape)

    def run(self, framework: str, batch_size: int, answers: Collection[Status] = FINDINGS) -> tuple[TrialResult, Path]:
        """Return an attempt's result and its absolute folder.

        A stored attempt is used if it ended with one of `answers` and this run has not returned it before. If there is
        none, a new one is run.
        """
        spec = self.spec(framework, batch_size)
        finished = [each for each in self.stored(spec) if each[0].status in answers and each[1] not in self.given]
        result, folder = finished[0] if finished else self.new(spec)
        self.given.add(folder)
        self.show(result, folder)
        return result, folder

    def new(self, spec: TrialSpec) -> tuple[TrialResult, Path]:
        """Run a new attempt."""
        framework = spec.cell.framework
        self.storage.need(spec, self.launchers[framework])
        folder = self.next_folder(spec)
        conditions = self.machine | {"framework_label": definition.read_label(self.request.project, framework)}
        launcher = self.launchers[framework]
        if isinstance(launcher, Unavailable):
            result = TrialResult(spec, launcher.status, launcher.reason, format_now(), 0.0, machine=conditions)
        else:
            account = {"reason": "steps alone: the memory worker was not run"}
            result = run_trial(folder, spec, launcher, conditions, account, Kind.STEPS)
            self.storage.whole(spec, launcher, folder, Kind.STEPS)
        write_json(folder / RESULT_FILE, result.to_json())
        return result, folder

    def stored(self, spec: TrialSpec) -> list[tuple[TrialResult, Path]]:
        """Return all attempts of this computer that have a result, in their order. An id does not name the computer."""
        results = ((self._result(folder, spec), folder) for folder in self.attempts(spec))
        return [
            (result, folder)
            for result, folder in results
            if result and result.spec.id == spec.id and description.is_of_this_computer(result.machine, self.machine)
        ]

    def _result(self, folder: Path, spec: TrialSpec) -> TrialResult | None:
        """Return the attempt's result, rebuilt from its files if it ended without one; None if it was interrupted."""
        result = read_result(folder / RESULT_FILE)
        if result is None:
            with suppress(ValueError):
                result = rebuild.rebuild_result(folder, spec.id)
            if result is not None:
                rebuild.store(folder, result)
        return result

    def attempts(self, spec: TrialSpec) -> list[Path]:
        """Return the folders of all attempts, finished or not, in their order."""
        return files.attempts_of(self._room(spec), spec.id)

    def next_folder(self, spec: TrialSpec) -> Path:
        """Create and return a folder numbered after all existing ones."""
        folder = files.next_attempt_path(self._room(spec), spec.id)
        folder.mkdir(parents=True)
        return folder

    def _room(self, spec: TrialSpec) -> Path:
        return Job(Kind.STEPS, spec).folder(self.request.results).parent
