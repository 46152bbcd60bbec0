"""Each claim of the published prose that figures can test: on its own figures, table and chart, and on ours.

The claims are those of the article of 2022 about the thesis's figures; what it says of small batches is not known to
us, so those two are what both published series show. Published figures are taken at their word, ours with intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from ..conditions import Section
from ..frameworks import display_name, ordered
from ..order import TIE_PERCENT, Point
from ..table import Cell, Table
from . import ranks
from .claim_tests import (
    FALL,
    FLAT,
    PEAK,
    STRONG,
    TWICE,
    Outcome,
    Verdict,
    all_above,
    falls,
    is_flat,
    jumps,
    peaks,
    rises,
)
from .comparable import ACCURACY, MEMORY, USAGE, Metric, Points, exact, frameworks, listed, obstacles
from .literature import CHART, TABLE

SMALL, LARGE = (4, 8), (512, 1024)
HOW = (
    f"Grows and rises: a rank correlation with the batch size of {STRONG:g} or more, in ours also p < {ranks.ALPHA:g}. "
    f"Flat: the highest value is at most {FLAT:g} times the lowest. Jump: at least {TWICE:g} times the value at the "
    "size before. Published figures are taken at their word, for nothing is known of their spread; ours are compared "
    "by their intervals: where those overlap it cannot be told. One repeat has no interval: what it shows is seen in "
    f"this run, or not seen; within {TIE_PERCENT:g} % of each other, or of such a bound, values cannot tell. A trend "
    "over the batch sizes is tested even so.",
    "Small batches are 4 and 8, large ones 512 and 1024. What the article says of small batches is not known to us: "
    "the two claims about them are what both series show. Accuracy is published for TensorFlow alone, in the table "
    "alone.",
)
TIDY = [
    "claim", "quantity", "framework", "published_table", "published_chart", "measured", "why_table", "why_chart",
    "why_measured",
]  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """`framework` is the one it is about; `test` gets all frameworks' values."""

    text: str
    metric: Metric
    framework: str
    test: Callable[[Points], Verdict]


def all_claims(measured: Points) -> list[Claim]:
    """In the order of the table; those of accuracy for every framework that was measured."""
    found = [
        _extreme("mxnet", SMALL, True),
        _extreme("tensorflow", SMALL, False),
        _extreme("tensorflow", LARGE, True),
        _extreme("pytorch", LARGE, False),
        *(_grows("GPU usage grows with the batch size", USAGE, name) for name in ("tensorflow", "pytorch", "mxnet")),
        _flat(USAGE, "pytorch"),
        *(_grows("GPU memory rises with the batch size", MEMORY, name) for name in ("tensorflow", "pytorch", "mxnet")),
        _flat(MEMORY, "pytorch"),
        _claim("GPU memory jumps at batch size 128", MEMORY, "mxnet", jumps),
    ]
    for name in ordered({ACCURACY.alone, *frameworks(measured)}):
        found.append(_claim(f"test accuracy is highest at {PEAK[0]} or {PEAK[1]}", ACCURACY, name, peaks))
        found.append(_claim(f"test accuracy falls from {FALL[1]} on", ACCURACY, name, falls))
    return found


def table(section: Section, ours: Mapping[Metric, Points]) -> Table:
    """`ours` are the points of every metric."""
    rows, tidy = [], []
    for claim in all_claims(ours[ACCURACY]):
        verdicts = (
            _of_published(claim, TABLE),
            _of_published(claim, CHART),
            _of_ours(claim, section, ours[claim.metric]),
        )
        why = "; ".join(
            f"{where}: {verdict.why}"
            for where, verdict in zip((TABLE, CHART, "measured"), verdicts, strict=True)
            if verdict
        )
        rows.append((Cell(claim.text), *(Cell(v.outcome if v else "\N{EN DASH}") for v in verdicts), Cell(why)))
        outcomes = (str(verdict.outcome) if verdict else None for verdict in verdicts)
        whys = (verdict.why if verdict else None for verdict in verdicts)
        tidy.append((claim.text, claim.metric.name, claim.framework, *outcomes, *whys))
    return Table(
        name="claims",
        title="Claims of the publication, tested",
        head=("Claim", "Published table", "Published chart", "Measured", "Why"),
        rows=tuple(rows),
        tidy=pd.DataFrame(tidy, columns=TIDY),
        below=HOW,
        words=True,
    )


def _of_published(claim: Claim, series: str) -> Verdict | None:
    """None where that series has no such figures."""
    values = exact(series, claim.metric)
    if claim.metric.alone and claim.framework != claim.metric.alone:
        return None
    return claim.test(values) if values else None


def _of_ours(claim: Claim, section: Section, values: Points) -> Verdict:
    in_the_way = obstacles(section, claim.metric)
    if in_the_way:
        return Verdict(Outcome.UNTOLD, "; ".join(in_the_way))
    if not any(name == claim.framework for name, _ in values):
        return Verdict(Outcome.UNTOLD, f"nothing was measured of {display_name(claim.framework)}")
    return claim.test(values)


def _claim(text: str, metric: Metric, framework: str, test: Callable[[dict[int, Point]], Verdict]) -> Claim:
    """One that is about one framework's values over the batch sizes."""
    return Claim(
        f"{display_name(framework)}: {text}",
        metric,
        framework,
        lambda values: test({size: values[name, size] for name, size in sorted(values) if name == framework}),
    )


def _extreme(framework: str, sizes: tuple[int, ...], highest: bool) -> Claim:
    """That it has the highest, or lowest, usage of all at each of these sizes."""
    word = "highest" if highest else "lowest"

    def test(values: Points) -> Verdict:
        others = [name for name in frameworks(exact(TABLE, USAGE)) if name != framework]  # of whom the claim speaks
        missing = [str(size) for size in sizes for name in (framework, *others) if (name, size) not in values]
        if missing or not others:
            return Verdict(Outcome.UNTOLD, f"no value of all frameworks at {' and '.join(dict.fromkeys(missing))}")
        pick = max if highest else min
        seen = {size: pick((framework, *others), key=lambda name: values[name, size].value) for size in sizes}
        text = f"{word} is " + ", ".join(
            f"{display_name(name)} at {listed(size for size in sizes if seen[size] == name)}"
            for name in dict.fromkeys(seen.values())
        )
        pairs = [(values[framework, size], values[other, size]) for size in sizes for other in others]
        pairs = pairs if highest else [(other, own) for own, other in pairs]
        return all_above(pairs, text)

    sign = f"At {listed(sizes)} {display_name(framework)} has the {word} GPU usage"
    return Claim(sign, USAGE, framework, test)


def _grows(text: str, metric: Metric, framework: str) -> Claim:
    return _claim(text, metric, framework, rises)


def _flat(metric: Metric, framework: str) -> Claim:
    return _claim(f"{metric.label} is flat over the batch sizes", metric, framework, is_flat)
