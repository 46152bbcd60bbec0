"""Keras models are read from their configuration, without Keras; what would be lost is refused in one line."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import ROOT
from each import for_each

from runner.__main__ import main as run
from runner.gate.source_facts import find_other_mask
from workloads import __main__ as program
from workloads import networks
from workloads.layers import BatchNorm, Conv2D, Dense, Dropout, Flatten, Normalise, Relu
from workloads.networks import NetworkError
from workloads.records.source_map import Mask
from workloads.source.files import read_source
from workloads.weights import load

CONV: dict[str, Any] = {
    "filters": 2,
    "kernel_size": [3, 3],
    "strides": [1, 1],
    "padding": "valid",
    "dilation_rate": [1, 1],
}


def tensor(name: str, call: int = 0) -> dict[str, Any]:
    return {"class_name": "__keras_tensor__", "config": {"shape": [None, 8, 8, 1], "keras_history": [name, call, 0]}}


def layer(kind: str, name: str, *inputs: str, module: str | None = "keras.layers", **config: Any) -> dict[str, Any]:
    calls = [{"args": [tensor(each) for each in inputs], "kwargs": {}}]
    return {
        "module": module,
        "class_name": kind,
        "registered_name": None,
        "name": name,
        "config": {"name": name, "trainable": True, **config},
        "inbound_nodes": calls if inputs else [],
    }


def images(name: str = "images", *shape: int | None) -> dict[str, Any]:
    return layer("InputLayer", name, batch_shape=[None, *(shape or (8, 8, 1))])


def functional(*layers: dict[str, Any], output: str = "dense", **changes: Any) -> dict[str, Any]:
    config = {"name": "net", "trainable": True, "layers": [images(), *layers]}
    config |= {"input_layers": ["images", 0, 0], "output_layers": [[output, 0, 0]], **changes}
    return {"module": "keras", "class_name": "Functional", "config": config, "registered_name": "Functional"}


def sequential(*layers: dict[str, Any]) -> dict[str, Any]:
    config = {"name": "net", "layers": list(layers), "build_input_shape": [None, 8, 8, 1]}
    return {"module": "keras", "class_name": "Sequential", "config": config, "registered_name": None}


SMALL = (
    layer("Conv2D", "conv", "images", activation="relu", **CONV),
    layer("Dropout", "drop", "conv", rate=0.5, noise_shape=None),
    layer("Flatten", "flat", "drop"),
    layer("Dense", "dense", "flat", units=3, activation="softmax"),
)


def changed(index: int, **config: Any) -> dict[str, Any]:
    """SMALL with other settings of one of its layers."""
    layers = list(SMALL)
    layers[index] = layers[index] | {"config": layers[index]["config"] | config}
    return functional(*layers)


def write(folder: Path, model: Any, name: str = "my_net.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(model))
    return path


def save(folder: Path, model: Any, variables: dict[str, Any], version: str = "3.15.1") -> Path:
    """A .keras file with these variables: {"conv2d/vars/0": array}."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for key, array in variables.items():
            file[f"layers/{key}"] = array
    path = folder / "my_net.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
        archive.writestr("config.json", json.dumps(model))
        archive.writestr("model.weights.h5", content.getvalue())
    return path


VARIABLES = {
    "conv2d/vars/0": np.ones((3, 3, 1, 2)),
    "conv2d/vars/1": np.array([1.0, 2.0]),
    "dense/vars/0": np.zeros((72, 3)),
    "dense/vars/1": np.zeros(3),
}


def test_functional_and_sequential_models_are_read_with_activations_as_layers(tmp_path: Path) -> None:
    expected = (Conv2D("conv", 2, (3, 3)), Relu("conv_relu"), Dropout("drop", 0.5), Flatten("flat"), Dense("dense", 3))
    for number, model in enumerate((functional(*SMALL), sequential(images(), *SMALL), sequential(*SMALL))):
        workload = networks.find(str(write(tmp_path, model, f"My Net_{number}.json")))
        assert workload.layers == expected, number
        assert (workload.name, workload.input_shape, workload.scale) == (f"my-net-{number}", (8, 8, 1), 1 / 255)


