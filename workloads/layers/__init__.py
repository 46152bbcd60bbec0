"""The layer records: the name, the input and output shapes and the weights of each layer. No arithmetic.

Shapes are without the batch: an image is (h, w, c), tokens are (t, d), a vector is (n,).
"""

from .base import (
    Add,
    Concatenate,
    Initializer,
    Join,
    Layer,
    Margins,
    Multiply,
    Padding,
    Shape,
    changed,
    residual,
    same_margins,
    squeeze_excite,
    walk,
)
from .features import (
    ATTENTION_PARTS,
    BatchNorm,
    ChannelScale,
    ClassToken,
    Dense,
    Dropout,
    FirstToken,
    Flatten,
    Gelu,
    HardSigmoid,
    HardSwish,
    LayerNorm,
    Masked,
    MultiHeadAttention,
    Normalise,
    PositionEmbedding,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Softmax,
    StochasticDepth,
    Tanh,
    TokenMean,
    Tokens,
)
from .images import AveragePool2D, Conv2D, DepthwiseConv2D, GlobalAveragePool2D, MaxPool2D, Pool2D, Resize

__all__ = [
    "ATTENTION_PARTS", "Add", "AveragePool2D", "BatchNorm", "ChannelScale", "ClassToken", "Concatenate", "Conv2D",
    "Dense", "DepthwiseConv2D", "Dropout", "FirstToken", "Flatten", "Gelu", "GlobalAveragePool2D", "HardSigmoid",
    "HardSwish", "Initializer", "Join", "Layer", "LayerNorm", "Margins", "Masked", "MaxPool2D", "MultiHeadAttention",
    "Multiply", "Normalise", "Padding", "Pool2D", "PositionEmbedding", "Relu", "Relu6", "Resize", "Shape", "Sigmoid",
    "Silu", "Softmax", "StochasticDepth", "Tanh", "TokenMean", "Tokens", "changed", "residual", "same_margins",
    "squeeze_excite", "walk",
]  # fmt: skip
