"""Compare batch sizes of one framework: the speed at each as a ratio to that at a baseline, paired by repeat.

The baseline is the one asked for. Without one, the table appears if a section has neighbours. Neighbours are batch
sizes that differ by less than NEIGHBOURS_PERCENT, as 127, 128 and 129. Each is compared with the power of two among
them, otherwise with the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from workloads.shifts import Shift, shift_ratio
from workloads.statistics import CONFIDENCE_PERCENT, ERROR, Estimate, Verdict, decide, holm

from . import tables
from .comparing import effect_words
from .condition_text import ABSENT
from .conditions import Section
from .frameworks import display_name, ordered
from .load import ReportError
from .order import IN_THIS_RUN
from .quantities import SPEED
from .table import Cell, Table, Theme
from .words import listed

NAME = "batch-contrasts"
TITLE = "Batch sizes beside each other: training speed, times as fast as at the baseline (more is better)"
NEIGHBOURS_PERCENT = 10
HOW = (
    "Of each repeat the speed over that of the same repeat at the baseline: their geometric mean with its "
    f"{CONFIDENCE_PERCENT} % interval (Student's t on logarithms). p is two-sided, corrected after Holm within a "
    f"framework; faster or slower is said where it is at most {ERROR:g}."
)
ONCE = f"One repeat: the ratios are what was seen {IN_THIS_RUN}, and tell no difference between batch sizes."
NO_PAIR = "no repeat has a speed at both batch sizes"


@dataclass(frozen=True)
class Contrast:
    """A batch size of a framework compared with the baseline.

    `shift`: logarithm of the ratio; NaN if no repeat has both sizes. `estimate` is None if there is only one repeat.
    `p`: corrected.
    """

    framework: str
    batch_size: int
    baseline: int
    repeats: int
    shift: Shift
    trials: tuple[str, ...]
    estimate: Estimate | None = None
    p: float = math.nan

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Ratio with low and high, which are NaN without an interval."""
        interval = self.estimate.interval if self.estimate else (math.nan, math.nan)
        value, low, high = map(math.exp, (self.shift.value, *interval))
        return value, low, high

    @property
    def verdict(self) -> str:
        """Verdict: "faster", "slower" or ""."""
        words = {Verdict.BETTER: "faster", Verdict.WORSE: "slower"}
        return words.get(decide(self.shift.value, self.shift.value, p=self.p), "")


def check(sections: Sequence[Section], baseline: int | None) -> None:
    """Check the baseline. Raises ReportError if no trial has that batch size."""
    sizes = sorted({result.spec.cell.batch_size for section in sections for result in section.results})
    if baseline is not None and baseline not in sizes:
        raise ReportError(f"--baseline-batch {baseline}: no trial has that batch size; there are {listed(sizes)}")


def of_section(section: Section, baseline: int | None) -> list[Table]:
    """Build the table; none if no baseline is given and no sizes are neighbours, or the baseline is not in this
    section.
    """
    sizes = sorted({batch_size for _, batch_size in tables.places(section)})
    baselines = neighbours(sizes) if baseline is None else {size: baseline for size in sizes if size != baseline}
    if baseline is not None and baseline not in sizes:
        return []
    contrasts = _contrasts(section, baselines)
    return [_table(contrasts)] if contrasts else []


def neighbours(sizes: Iterable[int]) -> dict[int, int]:
    """Map {batch size: the baseline that it is compared with}."""
    groups: list[list[int]] = []
    for size in sorted(sizes):
        near = groups and 100 * (size - groups[-1][-1]) < NEIGHBOURS_PERCENT * groups[-1][-1]
        if near:
            groups[-1].append(size)
        else:
            groups.append([size])
    baselines: dict[int, int] = {}
    for group in groups:
        first = next((size for size in group if size.bit_count() == 1), group[0])
        baselines |= {size: first for size in group if size != first}
    return baselines


def _contrasts(section: Section, baselines: dict[int, int]) -> list[Contrast]:
    speeds = _speeds(section)
    made: list[Contrast] = []
    for framework in ordered(framework for framework, _ in speeds):
        tried = [(size, base) for size, base in baselines.items() if (framework, size) in speeds]
        family = [_contrast(speeds, framework, size, base) for size, base in tried]
        tested = [contrast for contrast in family if contrast.estimate]
        p_values = holm([contrast.estimate.p_apart for contrast in tested if contrast.estimate])
        corrected = {contrast.batch_size: p for contrast, p in zip(tested, p_values, strict=True)}
        made += [replace(contrast, p=corrected.get(contrast.batch_size, math.nan)) for contrast in family]
    return made


_Speeds = dict[tables.Place, dict[int, tuple[float, str]]]  # per repeat: images/s, and the trial


def _speeds(section: Section) -> _Speeds:
    """Collect the speeds of every cell that was tried; a ratio needs a speed above 0."""
    spec = SPEED.figure(section.condition)
    assert spec is not None  # every device has one
    speeds: _Speeds = {}
    for place, results in tables.places(section).items():
        speeds[place] = {}
        for result in results:
            value = tables.figure_of(result, spec.name).value
            if tables.is_shown(result, spec) and value is not None and value > 0:
                speeds[place][result.spec.draw.repeat] = value, result.spec.id
    return speeds


def _contrast(speeds: _Speeds, framework: str, size: int, baseline: int) -> Contrast:
    own, other = speeds[framework, size], speeds.get((framework, baseline), {})
    repeats = sorted(own.keys() & other.keys())
    trials = tuple(side[repeat][1] for repeat in repeats for side in (own, other))
    if not repeats:
        return Contrast(framework, size, baseline, 0, Shift(math.nan, untested=NO_PAIR), trials)
    shift = shift_ratio([other[each][0] for each in repeats], [own[each][0] for each in repeats], paired=True)
    estimate = shift.sides.get("paired")
    return Contrast(framework, size, baseline, len(repeats), shift, trials, estimate)


def _table(contrasts: Sequence[Contrast]) -> Table:
    rows = []
    for contrast in contrasts:
        value, *_ = contrast.ratio
        if not contrast.repeats:
            shown = Cell(ABSENT, None, (NO_PAIR,))
        else:
            text = " ".join(filter(None, (effect_words.ratio(*contrast.ratio), contrast.verdict)))
            shown = Cell(text, value, trials=contrast.trials)
        rows.append(
            (
                Cell(display_name(contrast.framework)),
                Cell(str(contrast.batch_size), contrast.batch_size),
                Cell(str(contrast.baseline), contrast.baseline),
                shown,
                Cell(str(contrast.repeats), contrast.repeats),
                Cell(ABSENT if math.isnan(contrast.p) else f"{contrast.p:.2g}", contrast.p),
            )
        )
    head = ("Framework", "Batch size", "Baseline", "Times as fast", "Repeats", "Corrected p")
    below = HOW if any(contrast.estimate for contrast in contrasts) else ONCE
    tidy = pd.DataFrame(map(_row, contrasts))
    return Table(NAME, TITLE, head, tuple(rows), tidy, below=(below,), theme=Theme.SPEED)


def _row(contrast: Contrast) -> dict[str, object]:
    value, low, high = contrast.ratio
    return {
        "framework": contrast.framework,
        "batch_size": contrast.batch_size,
        "baseline_batch_size": contrast.baseline,
        "n": contrast.repeats,
        "speed_ratio": value,
        "low": low,
        "high": high,
        "p_corrected": contrast.p,
        "verdict": contrast.verdict or None,
        "trials": tables.JOINED.join(contrast.trials),
    }
