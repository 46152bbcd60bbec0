"""python -m reports export: a run per trial in a real MLflow, and logs in the form of MLPerf's."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from stored import ended, run, store, trial

from reports.conditions import group_into_sections
from reports.exporting import command
from reports.load import read
from reports.quantities import SPEED
from reports.tables import compute_cells
from workloads.records.check_name import CheckName
from workloads.records.figures import Figure
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.samples import COLUMNS
from workloads.records.status import Status

BORN_MS = 1_795_000_000_000  # when the sampler read its clocks; the monotonic clock was at 5 s
AT_S = {"started": 6, "imported": 7, "built": 10, "epoch_trained": 14, "epoch_evaluated": 15}
LOSSES = (0.5, None)
ACCURACIES = (0.25, 0.75)


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
    events = [{"event": name, "t_ns": AT_S[name] * 10**9} for name in ("started", "imported", "built")]
    for epoch in (0, 1):
        of_epoch = {"epoch": epoch, "steps": 9, "images": 576, "train_loss": LOSSES[epoch]}
        events.append({"event": "epoch_trained", "t_ns": (14 + 5 * epoch) * 10**9, **of_epoch})
        events.append({"event": "epoch_evaluated", "t_ns": (15 + 5 * epoch) * 10**9, "epoch": epoch})
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    rows = [{"t_ns": 6 * 10**9}, {"t_ns": 7 * 10**9, "cpu_s": 0.5, "gpu_percent": 40, "power_mw": 90_000}]
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


@pytest.mark.slow
def test_a_run_of_mlflow_holds_its_trial_and_twice_changes_nothing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: requirements-mlflow.txt")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the one store that mlflow-skinny has without a server
    uri = (tmp_path / "store").as_uri()
    words = ("export", results, "--to", "mlflow", "--tracking-uri", uri)
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 runs: 3 written\n", "")
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("batchwise/quick").experiment_id

    def read_runs() -> dict[str, object]:
        return {each.info.run_name: each for each in client.search_runs([experiment])}

    first, (result, _) = read_runs(), (trained(0), trained(1))
    assert len(first) == 3
    whole = first[result.spec.id]
    assert whole.info.status == "FINISHED"
    assert (whole.data.params["framework"], whole.data.params["batch_size"]) == ("pytorch", "32")
    assert whole.data.params["condition/data set"] == result.spec.task.dataset
    tags = whole.data.tags
    assert (tags["batchwise.status"], tags["batchwise.verified"]) == ("ok", "True")
    assert tags["batchwise.gate"] == "as the referee"
    assert tags["batchwise.unknown.power_w"] == "the card does not say" and "power_w" not in whole.data.metrics
    assert whole.data.metrics["images_per_s"] == result.figures["images_per_s"].value

    def history(name: str) -> list[tuple[float, int, int]]:
        return [(each.value, each.timestamp, each.step) for each in client.get_metric_history(whole.info.run_id, name)]

    ends = moment_ms(15), moment_ms(20)
    assert history("epoch/test_accuracy") == [(0.25, ends[0], 1), (0.75, ends[1], 2)]
    assert history("epoch/train_loss") == [(0.5, ends[0], 1)]
    assert tags["batchwise.unknown.epoch/train_loss"] == "no finite number in epoch 2"
    assert history("system/cpu_s") == [(0.5, moment_ms(7), 1)]
    assert history("system/gpu_0_utilization_percentage") == [(40.0, moment_ms(7), 1)]
    assert history("system/gpu_0_power_usage_watts") == [(90.0, moment_ms(7), 1)]
    section = next(each for each in group_into_sections(read(results).results)[0] if "pytorch" in each.software)
    cell = compute_cells(section, SPEED)["pytorch", 32]
    told = [whole.data.metrics[f"cell/images_per_s{end}"] for end in ("", "_low", "_high")]
    assert told == [cell.mean, cell.low, cell.high] and cell.low < cell.mean < cell.high
    full = first[ended(Status.OUT_OF_MEMORY, "", "mxnet", 64).spec.id]
    assert (full.info.status, full.data.tags["batchwise.reason"]) == ("FAILED", "asked 9")
    assert full.data.metrics == {}

    again = run(*words)
    assert again.stdout == "3 runs: 3 there already\n"
    assert {name: each.to_dictionary() for name, each in read_runs().items()} == {
        name: each.to_dictionary() for name, each in first.items()
    }
    assert len(history("system/cpu_s")) == len(history("cell/images_per_s")) == 1
    client.update_run(whole.info.run_id, "RUNNING")  # as a killed export leaves it
    store(tmp_path / "later", replace(trained(1), reason=None, wall_s=21.0))
    changed = results / "trials" / trained(1).spec.id / "result.json"
    changed.write_bytes((tmp_path / "later" / "trials" / trained(1).spec.id / "result.json").read_bytes())
    assert run(*words).stdout == "3 runs: 1 there already, 2 written again, for what was there differs\n"
    assert set(read_runs()) == set(first) and read_runs()[result.spec.id].info.run_id != whole.info.run_id


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
        ("--to mllog --out DIR --tracking-uri URI", "--tracking-uri: it is of --to mlflow; leave it out"),
        ("--to mlflow --out DIR", "--out: it is of --to mllog; leave it out"),
        ("--to mlflow", "--tracking-uri is missing: name the server, as http://localhost:5000"),
        ("--to mlflow --tracking-uri URI", f"--to mlflow: this Python has no mlflow: {command.MISSING}"),
    ],
)
def test_what_cannot_be_exported_is_one_line(words: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = run("export", "nowhere", *words.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"reports: {said}\n")
