"""Answer the question of a publication in the title of a report, from what came of its claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..conditions import Section
from ..frameworks import order_frameworks
from ..quantities import MEMORY, MEMORY_PARTS, STEPS_PEAK
from ..sentences import say
from .claim_tests import ClaimVerdict, Outcome
from .claims import TestedClaim, evaluate_section, hold_sections, judge_across
from .publication import Article
from .reproduced import list_frameworks

WORSE = (Outcome.HOLDS, Outcome.SEEN, Outcome.UNCERTAIN, Outcome.UNSEEN, Outcome.FAILS)  # each worse than those before
NOT_RUN = "not run"
CERTAIN_FIRST = tuple(map(str, (Outcome.HOLDS, Outcome.FAILS, Outcome.SEEN, Outcome.UNSEEN, Outcome.UNCERTAIN)))


def say_headline(sections: Sequence[Section]) -> tuple[str, str] | None:
    """Return (outcomes of the claims across sections in words, the quantity they are about); None without any."""
    held = hold_sections(sections)
    across = {publication: _run_across(publication, held[publication]) for publication in held}
    told = [each for tested in across.values() for each in tested]
    answer = _answer(held, across)
    if not told and answer is None:
        return None
    question, topics = answer or ("", {})
    first = next(iter(topics.values()), told)[0].claim.metric.quantity
    about, named = MEMORY if first in (*MEMORY_PARTS, STEPS_PEAK) else first, sections[0].named
    if not topics:
        return say("published.claims", named, outcomes={"": _outcomes(told)}), about.name
    answers = _group_by_outcome(topics)
    uncertain = answers.pop(str(Outcome.UNCERTAIN), None) is not None
    return say("published.answer", named, question=question, answers=answers, uncertain=uncertain), about.name


def _answer(
    held: Mapping[Article, dict[int, Section]], across: Mapping[Article, Sequence[TestedClaim]]
) -> tuple[str, dict[str, list[TestedClaim]]] | None:
    """Return (question, {topic: its claims of frameworks that were measured}); None unless one publication asks.

    `across` are the claims across sections: those of another publication must not be hidden.
    """
    asking = [publication for publication in held if publication.question]
    if len(asking) != 1 or any(tested for publication, tested in across.items() if publication != asking[0]):
        return None
    sections, topics = held[asking[0]].values(), dict[str, list[TestedClaim]]()
    for each in (*_run_alone(asking[0], sections), *across[asking[0]]):
        if each.claim.topic:
            topics.setdefault(each.claim.topic, []).append(each)
    for topic, tested in topics.items():
        tested += _list_untested(topic, tested, asking[0], sections)
    return (asking[0].question, topics) if topics else None


def _list_untested(
    topic: str, tested: Sequence[TestedClaim], publication: Article, sections: Iterable[Section]
) -> list[TestedClaim]:
    """List the other claims of a topic about frameworks that ran: without them, a part would answer for the whole."""
    known = {(each.claim.text, each.framework) for each in tested}
    ran = {result.spec.cell.framework: section.named for section in sections for result in section.results}
    return [
        TestedClaim(claim, framework, named(framework), {}, ClaimVerdict(Outcome.UNCERTAIN, NOT_RUN))
        for claim in publication.claims
        if claim.topic == topic
        for framework, named in ran.items()
        if framework in (claim.frameworks or ran) and (claim.text, framework) not in known
    ]


def _group_by_outcome(topics: Mapping[str, Sequence[TestedClaim]]) -> dict[str, dict[str, list[str]]]:
    """Map {outcome: {topic: frameworks, none if it is so for all}}, the certain outcomes first."""
    by_topic = {topic: _group_by_worst(tested) for topic, tested in topics.items()}
    groups: dict[str, dict[str, list[str]]] = {}
    for outcome in CERTAIN_FIRST:
        if of_outcome := {topic: of[outcome] for topic, of in by_topic.items() if outcome in of}:
            groups[outcome] = of_outcome
    return groups


def _group_by_worst(tested: Sequence[TestedClaim]) -> dict[str, list[str]]:
    """Map {outcome: frameworks}: a framework's outcome is the worst of its claims. One outcome of all has no names."""
    worst: dict[str, Outcome] = {}
    for each in tested:
        known = worst.get(each.framework, each.measured.outcome)
        worst[each.framework] = max(known, each.measured.outcome, key=WORSE.index)
    groups = {
        str(outcome): order_frameworks(name for name, of_name in worst.items() if of_name is outcome)
        for outcome in WORSE
        if outcome in worst.values()
    }
    return groups if len(groups) > 1 else {key: [] for key in groups}


def say_finding(sections: Sequence[Section]) -> str:
    """Summarise the outcomes of the claims across sections per framework; "" if a report has no such claims."""
    told = _run(sections)
    by_framework = {name: [each for each in told if each.framework == name] for name in {e.framework for e in told}}
    outcomes = {name: _outcomes(by_framework[name]) for name in order_frameworks(by_framework)}
    return f"{say('published.claims', sections[0].named, outcomes=outcomes)}." if outcomes else ""


def _run(sections: Sequence[Section]) -> list[TestedClaim]:
    """Claims across sections for which both sides were run, of every publication."""
    return [each for held in hold_sections(sections).items() for each in _run_across(*held)]


def _run_across(publication: Article, held: dict[int, Section]) -> list[TestedClaim]:
    return [each for each in judge_across(publication, held) if each.numbers]


def _run_alone(publication: Article, sections: Iterable[Section]) -> list[TestedClaim]:
    """Claims of single sections about frameworks that were measured there."""
    found = (evaluate_section(section, publication) for section in sections)
    return [
        each
        for tested, ours in found
        for each in tested
        if each.framework in list_frameworks(ours[each.claim.metric].points)
    ]


def _outcomes(told: Sequence[TestedClaim]) -> dict[str, int]:
    """Count {outcome: how many}, in the order of Outcome."""
    counts = Counter(each.measured.outcome for each in told)
    return {str(outcome): counts[outcome] for outcome in Outcome if counts[outcome]}
