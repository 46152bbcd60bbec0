"""ONNX files exported for training are read, with weights and no code; what is folded or unknown is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import ROOT
from each import for_each
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from adapters.numpy.layers import sequence
from adapters.numpy.passes import Pass
from workloads import __main__ as program
from workloads import networks
from workloads.layers import BatchNorm, ChannelScale, Conv2D, Dense, DepthwiseConv2D, Dropout, Gelu, Normalise, Silu
from workloads.networks import NetworkError
from workloads.source.onnx_graph import SETTINGS

FILES = ROOT / "tests" / "conformance" / "imported"  # written by its onnx_net.py


def test_a_missing_package_is_one_line_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(NetworkError, match=r"flattened\.onnx: needs the package onnx: .* -r requirements-onnx\.txt$"):
        networks.find(str(FILES / "flattened.onnx"))


def test_the_guide_exports_with_the_settings_that_a_refusal_names() -> None:
    guide = (ROOT / "docs" / "guide" / "import-onnx.md").read_text()
    settings = SETTINGS.split(", ")
    assert len(settings) == 3 and [each for each in settings if each not in guide] == []


def evaluate(path: Path, pixels: Any) -> Any:
    """Logits of the file by onnx's own reference, in evaluation mode: norms with their running statistics."""
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            for attribute in node.attribute:
                attribute.i = 0 if attribute.name == "training_mode" else attribute.i
        if node.op_type == "Dropout":
            node.op_type = "Identity"
            del node.input[1:], node.output[1:], node.attribute[:]
    images = (pixels.astype(np.float32) / np.float32(255)).transpose(0, 3, 1, 2)
    (logits,) = ReferenceEvaluator(model).run(None, {"images": images})
    return logits


@for_each("name", ["tokens", "flattened"])
def test_a_file_has_the_logits_of_onnxs_own_reference(name: str) -> None:
    imported = networks.find_imported(str(FILES / f"{name}.onnx"))
    pixels = np.random.default_rng(3).integers(0, 256, (2, 12, 12, 3), dtype=np.uint8)
    truth = evaluate(FILES / f"{name}.onnx", pixels)
    assert imported.weights is not None
    run = Pass(
        {key: array.astype(np.float64) for key, array in imported.weights.items()}, training=False,
        generator=np.random.default_rng(0),
    )  # fmt: skip
    found = sequence(imported.workload.layers, pixels * imported.workload.scale, run)[0]
    assert found.shape == truth.shape == (2, 5) and float(np.ptp(truth)) > 0.1
    assert float(np.abs(found - truth).max()) <= 1e-5 * float(np.abs(truth).max())


def test_settings_and_places_are_those_of_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workload = networks.find(str(FILES / "tokens.onnx"))
    kinds: dict[type, Any] = {type(layer): layer for layer, _ in workload.walk()}
    assert (kinds[BatchNorm].momentum, kinds[BatchNorm].epsilon) == (0.75, 1e-3)
    assert kinds[ChannelScale].initial == 0.5 and not kinds[Gelu].approximate and DepthwiseConv2D in kinds
    flat = networks.find(str(FILES / "flattened.onnx"))
    assert [layer.rate for layer, _ in flat.walk() if isinstance(layer, Dropout)] == [0.25]
    (head,) = [layer for layer, _ in flat.walk() if isinstance(layer, Dense) and layer.units == 5]
    assert not head.bias
    out = tmp_path / "net.json"
    assert program.main(["import", str(FILES / "flattened.onnx"), "--out", str(out)]) == 0
    assert networks.find(str(out)).layers == flat.layers
    assert networks.find_imported(str(out)).unproven == "an .onnx file has no framework"
    assert program.main(["describe", str(FILES / "folded.onnx")]) == 2
    assert re.search(r"block/conv/Conv \(Conv\): its weight onnx::Conv_\d+ was computed", capsys.readouterr().err)


