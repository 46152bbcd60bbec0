"""Test the claims of Raschka's article (2022) about round batch sizes, each on its own kind of sizes.

A size belongs to the first kind that fits. A power of two therefore says nothing about multiples of 8. The
article's own figures can be compared with ours in one way only: by size, with the line through the neighbours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from workloads.records import figures
from workloads.records.blocks import Phase
from workloads.records.figures import FigureSpec
from workloads.spec import Workload
from workloads.statistics import Estimate, Verdict, is_overruled, judge

from ..conditions import Section
from ..frameworks import FrameworkNames
from ..neighbours import (
    MARGIN_PERCENT,
    WORDS,
    Contrast,
    Measurement,
    compute_contrasts,
    compute_distance,
    convert_to_percent,
    correct,
    estimate_sizes,
    map_neighbours,
    percents_of,
)
from ..quantities import Quantity
from ..sentences import listed, note_corrected
from ..table import Table, Theme
from ..tables import CellSummary, Place, summarise_cell
from .claim_tests import ClaimVerdict, Outcome
from .claims import TestedClaim, build_claim_table
from .publication import TABLE, Claim, Metric, SizeKind, read_size_article
from .published_figures import table
from .reproduced import Reproduced

CLAIMS, ARTICLE = "powers-of-two-claims", "powers-of-two"
MULTIPROCESSORS = "multiprocessors"  # a fact of PyTorch's worker on a GPU
NO_GPU = "the rule counts a GPU's multiprocessors, and this was measured on a CPU"
NOT_TOLD = "the rule counts a GPU's multiprocessors, and no worker reported them (PyTorch's does)"
NOT_MEASURED = "{name} measured no such size between two others"
ONE_PROCESS = "one process has no interval"
RAN_ONCE = "each size was run once"
OUTCOMES = {Verdict.BETTER: Outcome.HOLDS, Verdict.UNDECIDED: Outcome.UNCERTAIN}  # any other: it fails
PHASES = {figures.SPEED: Phase.TRAINING, figures.EVALUATION_SPEED: Phase.EVALUATION}
LABEL = "Faster per image than the line through its neighbours"
FASTER = Quantity("faster", (FigureSpec("faster_percent", LABEL, "%", decimals=2),), theme=Theme.PUBLISHED)
EMPTY = summarise_cell((), FASTER.figures[0])


def find_phase(metric: Metric) -> Phase:
    """Return the phase that a metric of the article is about."""
    return PHASES[metric.quantity.figures[0]]


def express_in_percent(metric: Metric) -> tuple[Metric, dict[int, float]]:
    """Express the metric's minutes in % faster, for sizes with neighbours less than 10 % apart.

    Also returns {batch size: the largest effect of rounding, in points}.
    """
    minutes = {size: value for (_, size), value in metric.published.items()}
    digit, percents, rounding = 10.0 ** -(metric.table_decimals or 0), dict[Place, float](), dict[int, float]()
    for size, (low, high) in map_neighbours(sorted(minutes)).items():
        if high - low <= size / 10 and size % 8 == 0:
            distance = compute_distance(minutes, size, (low, high))
            percents[metric.framework, size] = convert_to_percent(distance)
            rounding[size] = convert_to_percent(digit / min(minutes[each] for each in (low, size, high)))
    return replace(metric, quantity=FASTER, table_decimals=None, values={TABLE: percents}), rounding


def build_published_tables(found: Sequence[Contrast], section: Section) -> list[Table]:
    """Build the table of each published metric of which a size was measured here, too."""
    article, tables, most = read_size_article(), [], dict.fromkeys(Phase, 0.0)
    for minutes in article.metrics:
        metric, rounding = express_in_percent(minutes) if minutes.series else (minutes, {})
        phase = find_phase(minutes)
        mine = [each for each in found if each.phase is phase and each.size in rounding]
        if mine:
            there = replace(section)  # its cells are the contrasts
            there.computed[FASTER] = {(each.framework, each.size): _cell(each) for each in mine}
            made = table(Reproduced(there, article, metric), f"{ARTICLE}-{minutes.name.lower()}")
            most[phase] = max(most[phase], *(rounding[each.size] for each in mine))
            points = made.tidy["batch_size"].map(rounding)
            tables.append(replace(made, tidy=made.tidy.assign(published_rounding_points=points)))
    caveat = article.caveat.format(training=most[Phase.TRAINING], evaluation=most[Phase.EVALUATION])
    return [replace(each, below=(*each.below, caveat)) for each in tables]


def _cell(contrast: Contrast) -> CellSummary:
    value, low, high = contrast.percents
    return replace(EMPTY, n=contrast.processes, mean=value, low=low, high=high, status="ok")


def compute_coulom_sizes(multiprocessors: int, shape: tuple[int, ...], most: int) -> set[int]:
    """Return sizes B = int(n 2^14 SM / (H W C)), n = 1, 2, ..., up to `most`.

    The rule is R. Coulom's, as quoted by S. Raschka, 2022.
    """
    unit = 2**14 * multiprocessors / math.prod(shape)
    return {int(n * unit) for n in range(1, int((most + 1) / unit) + 1)} - {0}


def find_widest_shape(workload: Workload) -> tuple[int, ...]:
    """Return the shape of the feature map with most values."""
    shapes = [layer.output_shape(shape) for layer, shape in workload.walk()]
    return max(shapes, key=math.prod)


def select_sizes(kind: SizeKind, measurement: Measurement, sizes: Sequence[int]) -> tuple[set[int], str]:
    """Return (those of the sizes that are of the kind, why they are unknown, "" if they are known)."""
    if not kind.coulom:
        return {size for size in sizes if kind.holds(size)}, ""
    if measurement.section.condition.placement.device_kind == "cpu":
        return set(), NO_GPU
    reported = (process.result.facts.get(MULTIPROCESSORS) for process in measurement.processes)
    multiprocessors = next((count for count in reported if type(count) is int and count > 0), None)
    workload = measurement.workload
    if multiprocessors is None or workload is None:
        return set(), NOT_TOLD
    shape = workload.input_shape if kind.coulom == "input" else find_widest_shape(workload)
    return compute_coulom_sizes(multiprocessors, shape, max(sizes, default=1)).intersection(sizes), ""


def evaluate_claims(measurement: Measurement) -> tuple[list[Contrast], list[TestedClaim]]:
    """Compare the sizes that claims are about with their neighbours, and test each claim for each framework.

    p is corrected within a framework.
    """
    claims, tested = read_size_article().claims, []
    sizes = sorted({size for process in measurement.processes for size in process.group})
    kinds = {claim.kind: select_sizes(claim.kind, measurement, sizes) for claim in claims}
    found = compute_contrasts(measurement, set().union(*(of_kind for of_kind, _ in kinds.values())))
    named = measurement.section.named
    for framework in measurement.frameworks:
        mine = [each for each in found if each.framework == framework]
        about = [[each for each in mine if _is_about(claim, each, kinds[claim.kind][0])] for claim in claims]
        estimates = [estimate_sizes(group_values(those)) if those else None for those in about]
        for claim, those, estimate, p in zip(claims, about, estimates, correct(estimates), strict=True):
            obstacle = ONE_PROCESS if those else NOT_MEASURED.format(name=named(framework))
            tested.append(_judge(claim, framework, named, those, (estimate, p), kinds[claim.kind][1] or obstacle))
    return found, tested


def _is_about(claim: Claim, contrast: Contrast, sizes: set[int]) -> bool:
    return contrast.phase is find_phase(claim.metric) and contrast.size in sizes


def group_values(contrasts: Sequence[Contrast]) -> list[list[tuple[float, ...]]]:
    """List the values per process of each size, by group of sizes."""
    groups = dict.fromkeys(each.group for each in contrasts)
    return [[each.values for each in contrasts if each.group == group] for group in groups]


def _judge(
    claim: Claim,
    framework: str,
    named: FrameworkNames,
    mine: Sequence[Contrast],
    estimated: tuple[Estimate | None, float],
    obstacle: str,
) -> TestedClaim:
    estimate, p = estimated
    sizes, measured = tuple(each.size for each in mine), ClaimVerdict(Outcome.UNCERTAIN, obstacle)
    percents = value, low, high = percents_of(estimate) if estimate else (math.nan, math.nan, math.nan)
    if estimate:
        found = judge(percents, p, MARGIN_PERCENT)
        kind = "" if found in OUTCOMES else f"{WORDS[found]}: "
        why = f"{kind}{value:+.2f} % [{low:+.2f}, {high:+.2f}] at {listed(sizes)}, corrected p {p:.2g}"
        measured = ClaimVerdict(OUTCOMES.get(found, Outcome.FAILS), why)
    row = {"batch_sizes": " ".join(map(str, sizes)), "p_corrected": p}
    row |= {"faster_percent": value, "low": low, "high": high}
    published = {TABLE: _find_published(claim, sizes)}
    return TestedClaim(claim, framework, named(framework), published, measured, figures=row)


def _find_published(claim: Claim, sizes: Sequence[int]) -> ClaimVerdict | None:
    """Return that the article ran a size once; None if it did not run any."""
    same = [
        each for each in read_size_article().metrics if each.series and find_phase(each) is find_phase(claim.metric)
    ]
    known = any(size in sizes for metric in same for size in express_in_percent(metric)[1])
    return ClaimVerdict(Outcome.UNCERTAIN, RAN_ONCE) if known else None


def build_table(tested: Sequence[TestedClaim]) -> Table:
    """Build the table of the article's claims."""
    below = (read_size_article().claims_note.format(margin=MARGIN_PERCENT),)
    overruled = [each.framework for each in tested if is_overruled(*_corrected(each))]
    families = Counter(each.framework for each in tested if not math.isnan(each.figures["p_corrected"]))
    above = note_corrected([families[name] for name in overruled], "0")
    return build_claim_table(CLAIMS, "Claims about round batch sizes", tested, above, below)


def _corrected(tested: TestedClaim) -> tuple[float, float, float]:
    """Return the ends of the interval, and p."""
    low, high, p = (tested.figures[name] for name in ("low", "high", "p_corrected"))
    return low, high, p
