"""Write a trial as log lines of MLPerf Training (`:::MLLOG {...}`), as its package mlperf-logging reads them.

Keys and their order are those of mlperf-logging 4.1, rule set 6.0.0. What is ours has the namespace OURS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workloads.records.build import BFLOAT16, FLOAT16, FLOAT32, TF32
from workloads.records.figures import FIGURES
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.statistics import count_images

from ..publishing.publication import name_machine
from ..trial_rows import COLUMNS, TrialRow
from .moments import TrialMoments, read_moments

START, END, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"
OURS = "batchwise"
NO_SUBMISSION = "none: exported by Batchwise, not a submission to MLPerf"
PRECISIONS = {FLOAT32: "fp32", TF32: "tf32", BFLOAT16: "bfloat16", FLOAT16: "fp16"}


def build_log(row: TrialRow) -> str:
    """Return the lines of a trial's log.

    Raises ValueError with the reason if the trial has no epoch, or its files do not say when its epochs were.
    """
    result = row.result
    if result is None or not result.epochs:
        raise ValueError(f"{row.status}, no epoch was trained and evaluated")
    moments = read_moments(row.folder)
    if len(moments.epochs) < len(result.epochs):
        raise ValueError("the times of its epochs are not stored")
    return "".join(f"{line}\n" for line in (*_list_settings(result, moments), *_list_run(row, result, moments)))


def _line(kind: str, ms: int, key: str, value: Any, namespace: str = "", **metadata: Any) -> str:
    fields = {"namespace": namespace, "time_ms": ms, "event_type": kind, "key": key, "value": value}
    return f":::MLLOG {json.dumps(fields | {'metadata': metadata}, allow_nan=False)}"


def _list_settings(result: TrialResult, moments: TrialMoments) -> Iterator[str]:
    """Yield what was trained, by what, and how long the preparation took."""
    spec, at = result.spec, moments.started
    test = count_images(spec.task.dataset, spec.task.source, "test")
    settings = {
        "cache_clear": False,
        "submission_benchmark": spec.task.workload,
        "submission_org": NO_SUBMISSION,
        "submission_platform": name_machine(result),
        "seed": spec.draw.first_seed,
        "global_batch_size": spec.global_batch,
        "micro_batch_size": spec.cell.batch_size,
        "gradient_accumulation_steps": spec.task.accumulate,
        "train_samples": result.epochs[0].images,
        "eval_samples": "unknown: the data set is no longer in the catalogue" if test is None else test,
        "opt_name": spec.task.optimizer.name,
        "opt_base_learning_rate": spec.rule.learning_rate,
        "opt_learning_rate_decay_schedule": spec.task.optimizer.schedule,
        "opt_weight_decay": spec.task.optimizer.weight_decay,
    }
    if spec.task.precision in PRECISIONS:
        settings["lowest_numerical_precision_in_linear"] = PRECISIONS[spec.task.precision]
    yield _line(START, at, "init_start", None)
    yield from (_line(POINT, at, key, value) for key, value in settings.items())
    yield _line(END, moments.ready, "init_stop", None)


def _list_run(row: TrialRow, result: TrialResult, moments: TrialMoments) -> Iterator[str]:
    """Yield the epochs, the evaluations, how the run ended, and its known figures."""
    yield _line(START, moments.ready, "run_start", None)
    for number, (epoch, at) in enumerate(zip(result.epochs, moments.epochs, strict=False), start=1):
        yield _line(START, at.started, "epoch_start", None, epoch_num=number)
        yield _line(END, at.trained, "epoch_stop", None, epoch_num=number)
        yield _line(START, at.trained, "eval_start", None, epoch_num=number)
        yield _line(POINT, at.evaluated, "eval_accuracy", epoch.test_accuracy, epoch_num=number)
        yield _line(END, at.evaluated, "eval_stop", None, epoch_num=number)
    last = moments.epochs[len(result.epochs) - 1].evaluated
    yield _line(END, last, "run_stop", None, status="success" if result.status is Status.OK else "aborted")
    for column in COLUMNS:
        value = column.value(row) if column.name in (*FIGURES, "trial", "status", "reason", "verified") else None
        if value is not None:
            yield _line(POINT, last, column.name, value, OURS)