def write(
    folder: Path, *nodes: Any, tensors: dict[str, Any] | None = None, shape: Sequence[int] = (1, 3, 8, 8),
    outputs: Sequence[str] = ("logits",), version: int = 20, kind: int = 1,
) -> Path:  # fmt: skip
    """Write a file of these nodes, which end in "x" before the head, or are all of it if one makes "logits"."""
    given = {"w": np.ones((4, 3, 3, 3)), "head": np.ones((5, 4)), **(tensors or {})}
    if not any("logits" in node.output for node in nodes):
        pool = helper.make_node("GlobalAveragePool", ["x"], ["pooled"])
        flat = helper.make_node("Flatten", ["pooled"], ["flat"])
        nodes = (*nodes, pool, flat, helper.make_node("Gemm", ["flat", "head"], ["logits"], "head", transB=1))
    held = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in given.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    images = [helper.make_tensor_value_info("images", kind, list(shape))]
    model = helper.make_model(
        helper.make_graph(list(nodes), "net", images, ends, held), opset_imports=[helper.make_opsetid("", version)]
    )
    path = folder / "net.onnx"
    onnx.save(model, path)
    return path


def node(operator: str, inputs: str, output: str = "x", **settings: Any) -> Any:
    return helper.make_node(operator, inputs.split(), output.split(), f"/n/{operator}", **settings)


def conv(output: str = "x") -> Any:
    return node("Conv", "images w", output)


def told(proto: Any, notes: dict[str, str]) -> Any:
    """Return the node with these notes of its exporter."""
    helper.set_model_props(proto, notes)
    return proto


def constant(name: str, values: Any) -> Any:
    return node("Constant", "", name, value=numpy_helper.from_array(np.asarray(values, np.float32)))


def norm() -> tuple[Any, Any]:
    """Return a convolution and a norm of it in training."""
    return conv("c"), node("BatchNormalization", "c g b m v", "x rm rv", training_mode=1)


def of_norm(names: str) -> dict[str, Any]:
    return {name: np.ones(4) for name in names.split()}


