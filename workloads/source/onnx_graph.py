"""Hold what is known of an ONNX model while it is read: nodes of a graph, constants, and the weights of each layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layers import Shape
from ..records.source_map import SourceParameter
from .layouts import Value
from .vocabulary import INPUT, ImportRefused, Node

Array = NDArray[Any]
SETTINGS = "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False"
EXPORT = f"export it for training: torch.onnx.export(..., {SETTINGS})"
BATCH = 2  # images that shapes are computed for, where the file leaves the number open
# Operators that are computed when the file is read, if all that they take is known.
CONSTANT = (
    "Add", "Cast", "CastLike", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Identity",
    "Mul", "Neg", "Range", "Reshape", "Shape", "Slice", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip
# Those of them that give a weight as it is, in another shape or order. What the others give of a weight is computed.
UNCHANGED = ("Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
GROWING = ("ConstantOfShape", "Expand", "Range")
MOST_VALUES = 1 << 24  # of such a constant
BRANCHING = ("If", "Loop", "Scan", "SequenceMap")
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


@dataclass(frozen=True)
class Call:
    """A node of the file, with what it takes and the shape of what it gives."""

    name: str
    operator: str
    place: str  # name and operator
    inputs: tuple[Any, ...]  # a Value, an array, or None for one that is left out
    names: tuple[str, ...]  # of the tensors that it takes
    settings: Mapping[str, Any]
    shape: Shape  # of its first output, the batch included
    outputs: int

    def refuse(self, reason: str) -> ImportRefused:
        """Return the error to raise."""
        return ImportRefused(f"{self.place}: {reason}")

    def value(self, number: int = 0) -> Value:
        """Return an input that a layer gives. Raises ImportRefused."""
        given = self.inputs[number] if number < len(self.inputs) else None
        if not isinstance(given, Value):
            raise self.refuse("computes with constants in a way that no layer record supports")
        return given

    def image(self) -> Value:
        """Return its first input, which must be an image with channels first. Raises ImportRefused."""
        if self.value().layout != "nchw":
            raise self.refuse(f"needs images (n, c, h, w), but gets {self.value().describe()}")
        return self.value()

    def constant(self, number: int) -> Array | None:
        """Return an input that is known when the file is read; None where it is left out. Raises ImportRefused."""
        given = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(given, Value):
            raise self.refuse(f"its input {self.names[number]} is computed from the images; it must be constant")
        return given

    def numbers(self, name: str, number: int, usual: Sequence[int] | None = None) -> list[int] | None:
        """Return integers that are a setting in older operator sets, and an input in newer ones."""
        given = self.settings.get(name)
        given = self.constant(number) if given is None else given
        return list(usual) if given is None and usual is not None else None if given is None else [*map(int, given)]


@dataclass
class OnnxReader:
    """The nodes so far, what is known of each tensor, and where each weight comes from."""

    tensors: dict[str, Array]  # those of the file, by name
    uses: Counter[str]  # how many nodes take a tensor
    known: dict[str, Any] = field(default_factory=dict)  # {tensor: Value or array}
    origins: dict[str, frozenset[str]] = field(default_factory=dict)  # tensors of the file that a constant is made of
    computed: set[str] = field(default_factory=set)  # constants that are not such a tensor as it is
    nodes: list[Node] = field(default_factory=list)
    parameters: list[SourceParameter] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)  # by the parameters' source names
    owners: dict[str, str] = field(default_factory=dict)  # {tensor of the file: place of the node that has it}

    def __post_init__(self) -> None:
        self.known |= self.tensors
        self.origins |= {name: frozenset((name,)) for name in self.tensors if not is_counted(self.tensors[name])}

    def derive(self, operator: str, inputs: Sequence[str], output: str, array: Array) -> None:
        """Add a constant that an operator computes of others."""
        unchanged = operator in UNCHANGED
        made_of = frozenset[str]().union(*(self.origins.get(each, ()) for each in inputs[: 1 if unchanged else None]))
        self.known[output] = array
        self.origins[output] = frozenset() if is_counted(array) else made_of
        if not unchanged or array.dtype != np.float32 or inputs[0] in self.computed:
            self.computed.add(output)

    def enter(self, name: str, shape: Shape, layout: str) -> None:
        """Add the images."""
        self.nodes.append(Node(name, INPUT))
        self.known[name] = Value(name, layout, shape)

    def emit(
        self,
        call: Call,
        operator: str,
        layout: str,
        settings: Mapping[str, Any] | None = None,
        weights: Mapping[str, tuple[str, Array, Sequence[int]]] | None = None,
        inputs: Sequence[Value] = (),
    ) -> Value:
        """Add a node and return its output. `weights` is {role: (its tensor's name, values, axes in our order)}."""
        inputs = inputs or (call.value(),)
        settings = dict(settings or {})
        self.nodes.append(Node(call.name, operator, tuple(each.node for each in inputs), settings, call.place))
        for role, (name, values, axes) in (weights or {}).items():
            self.own(call, call.name, role, name, values, axes)
        return Value(call.name, layout, call.shape)

    def own(self, call: Call, node: str, role: str, name: str, values: Array, axes: Sequence[int] = ()) -> None:
        """Give a weight to a node. Raises ImportRefused for one that is constant, folded, or another node's."""
        if values.dtype != np.float32:
            raise call.refuse(f"its weight {name} is {values.dtype}; export the model in float32")
        origins = sorted(self.origins.get(name, ()))
        if not origins:
            raise call.refuse(f"its {role} {name} is a constant in the file; in the layer record it trains")
        if name in self.computed:
            raise call.refuse(
                f"its weight {name} is computed from {' and '.join(origins)}, which a step would not train; "
                "make it one parameter, and export the model again"
            )
        for each in origins:
            if each.startswith("onnx::"):
                raise call.refuse(f"its weight {each} was computed at export, where norms are folded: {EXPORT}")
            if each in self.owners:
                raise call.refuse(
                    f"its weight {each} also belongs to {self.owners[each]}: equal ones are shared at export, or in "
                    f"the model; give each layer its own, and {EXPORT}"
                )
            self.owners[each] = call.place
        key = f"{node}/{role}"
        self.weights[key] = values
        self.parameters.append(SourceParameter(key, key, tuple(axes)))

    def absorb_bias(self, call: Call, value: Value, name: str, bias: Array) -> Value | None:
        """Add a bias to the dense layer or convolution that computes this value alone; None where that is not so."""
        last = next(node for node in self.nodes if node.name == value.node)
        index = self.nodes.index(last)
        outputs = [each for each, known in self.known.items() if isinstance(known, Value) and known.node == last.name]
        alone = all(self.uses[each] == 1 for each in outputs)  # in each shape that its output was given
        if last.operator not in ("dense", "conv2d") or last.settings.get("bias") or not alone:
            return None
        if not value.is_per_channel(bias.shape) or bias.size != value.channels:
            return None
        self.nodes[index] = Node(last.name, last.operator, last.inputs, {**last.settings, "bias": True}, last.place)
        self.own(call, last.name, "bias", name, bias.reshape(-1))
        return value


def is_counted(array: Array) -> bool:
    """True if the numbers are integers or booleans, which no step trains."""
    return array.dtype.kind in "iub"


def name_node(proto: Any) -> tuple[str, str]:
    """Return a node's name, that of its output where it has none, and its place."""
    name = proto.name.strip("/") or proto.output[0].strip("/")
    return name, f"{name} ({proto.op_type})"


def read_settings(proto: Any) -> dict[str, Any]:
    """Return {name: value} of a node's attributes; tensors are arrays."""
    from onnx import AttributeProto, helper, numpy_helper

    settings: dict[str, Any] = {}
    for each in proto.attribute:
        value = helper.get_attribute_value(each)
        if each.type == AttributeProto.TENSOR:
            value = numpy_helper.to_array(value)
        settings[each.name] = value.decode() if isinstance(value, bytes) else value
    return settings


def compute_constant(proto: Any, inputs: Mapping[str, Array], version: int) -> list[Array]:
    """Return what a node of CONSTANT gives, by onnx's own reference. Raises ImportRefused."""
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    place = name_node(proto)[1]
    if proto.op_type in GROWING and inputs:
        shape = [*inputs.values()][-1]
        if shape.ndim > 1 or math.prod(int(abs(size)) or 1 for size in shape.ravel()) > MOST_VALUES:
            raise ImportRefused(f"{place}: makes a constant of over {MOST_VALUES:,} values")
    given = [numpy_helper.from_array(np.asarray(array), name) for name, array in inputs.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in proto.output]
    graph = helper.make_graph([proto], "constant", [], outputs, given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, {})]
    except Exception as error:  # a foreign file's constants may fail in any way
        raise ImportRefused(f"{place}: cannot be computed: {' '.join(str(error).split())[:100]}") from error
