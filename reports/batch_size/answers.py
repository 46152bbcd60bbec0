"""Read the stored answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workloads.records import validation
from workloads.records.batch_answers import ANSWERS_FILE, BatchAnswers

from ..frameworks import learn_label, ordered
from ..load import ReportError


def read(results: Path) -> BatchAnswers | None:
    """Read the answers, frameworks in the order of every table; None if there are none.

    Raises ReportError for a file that does not hold answers.
    """
    path = results / ANSWERS_FILE
    if not path.is_file():
        return None
    try:
        stored = validation.read(path, BatchAnswers)
    except ValueError as error:
        raise ReportError(f"{path}: {error}; move it away, and ask again with python -m runner batch-size") from error
    assert stored is not None
    labels = stored.conditions.get("labels")
    for name, label in labels.items() if isinstance(labels, dict) else ():
        learn_label(name, {"framework_label": label})
    by_name = {answers.framework: answers for answers in stored.frameworks}
    return replace(stored, frameworks=tuple(by_name[name] for name in ordered(by_name)))