REFUSED: dict[str, tuple[Any, str]] = {
    "evaluated norm": (
        lambda to: write(to, conv("c"), node("BatchNormalization", "c g b m v"), tensors=of_norm("g b m v")),
        r"n/BatchNormalization \(BatchNormalization\): is in evaluation mode, .* training=torch\.onnx\.TrainingMode",
    ),
    "evaluated dropout": (
        lambda to: write(to, conv("c"), node("Dropout", "c")), r"n/Dropout \(Dropout\): is in evaluation mode"
    ),
    "folded by the new exporter": (
        lambda to: write(to, node("Conv", "images w w_bias"), tensors={"w_bias": np.ones(4)}),
        r"n/Conv \(Conv\): its bias w_bias was made at export",
    ),
    "folded into a bias by the new exporter": (
        lambda to: write(to, told(conv(), {"pkg.onnxscript.rewriter.rule_name": "FuseBatchNormIntoConv"})),
        r"n/Conv \(Conv\): a norm was folded into it: export it for training",
    ),
    "shared": (
        lambda to: write(to, node("Conv", "images q", "a"), helper.make_node("Conv", ["a", "q"], ["x"], "again"),
                         tensors={"q": np.ones((3, 3, 1, 1))}),
        r"again \(Conv\): its weight q also belongs to n/Conv \(Conv\)",
    ),
    "pruned": (
        lambda to: write(to, node("Mul", "v mask", "m"), node("Identity", "m", "k"), node("Conv", "images k"),
                         tensors={name: np.ones((4, 3, 3, 3)) for name in ("v", "mask")}),
        r"n/Conv \(Conv\): its weight k is computed from mask and v, which a step would not train; make it one",
    ),
    "rounded": (
        lambda to: write(to, node("Cast", "w", "half", to=10), helper.make_node("Cast", ["half"], ["k"], "back", to=1),
                         node("Conv", "images k")),
        r"n/Conv \(Conv\): its weight k is computed from w, ",
    ),
    "layer norm without parameters": (
        lambda to: write(to, constant("g", np.ones(3)), constant("b", np.zeros(3)),
                         node("GlobalAveragePool", "images", "p"), node("Flatten", "p", "f"),
                         node("LayerNormalization", "f g b", "logits")),
        r"n/LayerNormalization \(LayerNormalization\): has no scale or no shift that trains: the record of a LayerNorm "
        "trains a scale and a shift: give it both, and export",
    ),
    "layer norm whose shift is a constant": (
        lambda to: write(to, constant("b", np.zeros(3)), node("GlobalAveragePool", "images", "p"),
                         node("Flatten", "p", "f"), node("LayerNormalization", "f g b", "logits"),
                         tensors={"g": np.ones(3)}),
        r"n/LayerNormalization \(LayerNormalization\): has no scale or no shift that trains: ",
    ),
    "layer norm without a shift": (
        lambda to: write(to, node("GlobalAveragePool", "images", "p"), node("Flatten", "p", "f"),
                         node("LayerNormalization", "f g", "logits"), tensors={"g": np.ones(3)}),
        r"n/LayerNormalization \(LayerNormalization\): has no scale or no shift that trains: ",
    ),
    "norm of other constants": (
        lambda to: write(to, constant("g", np.full(4, 2.0)), *norm(), tensors=of_norm("b m v")),
        r"n/BatchNormalization \(BatchNormalization\): its gamma g is a constant in the file",
    ),
    "norm without statistics": (
        lambda to: write(to, constant("m", np.zeros(4)), *norm(), tensors=of_norm("g b v")),
        r"n/BatchNormalization \(BatchNormalization\): its running_mean m is a constant in the file",
    ),
    "fixed filter": (
        lambda to: write(to, constant("k", np.ones((4, 3, 3, 3))), node("Conv", "images k")),
        r"n/Conv \(Conv\): its kernel k is a constant in the file",
    ),
    "trained factor": (
        lambda to: write(to, conv("c"), node("Mul", "alpha c"), tensors={"alpha": 0.5}),
        r"n/Mul \(Mul\): multiplies \(n, c, h, w\) of 1 x 4 x 6 x 6 by alpha of \(\): .*; if it does not train",
    ),
    "computed factor": (
        lambda to: write(to, conv("c"), node("Sqrt", "alpha", "r"), node("Mul", "r c"), tensors={"alpha": 0.5}),
        r"n/Mul \(Mul\): multiplies \(n, c, h, w\) of 1 x 4 x 6 x 6 by r of \(\): no layer record supports that",
    ),
    "trained shift": (
        lambda to: write(to, conv("c"), node("Relu", "c", "r"), node("Add", "r alpha"), tensors={"alpha": [0.5]}),
        r"n/Add \(Add\): adds alpha of \(1,\) to \(n, c, h, w\) of 1 x 4 x 6 x 6: no layer .*; if it does not train",
    ),
    "trained divisor": (
        lambda to: write(to, conv("c"), node("Div", "c t"), tensors={"t": 2}),
        r"n/Div \(Div\): computes t with \(n, c, h, w\) of 1 x 4 x 6 x 6: it may train, and no layer record supports",
    ),
    "unknown": (lambda to: write(to, conv("c"), node("Softplus", "c")), r"n/Softplus \(Softplus\): there is no layer"),
    "random": (lambda to: write(to, conv("c"), node("Bernoulli", "c")), r"n/Bernoulli \(Bernoulli\): draws random"),
    "branch": (
        lambda to: write(to, conv("x"), node("If", "x", "logits", then_branch=helper.make_graph([], "a", [], []))),
        r"n/If \(If\): is control flow, so the network is not fixed",
    ),
    "foreign": (
        lambda to: write(to, conv("c"), helper.make_node("Conv", ["c"], ["x"], "own", domain="my.code")),
        r"own \(Conv\): is not an operator of ONNX itself but of my\.code",
    ),
    "graph in a constant": (
        lambda to: write(to, conv("c"), node("Identity", "w", "k", body=helper.make_graph([], "a", [], [])),
                         node("Conv", "images k")),
        r"n/Identity \(Identity\): holds a graph of its own",
    ),
    "outputs": (lambda to: write(to, conv(), outputs=("logits", "x")), r"has 2 outputs: logits, x; a network here"),
    "images as output": (lambda to: write(to, conv("logits")), r"logits: it returns 4 x 6 x 6 numbers per image"),
    "no size": (lambda to: write(to, conv(), shape=(1, 3, 0, 0)), r"images: its shape is \[1, 3, 0, 0\]"),
    "half": (lambda to: write(to, conv(), kind=10), r"images: is not a float32 tensor"),
    "old": (
        lambda to: write(to, conv(), version=13),
        r"is of operator set 13, which does not say whether a BatchNormalization trains; export it for training",
    ),
    "factor of swish": (
        lambda to: write(to, conv("c"), node("Swish", "c", alpha=1.702), version=24), r"n/Swish \(Swish\): alpha=1\.702"
    ),
    "cast": (
        lambda to: write(to, conv("c"), node("Cast", "c", "h", to=10), helper.make_node("Cast", ["h"], ["x"], to=1)),
        r"n/Cast \(Cast\): casts to another type than float32",
    ),
    "cast like": (
        lambda to: write(to, conv("c"), node("Cast", "w", "half", to=10), node("CastLike", "c half", "h"),
                         helper.make_node("Cast", ["h"], ["x"], to=1)),
        r"n/CastLike \(CastLike\): casts to another type than float32",
    ),
    "strides": (
        lambda to: write(to, node("Conv", "images w", strides=[1, 2])), r"n/Conv \(Conv\): strides \[1, 2\]"
    ),
    "average of padding": (
        lambda to: write(to, node("AveragePool", "images", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)),
        r"n/AveragePool \(AveragePool\): counts the padding as pixels",
    ),
    "huge constant": (
        lambda to: write(to, node("Constant", "", "size", value_ints=[1 << 40]), node("ConstantOfShape", "size", "c"),
                         node("Add", "images c")),
        r"n/ConstantOfShape \(ConstantOfShape\): makes a constant of over",
    ),
}  # fmt: skip


