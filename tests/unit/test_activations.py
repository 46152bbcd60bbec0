"""Activations that the mathematics of a network keeps for the backward pass, compared with counts by hand."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from workloads import layers
from workloads.activations import KEPT, activation_bytes, pooled_values
from workloads.catalogue import CATS_DOGS_CNN, LENET_5, MOBILENET_V3_LARGE, OSU_CNN
from workloads.layers import (
    BatchNorm,
    ChannelScale,
    ClassToken,
    Concatenate,
    Conv2D,
    Dense,
    Dropout,
    FirstToken,
    Flatten,
    Gelu,
    GlobalAveragePool2D,
    HardSigmoid,
    HardSwish,
    Layer,
    LayerNorm,
    MaxPool2D,
    MultiHeadAttention,
    Multiply,
    Normalise,
    PositionEmbedding,
    Relu,
    Sigmoid,
    Silu,
    Softmax,
    StochasticDepth,
    Tanh,
    TokenMean,
    Tokens,
    residual,
    squeeze_excite,
)
from workloads.networks import WORKLOADS
from workloads.spec import Workload

MIB = 2**20


def an_image(*of_layers: Layer, shape: tuple[int, ...] = (6, 6, 2)) -> int:
    """Bytes of one image through these layers, the logits included."""
    return activation_bytes(Workload("w", "", shape, of_layers), 1)


def test_networks_keep_what_a_hand_counts() -> None:
    by_hand = (
        32 * 32 * 3  # the rescaled images, of conv1
        + 30 * 30 * 32  # relu1 = what pool1 takes in
        + 15 * 15 * 32  # pool1 = what conv2 takes in
        + 13 * 13 * 64  # relu2 = what pool2 takes in
        + 6 * 6 * 64  # pool2 = what conv3 takes in
        + 4 * 4 * 64  # relu3 = what dense1 takes in, flat
        + 64  # relu4 = what dense2 takes in
        + 10  # the logits, of the loss
    )
    assert activation_bytes(OSU_CNN, 128) == 128 * 4 * by_hand
    assert activation_bytes(OSU_CNN, 128) / MIB == pytest.approx(26.02, abs=0.005)
    by_hand = 200 * 200 * 3 + 200 * 200 * 32 + 100 * 100 * 32 + 128 + 1
    assert activation_bytes(CATS_DOGS_CNN, 3) == 3 * 4 * by_hand
    by_hand = 32 * 32 + 28 * 28 * 6 + 14 * 14 * 6 + 10 * 10 * 16 + 5 * 5 * 16 + 120 + 84 + 10
    assert activation_bytes(LENET_5, 3) == 3 * 4 * by_hand


def test_the_places_of_the_maxima_are_those_that_frameworks_were_seen_to_keep() -> None:
    assert 8 * 128 * pooled_values(OSU_CNN) / MIB == pytest.approx(9.28, abs=0.005)  # int64, PyTorch
    assert 4 * 128 * pooled_values(OSU_CNN) / MIB == pytest.approx(4.64, abs=0.005)  # int32, MXNet
    assert pooled_values(MOBILENET_V3_LARGE) == 0


def test_every_layer_record_has_a_rule_and_one_without_is_refused() -> None:
    records = {
        record
        for _, record in inspect.getmembers(layers, inspect.isclass)
        if issubclass(record, Layer) and record not in (Layer, layers.Pool2D, layers.Join, layers.Masked)
    }
    assert set(KEPT) == records

    class Unheard(Layer):
        pass

    with pytest.raises(KeyError):
        an_image(Unheard("x"))


def test_each_layer_keeps_what_its_derivative_needs_and_no_more() -> None:
    # what no derivative needs is not kept
    alone = an_image(Conv2D("c", 3, (3, 3)), GlobalAveragePool2D("g"))
    assert alone == 4 * (72 + 3)  # neither the convolution's output nor the pool's input
    assert an_image(Conv2D("c", 3, (3, 3)), HardSwish("h"), GlobalAveragePool2D("g")) == alone + 4 * 48
    assert an_image(Conv2D("c", 3, (3, 3)), residual("s", (Relu("r"),)), GlobalAveragePool2D("g")) == alone + 4 * 48
    # a tensor that two layers need counts once
    convolution = Conv2D("c", 3, (3, 3))  # (4, 4, 3)
    kept = 4 * (72 + 48 + 48)  # the image, the ReLU's output and the logits
    assert an_image(convolution, Relu("r"), Flatten("f"), Dense("d", 48)) == kept
    assert an_image(convolution, Relu("r"), MaxPool2D("p", 4), Flatten("f"), Dense("d", 48)) == kept + 4 * 3
    # a batch norm keeps its input and two numbers a channel whatever the batch size
    workload = Workload("w", "", (6, 6, 2), (Conv2D("c", 3, (3, 3)), BatchNorm("b"), Relu("r"), Flatten("f")))
    of_one, of_ten = (activation_bytes(workload, size) for size in (1, 10))
    an_image_more, once = 4 * (72 + 48 + 48), 4 * 2 * 3
    assert (of_one, of_ten) == (an_image_more + once, 10 * an_image_more + once)
    # dropout keeps a byte for each value unless its rate is zero
    without = an_image(Flatten("f"), Dense("d", 5), shape=(1, 1, 8))
    assert an_image(Flatten("f"), Dropout("o", 0.5), Dense("d", 5), shape=(1, 1, 8)) == without + 8
    assert an_image(Flatten("f"), Dropout("o", 0.0), Dense("d", 5), shape=(1, 1, 8)) == without
    # stochastic depth keeps a byte per image
    assert an_image(Flatten("f"), StochasticDepth("o", 0.5), Dense("d", 5), shape=(1, 1, 8)) == without + 1
    assert an_image(Flatten("f"), StochasticDepth("o", 0.0), Dense("d", 5), shape=(1, 1, 8)) == without
    # a scale keeps its input and what normalises by constants nothing
    assert an_image(Conv2D("c", 3, (3, 3)), ChannelScale("s"), GlobalAveragePool2D("g")) == alone + 4 * 48
    assert an_image(Conv2D("c", 3, (3, 3)), Normalise("n", (0.0,) * 3, (1.0,) * 3), GlobalAveragePool2D("g")) == alone
    # squeeze and excite keeps both factors
    gate = (GlobalAveragePool2D("s"), Dense("d", 2), HardSigmoid("h"))
    kept = 4 * (72 + 2 + 2 + 72)  # x, what the Dense takes in, the factors, the logits
    assert an_image(squeeze_excite("e", gate), Flatten("f")) == kept
    # smooth layers keep what their slope is a function of
    for layer in (Gelu("l"), Silu("l"), Sigmoid("l"), Tanh("l"), Softmax("l")):
        assert an_image(Conv2D("c", 3, (3, 3)), layer, GlobalAveragePool2D("g")) == alone + 4 * 48
    convolution = Conv2D("d", 1, (1, 1))  # takes in what the layer makes: an output is kept already, an input is not
    kept = 4 * (72 + 48 + 16)
    for layer, more in ((Tanh("l"), 0), (Sigmoid("l"), 0), (Softmax("l"), 0), (Gelu("l"), 48), (Silu("l"), 48)):
        assert an_image(Conv2D("c", 3, (3, 3)), layer, convolution, Flatten("f")) == kept + 4 * more
    # a layer norm keeps its input and two numbers a token
    tokens = (Conv2D("c", 3, (3, 3)), Tokens("t"))  # 16 tokens of 3 features
    assert an_image(*tokens, LayerNorm("n"), TokenMean("m")) == 4 * (72 + 48 + 2 * 16 + 3)
    workload = Workload("w", "", (6, 6, 2), (*tokens, LayerNorm("n"), TokenMean("m")))
    assert activation_bytes(workload, 10) == 10 * activation_bytes(workload, 1)
    # attention keeps its input three projections the softmax of each head and what the last kernel takes in
    embedded = (Conv2D("c", 6, (3, 3)), Tokens("t"), PositionEmbedding("p"))  # 16 tokens of 6 features
    by_hand = 72 + 16 * 6 + 3 * 16 * 6 + 2 * 16 * 16 + 16 * 6 + 6
    assert an_image(*embedded, MultiHeadAttention("a", 2), TokenMean("m")) == 4 * by_hand
    assert an_image(*embedded, TokenMean("m")) == 4 * (72 + 6)  # neither the embedding's input nor its output
    # tokens with a class token are the tokens and a parameter and of the first token its head keeps one
    classified = (*embedded[:2], ClassToken("k"), MultiHeadAttention("a", 2), FirstToken("m"), Dense("d", 5))
    by_hand = 72 + 16 * 6 + 4 * 17 * 6 + 2 * 17 * 17 + 6 + 5
    assert an_image(*classified) == 4 * by_hand
    # a concatenate is its parts and what is kept of them is not kept again
    head = (Conv2D("h", 1, (1, 1)), Flatten("f"))  # keeps what enters it, and 16 logits
    stem = Conv2D("c", 3, (3, 3))
    parts = ((Relu("r"),), (Conv2D("d", 5, (1, 1)),))
    assert an_image(stem, Concatenate("j", parts), *head) == 4 * (72 + 48 + 48 + 80 + 16)  # c, r and d
    dense = Concatenate("k", ((), (Conv2D("e", 2, (1, 1)), Relu("s"))))  # DenseNet: what entered is a part
    assert an_image(stem, dense, *head) == 4 * (72 + 48 + 32 + 16)
    # a product keeps every factor
    stem, squeeze = Conv2D("c", 3, (3, 3)), (GlobalAveragePool2D("g"),)
    for branches, kept in ((((), squeeze), 48 + 3), (((Relu("r"),), (Tanh("t"),)), 2 * 48), (((), ()), 48)):
        assert an_image(stem, Multiply("m", branches), Flatten("f")) == 4 * (72 + kept + 48)


def test_twice_the_precision_is_twice_the_bytes() -> None:
    assert activation_bytes(OSU_CNN, 7, value_bytes=8) == 2 * activation_bytes(OSU_CNN, 7)


def test_activations_are_a_line_of_the_batch_size_in_every_catalogued_network() -> None:
    for workload in WORKLOADS.values():
        one, two, nine = (activation_bytes(workload, size) for size in (1, 2, 9))
        assert nine - one == 8 * (two - one) > 0
        assert activation_bytes(replace(workload, name="another"), 9) == nine
