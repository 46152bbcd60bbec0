"""python -m reports export: a run per trial in a real MLflow, and logs in the form of MLPerf's."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import ended, run, store, trial

from reports.conditions import group_into_sections
from reports.exporting import command
from reports.load import read
from reports.quantities import SPEED
from reports.tables import compute_cells
from workloads.records.check_name import CheckName
from workloads.records.columns import COLUMNS
from workloads.records.figures import Figure
from workloads.records.files import write_json
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.status import Status

BORN_MS = 1_795_000_000_000  # when the sampler read its clocks; the monotonic clock was at 5 s
AT_S = {"started": 6, "imported": 7, "built": 10, "epoch_trained": 14, "epoch_evaluated": 15}
LOSSES = (0.5, None)
ACCURACIES = (0.25, 0.75)
HISTORIES = (
    *("epoch/test_accuracy", "epoch/train_loss"),
    *("system/cpu_s", "system/gpu_0_utilization_percentage", "system/gpu_0_power_usage_watts"),
)


def moment_ms(second: int) -> int:
    return BORN_MS + (second - 5) * 1000


def trained(repeat: int) -> TrialResult:
    """A trial of two epochs; its power is unknown and the loss of its last epoch no number."""
    epochs = [Epoch(4.0, 9, 576, loss, 1.0, 0.125, accuracy) for loss, accuracy in zip(LOSSES, ACCURACIES, strict=True)]
    figures = {"power_w": Figure(None, "NVML", reason="the card does not say")}
    checks = [Check(CheckName.GATE, True, "as the referee")]
    return replace(trial(repeat=repeat, figures=figures, checks=checks), epochs=epochs)


def add_files(folder: Path) -> None:
    """Add what worker and sampler write: two epochs, two samples, the clocks."""
    events: list[dict[str, Any]] = [
        {"event": name, "t_ns": AT_S[name] * 10**9} for name in ("started", "imported", "built")
    ]
    for epoch in (0, 1):
        of_epoch = {"epoch": epoch, "steps": 9, "images": 576, "train_loss": LOSSES[epoch]}
        events.append({"event": "epoch_trained", "t_ns": (14 + 5 * epoch) * 10**9, **of_epoch})
        events.append({"event": "epoch_evaluated", "t_ns": (15 + 5 * epoch) * 10**9, "epoch": epoch})
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    rows: list[dict[str, Any]] = [
        {"t_ns": 6 * 10**9},
        {"t_ns": 7 * 10**9, "cpu_s": 0.5, "gpu_percent": 40, "power_mw": 90_000},
    ]
    lines = [",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows]
    (folder / "samples.csv").write_text("\n".join([",".join(COLUMNS), *lines, ""]))
    clocks = [{"monotonic_ns": 5 * 10**9, "epoch_ns": BORN_MS * 10**6}]
    (folder / "meter.json").write_text(json.dumps({"gpu": None, "clocks": clocks}))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two repeats with all their files, and a trial that ran out of memory and has none."""
    trials = [trained(0), trained(1)]
    folder = store(tmp_path / "results", *trials, ended(Status.OUT_OF_MEMORY, "asked 9", "mxnet", 64))
    for result in trials:
        add_files(folder / "trials" / result.spec.id)
    return folder


class MlflowStore:
    """A real MLflow store in files, and its runs as MLflow's client reads them."""

    def __init__(self, uri: str) -> None:
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: requirements-mlflow.txt")
        self.uri, self.client = uri, mlflow.MlflowClient(uri)

    def export(self, results: Path) -> str:
        done = run("export", results, "--to", "mlflow", "--tracking-uri", self.uri)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def read_runs(self) -> dict[str, Any]:
        experiment = self.client.get_experiment_by_name("batchwise/quick").experiment_id
        return {each.info.run_name: each for each in self.client.search_runs([experiment])}

    def read_history(self, run: Any, name: str) -> list[tuple[float, int, int]]:
        found = self.client.get_metric_history(run.info.run_id, name)
        return [(each.value, each.timestamp, each.step) for each in found]


