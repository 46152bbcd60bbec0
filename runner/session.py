"""A run and its results folder: the stored trials as the gate judges them now, and the trials that are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from runner import progress, rebuild
from runner.environments import definition
from runner.gate import trial_end
from runner.gate.end_referee import EndReferee
from runner.gate.judge import Gate
from runner.gate.probes import lacks_evidence
from runner.gate.rivals import Group, find_group
from runner.gate.rounding import Installed, find_askable
from runner.late_memory import add_account, waits_for_memory
from runner.launch import Launcher, Unavailable
from runner.machine import description
from runner.progress import Display, format_row
from runner.proof import prove_imports
from runner.request.cli import Request
from runner.request.parser import RETRIES
from runner.request.plan import Plan
from runner.results.memory import MemoryAccount
from runner.setup import count_attempts, find_last_aside, find_next_aside, make_fresh_folder, put_aside, put_back
from runner.storage import Storage, StoredTrials
from runner.trial import MemoryWorker, TooLarge, format_now, run_trial
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import UNMEASURED, Status

Launchers = Mapping[str, Launcher | Unavailable]  # by framework: its launcher, or why it has none


class Session:
    """One run. `known` is {id: trial as judged now} of all trials in the folder that this run's are compared with."""

    kind = Kind.TRIAL

    def __init__(
        self, request: Request, launchers: Launchers, installed: Installed, specs: Sequence[TrialSpec], console: Console
    ) -> None:
        """Open a session. `installed` has all frameworks of the request, `specs` may have no trial of some of them."""
        self.request = request
        self.launchers = launchers
        self.console = console
        self.referee = EndReferee(request.project)
        self.gate = Gate(request.results, request.project, find_askable(installed, launchers))
        self.specs = specs
        self.ids = {spec.id for spec in specs}
        self.storage = Storage(request.results)
        self.known: dict[str, TrialResult] = {}
        self.groups: dict[str, Group] = {}  # by id
        self.restored: set[str] = set()  # ids of disturbed trials whose later attempt measured nothing
        self.kept: dict[str, tuple[Path, TrialResult]] = {}  # by id: a disturbed attempt, and where it is put aside
        self.advice = progress.Advice(console, request.retry)

    def open(self, stored: StoredTrials) -> None:
        """Take over the stored trials. Missing or lost results are rebuilt from their trials' files where possible.
        Trials that this run is compared with are judged; files that cannot be read are named.
        """
        self.stored = stored
        made: dict[str, TrialResult] = {}
        reasons = {item.path.parent: item.reason for item in stored.unreadable}
        other_schema = {item.path.parent for item in stored.unreadable if item.other_schema}
        for folder in filter(self.is_ours, (*reasons, *stored.unfinished)):
            why = f"{RESULT_FILE}: {reasons[folder]}" if folder in reasons else f"there was no {RESULT_FILE}"
            try:
                result = None if folder in other_schema else self.rebuilt(folder)
            except ValueError as error:
                self.console.print(f"{folder.name}: {why}; it cannot be rebuilt from the trial's files: {error}")
                continue
            if result is not None:
                made[result.spec.id] = result
                self.console.print(f"{folder.name}: {why}; rebuilt from the trial's files, nothing is measured again")
            elif folder in reasons:
                self.console.print(f"{folder.name}: {why}; left as it is")
        self.known = stored.of_groups([*self.specs, *(result.spec for result in made.values())]) | made
        self.judge(self.known.values())

    def is_ours(self, folder: Path) -> bool:
        """True if no other shard can be working on the trial of this folder."""
        return self.request.shard is None or folder.name in self.ids

    def rebuilt(self, folder: Path) -> TrialResult | None:
        """Return the result of this trial, rebuilt from its files and stored. None if it was not measured to its
        end, or is of another device, on which another run may be measuring it. Raises ValueError.
        """
        result = rebuild.rebuild_result(folder)
        if result is None or result.spec.placement.device != self.request.placement.device:
            return None
        end = rebuild.read_end(self.referee, folder, result.spec, trial_end.REFEREE_MULTIPLY_ADDS)
        evidence = self.gate.gather(result.spec, self.gate.launcher(result.spec))
        result = replace(result, evidence=evidence, end=end)
        rebuild.store(folder, result)
        return result

    def complete(self, specs: Iterable[TrialSpec]) -> None:
        """Prepare these trials before they run, and take over the stored ones among them."""
        specs = list(specs)
        further = self.stored.of_groups(specs, self.known)
        self.known |= further
        self.judge(further.values())
        self.gather_lacking(specs)

    def gather_lacking(self, specs: Iterable[TrialSpec]) -> None:
        """Ask again for the evidence that is all that these stored trials lack."""
        lacking = [trial for spec in specs if (trial := self.known.get(spec.id)) and lacks_evidence(trial)]
        gathered = ((each, self.gate.gather(each.spec, self.gate.launcher(each.spec))) for each in lacking)
        self.judge_anew({each.spec.id: replace(each, evidence=evidence) for each, evidence in gathered})

    def judge_anew(self, changed: Mapping[str, TrialResult]) -> None:
        """Replace known trials by these, by id, and judge them again with all that are compared with them."""
        for key in dict.fromkeys(find_group(trial.spec) for trial in changed.values()):
            self.judge(
                [changed.get(name, trial) for name, trial in self.known.items() if find_group(trial.spec) == key]
            )

    def judge(self, trials: Iterable[TrialResult]) -> None:
        """Judge trials and store again those whose judgement changed, except those of another device or another shard.
        Those may belong to another run, which may have measured them again since they were read.
        """
        for result in self.gate.judge(trials):
            if result != self.known.get(result.spec.id):
                folder = self.folder(result.spec)
                if result.spec.placement.device == self.request.placement.device and self.is_ours(folder):
                    write_json(folder / RESULT_FILE, result.to_json())
                self.known[result.spec.id] = result

    def run(self, plan: Plan, noise: Mapping[str, Any] | None = None) -> list[TrialResult]:
        """Run the trials one after another and store each as soon as it is known; a failed one never stops the run.
        Afterwards disturbed trials are tried once more, and memory contents are measured.

        After each trial, the gate judges again all trials in the folder that may be compared with it. `noise` is a
        condition of all. Returns the plan's trials.
        """
        self.memory = MemoryWorker(self.request.results, plan.trials)
        if plan.to_run:
            display = Display(self.console, plan.estimates_s, plan.series)
            self.run_each(plan.to_run, display, TooLarge(plan.finished.values()), noise)
        self.ask_memory(plan)
        return [self.known[spec.id] for spec in plan.trials]

    def run_each(
        self, specs: Sequence[TrialSpec], display: Display, too_large: TooLarge, noise: Mapping[str, Any] | None = None
    ) -> None:
        """Run these trials, and those of them that were disturbed once more at the end."""
        request = self.request
        prove_imports(specs, self.gate, self.console)
        machine = {**(noise or {}), **description.describe(request.project, request.placement.device, request.gpus)}
        with display:
            for spec in specs:
                with self.keep_disturbed(spec):
                    self.next(spec, machine, too_large, display)
            disturbed = self.disturbed(specs)
            progress.announce_again(disturbed, self.console)
            display.once_more(disturbed)
            for spec in disturbed:
                with self.keep_disturbed(spec):
                    self.next(spec, machine, too_large, display)

    def next(self, spec: TrialSpec, machine: dict[str, Any], too_large: TooLarge, display: Display) -> None:
        """Measure this trial, or say why not, and show its result."""
        display.begin(spec)
        conditions = machine | {"framework_label": definition.read_label(self.request.project, spec.cell.framework)}
        launcher = self.launchers[spec.cell.framework]
        reason = None if self.request.try_all else too_large.reason(spec)
        if isinstance(launcher, Unavailable):
            self.leave_out(spec, launcher.status, launcher.reason, conditions)
        elif reason:
            self.leave_out(spec, Status.SKIPPED, reason, conditions)
        else:
            self.attempt(spec, launcher, conditions, display.doing)
        too_large.learn(self.known[spec.id])
        display.finish(self.known[spec.id], self.attempts(spec))
        self.advice.give(self.known[spec.id])

    def disturbed(self, specs: Iterable[TrialSpec]) -> list[TrialSpec]:
        """Trials that were disturbed in this run, to be tried once more after the others; none if `--retry contended`
        retried them at once.
        """
        if Status.CONTENDED in self.request.retry:
            return []
        tried = [spec for spec in specs if spec.id not in self.restored]
        return [spec for spec in tried if self.known[spec.id].status is Status.CONTENDED]

    @contextmanager
    def keep_disturbed(self, spec: TrialSpec) -> Iterator[None]:
        """Guard the next attempts at a trial: where the last measures nothing, a disturbed one from before stays."""
        first, folder = self.known.get(spec.id), self.folder(spec)
        kept = (find_next_aside(folder, self.kind), first) if first else find_last_aside(folder, self.kind)
        if kept and kept[1].status is Status.CONTENDED:
            self.kept[spec.id] = kept
        yield
        aside, first = self.kept.pop(spec.id, (None, None))
        if aside and first and self.known[spec.id].status in UNMEASURED:
            self.console.print(f"  {progress.STAYS} {put_back(aside, folder, self.kind)}")
            self.judge_anew({spec.id: first})
            self.restored.add(spec.id)

    def ask_memory(self, plan: Plan) -> None:
        """Measure what the trials' memory holds if that was not known when they ran, in this run or in one that ended
        too early. Their results are then rebuilt from their files.
        """
        asked: set[str] = set()
        for spec in plan.trials:
            folder, launcher = self.folder(spec), self.launchers[spec.cell.framework]
            if isinstance(launcher, Unavailable) or not waits_for_memory(self.known[spec.id], folder):
                continue
            if spec.memory_id not in asked and self.memory.known(spec) is None:
                self.console.print(f"{spec.cell.framework}: measuring what its memory holds ...")
            asked.add(spec.memory_id)
            self.storage.need(spec, launcher)
            account = self.memory.gather(spec, launcher)
            self.storage.whole(spec, launcher)
            try:
                result, written = add_account(self.known[spec.id], folder, account)
            except ValueError as error:
                self.console.print(f"{spec.id}: its memory contents were not added: {error}")
                continue
            self.judge_anew({spec.id: result})
            written.store(folder)  # last: while this is missing, it is done again

    def leave_out(self, spec: TrialSpec, status: Status, reason: str, conditions: dict[str, Any]) -> None:
        """Record why a trial is not run, if it has not been recorded before."""
        before = self.known.get(spec.id)
        if before is None or (before.status, before.reason) != (status, reason):
            folder = make_fresh_folder(self.request.results, Job(self.kind, spec))
            result = TrialResult(spec, status, reason, format_now(), 0.0, machine=conditions)
            write_json(folder / RESULT_FILE, result.to_json())
            self.known[spec.id] = result

    def attempt(
        self, spec: TrialSpec, launcher: Launcher, conditions: dict[str, Any], doing: Callable[[str], None]
    ) -> None:
        """Measure and judge the trial; repeat it while its status is one to retry, and keep each attempt. `doing` is
        called with what runs now.
        """
        for retries_left in reversed(range(RETRIES + 1)):
            self.storage.need(spec, launcher)
            folder = make_fresh_folder(self.request.results, Job(self.kind, spec))
            doing("probe")
            evidence = self.gate.gather(spec, launcher)
            doing(self.kind)
            result = run_trial(folder, spec, launcher, conditions, self.account(spec), self.kind)
            self.storage.whole(spec, launcher, folder, self.kind)
            doing("gate")
            result = self.conclude(spec, folder, result, evidence)
            if not self.runs_again(folder, result, retries_left):
                return

    def account(self, spec: TrialSpec) -> MemoryAccount | None:
        """Return what the trial's memory holds; None if that is not measured yet."""
        return self.memory.known(spec)

    def folder(self, spec: TrialSpec) -> Path:
        """Return the folder of the trial's newest attempt."""
        return Job(self.kind, spec).folder(self.request.results)

    def runs_again(self, folder: Path, result: TrialResult, retries_left: int) -> bool:
        """True if its status is one to retry; then it is shown, and this attempt is put aside."""
        if result.status not in self.request.retry or not retries_left or lacks_evidence(result):
            return False
        shown = format_row(result, self.attempts(result.spec))
        aside = put_aside(folder, self.kind)
        self.console.print(f"{shown}\n  run again; this attempt is kept in {aside}")
        if result.status is Status.CONTENDED:
            self.kept[result.spec.id] = aside, result
        del self.known[result.spec.id]  # other trials may be judged before the next attempt, and its folder is gone
        self.advice.give(result)
        return True

    def conclude(self, spec: TrialSpec, folder: Path, result: TrialResult, evidence: dict[str, Any]) -> TrialResult:
        """Judge and store what was measured in the trial's folder, with all that is compared with it."""
        end = trial_end.gather(self.referee, folder, spec, trial_end.REFEREE_MULTIPLY_ADDS)
        if end:
            end = rebuild.add_our_faults(folder, end)
            rebuild.keep_end(folder, end)
        result = replace(result, evidence=evidence, end=end)
        self.known.pop(spec.id, None)  # an earlier attempt; the new one is stored once it is judged
        key = self.group(spec)
        self.judge([*(trial for trial in self.known.values() if self.group(trial.spec) == key), result])
        rebuild.remove_saved(folder)
        return self.known[spec.id]

    def group(self, spec: TrialSpec) -> Group:
        """Return `rivals.find_group`, computed once per trial: it is needed for all trials whenever one ends."""
        if spec.id not in self.groups:
            self.groups[spec.id] = find_group(spec)
        return self.groups[spec.id]

    def attempts(self, spec: TrialSpec) -> int:
        """Count the attempts at the trial."""
        return count_attempts(self.folder(spec), self.kind)
