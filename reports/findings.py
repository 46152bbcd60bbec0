"""Write the start of a report: its headline, what was run, its findings, and what it does not show.

Every sentence is computed from the data. Findings describe one section, the one with most trials that are ok.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from workloads.records.check_name import CheckName
from workloads.records.checks import list_failed
from workloads.records.disturbance import find_largest_share
from workloads.records.job import OWN
from workloads.records.result import TrialResult
from workloads.records.source_map import SOURCE
from workloads.records.status import Status

from . import caveats, headline, order, parity, tables
from .condition_text import describe_setting, format_dates
from .conditions import Section
from .doubts import TOLERATED_PERCENT, Doubt
from .load import Stored
from .order import find_extreme
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .report import Summary
from .reproduction import agreement, claim_answers
from .sentences import say

MOST_SECTIONS = 3  # described one by one in what was run
UNSTEADY = {Doubt.DISTURBED, Doubt.NOISY}


def summarise(stored: Stored, sections: Sequence[Section]) -> Summary:
    """Summarise the sections; they are in the order of their chapters, numbered from 1."""
    shown = [_shown(section.results) for section in sections]
    if not any(map(any, shown)):
        elsewhere = any(_shown(stored.results))
        nothing = say("headline.nothing_on_demand" if elsewhere else "headline.nothing")
        unverified = caveats.list_unverified(stored, sections, None)
        findings = (f"{nothing}.", *filter(None, map(_silent, sections[:MOST_SECTIONS])))
        return Summary(nothing, SPEED.name, _ran(stored, sections), findings, unverified, None)
    place = shown.index(max(shown))
    main = sections[place]
    memory = _order(main, MEMORY, {"lowest": False, "highest": True})
    sentences = [_speed(main), _silent(main), memory, _accuracy(main), agreement.finding(sections)]
    every = (claim_answers.say_finding(sections), *sentences, *_imported(stored), _checks(stored))
    findings = tuple(sentence for sentence in every if sentence)
    unverified = caveats.list_unverified(stored, sections, place)
    of_claims = claim_answers.say_headline(sections)
    first, about = agreement.headline(main) or of_claims or (headline.write_headline(main), SPEED.name)
    return Summary(first, about, _ran(stored, sections), findings, unverified, place)


def _shown(results: Sequence[TrialResult]) -> tuple[int, int]:
    """Count trials that are ok, and contended trials, which are shown in part."""
    statuses = Counter(result.status for result in results)
    return statuses[Status.OK], statuses[Status.CONTENDED]


def _ran(stored: Stored, sections: Sequence[Section]) -> tuple[str, ...]:
    if not stored.results:
        return (say("findings.unread"),)
    lines = [say("findings.ran", tally=caveats.tally(stored), dates=format_dates(stored.results))]
    for number, section in enumerate(sections[:MOST_SECTIONS], start=1):
        head = f"Section {number}: " if len(sections) > 1 else ""
        lines.append(f"{head}{describe_setting(section)}.")
    more = len(sections) - MOST_SECTIONS
    return (*lines, *([say("findings.further", sections=more)] if more > 0 else []))


def _order(
    section: Section, quantity: Quantity, ends: Mapping[str, bool], if_stated: Mapping[str, bool] | None = None
) -> str:
    """Say between which values a quantity is, and who is at an end at which batch sizes, as far as `order` allows.

    `ends`: {word for an end: True if it is the highest value}. `if_stated`: further ends, named only where intervals
    show them. What is certain comes first.
    """
    spec = quantity.figure(section.condition)
    if spec is None:
        return ""
    points = order.read_points(section, quantity)
    by_size = order.by_size(points)
    groups: list[dict[str, object]] = []
    for word, highest in ends.items():
        sizes: dict[tuple[str, bool], list[int]] = {}
        for size, of_size in by_size.items():
            if len(of_size) > 1:
                end = find_extreme(of_size, highest)
                sizes.setdefault((end.name, end.seen) if end.stated or end.seen else ("", False), []).append(size)
        groups += [{"word": word, "name": name, "once": once, "sizes": at} for (name, once), at in sizes.items()]
    for word, highest in (if_stated or {}).items():
        stated = order.map_stated(by_size, highest)
        groups += [{"word": word, "name": name, "once": False, "sizes": at} for name, at in stated.items()]
    groups.sort(key=lambda group: (not group["name"], group["once"]))
    values = sorted(point.value for point in points.values())
    texts = [f"{value:z.{tables.count_decimals(value)}f}" for value in (*values[:1], *values[-1:])]
    every = [size for size, of_size in by_size.items() if len(of_size) > 1]
    alone = len({name for name, _ in points}) == 1
    facts = {"alone": alone, "label": spec.label, "values": list(dict.fromkeys(texts)), "unit": spec.unit}
    return say("findings.order", section.named, **facts, groups=groups, every=every)


def _speed(section: Section) -> str:
    """Say which framework is fastest and slowest where, and how far the speeds can be trusted."""
    cells = [cell for cell in tables.compute_cells(section, SPEED).values() if cell.n]
    unsteady = sum(not cell.doubts.isdisjoint(UNSTEADY) for cell in cells)
    once = bool(cells) and all(cell.n == 1 for cell in cells)
    trust = say("findings.trust", unsteady=unsteady, cells=len(cells), once=once)
    return f"{_order(section, SPEED, {'fastest': True}, if_stated={'slowest': False})} {trust}".strip()


def _silent(section: Section) -> str:
    """Name frameworks without a number, and why; "" if each has one wherever another has."""
    lines = headline.explain_missing(headline.collect_race(section))
    return say("findings.silent", lines=lines) if lines else ""


def _accuracy(section: Section) -> str:
    """Describe parity from the paired repeats if there are enough; otherwise the gap between the frameworks.

    Custom code is compared with nothing: only its values are given.
    """
    if section.condition.task.own_code:
        return _order(section, ACCURACY, {})
    compared = parity.compare(section)
    if parity.has_verdict(compared):
        counts = Counter(compared["verdict"])
        pairs = counts.total()
        return say("findings.agreement", tolerated=parity.TOLERATED, verdicts=counts.most_common(), pairs=pairs)
    by_size = order.by_size(order.read_points(section, ACCURACY))
    met = {size: [point.value for point in of_size.values()] for size, of_size in by_size.items() if len(of_size) > 1}
    if not met:
        return _order(section, ACCURACY, {})
    gaps = {size: max(values) - min(values) for size, values in met.items()}
    widest = max(gaps, key=lambda size: gaps[size])
    return say("findings.accuracy_gap", points=gaps[widest], size=widest, fewest=parity.FEWEST)


def _imported(stored: Stored) -> list[str]:
    """Say of each imported network how near each framework's version is to the user's model, or that nothing tells."""
    proven: dict[str, dict[str, str]] = {}
    shown = [each for each in stored.results if each.status in (Status.OK, Status.CONTENDED)]
    for result in shown:
        for check in (each for each in result.checks if each.name == CheckName.SOURCE and each.passed):
            framework, workload = result.spec.cell.column.framework, result.spec.task.workload
            proven.setdefault(workload, {}).setdefault(framework, check.detail)
    lines = [
        say("findings.imported", stored.named, workload=name, proofs=list(proofs.items()))
        for name, proofs in proven.items()
    ]
    reasons: dict[str, str] = {}
    for spec in (each.spec for each in shown):
        imported = spec.unproven or SOURCE in spec.inputs or spec.task.initial == OWN
        if imported and not spec.task.own_code:
            reasons[spec.task.workload] = reasons.get(spec.task.workload) or spec.unproven
    unproven = {name: why for name, why in reasons.items() if name not in proven}
    return lines + [say("findings.unproven", workload=name, why=why) for name, why in unproven.items()]


def _checks(stored: Stored) -> str:
    """Count ok trials with a failed check and ok trials that others disturbed; "" without any ok trial."""
    ok = [result for result in stored.results if result.status is Status.OK]
    if not ok:
        return ""
    shares = [find_largest_share(result.figures) for result in ok]
    return say(
        "findings.checks",
        ok=len(ok),
        failed=sum(bool(list_failed(result)) for result in ok),
        known=len(ok) - shares.count(None),
        disturbed=caveats.count_disturbed(shares),
        tolerated=TOLERATED_PERCENT,
    )
