"""Disturbance of a trial by other processes, and the figures that are withheld because of it.

The trial is then `contended`. Figures that others cannot change stay: accuracy, losses, the allocator's and the
process's memory, the gate's verdict. Each `FigureSpec` says if it is `disturbable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .check_name import CheckName
from .checks import CONTENDED_PERCENT
from .figures import FOREIGN_CPU, FOREIGN_CPU_EPOCHS, FOREIGN_PROCESSES, Figure, FigureSpec, Method, read_value
from .job import TrialSpec
from .result import Check, TrialResult
from .status import Status

SPANS = {FOREIGN_CPU: "steady window", FOREIGN_CPU_EPOCHS: "epochs"}


def find_disturbance(spec: TrialSpec, figures: Mapping[str, Figure], checks: Iterable[Check]) -> str | None:
    """Return the share of a CPU trial's cores that others used above CONTENDED_PERCENT, or the others on its GPU.

    None if there were none.
    """
    if spec.placement.device != "cpu":
        if not read_value(figures, FOREIGN_PROCESSES):
            return None
        details = [check.detail for check in checks if check.name == CheckName.ALONE]
        return details[0] if details else "other processes were on the device"
    taken = describe_shares(CONTENDED_PERCENT, figures)
    return f"other processes took {taken} (more than {CONTENDED_PERCENT:g} %)" if taken else None


def describe_shares(percent: float, figures: Mapping[str, Figure]) -> str:
    """Return "30 % of the cores in the steady window, 28 % in the epochs": the shares above `percent`, or ""."""
    shares = [(read_value(figures, share) or 0.0, span) for share, span in SPANS.items()]
    taken = [f"{share:.0f} % in the {span}" for share, span in shares if share > percent]
    return ", ".join(taken).replace("%", "% of the cores", 1)


def find_largest_share(figures: Mapping[str, Figure]) -> float | None:
    """Return the largest share of the cores that others used in any span of the trial, in percent; None if unknown."""
    return max((share for spec in SPANS if (share := read_value(figures, spec)) is not None), default=None)


def is_withheld(result: TrialResult, spec: FigureSpec) -> bool:
    """True if other processes may have changed this figure of the trial.

    Figures of the steady window stay if a CPU trial's window was calm and only its epochs were disturbed.
    """
    if result.status is not Status.CONTENDED:
        return False
    figure = result.figures.get(spec.name)
    device_wide = figure is not None and figure.method is Method.DEVICE_RISE
    return device_wide or (spec.disturbable and not (spec.windowed and _window_was_calm(result)))


def _window_was_calm(result: TrialResult) -> bool:
    share = read_value(result.figures, FOREIGN_CPU)
    return result.spec.placement.device == "cpu" and share is not None and share <= CONTENDED_PERCENT