@for_each("name", REFUSED)
def test_what_cannot_be_imported_is_one_line_with_the_node_and_its_operator(name: str, tmp_path: Path) -> None:
    make, said = REFUSED[name]
    path = make(tmp_path)
    with pytest.raises(NetworkError) as refused:
        networks.find(str(path))
    assert re.search(said, str(refused.value)), refused.value
    assert str(refused.value).startswith(f"workload {path}: ") and "\n" not in str(refused.value)


def test_values_in_other_files_are_read_within_the_models_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = write(folder, conv())
    expected = networks.find_imported(str(path)).weights
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="net.data", size_threshold=0)
    found = networks.find_imported(str(path)).weights
    assert expected and found and all(np.array_equal(found[key], expected[key]) for key in expected)
    assert isinstance(networks.find(str(path)).layers[0], Conv2D)
    (folder / "net.data").rename(tmp_path / "net.data")
    with pytest.raises(NetworkError, match=r"its values are in net\.data, which does not exist"):
        networks.find(str(path))
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        next(each for each in tensor.external_data if each.key == "location").value = "../net.data"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NetworkError, match=r"in \.\./net\.data, outside the model's folder"):
        networks.find(str(path))


def test_a_setting_in_another_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # onnx would read the file from here
    (tmp_path / "k.data").write_bytes(np.full(4, 0.5, np.float32).tobytes())
    given = numpy_helper.from_array(np.ones(4, np.float32), "k")
    onnx.external_data_helper.set_external_data(given, "k.data")
    given.ClearField("raw_data")
    sparse = helper.make_sparse_tensor(given, numpy_helper.from_array(np.arange(4)), [4])
    for setting in ({"value": given}, {"sparse_value": sparse}):
        nodes = node("Constant", "", "k", **setting), conv("c"), node("Mul", "c k")
        with pytest.raises(NetworkError, match=r"n/Constant \(Constant\): the values of its (sparse_)?value are in an"):
            networks.find(str(write(tmp_path, *nodes)))


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    content = (FILES / "flattened.onnx").read_bytes()
    path = tmp_path / "net.onnx"
    for kept in (b"no model", content[:1000], content[: len(content) // 2], b""):
        path.write_bytes(kept)
        with pytest.raises(NetworkError) as refused:
            networks.find(str(path))
        assert "\n" not in str(refused.value), kept


def test_a_weight_in_another_shape_or_order_is_still_that_weight(tmp_path: Path) -> None:
    kernel = np.arange(12.0).reshape(4, 3)
    nodes = (
        node("Transpose", "k", "turned", perm=[1, 0]), node("Reshape", "turned size", "shaped"),
        node("Cast", "shaped", "cast", to=1), node("Unsqueeze", "cast axes", "u"),
        node("Squeeze", "u axes", "s"), node("Identity", "s", "same"),
        node("GlobalAveragePool", "images", "p"), node("Flatten", "p", "f"),
        node("MatMul", "f same", "logits"),
    )  # fmt: skip
    path = write(tmp_path, *nodes, tensors={"k": kernel})
    model = onnx.load(path)
    for name, numbers in (("size", [3, 4]), ("axes", [2])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers), name))
    onnx.save(model, path)
    weights = networks.find_imported(str(path)).weights
    assert weights and [array.tolist() for array in weights.values()] == [kernel.T.tolist()]


