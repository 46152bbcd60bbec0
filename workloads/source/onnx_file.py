"""Read an .onnx file: the network, and its weights. No code of the file is run; no file outside its folder is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..layers import Shape
from ..weights import Weights, list_flattened
from .graph import Network, build_network
from .imported import Imported
from .layouts import Value
from .onnx_graph import BATCH, BRANCHING, CONSTANT, EXPORT, Call, OnnxReader, compute_constant, name_node, read_settings
from .onnx_operators import translate
from .traced import place_parameter
from .vocabulary import ImportRefused

MISSING = "needs the package onnx: .venv/bin/python -m pip install --no-deps --require-hashes -r requirements-onnx.txt"
DOMAINS = ("", "ai.onnx")
# Operator sets up to this one do not say whether a BatchNormalization trains. Those up to 12 have another Softmax, and
# those up to 11 do not say whether a Dropout trains.
NEWEST_WITHOUT_TRAINING = 13
IMAGES_FIRST = [0, 3, 1, 2]  # axes of a Transpose from (n, h, w, c) to (n, c, h, w)
REWRITTEN = "pkg.onnxscript.rewriter.rule_name"  # by which PyTorch's newer exporter says what it folded
UNPROVEN = "an .onnx file has no framework"
UNSEEN = "the file has no BatchNorm or Dropout, so it does not say whether it was exported for training"


def read_onnx(path: Path, name: str) -> Imported:
    """Return the network of a file. Raises ImportRefused."""
    try:
        import onnx
        from onnx import inliner
    except ImportError as error:
        raise ImportRefused(MISSING) from error
    try:
        model = onnx.load(path, load_external_data=False)
        version = _find_version(model)
        if model.functions:
            model = inliner.inline_local_functions(model)
        _refuse_operators(model.graph)
        _load_tensors(model.graph, path.parent)
    except ImportRefused:
        raise
    except Exception as error:  # a foreign file may fail in any way
        raise ImportRefused(f"is not an ONNX model: {' '.join(str(error).split())[:150]}") from error
    image, shapes = _list_shapes(model)
    reader = _read_nodes(model.graph, shapes, version)
    kinds = {node.operator for node in reader.nodes}
    made = build_network(
        reader.nodes,
        image,
        name,
        summary=f"{model.graph.name} of {path.name}, an ONNX model of {model.producer_name or 'an unknown program'}",
        differs="" if kinds & {"batchnorm", "dropout"} else UNSEEN,
    )
    return Imported(made.workload, _place_weights(reader, made), made.places, unproven=UNPROVEN)


def _find_version(model: Any) -> int:
    """Return the version of the operator set. Raises ImportRefused for one that is not known."""
    versions = [each.version for each in model.opset_import if each.domain in DOMAINS]
    if len(versions) != 1:
        raise ImportRefused("names no ONNX operator set: export it again")
    if versions[0] <= NEWEST_WITHOUT_TRAINING:
        raise ImportRefused(
            f"is of operator set {versions[0]}, which does not say whether a BatchNormalization trains; "
            f"{EXPORT}, opset_version=20"
        )
    return int(versions[0])


def _load_tensors(graph: Any, folder: Path) -> None:
    """Load the tensors that lie in other files of the model's folder. Raises ImportRefused for one outside of it."""
    from onnx import external_data_helper

    for tensor in graph.initializer:
        if external_data_helper.uses_external_data(tensor):
            location = external_data_helper.ExternalDataInfo(tensor).location
            file = (folder / location).resolve()
            if not file.is_relative_to(folder.resolve()):
                raise ImportRefused(f"{tensor.name}: its values are in {location}, outside the model's folder")
            if not file.is_file():
                raise ImportRefused(f"{tensor.name}: its values are in {location}, which does not exist")
            external_data_helper.load_external_data_for_tensor(tensor, str(folder.resolve()))


def _refuse_operators(graph: Any) -> None:
    """Raise ImportRefused for control flow, folded norms, operators of other makers, and settings in other files."""
    from onnx import AttributeProto, external_data_helper

    for proto in graph.node:
        place = name_node(proto)[1]
        if proto.domain not in DOMAINS:
            raise ImportRefused(
                f"{place}: is not an operator of ONNX itself but of {proto.domain}; there is no layer for it"
            )
        if proto.op_type in BRANCHING:
            raise ImportRefused(
                f"{place}: is control flow, so the network is not fixed: remove the branch from the model"
            )
        if any(each.key == REWRITTEN and "BatchNorm" in each.value for each in proto.metadata_props):
            raise ImportRefused(f"{place}: a norm was folded into it: {EXPORT}")
        for each in proto.attribute:
            if each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                raise ImportRefused(f"{place}: holds a graph of its own; a network here has one")
            sparse = (each.sparse_tensor, *each.sparse_tensors)
            tensors = (each.t, *each.tensors, *(part for held in sparse for part in (held.values, held.indices)))
            if any(map(external_data_helper.uses_external_data, tensors)):
                raise ImportRefused(
                    f"{place}: the values of its {each.name} are in another file; only those of initializers may be"
                )