@pytest.fixture
def mlflow_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowStore:
    """Return an empty store."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the one store that mlflow-skinny has without a server
    return MlflowStore((tmp_path / "store").as_uri())


@pytest.mark.slow
def test_a_run_of_mlflow_holds_its_trial(results: Path, mlflow_store: MlflowStore) -> None:
    assert mlflow_store.export(results) == "3 runs: 3 written\n"
    runs, result = mlflow_store.read_runs(), trained(0)
    whole = runs[result.spec.id]
    params, tags = whole.data.params, whole.data.tags
    assert len(runs) == 3 and whole.info.status == "FINISHED"
    assert [params[name] for name in ("framework", "batch_size", "condition/data set")] == ["pytorch", "32", "digits"]
    assert [tags[f"batchwise.{name}"] for name in ("status", "verified", "gate")] == ["ok", "True", "as the referee"]
    assert tags["batchwise.unknown.power_w"] == "the card does not say" and "power_w" not in whole.data.metrics
    assert tags["batchwise.unknown.epoch/train_loss"] == "no finite number in epoch 2"
    assert whole.data.metrics["images_per_s"] == result.figures["images_per_s"].value
    ends = moment_ms(15), moment_ms(20)
    assert {name: mlflow_store.read_history(whole, name) for name in HISTORIES} == {
        "epoch/test_accuracy": [(0.25, ends[0], 1), (0.75, ends[1], 2)],
        "epoch/train_loss": [(0.5, ends[0], 1)],
        "system/cpu_s": [(0.5, moment_ms(7), 1)],
        "system/gpu_0_utilization_percentage": [(40.0, moment_ms(7), 1)],
        "system/gpu_0_power_usage_watts": [(90.0, moment_ms(7), 1)],
    }
    section = next(each for each in group_into_sections(read(results).results)[0] if "pytorch" in each.software)
    cell = compute_cells(section, SPEED)["pytorch", 32]
    told = [whole.data.metrics[f"cell/images_per_s{end}"] for end in ("", "_low", "_high")]
    assert told == [cell.mean, cell.low, cell.high] and cell.low < cell.mean < cell.high
    full = runs[ended(Status.OUT_OF_MEMORY, "", "mxnet", 64).spec.id]
    assert (full.info.status, full.data.tags["batchwise.reason"]) == ("FAILED", "asked 9")
    assert full.data.metrics == {}


@pytest.mark.slow
def test_an_export_to_mlflow_made_twice_changes_nothing_but_what_is_not_whole(
    results: Path, mlflow_store: MlflowStore
) -> None:
    mlflow_store.export(results)
    first, (torn, changed) = mlflow_store.read_runs(), (trained(0), trained(1))
    assert mlflow_store.export(results) == "3 runs: 3 there already\n"
    again = mlflow_store.read_runs()
    assert {name: run.to_dictionary() for name, run in again.items()} == {
        name: run.to_dictionary() for name, run in first.items()
    }
    for name in ("system/cpu_s", "cell/images_per_s"):
        assert len(mlflow_store.read_history(first[torn.spec.id], name)) == 1
    mlflow_store.client.update_run(first[torn.spec.id].info.run_id, "RUNNING")  # as a killed export leaves it
    write_json(results / "trials" / changed.spec.id / "result.json", replace(changed, wall_s=21.0).to_json())
    assert mlflow_store.export(results) == "3 runs: 1 there already, 2 written again because they differed\n"
    last = mlflow_store.read_runs()
    same = {name for name in last if last[name].info.run_id == first[name].info.run_id}
    assert set(last) == set(first) and set(last) - same == {torn.spec.id, changed.spec.id}


@pytest.mark.slow
def test_a_trial_that_two_nodes_began_in_the_same_second_is_two_runs(mlflow_store: MlflowStore, tmp_path: Path) -> None:
    for number, node in enumerate(("a", "b", "a")):
        result = trained(0)
        result = replace(result, machine=result.machine | {"node": node})
        mlflow_store.export(store(tmp_path / str(number), result))
    experiment = mlflow_store.client.get_experiment_by_name("batchwise/quick").experiment_id
    assert len(mlflow_store.client.search_runs([experiment])) == 2


def test_a_log_has_the_lines_of_mlperf_in_their_order(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "logs"
    done = run("export", results, "--to", "mllog", "--out", out)
    full = ended(Status.OUT_OF_MEMORY, "", "mxnet", 64).spec.id
    assert (done.returncode, done.stdout) == (0, f"2 logs: {out}\n")
    assert done.stderr == f"reports: {full}: left out: out_of_memory, no epoch was trained and evaluated\n"
    log = out / f"{trained(0).spec.id}.log"
    assert all(line.startswith(":::MLLOG {") for line in log.read_text().splitlines())
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]
    assert all(list(line) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"] for line in lines)
    assert [line["time_ms"] for line in lines] == sorted(line["time_ms"] for line in lines)
    spans = [(line["key"], line["time_ms"], line["metadata"].get("epoch_num")) for line in lines]
    timed = [each for each in spans if each[0].endswith(("_start", "_stop"))]
    epochs = [
        (key, moment_ms(second + 5 * (number - 1)), number)
        for number in (1, 2)
        for key, second in (("epoch_start", 10), ("epoch_stop", 14), ("eval_start", 14), ("eval_stop", 15))
    ]
    assert timed == [
        ("init_start", moment_ms(6), None), ("init_stop", moment_ms(10), None), ("run_start", moment_ms(10), None),
        *epochs, ("run_stop", moment_ms(20), None),
    ]  # fmt: skip
    assert [line["value"] for line in lines if line["key"] == "eval_accuracy"] == list(ACCURACIES)
    ours = {line["key"]: line["value"] for line in lines if line["namespace"] == "batchwise"}
    assert ours["status"] == "ok" and "power_w" not in ours
    values = {line["key"]: line["value"] for line in lines if not line["namespace"]}
    assert values["submission_org"].startswith("none") and "submission_division" not in values


def test_mlperfs_own_checker_accepts_a_log_and_none_that_lacks_a_line(results: Path, tmp_path: Path) -> None:
    checker = pytest.importorskip(
        "mlperf_logging.compliance_checker.mlp_compliance",
        reason="mlperf-logging is not installed: requirements-test.txt",
    )
    run("export", results, "--to", "mllog", "--out", tmp_path)
    rules = Path(command.__file__).parent / "mlperf.yaml"
    log = tmp_path / f"{trained(0).spec.id}.log"

    def is_accepted() -> bool:
        return bool(checker.make_checker("training", "6.0.0", False, True).check_file(str(log), str(rules)))

    assert is_accepted()
    lines = log.read_text().splitlines(keepends=True)
    for key in ("init_start", "init_stop", "run_start", "run_stop", "epoch_start", "eval_accuracy", "train_samples"):
        log.write_text("".join(line for line in lines if f'"{key}"' not in line))
        assert not is_accepted(), key


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--to mllog", "--out is missing: name the folder for the logs"),
        ("--to mllog --out DIR --tracking-uri URI", "--tracking-uri: only --to mlflow uses it; omit it"),
        ("--to mlflow --out DIR", "--out: only --to mllog uses it; omit it"),
        ("--to mlflow", "--tracking-uri is missing: name the server, such as http://localhost:5000"),
        ("--to mlflow --tracking-uri URI", f"--to mlflow: this Python has no mlflow: {command.MISSING}"),
    ],
)
def test_what_cannot_be_exported_is_one_line(words: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = run("export", "nowhere", *words.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"reports: {said}\n")
