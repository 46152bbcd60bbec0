"""`python -m workloads describe --memory`: bytes by layer, their sums, and what frameworks counted next to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import make_spec, varied
from each import for_each

from workloads.__main__ import main
from workloads.activations import activation_bytes, activation_bytes_by_layer
from workloads.catalogue import OSU_CNN
from workloads.layers import BatchNorm, Dense, Dropout, Flatten, LayerNorm, Relu
from workloads.memory_table import describe_memory, list_layers
from workloads.networks import WORKLOADS
from workloads.records import network
from workloads.records.figures import MEMORY_PARTS, Figure
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerName, OptimizerSpec, Workload

NORMED = Workload(
    "normed",
    "",
    (4, 4, 2),
    (BatchNorm("norm"), Relu("relu"), Dropout("drop", 0.5), Flatten("flat"), LayerNorm("rows"), Dense("out", 3)),
)


@for_each("name", list(WORKLOADS))
@for_each("batch_size", [1, 32])
def test_layers_add_up_to_what_the_network_keeps_and_trains(name: str, batch_size: int) -> None:
    workload = WORKLOADS[name]
    *layers, together = list_layers(workload, "adam", (batch_size,))
    assert together.activations == (activation_bytes(workload, batch_size),)
    assert together.parameters == together.gradients == 4 * workload.parameter_count
    assert together.optimizer == 2 * together.parameters
    assert [layer.name for layer in layers] == ["images", *(layer.name for layer, _ in workload.walk())]
    for column, value in enumerate(together.values):
        assert value == sum(layer.values[column] for layer in layers)


def test_each_layer_holds_what_a_hand_counts() -> None:
    norm, relu, drop, flat, rows, out = list(list_layers(NORMED, "momentum", (1, 10)))[1:-1]
    assert (norm.parameters, norm.statistics, norm.activations) == (16, 16, (16, 16)), "its moments, once per batch"
    assert relu.activations == (4 * 32, 10 * 4 * 32)
    assert drop.activations == (32 + 4 * 32, 10 * (32 + 4 * 32)), "a mask of bytes, and what the LayerNorm takes in"
    assert flat.activations == (0, 0), "a view"
    assert (rows.parameters, rows.activations) == (4 * 64, (4 * (2 + 32), 40 * (2 + 32)))
    assert (out.parameters, out.gradients, out.optimizer, out.activations) == (396, 396, 396, (12, 120))
    assert activation_bytes_by_layer(NORMED, 1)[""] == 4 * 32, "the BatchNorm's input"


def store(
    results: Path, name: str, framework: str, batch_size: int, optimizer: OptimizerName = "adam", **parts: float
) -> None:
    spec = make_spec(framework=framework, batch_size=batch_size, optimizer=OptimizerSpec.named(optimizer))
    spec = varied(spec, network=network.digest(OSU_CNN))
    figures = {each.name: Figure(None, "test", reason="it was not asked") for each in MEMORY_PARTS.values()}
    figures |= {MEMORY_PARTS[part].name: Figure(value, "test") for part, value in parts.items()}
    folder = results / "trials" / name
    folder.mkdir(parents=True)
    result = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=figures)
    write_json(folder / RESULT_FILE, result.to_json())


def test_what_frameworks_counted_is_next_to_the_formula_and_what_they_did_not_has_its_reason(tmp_path: Path) -> None:
    store(tmp_path, "a", "pytorch", 32, parameters=490_280, activations=7_000_001)
    store(tmp_path, "b", "mxnet", 32, parameters=490_284, gradients=1)
    lines = describe_memory(OSU_CNN, (), None, tmp_path).splitlines()
    rows = {line.split("  ")[0]: line.split() for line in lines}
    assert rows["formula"][1:] == ["490,280", "490,280", "980,560", "0", "6,821,120"], "Adam, as the trials have it"
    assert rows["pytorch"][1:] == ["490,280", "-", "-", "-", "7,000,001"]
    assert rows["mxnet"][1:] == ["490,284", "1", "-", "-", "-"]
    assert "pytorch: it was not asked" in lines and "kept at 32" in "\n".join(lines)
    assert "kept at 128" not in "\n".join(lines), "the batch sizes of the folder"
    assert "no trial of this batch size" in describe_memory(OSU_CNN, (64,), None, tmp_path)


@pytest.mark.parametrize(
    ("words", "telling"),
    [
        (["--memory", "--batch-size", "0", "8"], "--batch-size 0: must be 1 or more"),
        (["--memory", "--batch-size", "many"], "invalid int value"),
        (["--memory", "--optimizer", "adm"], "invalid choice: 'adm'"),
        (["--optimizer", "adam"], "--optimizer needs --memory"),
        (["--batch-size", "8"], "--batch-size needs --memory"),
        (["--memory", "--results", "EMPTY"], "no trial in it"),
        (["--memory", "--results", "BOTH"], "osu-cnn is trained by adam, sgd: give --optimizer"),
        (["--memory", "--results", "BOTH", "--optimizer", "momentum"], "osu-cnn is trained by adam, sgd"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], telling: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path / "both", "a", "pytorch", 32, "adam")
    store(tmp_path / "both", "b", "pytorch", 32, "sgd")
    given = [str(tmp_path / word.lower()) if word.isupper() else word for word in words]
    try:
        code: object = main(["describe", "osu-cnn", *given])
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr()
    assert (code, told.out) == (2, "") and told.err.count("\n") == 1 and telling in told.err


def test_a_network_of_other_layers_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(tmp_path, "a", "pytorch", 32)
    assert main(["describe", "tiny", "--memory", "--results", str(tmp_path)]) == 2
    assert "no trial of tiny" in capsys.readouterr().err