def _list_shapes(model: Any) -> tuple[Shape, dict[str, Shape]]:
    """Return the images' shape (h, w, c), and {tensor: shape, the batch included}. Raises ImportRefused."""
    from onnx import TensorProto, shape_inference

    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in held]
    for ends, what in ((inputs, "input"), (list(model.graph.output), "output")):
        if len(ends) != 1:
            names = ", ".join(each.name for each in ends[:4]) or "none"
            raise ImportRefused(f"has {len(ends)} {what}s: {names}; a network here has one")
    kind = inputs[0].type.tensor_type
    if kind.elem_type != TensorProto.FLOAT:
        raise ImportRefused(f"{inputs[0].name}: is not a float32 tensor; export the model in float32")
    sizes = [axis.dim_value for axis in kind.shape.dim]
    if len(sizes) != 4 or min(sizes[1:]) < 1:
        raise ImportRefused(f"{inputs[0].name}: its shape is {sizes}; export the model for images of one size")
    if sizes[0] < 1:
        kind.shape.dim[0].dim_value = sizes[0] = BATCH
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:  # a foreign file may fail in any way
        raise ImportRefused(f"its shapes do not fit: {' '.join(str(error).split())[:150]}") from error
    shapes = {
        each.name: tuple(axis.dim_value for axis in each.type.tensor_type.shape.dim)
        for each in (*inferred.value_info, *inferred.output)
    }
    users = [node for node in model.graph.node if inputs[0].name in node.input]
    turned = [node.op_type == "Transpose" and read_settings(node).get("perm") == IMAGES_FIRST for node in users]
    _, first, second, third = shapes[inputs[0].name] = tuple(sizes)
    return ((first, second, third) if turned and all(turned) else (second, third, first)), shapes


def _list_needed(graph: Any) -> Iterator[Any]:
    """Yield the nodes that the output needs, in the file's order."""
    needed: set[str] = {graph.output[0].name}
    kept: list[Any] = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    yield from reversed(kept)


def _read_nodes(graph: Any, shapes: dict[str, Shape], version: int) -> OnnxReader:
    """Return the nodes of the network, the last one the logits'. Raises ImportRefused."""
    from onnx import numpy_helper

    nodes = list(_list_needed(graph))
    tensors = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    reader = OnnxReader(tensors, Counter(name for node in nodes for name in node.input))
    (entering,) = (each.name for each in graph.input if each.name not in tensors)
    first = next((node for node in nodes if entering in node.input), None)
    turned = first is not None and first.op_type == "Transpose"
    reader.enter(entering, shapes[entering], "nhwc" if turned else "nchw")
    for proto in nodes:
        _read_node(reader, proto, shapes, version)
    last = reader.known.get(graph.output[0].name)
    if getattr(last, "layout", "") != "nc":
        shape = " x ".join(map(str, shapes.get(graph.output[0].name, ())[1:]))
        raise ImportRefused(
            f"{graph.output[0].name}: it returns {shape} numbers per image; one logit per class is needed"
        )
    return reader


def _read_node(reader: OnnxReader, proto: Any, shapes: dict[str, Shape], version: int) -> None:
    """Add what one node of the file gives to what is known. Raises ImportRefused."""
    name, place = name_node(proto)
    if unknown := [each for each in proto.input if each and each not in reader.known]:
        raise ImportRefused(f"{place}: takes {unknown[0]}, which no earlier node produces")
    if _read_constant(reader, proto, version):
        return
    given = tuple(reader.known[each] if each else None for each in proto.input)
    shape = shapes.get(proto.output[0], ())
    if not shape or min(shape) < 1:
        raise ImportRefused(f"{place}: the shape of its output is unknown; export the model for images of one size")
    outputs = sum(bool(reader.uses[each]) for each in proto.output if each)
    call = Call(name, proto.op_type, place, given, tuple(proto.input), read_settings(proto), shape, outputs)
    try:
        reader.known[proto.output[0]] = translate(reader, call)
    except ImportRefused:
        raise
    except (TypeError, LookupError, ArithmeticError, ValueError) as error:
        raise call.refuse(f"its settings cannot be read: {error!r}") from error


def _read_constant(reader: OnnxReader, proto: Any, version: int) -> bool:
    """Return True if what the node gives is known when the file is read. Raises ImportRefused."""
    values = {each: reader.known[each] for each in proto.input if each}
    images = {name for name, value in values.items() if isinstance(value, Value)}
    first, output = next(iter(values.values()), None), proto.output[0]
    if proto.op_type == "Shape" and isinstance(first, Value):
        settings = read_settings(proto)
        shape = first.shape[settings.get("start", 0) : settings.get("end")]
        reader.known[output] = np.array(shape, np.int64)
    elif proto.op_type == "CastLike" and not isinstance(first, Value) and images:  # a value is float32
        reader.known[output] = np.asarray(first, np.float32)
    elif proto.op_type in CONSTANT and not images:
        for each, array in zip(proto.output, compute_constant(proto, values, version), strict=True):
            reader.derive(proto.op_type, list(values), each, array)
    else:
        return False
    return True


def _place_weights(reader: OnnxReader, made: Network) -> Weights:
    """Return the weights of the layers in our order. Raises ImportRefused for one that is missing or does not fit."""
    shapes, layers = made.workload.weight_shapes(), list_flattened(made.workload)
    weights: Weights = {}
    for given in reader.parameters:
        each, array = place_parameter(given, made, layers), reader.weights[given.source_name]
        place = made.places[each.key.partition("/")[0]]
        if each.key not in shapes or not each.fits(array, shapes[each.key]):
            raise ImportRefused(
                f"{place}: its weight {each.key} is {array.shape}, the network's is {shapes.get(each.key)}"
            )
        weights[each.key] = each.take(array, shapes[each.key])
    if missing := [key for key in shapes if key not in weights]:
        raise ImportRefused(f"{made.places[missing[0].partition('/')[0]]}: the file has no weight for {missing[0]}")
    return {key: weights[key] for key in shapes}
