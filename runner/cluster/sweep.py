"""Run a plan's blocks on other machines: hand them out, take them in whole, judge them here by one gate, show them."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner import progress
from runner.cluster import node
from runner.cluster.node import ARRIVING, Damaged, Parcel
from runner.environments import definition
from runner.machine import description
from runner.progress import Display
from runner.proof import prove_handed_out
from runner.request.block import TrialBlock, build_blocks
from runner.request.parser import RETRIES
from runner.request.plan import Plan
from runner.session import Session
from runner.setup import make_fresh_folder
from runner.trial import TooLarge
from workloads.own_names import NODE
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.temporary import clear

if TYPE_CHECKING:
    from runner.cluster.ray_engine import RayEngine  # a local run needs no Ray


@dataclass(frozen=True)
class Over:
    """End of a block; nothing more arrives from it. `reason` says what ended it, None if it finished."""

    reason: str | None = None


AHEAD = 2  # blocks handed out for each that can run, so that no node waits for this machine
LOST = 3  # times that a trial may be lost with its node


class Sweep:
    """Sweep of one plan. Every trial is in one block that waits or is handed out, until it has arrived."""

    def __init__(self, session: Session, plan: Plan, engine: RayEngine) -> None:
        self.session, self.plan, self.engine = session, plan, engine
        self.results, self.console = session.request.results, session.console
        self.too_large = TooLarge(plan.finished.values())
        self.waiting: deque[TrialBlock] = deque()
        self.numbers = itertools.count(1)
        self.left: dict[int, set[str]] = {}  # by the number of each block that is handed out: the ids still to arrive
        self.lost: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.announced: set[str] = set()  # names of nodes
        self.kept: dict[str, ExitStack] = {}  # by id: keeps a disturbed result if the later attempts measure nothing

    def run(self) -> list[TrialResult]:
        """Return the plan's trials. Raises CannotGoOn, OSError, KeyboardInterrupt; what has arrived is stored."""
        clear(ARRIVING, self.results)
        self.commit = description.read_commit(self.session.request.project)
        self.waiting.extend(build_blocks(self.plan.to_run, self.commit))
        if self.waiting:
            prove_handed_out(self.plan.to_run, self.session.gate, self.console)
            self.keep_disturbed(self.plan.to_run)
            with Display(self.console, self.plan.estimates_s, self.plan.series) as self.display:
                self.until_done()
                self.try_once_more()
        return [self.session.known[spec.id] for spec in self.plan.trials]

    def try_once_more(self) -> None:
        """Hand out the disturbed trials once more, each with as many retries as at first."""
        disturbed = self.session.disturbed(self.plan.to_run)
        progress.announce_again(disturbed, self.console)
        self.display.once_more(disturbed)
        self.tries.clear()
        self.keep_disturbed(disturbed)
        self.waiting.extend(build_blocks(disturbed, self.commit))
        self.until_done()

    def keep_disturbed(self, specs: Iterable[TrialSpec]) -> None:
        """Guard the next attempts at those of these trials that are disturbed, until they are finished."""
        for spec in specs:
            self.kept[spec.id] = ExitStack()
            self.kept[spec.id].enter_context(self.session.keep_disturbed(spec))

    def until_done(self) -> None:
        """Hand out what waits, and take what arrives, until nothing is left."""
        while self.waiting or self.left:
            self.hand_out()
            if self.left:
                self.take(*self.engine.arrival())

    def hand_out(self) -> None:
        """Hand out as many blocks as keep every node busy, leaving out trials that need not be tried."""
        slots = self.engine.slots()
        self.display.at_once = slots
        while self.waiting and len(self.left) < AHEAD * slots:
            block = self.waiting.popleft()
            wanted = []
            for spec in block.trials:
                reason = None if self.session.request.try_all else self.too_large.reason(spec)
                if reason:
                    self.leave_out(spec, Status.SKIPPED, reason)
                else:
                    self.session.storage.need(spec, None)
                    wanted.append(spec)
            if wanted:
                block = replace(block, trials=tuple(wanted), number=next(self.numbers))
                self.left[block.number] = {spec.id for spec in wanted}
                self.engine.submit(block)
        self.display.handed_out(len(self.left))

    def take(self, block: TrialBlock, arrived: Parcel | Over) -> None:
        """Take a trial of the block, or its end. After its end, trials that have not arrived are handed out again."""
        left = self.left[block.number]
        if isinstance(arrived, Parcel):
            spec = next((spec for spec in block.trials if spec.id == arrived.trial and spec.id in left), None)
            try:
                if spec is None:
                    raise Damaged(f"{arrived.trial[:80]!r}: not a trial of the block {block.name}")
                self.store(spec, arrived)
            except Damaged as error:
                self.console.print(f"a result that arrived is rejected: {error}")
            else:
                left.discard(spec.id)
            return
        del self.left[block.number]
        missing = tuple(spec for spec in block.trials if spec.id in left)
        why = arrived.reason or "its node ended without a result"
        self.announce_node(why)
        again = []
        for spec in missing:
            self.lost[spec.id] += 1
            if self.lost[spec.id] < LOST:
                again.append(spec)
            else:
                self.leave_out(spec, Status.FAILED, f"its node returned no result {LOST} times: {why}")
        if again:
            self.console.print(f"{block.name}: {why}; {len(again)} of its trials are sent out again")
            self.waiting.append(replace(block, trials=tuple(again)))

    def store(self, spec: TrialSpec, parcel: Parcel) -> None:
        """Store the trial in its folder, judged. Raises Damaged, OSError."""
        result = parcel.read_result()
        self.announce_node(str(result.machine.get("node")))
        with node.arriving(parcel, self.results) as found:
            if node.PROBE in found:
                node.keep_probe(found[node.PROBE], self.results, parcel.probe)
            if node.TRIAL in found:
                folder = make_fresh_folder(self.results, Job(Kind.TRIAL, spec))
                node.place(found[node.TRIAL], folder)
        if node.TRIAL not in found:
            self.session.leave_out(spec, result.status, result.reason or "it was not started", result.machine)
            self.finish(spec, 0.0)
            return
        judged = self.session.conclude(spec, folder, result, parcel.evidence)
        retries_left = RETRIES - self.tries[spec.id]
        self.tries[spec.id] += 1
        if self.session.runs_again(folder, judged, retries_left):
            self.waiting.append(TrialBlock((spec,), self.commit))
        else:
            self.finish(spec, judged.wall_s)

    def announce_node(self, told: str) -> None:
        """Print the host of a node that is named here for the first time; results do not contain it."""
        for name in set(NODE.findall(told)) - self.announced:
            self.announced.add(name)
            if host := self.engine.hosts().get(name):
                self.console.print(f"{name} is the host {host}")

    def leave_out(self, spec: TrialSpec, status: Status, reason: str) -> None:
        """Leave out the trial for a reason that this machine knows."""
        label = definition.read_label(self.session.request.project, spec.cell.framework)
        self.session.leave_out(spec, status, reason, {"framework_label": label, "commit": self.commit})
        self.finish(spec, 0.0)

    def finish(self, spec: TrialSpec, took_s: float) -> None:
        """Show the finished trial. Its disturbed result is put back if the later attempts measured nothing."""
        with self.kept.pop(spec.id, nullcontext()):
            result = self.session.known[spec.id]
            self.too_large.learn(result)
            self.display.finish(result, self.session.attempts(spec), took_s)