def test_models_inside_models_are_seen_through_and_named_by_their_path(tmp_path: Path) -> None:
    inner = functional(layer("ReLU", "act", "images", max_value=None, negative_slope=0.0, threshold=0.0), output="act")
    inner = layer("Functional", "inner", "conv", module="keras") | {"config": inner["config"] | {"name": "inner"}}
    model = functional(SMALL[0], inner, layer("Flatten", "flat", "inner"), SMALL[3])
    imported = networks.find_imported(str(write(tmp_path, model)))
    assert [each.name for each in imported.workload.layers] == ["conv", "conv_relu", "act", "flat", "dense"]
    assert imported.places["act"] == "inner/act (ReLU)"
    assert "inner/act (ReLU)" in program.describe(imported.workload, imported.places)


def test_a_model_may_be_the_last_layer_of_another(tmp_path: Path) -> None:
    """Keras counts the calls of a Functional model from 1 where it names outputs, and from 0 elsewhere."""
    head = functional(layer("Flatten", "flat", "images"), SMALL[3])
    inner = layer("Functional", "inner", "conv", module="keras") | {"config": head["config"] | {"name": "inner"}}
    workload = networks.find(str(write(tmp_path, functional(SMALL[0], inner, output_layers=[["inner", 1, 0]]))))
    assert [each.name for each in workload.layers] == ["conv", "conv_relu", "flat", "dense"]


def test_a_model_that_rescales_its_pixels_gets_them_as_they_are(tmp_path: Path) -> None:
    rescaled = functional(
        layer("Rescaling", "rescale", "images", scale=0.5, offset=-1.0),
        layer("Conv2D", "conv", "rescale", **CONV),
        *SMALL[2:3],
        SMALL[3],
        SMALL[1],
    )
    workload = networks.find(str(write(tmp_path, rescaled)))
    assert workload.scale == 1
    assert workload.layers[0] == Normalise("rescale", (2.0,), (2.0,))


def test_a_mask_that_a_model_uses_twice_is_two_layers_of_one_name_in_the_source(tmp_path: Path) -> None:
    twice, between = (layer("Dropout", name, "images", rate=rate) for name, rate in (("twice", 0.5), ("between", 0.2)))
    calls = [{"args": [tensor(each)], "kwargs": {}} for each in ("conv", "between")]
    twice["inbound_nodes"], between["inbound_nodes"] = calls, [{"args": [tensor("twice")], "kwargs": {}}]
    flat = layer("Flatten", "flat") | {"inbound_nodes": [{"args": [tensor("twice", 1)], "kwargs": {}}]}
    imported = networks.find_imported(str(write(tmp_path, functional(SMALL[0], twice, between, flat, SMALL[3]))))
    assert imported.origin is not None
    places = imported.origin.source.places
    assert [places[each.name] for each in imported.workload.layers if isinstance(each, Dropout)] == [
        "twice", "between", "twice",
    ]  # fmt: skip
    masks = [Mask("twice", "value", 0.5), Mask("twice", "value", 0.5), Mask("between", "value", 0.2)]
    assert find_other_mask(imported.workload, masks, places) is None
    wrong = find_other_mask(imported.workload, masks[1:], places)
    assert wrong is not None and "drops each value with probability" in wrong


def operation(kind: str, name: str, entering: str, number: float) -> dict[str, Any]:
    """A function of keras.ops of a tensor and a number, as Keras writes it."""
    calls = [{"args": [tensor(entering), number], "kwargs": {}}]
    return layer(kind, name, module="keras.src.ops.numpy") | {"config": {"name": name}, "inbound_nodes": calls}


