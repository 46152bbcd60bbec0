"""Verify a submission: one archive of results, as `python -m reports submit` packs it.

Everything is computed again from the files in it, by the checks of `python -m reports check`. Raw samples that were
edited together with all that follows from them cannot be told from honest ones: such a trial stays `claimed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.records import files, validation
from workloads.records.batch_answers import ANSWERS_FILE
from workloads.records.build import FLOAT64
from workloads.records.check_name import JUDGE, CheckName
from workloads.records.job import Job
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.temporary import temporary_folder

from .. import caveats, load
from ..checking.completeness import find_obstacles
from ..checking.stored_probes import Probes
from ..load import Stored
from ..publishing import archive
from ..publishing.archive import CHECKSUMS, find_changed_files
from ..publishing.contents import RESULTS

EVIDENCE = (files.JOB_FILE, files.EVENTS_FILE, files.SAMPLES_FILE, files.METER_FILE, files.ATTEMPT_FILE)


@dataclass
class Submission:
    """Trials of a submission, and a line for each fault; `subject` sums up what was read.

    Processes of blocks are not among the trials: they have no cell, and cannot be run again.
    """

    subject: str
    results: tuple[TrialResult, ...] = ()
    findings: list[str] = field(default_factory=list)


def verify_submission(file: Path) -> Submission:
    """Unpack and check the file. Raises ReportError if it is no archive of results."""
    with temporary_folder("batchwise-") as stage:
        archive.unpack(file, stage / "unpacked").rename(stage / RESULTS)
        with chdir(stage):  # paths in findings are the archive's
            return verify_results(RESULTS)


def verify_results(folder: Path) -> Submission:
    """Check an unpacked submission. Raises ReportError if it holds no result."""
    stored = load.read_all(folder)
    findings = find_changed_files(folder) if (folder / CHECKSUMS).is_file() else [f"{folder}: {CHECKSUMS} is missing"]
    findings += [line for obstacle in find_obstacles(stored, folder) for line in obstacle.lines]
    findings += _find_missing_evidence(stored, folder)
    counts = Counter(result.spec.id for result in stored.results)  # labels go by id: each must mean one result
    findings += [f"{folder}: {name} is stored {count} times" for name, count in counts.items() if count > 1]
    if (folder / ANSWERS_FILE).exists():
        findings.append(
            f"{folder / ANSWERS_FILE}: a submission has no answers of a search: nothing can judge them again"
        )
    trials = tuple(result for result, trial_dir in stored.pairs if trial_dir.parent.name != load.BLOCKS)
    return Submission(caveats.tally(stored), trials, list(dict.fromkeys(findings)))


def _find_missing_evidence(stored: Stored, folder: Path) -> Iterator[str]:
    """Yield trials that ended ok and lack what their figures and verdict are judged by again."""
    probes = Probes(folder)
    for result, trial_dir in stored.pairs:
        if result.status is not Status.OK:
            continue
        missing = [name for name in EVIDENCE if not (trial_dir / name).is_file()]
        if trial_dir.parent.name == load.BLOCKS:
            missing = [name for name in missing if name != files.ATTEMPT_FILE]
        if missing:
            yield f"{trial_dir}: not there: {', '.join(missing)}"
            continue
        if _read_spec(trial_dir) != result.spec:
            yield f"{trial_dir}: {files.JOB_FILE} asked for another trial than {files.RESULT_FILE} has"
        if trial_dir.parent.name != load.BLOCKS and not result.spec.task.own_code:
            yield from _judge(result, trial_dir, probes)


def _read_spec(trial_dir: Path) -> Any:
    """Return the trial that the worker was asked for; None if that cannot be read."""
    try:
        return Job.from_json(validation.read(trial_dir / files.JOB_FILE, dict[str, Any]) or {}).trial
    except (ValueError, TypeError, AttributeError):
        return None


def _judge(result: TrialResult, trial_dir: Path, probes: Probes) -> Iterator[str]:
    """Yield a line if the gate's verdict is missing, or nothing is stored that it can be judged by again."""
    gate = [check for check in result.checks if check.name == CheckName.GATE and check.passed]
    precisions = (FLOAT64, result.spec.task.precision)
    if not gate:
        yield f"{trial_dir}: {CheckName.GATE}: it is ok without that check's verdict"
    elif not result.evidence or not probes.list_answers(result.spec):
        yield f"{trial_dir}: {CheckName.GATE}: probes/ has nothing to judge it again with"
    elif JUDGE in gate[0].against and not all(probes.referee(result.spec, each) for each in precisions):
        yield f"{trial_dir}: {CheckName.GATE}: probes/ has no answer of the referee, with which it was compared"
