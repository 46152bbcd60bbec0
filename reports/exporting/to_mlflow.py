"""Write trials as runs of an MLflow server: a run per trial, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import get_tracking_uri

from ..load import ReportError, Stored
from ..trial_rows import list_rows
from .run_record import CONTENT, KEY, MetricPoint, RunRecord, build_record, list_cells

MOST_METRICS, MOST_PARAMS = 1000, 100  # of a request
NEW, SAME, CHANGED = "written", "there already", "written again because they differed"


def export(stored: Stored, uri: str | None) -> str:
    """Write each trial that has a result; returns a line that counts them. `uri`: None means MLflow's own setting.

    A run that holds the same is left as it is. Raises ReportError if the server refuses, or cannot be reached.
    """
    try:
        client = MlflowClient(uri)
        cells = list_cells(stored.results)
        done: Counter[str] = Counter()
        for row in list_rows(stored):
            if row.shown and row.result:
                done[_write(client, build_record(row), cells.get(row.result.key, []))] += 1
    except MlflowException as error:
        said = " ".join(str(error).split())[:300]
        raise ReportError(f"--tracking-uri {uri or get_tracking_uri()}: {said}") from error
    return f"{sum(done.values())} runs: {', '.join(f'{count} {how}' for how, count in done.items())}"


def _write(client: MlflowClient, record: RunRecord, cell: Sequence[MetricPoint]) -> str:
    """Write a run unless it is there; adds the values of its cell that are new. Returns what was done."""
    experiment = _find_experiment(client, record.experiment)
    found = list(client.search_runs([experiment], f"tags.`{KEY}` = '{record.key}'"))
    whole = [run for run in found if run.info.status != "RUNNING" and run.data.tags.get(CONTENT) == record.digest]
    for run in found:
        if run not in whole[:1]:  # of an export that was cut short, or of an earlier result
            client.delete_run(run.info.run_id)
    run = whole[0] if whole else _create(client, experiment, record)
    _log(client, run, [point for point in cell if run.data.metrics.get(point.name) != point.value])
    if whole:
        return SAME
    client.set_terminated(run.info.run_id, "FINISHED" if record.measured else "FAILED", record.end_ms)
    return CHANGED if found else NEW


def _find_experiment(client: MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


def _create(client: MlflowClient, experiment: str, record: RunRecord) -> Run:
    """Create the run with all that it holds; it is still running, as MLflow says of one that is not whole."""
    tags = record.tags | {KEY: record.key, CONTENT: record.digest}
    run = client.create_run(experiment, record.start_ms, tags, record.name)
    params = [Param(name, value) for name, value in record.params.items()]
    for start in range(0, len(params), MOST_PARAMS):
        client.log_batch(run.info.run_id, params=params[start : start + MOST_PARAMS])
    _log(client, run, record.points)
    return run


def _log(client: MlflowClient, run: Run, points: Sequence[MetricPoint]) -> None:
    for start in range(0, len(points), MOST_METRICS):
        part = [Metric(each.name, each.value, each.ms, each.step) for each in points[start : start + MOST_METRICS]]
        client.log_batch(run.info.run_id, metrics=part)
