"""State what a reader must know besides the tables: how many trials, which are not ok, and what the results cannot
show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from workloads.records.blocks import main_size
from workloads.records.check_name import JUDGE, CheckName
from workloads.records.checks import SHORTEST_S, is_as_asked, list_failed
from workloads.records.disturbance import describe_shares, find_largest_share
from workloads.records.figures import ACCURACY, HOST_MEMORY, SPEED
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.setting_words import list_findings
from workloads.study import list_studies
from workloads.words import format_count

from .conditions import Replaced, Section, list_series_of, read_series
from .doubts import TOLERATED_PERCENT
from .load import Stored
from .reproduction import agreement
from .sentences import say, status_words


def tally(stored: Stored) -> str:
    """Count trials, as "27 trials: 26 ok, 1 timeout; 1 unreadable; 2 unfinished"."""
    statuses = _by_status(stored.results)
    trials = format_count(len(stored.results), "trial") + (f": {', '.join(statuses)}" if statuses else "")
    tried = [f"{len(stored.attempts)} tried more than once"] if stored.attempts else []
    writing = ["a run is still writing"] if stored.in_use else []
    return "; ".join([trials, *_without_result(stored), *tried, *writing])


def list_problems(stored: Stored, replaced: Sequence[Replaced]) -> dict[str, tuple[str, ...]]:
    """List {problem: a line each}: every trial that is not ok or not shown, and every check that failed."""
    problems = {
        "Still being written: unfinished trials are not in this report": map(str, stored.in_use),
        "Trials that are not ok": (
            f"{result.spec.id}: {status_words(result.status)}: {result.reason or 'no reason was stored'}"
            f"{_measured(result)}"
            for result in stored.results
            if result.status is not Status.OK
        ),
        "Trials disturbed by other processes": (
            f"{result.spec.id}: they took {taken}"
            for result in stored.results
            if (taken := describe_shares(TOLERATED_PERCENT, result.figures))
        ),
        "Checks that failed": (
            f"{result.spec.id}: {check.name}: {check.detail}"
            for result in stored.results
            for check in list_failed(result)
        ),
        f"Steady windows shorter than {SHORTEST_S:g} s, as the study asks": (
            f"{result.spec.id}: {check.detail}"
            for result in stored.results
            for check in result.checks
            if not check.passed and is_as_asked(result.spec, check)
        ),
        "Replaced by a newer trial of the same cell": (
            f"{pair.old.spec.id} of {pair.old.started_at} by {pair.new.spec.id} of {pair.new.started_at}"
            for pair in replaced
        ),
        "Unreadable results, left out": (f"{item.path}: {item.reason}" for item in stored.unreadable),
        "Unfinished trials (no result: still running, or killed)": map(str, stored.unfinished),
    }
    return {title: found for title, lines in problems.items() if (found := tuple(lines))}


def _measured(result: TrialResult) -> str:
    """Say what an unverified trial measured, and what to do next; empty for other trials, or if it measured nothing."""
    figures = [
        f"{spec.label.lower()} {value * spec.factor:.4g} {spec.unit}"
        for spec in (SPEED, HOST_MEMORY, ACCURACY)
        if (value := result.first_known(spec)) is not None
    ]
    if result.status is not Status.UNVERIFIED or not figures:
        return ""
    return f". It measured: {', '.join(figures)}. Tables omit these. Read what differs, then run the trial again"


def list_unverified(stored: Stored, sections: Sequence[Section], main: int | None) -> tuple[str, ...]:
    """Say what these results cannot show, a sentence each.

    `main` is the index of the section that the findings describe; None without any ok trial.
    """
    ok = [result for result in stored.results if result.status is Status.OK]
    sentences = []
    if main is not None and len(sections) > 1:
        sentences.append(say("caveats.of_one_section", number=main + 1))
    if sections and all(section.condition.placement.device_kind == "cpu" for section in sections):
        sentences.append(say("caveats.no_gpu"))
    sentences += [say("caveats.not_run", lacking=phrase) for phrase in describe_missing_runs(stored.results)]
    if len({result.spec.draw.repeat for result in stored.results}) == 1:
        sentences.append(say("caveats.one_repeat"))
    if contended := sum(result.status is Status.CONTENDED for result in stored.results):
        sentences.append(say("caveats.contended", number=contended, trials=len(stored.results)))
    left_out = _by_status(r for r in stored.results if r.status not in (Status.OK, Status.CONTENDED))
    if left_out := left_out + _without_result(stored):
        sentences.append(say("caveats.left_out", numbers=left_out))
    if later := sum(each.shown not in (None, 0) for each in stored.attempts.values()):
        sentences.append(say("caveats.later_attempts", trials=later))
    sentences += _doubtful_images(stored.results)
    doubts = _doubts(ok).items()
    sentences += [say("caveats.doubt", what=what, number=number, ok=len(ok)) for what, number in doubts if number]
    return (*sentences, *agreement.caveats(sections))


def _doubtful_images(results: Sequence[TrialResult]) -> list[str]:
    """Write a sentence for each data set whose images make its accuracies doubtful."""
    sentences = {}
    for result in results:
        source, name = result.spec.task.source, result.spec.task.dataset
        if source and source.findings and (found := list_findings(source.findings)):
            sentences[name, source.content] = say("caveats.doubtful_images", dataset=name, found=found)
    return list(sentences.values())


def describe_missing_runs(results: Sequence[TrialResult]) -> list[str]:
    """Describe in phrases what one of our studies asks for and was not run: whole series first.

    Either the run was stopped or an option left it out; the results do not show which.
    """
    lacking = []
    ran = {result.spec.study for result in results}
    for name in (study for study in list_studies() if study in ran):
        placed = [(result.spec, list_series_of(result.spec)) for result in results if result.spec.study == name]
        of_series = {each: [spec for spec, names in placed if each in names] for each in read_series(name)}
        if absent := [each for each, specs in of_series.items() if each and not specs]:
            lacking.append(say("caveats.lacking_series", study=name, series=absent))
        for each, part in read_series(name).items():
            specs = of_series[each]
            asked = map(main_size, part.blocks) if part.blocks else part.batch_sizes
            sizes = sorted(set(asked) - {spec.cell.batch_size for spec in specs})
            repeats = max(0, part.repeats - len({spec.draw.repeat for spec in specs}))
            if specs and (sizes or repeats):
                study = f"{name} ({each})" if each else name
                facts = {"study": study, "sizes": sizes, "repeats": repeats, "of_repeats": part.repeats}
                lacking.append(say("caveats.lacking", **facts))
    return lacking


def _doubts(ok: Sequence[TrialResult]) -> dict[str, int]:
    """Count {doubt about ok trials: number of trials}.

    Such trials were compared with nothing, compared only with other frameworks, or not checked. Other doubts are about
    figures of the steady window that are less reliable.
    """
    own_code = sum(result.spec.task.own_code is not None for result in ok)
    checks = [{check.name: check for check in r.checks} for r in ok if r.spec.task.own_code is None]
    gates = [of_trial[CheckName.GATE].against for of_trial in checks if CheckName.GATE in of_trial]
    silent = len(checks) - len(gates)
    first_steps = sum(CheckName.END_EVALUATION not in of_trial for of_trial in checks) - silent
    shares = [find_largest_share(result.figures) for result in ok]
    short = sum(
        any(check.name == CheckName.LONG_ENOUGH and not check.passed for check in result.checks) for result in ok
    )
    return {
        "held_against_nothing": sum(not against for against in gates),
        "without_referee": sum(bool(against) and JUDGE not in against for against in gates),
        "own_code": own_code,
        "no_gate": silent,
        "first_steps": first_steps,
        "disturbed": count_disturbed(shares),
        "disturbance_unknown": shares.count(None),
        "short_window": short,
    }


def count_disturbed(shares: Iterable[float | None]) -> int:
    """Count the shares of the cores, each the largest of a trial, above the tolerance."""
    return sum(share is not None and share > TOLERATED_PERCENT for share in shares)


def _by_status(results: Iterable[TrialResult]) -> list[str]:
    """Count results by status, as "26 ok", "1 timeout"."""
    return [f"{number} {status_words(status)}" for status, number in Counter(r.status for r in results).most_common()]


def _without_result(stored: Stored) -> list[str]:
    """Count trials without a result, as "1 unreadable", "2 unfinished"."""
    numbers = {"unreadable": len(stored.unreadable), "unfinished": len(stored.unfinished)}
    return [f"{number} {what}" for what, number in numbers.items() if number]
