"""ConvNeXt-Tiny (Liu et al. 2022), as torchvision defines it."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))  # channels, blocks
EPSILON = 1e-6  # of every LayerNorm
LAYER_SCALE = 1e-6  # that every ChannelScale starts at
DEPTH_RATE = 0.1  # that the rate of the stochastic depth rises to, block by block


def _block(name: str, channels: int, rate: float) -> layers.Add:
    """Return a depthwise convolution and a perceptron for each pixel, scaled, and dropped at `rate`."""
    return layers.residual(
        f"{name}_add",
        (
            layers.DepthwiseConv2D(f"{name}_depthwise", (7, 7), padding=(3, 3, 3, 3)),
            layers.LayerNorm(f"{name}_norm", epsilon=EPSILON),
            layers.Conv2D(f"{name}_expand", 4 * channels, (1, 1)),
            layers.Gelu(f"{name}_gelu"),
            layers.Conv2D(f"{name}_project", channels, (1, 1)),
            layers.ChannelScale(f"{name}_scale", LAYER_SCALE),
            layers.StochasticDepth(f"{name}_depth", rate),
        ),
    )


def build_layers(classes: int) -> tuple[layers.Layer, ...]:
    """Return the layers, with a head for so many classes."""
    chain: tuple[layers.Layer, ...] = (
        layers.Conv2D("stem", STAGES[0][0], (4, 4), stride=4),
        layers.LayerNorm("stem_norm", epsilon=EPSILON),
    )
    before, total = 0, sum(blocks for _, blocks in STAGES)
    for stage, (channels, blocks) in enumerate(STAGES, start=1):
        if stage > 1:
            chain += (
                layers.LayerNorm(f"stage{stage}_norm", epsilon=EPSILON),
                layers.Conv2D(f"stage{stage}_down", channels, (2, 2), stride=2),
            )
        for number in range(1, blocks + 1):
            chain += (_block(f"stage{stage}_block{number}", channels, DEPTH_RATE * before / (total - 1)),)
            before += 1
    return (
        *chain,
        layers.GlobalAveragePool2D("pool"),
        layers.LayerNorm("last_norm", epsilon=EPSILON),
        layers.Dense("dense", classes),
    )


CONVNEXT_TINY = Workload(
    name="convnext-tiny",
    summary="ConvNeXt-Tiny (Liu et al. 2022) as in torchvision, for ten classes at 64 x 64",
    input_shape=(64, 64, 3),
    layers=build_layers(classes=10),
    differs="kernels start glorot-uniform, torchvision's N(0, 0.02^2)",
)
