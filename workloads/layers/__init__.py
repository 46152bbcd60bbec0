"""The layer records: the name, the input and output shapes and the weights of each layer. No arithmetic.

Shapes are without the batch: an image is (h, w, c), tokens are (t, d), a vector is (n,).
"""

from .base import Initializer, Layer, Margins, Padding, Shape, image_shape, same_margins, token_shape
from .features import (
    BatchNorm,
    Dense,
    Dropout,
    Flatten,
    Gelu,
    HardSigmoid,
    HardSwish,
    LayerNorm,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Softmax,
    Tanh,
)
from .images import AveragePool2D, Conv2D, DepthwiseConv2D, GlobalAveragePool2D, MaxPool2D, Pool2D, Resize
from .joins import Add, Concatenate, Join, Multiply, changed, residual, squeeze_excite, walk
from .tokens import ATTENTION_PARTS, MultiHeadAttention, PositionEmbedding, TokenMean, Tokens

__all__ = [
    "ATTENTION_PARTS",
    "Add",
    "AveragePool2D",
    "BatchNorm",
    "Concatenate",
    "Conv2D",
    "Dense",
    "DepthwiseConv2D",
    "Dropout",
    "Flatten",
    "Gelu",
    "GlobalAveragePool2D",
    "HardSigmoid",
    "HardSwish",
    "Initializer",
    "Join",
    "Layer",
    "LayerNorm",
    "Margins",
    "MaxPool2D",
    "MultiHeadAttention",
    "Multiply",
    "Padding",
    "Pool2D",
    "PositionEmbedding",
    "Relu",
    "Relu6",
    "Resize",
    "Shape",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Tanh",
    "TokenMean",
    "Tokens",
    "changed",
    "image_shape",
    "residual",
    "same_margins",
    "squeeze_excite",
    "token_shape",
    "walk",
]
