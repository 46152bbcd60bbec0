"""A network that was read from a Keras file says how its own framework is asked for the same numbers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from test_keras_config import CONV, SMALL, VARIABLES, functional, layer, save, sequential, write

from workloads import networks
from workloads.source.imported import Origin


def origin_of(path: Path) -> Origin:
    origin = networks.find_imported(str(path)).origin
    assert origin is not None
    return origin


def test_the_origin_holds_the_file_and_what_its_model_takes_and_gives(tmp_path: Path) -> None:
    path = save(tmp_path, functional(*SMALL), VARIABLES)
    origin = origin_of(path)
    code = origin.source.code
    assert (origin.code, origin.tensors) == (path.read_bytes(), None)
    assert code.digest == hashlib.sha256(origin.code).hexdigest()[:12]
    assert (code.framework, code.file, code.classes, code.input_shape) == ("tensorflow", "my_net.keras", 3, (8, 8, 1))
    assert code.scale == 1 / 255


def test_weights_that_are_taken_from_the_models_variables_are_those_of_the_file(tmp_path: Path) -> None:
    """The worker names variables by layer and number."""
    path = save(tmp_path, functional(*SMALL), VARIABLES | {"dense/vars/0": np.arange(216.0).reshape(72, 3)})
    imported = networks.find_imported(str(path))
    tensors = {"conv/0": VARIABLES["conv2d/vars/0"], "conv/1": VARIABLES["conv2d/vars/1"],
               "dense/0": np.arange(216.0).reshape(72, 3), "dense/1": VARIABLES["dense/vars/1"]}  # fmt: skip
    source = origin_of(path).source
    taken = source.take(tensors, imported.workload.weight_shapes())
    assert imported.weights is not None and taken.keys() == imported.weights.keys()
    assert all((taken[key] == imported.weights[key]).all() for key in taken)
    put = source.put({key: array + 1 for key, array in taken.items()}, tensors)
    assert all((put[name] == tensors[name] + 1).all() for name in tensors)


def test_parts_of_a_layer_and_layers_of_a_model_inside_are_named_by_their_path(tmp_path: Path) -> None:
    inner = layer("Functional", "inner", "images", module="keras")
    inner["config"] |= functional(layer("Conv2D", "deep", "images", **CONV), output="deep")["config"] | {
        "name": "inner"
    }
    model = functional(
        inner,
        layer("Reshape", "tokens", "inner", target_shape=[36, 2]),
        layer("MultiHeadAttention", "attend", "tokens", num_heads=1, key_dim=2, dropout=0.0),
        layer("GlobalAveragePooling1D", "mean", "attend", keepdims=False),
        layer("Dense", "dense", "mean", units=3),
    )
    names = {each.key: each.source_name for each in origin_of(write(tmp_path, model)).source.parameters}
    assert names["deep/kernel"] == "inner/deep/0"
    assert names["attend/output_bias"] == "attend/output_dense/1"
    assert names["dense/bias"] == "dense/1"


def test_outputs_are_compared_where_a_layer_of_the_model_computes_them(tmp_path: Path) -> None:
    """A convolution with an activation gives the activation's output; the softmax at the end is left out."""
    places = origin_of(write(tmp_path, sequential(*SMALL))).source.places
    assert places == {"conv_relu": "conv", "drop": "drop", "flat": "flat", "dense": "dense"}