@for_each(
    "operations",
    [
        (operation("TrueDivide", "divide", "images", 255.0),),
        (operation("TrueDivide", "divide", "images", 127.5), operation("Subtract", "minus", "divide", 1.0)),
        (operation("Subtract", "minus", "images", 127.5), operation("Multiply", "times", "minus", 1 / 127.5)),
        (layer("Identity", "same", "images"), operation("TrueDivide", "divide", "same", 255.0)),
    ],
)
def test_a_model_that_rescales_its_pixels_by_operations_gets_them_as_they_are(
    operations: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    last = operations[-1]["name"]
    rescaled = functional(*operations, layer("Flatten", "flat", last), SMALL[3])
    workload = networks.find(str(write(tmp_path, rescaled)))
    assert workload.scale == 1
    assert any(isinstance(each, Normalise) for each in workload.layers)


def test_a_number_behind_the_first_layer_with_weights_does_not_rescale_the_pixels(tmp_path: Path) -> None:
    later = functional(
        SMALL[0], operation("Multiply", "times", "conv", 0.5), layer("Flatten", "flat", "times"), SMALL[3]
    )
    assert networks.find(str(write(tmp_path, later))).scale == 1 / 255


def test_weights_of_a_file_are_those_of_the_layers(tmp_path: Path) -> None:
    imported = networks.find_imported(str(save(tmp_path, functional(*SMALL), VARIABLES)))
    assert imported.weights is not None
    assert {key: array.shape for key, array in imported.weights.items()} == imported.workload.weight_shapes()
    assert imported.weights["conv/bias"].tolist() == [1, 2]
    assert all(array.dtype == np.float32 for array in imported.weights.values())


def test_a_normalization_has_the_values_that_it_was_adapted_to(tmp_path: Path) -> None:
    model = functional(
        layer("Normalization", "norm", "images", axis=[-1], invert=False, mean=None, variance=None),
        layer("Conv2D", "conv", "norm", **CONV),
        *SMALL[1:],
    )
    adapted = VARIABLES | {"normalization/vars/0": np.array([3.0]), "normalization/vars/1": np.array([4.0])}
    known = networks.find(str(save(tmp_path, model, adapted)))
    assert known.layers[0] == Normalise("norm", (3.0,), (2.0,)) and known.scale == 1
    unknown = networks.find(str(write(tmp_path, model)))
    assert unknown.layers[0].name == "conv" and "mean 0 and variance 1" in unknown.differs
    assert unknown.scale == 1 / 255


def normalization(mean: float, variance: float) -> dict[str, Any]:
    return layer("Normalization", "first", "images", axis=[-1], invert=False, mean=[mean], variance=[variance])


@for_each(
    "first, scale",
    [
        (layer("Rescaling", "first", "images", scale=1 / 255, offset=0.0), 1),
        (layer("Rescaling", "first", "images", scale=2.0, offset=-1.0), 1 / 255),
        (normalization(122.4, 4064.0), 1),
        (normalization(122.4, 1.0), 1),
        (normalization(0.48, 0.0625), 1 / 255),
        (operation("Multiply", "first", "images", 2.0), 1 / 255),
        (operation("Subtract", "first", "images", 127.5), 1),
        (operation("Subtract", "first", "images", 0.5), 1 / 255),
    ],
)
def test_a_model_gets_pixels_of_the_range_that_its_first_constants_fit(
    first: dict[str, Any], scale: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, functional(first, layer("Conv2D", "conv", "first", **CONV), *SMALL[1:]))
    assert networks.find(str(path)).scale == scale
    assert program.main(["describe", str(path)]) == 0
    assert f"input 8 x 8 x 1 in 0..{255 if scale == 1 else 1}, loss " in capsys.readouterr().out


def test_initializers_without_a_counterpart_are_said(tmp_path: Path) -> None:
    start = {"class_name": "VarianceScaling", "config": {}}
    model = changed(0, kernel_initializer=start, bias_initializer={"class_name": "Ones", "config": {}})
    differs = networks.find(str(write(tmp_path, model))).differs
    assert "VarianceScaling kernels are drawn as glorot-uniform" in differs
    assert "bias_initializer Ones is drawn as Zeros" in differs
    normal = networks.find(str(write(tmp_path, changed(0, kernel_initializer=start | {"class_name": "HeNormal"}))))
    assert normal.layers[0] == Conv2D("conv", 2, (3, 3), initializer="he-normal")


@for_each(
    "model, said",
    [
        (changed(0, kernel_regularizer={"class_name": "L2"}), r"conv \(Conv2D\): kernel_regularizer changes the loss"),
        (changed(0, kernel_constraint={"class_name": "MaxNorm"}), r"conv \(Conv2D\): kernel_constraint changes"),
        (changed(0, trainable=False), r"conv \(Conv2D\): is frozen"),
        (changed(0, strides=[1, 2]), r"conv \(Conv2D\): strides=\[1, 2\] has no layer; both axes must be equal"),
        (changed(0, padding="causal"), r"conv \(Conv2D\): padding='causal' has no layer"),
        (changed(0, data_format="channels_first"), r"conv \(Conv2D\): data_format='channels_first'"),
        (changed(0, activation="elu"), r"conv \(Conv2D\): the activation elu has no layer; there are relu, "),
        (changed(0, new_setting=3), r"conv \(Conv2D\): the setting new_setting='3' is unknown"),
        (changed(0, dtype={"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}), r"--precision"),
        (changed(1, noise_shape=[None, 1, 1, 2]), r"drop \(Dropout\): noise_shape="),
        (changed(1, noise_shape=[1, 1, 1, 1]), r"drop \(Dropout\): noise_shape=\[1, 1, 1, 1\] has no layer"),
        (changed(1, noise_shape=[]), r"drop \(Dropout\): noise_shape=\[\] has no layer"),
        (changed(3, units=1), r"dense \(Dense\): a softmax of one value is always 1"),
        (changed(3, activation="sigmoid"), r"dense \(Dense\): a sigmoid of \(3,\) is for several labels"),
        (
            functional(layer("Lambda", "code", "images", function="gASV"), *SMALL),
            r"code \(Lambda\): is code, which is never run",
        ),
        (functional(layer("LeakyReLU", "leak", "images"), *SMALL), r"leak \(LeakyReLU\): there is no layer for it"),
        (functional(layer("RandomFlip", "flip", "images"), *SMALL), r"flip \(RandomFlip\): .* see --augment"),
        (
            functional(layer("Dense", "mine", "images", module="my.code"), *SMALL),
            r"mine \(Dense\): is a class of my\.code",
        ),
        (
            functional(*SMALL, input_layers=[["images", 0, 0], ["more", 0, 0]]),
            r"net \(Functional\): has 2 inputs: images, more",
        ),
        (
            functional(*SMALL, output_layers=[["dense", 0, 0], ["flat", 0, 0]]),
            r"net \(Functional\): has 2 outputs: dense, flat",
        ),
        (
            {"module": "my.code", "class_name": "Net", "config": {}, "registered_name": "Net"},
            r"\(Net\): is a class of my\.code",
        ),
        (
            {"module": "keras.layers", "class_name": "Dense", "config": {"name": "d"}},
            r"d \(Dense\): is not a Sequential or",
        ),
        (functional(*SMALL, trainable=False), r"net \(Functional\): is frozen"),
        (
            functional(SMALL[0], layer("LayerNormalization", "norm", "conv", center=False), *SMALL[1:]),
            r"norm \(LayerNormalization\): center=False: the record of a LayerNorm trains a scale and a shift: give",
        ),
        (
            functional(SMALL[0], layer("LayerNormalization", "norm", "conv", center=False, scale=False), *SMALL[1:]),
            r"norm \(LayerNormalization\): center=False and scale=False: the record of a LayerNorm trains ",
        ),
        (changed(3, lora_rank=4), r"dense \(Dense\): the setting lora_rank='4' is unknown"),
        (changed(0, groups=0), r"conv \(Conv2D\): its settings cannot be read: ZeroDivisionError"),
        (changed(0, groups="2"), r"conv \(Conv2D\): its settings cannot be read: TypeError"),
        ([1], r"is not a configuration of a Keras 3 model"),
        ({}, r"is not a configuration of a Keras 3 model: KeyError"),
    ],
)
def test_what_cannot_be_imported_is_one_line_with_its_path_and_type(model: Any, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, model)
    with pytest.raises(NetworkError) as refused:
        networks.find(str(path))
    assert re.search(said, str(refused.value))
    assert str(refused.value).startswith(f"workload {path}: ") and "\n" not in str(refused.value)


def test_a_layer_with_weights_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    shared = layer("Conv2D", "conv", "images", **CONV | {"padding": "same", "filters": 1})
    shared["inbound_nodes"].append({"args": [tensor("conv")], "kwargs": {}})
    flat = layer("Flatten", "flat", "conv")
    flat["inbound_nodes"] = [{"args": [tensor("conv", 1)], "kwargs": {}}]
    with pytest.raises(NetworkError, match=r"conv \(Conv2D\): is used 2 times; shared weights cannot be imported"):
        networks.find(str(write(tmp_path, functional(shared, flat, SMALL[3]))))


def test_a_norm_that_is_called_for_evaluation_alone_is_refused(tmp_path: Path) -> None:
    norm = layer("BatchNormalization", "norm", "images", axis=-1, momentum=0.9, epsilon=1e-3)
    norm["inbound_nodes"][0]["kwargs"] = {"training": False, "mask": None}
    model = functional(norm, layer("Flatten", "flat", "norm"), SMALL[3])
    with pytest.raises(NetworkError, match=r"norm \(BatchNormalization\): is called with training=False"):
        networks.find(str(write(tmp_path, model)))
    norm["inbound_nodes"][0]["kwargs"] = {"mask": None}
    assert networks.find(str(write(tmp_path, model))).layers[0] == BatchNorm("norm", 0.9, 1e-3)


def test_a_dropout_that_is_called_for_evaluation_drops_in_training_as_it_does_in_keras(tmp_path: Path) -> None:
    """A model's own mode overrides that of its layers' calls: Keras' MobileNetV3 and EfficientNet have such calls."""
    drop = layer("Dropout", "drop", "images", rate=0.5, noise_shape=None)
    drop["inbound_nodes"][0]["kwargs"] = {"training": False}
    model = functional(drop, layer("Flatten", "flat", "drop"), SMALL[3])
    assert networks.find(str(write(tmp_path, model))).layers[0] == Dropout("drop", 0.5)


class Bomb:
    """Its pickle runs code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the pickle was read",))


@for_each(
    "name, content, said",
    [
        ("net.pkl", pickle.dumps(Bomb()), "is a pickle, which runs code when it is read"),
        ("net.json", b"{", "is not JSON"),
        ("net.keras", b"no zip", "is not a .keras file of Keras 3"),
        ("net.keras", pickle.dumps(Bomb()), "is not a .keras file of Keras 3"),
        ("absent.json", None, "No such file or directory"),
        ("absent.keras", None, "No such file or directory"),
    ],
)
def test_files_that_are_no_network_are_one_line_and_exit_code_2(
    name: str, content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for command in (["describe", str(path)], ["import", str(path), "--out", str(tmp_path / "out.json")]):
        assert program.main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"workloads: workload {path}: ") and said in line
    assert not (tmp_path / "out.json").exists()


@for_each(
    "variables, version, said",
    [
        (VARIABLES, "2.15.0", "was written by Keras 2.15.0; load it with Keras 3"),
        ({}, "3.0", r"conv/kernel: model.weights.h5 has no layers/conv2d/vars/0"),
        (
            VARIABLES | {"dense/vars/1": np.zeros(4)},
            "3.0",
            r"dense \(Dense\): its weight bias is \(4,\), the network's is \(3,\)",
        ),
        (VARIABLES | {"dense/vars/2": h5py.ExternalLink("other.h5", "/x")}, "3.0", "is a link to another place"),
        (VARIABLES | {"dense/vars/2": h5py.SoftLink("/layers/conv2d")}, "3.0", "is a link to another place"),
    ],
)
def test_weights_that_do_not_fit_are_refused(variables: Any, version: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=said):
        networks.find(str(save(tmp_path, functional(*SMALL), variables, version)))


def test_a_file_whose_weights_are_larger_than_it_or_damaged_is_refused_in_one_line(tmp_path: Path) -> None:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("layers/conv2d/vars/0", (1 << 40,), "f4", chunks=(1 << 10,))  # 4 TiB, never written
    path = save(tmp_path, functional(*SMALL), {})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for weights, packed, said in (
        (content.getvalue(), zipfile.ZIP_STORED, "conv2d/vars/0 has 4,398,046,511,104 bytes, the whole file"),
        (bytes(1 << 20), zipfile.ZIP_DEFLATED, "its model.weights.h5 unpacks to over 16 times the file"),
    ):
        with zipfile.ZipFile(path, "w", packed) as archive:
            for name, member in (members | {"model.weights.h5": weights}).items():
                archive.writestr(name, member)
        with pytest.raises(NetworkError, match=said):
            networks.find(str(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", members["config.json"])
    damaged = path.read_bytes()
    path.write_bytes(damaged[:50] + bytes(20) + damaged[70:])  # the packed bytes begin at 41
    with pytest.raises(NetworkError, match=r"is not a \.keras file of Keras 3") as refused:
        networks.find(str(path))
    assert "\n" not in str(refused.value)


def test_a_written_network_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    source, out = save(tmp_path, functional(*SMALL), VARIABLES), tmp_path / "mine.json"
    assert program.main(["import", str(source), "--out", str(out)]) == 0
    text, archive = out.read_text(), out.with_suffix(".npz").read_bytes()
    data = json.loads(text)
    data["network"]["layers"][0]["stride"] = 0
    out.write_text(json.dumps(data))
    with pytest.raises(NetworkError, match=r"mine\.json: cannot be read: .* by zero"):
        networks.find(str(out))
    out.write_text(text)
    for kept in (0, 3, 100, len(archive) // 2, len(archive) - 5):
        out.with_suffix(".npz").write_bytes(archive[:kept])
        with pytest.raises(NetworkError, match=r"mine\.json: cannot be read: ") as refused:
            networks.find(str(out))
        assert "\n" not in str(refused.value), kept


def test_what_is_imported_is_a_file_that_gives_the_same_network_and_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = save(tmp_path, functional(*SMALL), VARIABLES), tmp_path / "mine.json"
    assert program.main(["import", str(source), "--out", str(out), "--weights", str(tmp_path / "w.npz")]) == 0
    assert "239 parameters written to" in capsys.readouterr().out
    first, again = networks.find_imported(str(source)), networks.find_imported(str(out))
    assert (again.workload, again.places) == (first.workload, first.places)
    assert first.weights is not None and again.weights is not None
    assert all((first.weights[key] == again.weights[key]).all() for key in first.weights)
    assert load(tmp_path / "w.npz").keys() == first.weights.keys()
    (tmp_path / "w.npz").unlink()
    assert program.main(["describe", str(out)]) == 2
    assert "No such file" in capsys.readouterr().err


@for_each(
    "arguments, said",
    [
        (["--out", "mine.txt"], "--out mine.txt: must end in .json"),
        (["--out", "mine.json", "--weights", "mine.npy"], "--weights mine.npy: must end in .npz"),
        (["--out", "mine.json", "--weights", "mine.npz"], "has no weights"),
        (["--out", "no-folder/mine.json"], "no-folder/mine.json: No such file or directory"),
    ],
)
def test_what_an_import_cannot_write_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["import", str(write(tmp_path, functional(*SMALL))), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_run_takes_a_source_as_its_workload_and_refuses_more_classes_than_it_tells_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The digits have ten classes, the network three logits."""
    path = write(tmp_path, functional(*SMALL))
    words = ["--framework", "numpy", "--dataset", "digits", "--plan", "--results", str(tmp_path / "results")]
    assert run([*words, "--workload", str(path)]) == 2
    assert "has 10 classes, more than the 3 that workload my-net has" in capsys.readouterr().err
    path = write(tmp_path, changed(3, units=10))
    assert run([*words, "--workload", str(path)]) == 0
    assert "trials to run" in capsys.readouterr().out


def test_a_name_of_the_catalogue_gets_an_ending(tmp_path: Path) -> None:
    assert networks.find(str(write(tmp_path, functional(*SMALL), "tiny.json"))).name == "tiny-imported"
    assert read_source(tmp_path / "tiny.json").workload.name == "tiny"


def test_reading_a_source_needs_no_framework() -> None:
    for file in (ROOT / "workloads" / "source").glob("*.py"):
        assert not re.search(
            r"^\s*(from|import) (keras|tensorflow|torch|pickle|marshal)", file.read_text(), re.MULTILINE
        )
