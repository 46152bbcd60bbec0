"""vit-tiny: data, with only the logic that its publication repeats."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload


def _encoder_block(name: str, width: int, heads: int) -> tuple[layers.Layer, ...]:
    """Return attention and a perceptron, each after a norm and with a shortcut (Dosovitskiy et al. 2021, figure 1)."""
    attention = (layers.LayerNorm(f"{name}_norm1", epsilon=1e-6), layers.MultiHeadAttention(f"{name}_attention", heads))
    perceptron = (
        layers.LayerNorm(f"{name}_norm2", epsilon=1e-6),
        layers.Dense(f"{name}_dense1", 4 * width),
        layers.Gelu(f"{name}_gelu"),
        layers.Dense(f"{name}_dense2", width),
    )
    return layers.residual(f"{name}_add1", attention), layers.residual(f"{name}_add2", perceptron)


VIT_TINY = Workload(
    name="vit-tiny",
    summary="a vision transformer for 32 x 32: patches of 4 x 4, six blocks as wide as DeiT-Tiny's, the tokens' mean",
    input_shape=(32, 32, 3),
    layers=(
        layers.Conv2D("patches", filters=192, kernel=(4, 4), stride=4),
        layers.Tokens("tokens"),
        layers.PositionEmbedding("positions"),
        *(layer for number in range(1, 7) for layer in _encoder_block(f"block{number}", width=192, heads=3)),
        layers.LayerNorm("norm", epsilon=1e-6),
        layers.TokenMean("mean"),
        layers.Dense("dense", units=10),
    ),
)
