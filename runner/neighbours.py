"""Print lines about trials that other processes disturbed: advice once, and their number at the end of the run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console

from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.words import counted

STAYS = "it stays contended, as it was measured before; this attempt is kept in"
KEPT = "their speed, usage, energy, power and times are withheld, their accuracy, losses and memory are shown"


class Advice:
    """Advice printed once, after the first disturbed trial of a run."""

    def __init__(self, console: Console, retried: Collection[Status]) -> None:
        """Start without advice given; `retried` are the statuses that are tried again at once."""
        self.console, self.retried, self.given = console, retried, False

    def give(self, result: TrialResult) -> None:
        """Print what helps if this trial was disturbed and no advice was printed before."""
        if result.status is Status.CONTENDED and not self.given:
            self.given = True
            means = "; ".join(what_helps(result.spec, Status.CONTENDED in self.retried))
            self.console.print(f"  other processes disturbed this trial. What helps: {means}")


def what_helps(spec: TrialSpec, retried: bool) -> list[str]:
    """Return what helps, depending on the trial's device and whether disturbed trials are tried again at once."""
    at_once = [] if retried else ["--retry contended (tries again at once)"]
    if spec.placement.device != "cpu":
        return ["end the other processes on the GPU (nvidia-smi lists them)", "another --device", *at_once]
    means = ["end what else computes"]
    if "OMP_WAIT_POLICY" not in spec.placement.variables:
        means.append("OMP_WAIT_POLICY=PASSIVE before the command (waiting threads sleep)")
    if spec.placement.threads > 1:
        means.append(f"fewer --threads than {spec.placement.threads} (a core is left to others)")
    return [*means, *at_once]


def again(specs: Sequence[TrialSpec], console: Console) -> None:
    """Print that these are tried once more."""
    if specs:
        trials = "1 disturbed trial is" if len(specs) == 1 else f"{len(specs)} disturbed trials are"
        console.print(f"{trials} tried once more; each attempt is kept")


def summary(results: Sequence[TrialResult]) -> str | None:
    """Return a line with the number of trials that stayed disturbed; None where none did."""
    disturbed = [result for result in results if result.status is Status.CONTENDED]
    if not disturbed:
        return None
    how_many = f"{len(disturbed)} of {counted(len(results), 'trial')} contended: {KEPT}"
    return f"{how_many} ({disturbed[0].spec.id}: {disturbed[0].reason}); the same command tries them again"