def test_a_norm_without_parameters_gains_none(tmp_path: Path) -> None:
    path = write(tmp_path, constant("g", np.ones(4)), *norm(), tensors=of_norm("b m v"))
    (layer,) = [each for each, _ in networks.find(str(path)).walk() if isinstance(each, BatchNorm)]
    assert not layer.scale and layer.center
    path = write(tmp_path, constant("g", np.ones(4)), constant("b", np.zeros(4)), *norm(), tensors=of_norm("m v"))
    workload = networks.find(str(path))
    (layer,) = [each for each, _ in workload.walk() if isinstance(each, BatchNorm)]
    assert not layer.scale and not layer.center and workload.parameter_count == 4 * 27 + 4 * 5


def test_one_number_is_a_weight_where_the_layer_has_one_and_constant_where_the_file_has_no_tensor(
    tmp_path: Path,
) -> None:
    head = (node("GlobalAveragePool", "images", "p"), node("Flatten", "p", "f"), node("MatMul", "f k", "m"))
    path = write(tmp_path, *head, node("Add", "m b", "logits"), tensors={"k": np.ones((3, 1)), "b": [0.25]})
    imported = networks.find_imported(str(path))
    (layer,) = [each for each, _ in imported.workload.walk() if isinstance(each, Dense)]
    assert layer.bias and imported.weights is not None and imported.weights[f"{layer.name}/bias"].tolist() == [0.25]
    numbers = constant("half", 0.5), node("Mul", "images half", "i"), node("Conv", "i w", "c"), node("Add", "c half")
    kinds = [type(each) for each, _ in networks.find(str(write(tmp_path, *numbers))).walk()]
    assert kinds[:3] == [Normalise, Conv2D, Normalise]
    normed = node("Sub", "images mean", "s"), node("Div", "s std", "i"), node("Conv", "i w")
    statistics = {name: np.full((1, 3, 1, 1), 0.5) for name in ("mean", "std")}
    kinds = [type(each) for each, _ in networks.find(str(write(tmp_path, *normed, tensors=statistics))).walk()]
    assert kinds[:3] == [Normalise, Normalise, Conv2D]


def test_settings_that_change_nothing_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, conv("c"), node("Cast", "c", "d", to=1), node("Swish", "d", alpha=1.0), version=24)
    assert [type(each) for each, _ in networks.find(str(path)).walk()][:2] == [Conv2D, Silu]


def test_a_bias_after_a_change_of_shape_is_none_of_a_layer_that_another_branch_takes(tmp_path: Path) -> None:
    inside = (
        node("GlobalAveragePool", "images", "o"), node("Conv", "o k", "p"), node("Flatten", "p", "q"),
        helper.make_node("Add", ["q", "b"], ["r"], "add"),
    )  # fmt: skip
    tensors = {"k": np.ones((4, 3, 1, 1)), "b": np.ones(4)}
    path = write(tmp_path, *inside, node("Gemm", "r head", "logits", transB=1), tensors=tensors)
    (layer,) = [each for each, _ in networks.find(str(path)).walk() if isinstance(each, Dense) and each.units == 4]
    assert layer.bias
    branch = (
        node("Sigmoid", "p", "s"), helper.make_node("Flatten", ["s"], ["t"], "flat"), node("Mul", "r t", "u"),
        node("Gemm", "u head", "logits", transB=1),
    )  # fmt: skip
    with pytest.raises(NetworkError, match=r"add \(Add\): adds b of \(4,\) to \(n, c\) of 1 x 4: no layer record"):
        networks.find(str(write(tmp_path, *inside, *branch, tensors=tensors)))
