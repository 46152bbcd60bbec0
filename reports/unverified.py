"""What these results cannot say, and why; a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from workloads.records.check_name import JUDGE, CheckName
from workloads.records.figures import FOREIGN_CPU
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.study import read, studies

from . import tables
from .conditions import Section
from .load import Stored
from .reproduction import comparable

UNPUBLISHED = (
    "The publication names neither data set, network nor optimizer: that they are those compared here is the best "
    "evidence, not known."
)


def told(stored: Stored, sections: Sequence[Section], main: int | None) -> tuple[str, ...]:
    """`main` is the place of the section that the findings are of; None without any ok trial."""
    found = []
    if main is not None and len(sections) > 1:
        found.append(
            f"Speed, memory and parity of accuracy are told of section {main + 1} alone, the one with most ok trials."
        )
    if sections and all(section.condition.placement.device_kind == "cpu" for section in sections):
        found.append("No trial ran on a GPU: nothing is said about GPU usage, GPU memory, power or energy.")
    found += [f"Not run of {what}." for what in not_run(stored.results)]
    found += _spread(stored)
    found += _left_out(stored)
    found += _gate([result for result in stored.results if result.status is Status.OK])
    found += _doubts([result for result in stored.results if result.status is Status.OK])
    return (*found, *_published(sections))


def not_run(results: Sequence[TrialResult]) -> list[str]:
    """What a study of ours asks for and was not run: stopped, or left out by an option; what is stored cannot tell."""
    found = []
    for name, path in studies().items():
        own = [result for result in results if result.spec.study == name]
        asked = read(path)
        sizes = sorted(set(asked.batch_sizes) - {result.spec.cell.batch_size for result in own})
        repeats = len({result.spec.draw.repeat for result in own})
        parts = [f"batch size {comparable.listed(sizes)}"] if sizes else []
        parts += [f"{asked.repeats - repeats} of {asked.repeats} repeats"] if repeats < asked.repeats else []
        if own and parts:
            found.append(f"the study {name} as it is defined: {' and '.join(parts)}")
    return found


def _spread(stored: Stored) -> list[str]:
    if not stored.results or len({result.spec.draw.repeat for result in stored.results}) > 1:
        return []
    return ["Every cell has one repeat: nothing is known of the spread between runs, so close numbers have no order."]


def _left_out(stored: Stored) -> list[str]:
    """Trials that give no number, by how they ended; results that cannot be read; trials that are not finished."""
    ended = Counter(str(result.status).replace("_", " ") for result in stored.results if result.status is not Status.OK)
    parts = [f"{count} {status}" for status, count in ended.most_common()]
    parts += [f"{len(stored.unreadable)} unreadable"] if stored.unreadable else []
    parts += [f"{len(stored.unfinished)} unfinished"] if stored.unfinished else []
    return [f"Trials that give no number: {', '.join(parts)}."] if parts else []


def _gate(ok: list[TrialResult]) -> list[str]:
    """Ok trials that were held against nothing, against other frameworks alone, or were not looked at."""
    checks = [{check.name: check for check in result.checks} for result in ok]
    verdicts = [own[CheckName.GATE].against for own in checks if CheckName.GATE in own]
    nothing = sum(not against for against in verdicts)
    alone = sum(bool(against) and JUDGE not in against for against in verdicts)
    silent = len(ok) - len(verdicts)
    first_steps = sum(CheckName.END_EVALUATION not in own for own in checks) - silent
    found = []
    for count, what in (
        (nothing, "were held against nothing: whether they compute what other frameworks compute is not verified"),
        (alone, "were held against other frameworks alone, not against the referee"),
        (silent, "carry no check that they compute what the others compute"),
        (first_steps, "were looked at in their first steps alone: nothing checked what they did at their end"),
    ):
        found += [f"{count} of {len(ok)} ok trials {what}."] if count else []
    return found


def _doubts(ok: list[TrialResult]) -> list[str]:
    """Ok trials whose figures of the steady window are worth less."""
    shares = [tables.figure_of(result, FOREIGN_CPU.name).value for result in ok]
    disturbed = sum(share is not None and share > tables.TOLERATED_PERCENT for share in shares)
    unknown = sum(share is None for share in shares)
    short = sum(
        any(check.name == CheckName.LONG_ENOUGH and not check.passed for check in result.checks) for result in ok
    )
    found = []
    for count, what in (
        (disturbed, "were disturbed by other processes: their speed, usage and times are worth less"),
        (unknown, "do not tell whether other processes disturbed them"),
        (short, "had a steady window too short for their usage"),
    ):
        found += [f"{count} of {len(ok)} ok trials {what}."] if count else []
    return found


def _published(sections: Sequence[Section]) -> list[str]:
    """Which published figures no section can be compared with, and why."""
    sections = [section for section in sections if section.results]
    found: dict[tuple[str, ...], list[str]] = {}
    for metric in comparable.METRICS if sections else ():
        reasons = [comparable.obstacles(section, metric) for section in sections]
        if all(reasons):
            distinct = tuple(dict.fromkeys(reason for own in reasons for reason in own))
            found.setdefault(distinct, []).append(metric.label.replace("Test", "test"))
    rows = [
        f"Not compared with the published figures of {comparable.listed(names)}: {'; '.join(reasons)}."
        for reasons, names in found.items()
    ]
    if sum(map(len, found.values())) < len(comparable.METRICS) and sections:
        rows.append(UNPUBLISHED)
    return rows
