"""The networks that come with the project: data, with only the logic that a publication repeats.

`workloads/networks.py` finds every Workload that is named here.
"""

from .convnext_tiny import CONVNEXT_TINY
from .densenet_121 import DENSENET_121
from .efficientnet_b0 import EFFICIENTNET_B0
from .resnet_50 import RESNET_50
from .studied import (
    CATS_DOGS_CNN,
    CATS_DOGS_CNN_32,
    LENET_5,
    MOBILENET_V3_LARGE,
    OSU_CNN,
    RESNET_18,
    RESNET_18_SMALL,
    TINY,
    VGG_11,
    VIT_TINY,
)

__all__ = [
    "CATS_DOGS_CNN", "CATS_DOGS_CNN_32", "CONVNEXT_TINY", "DENSENET_121", "EFFICIENTNET_B0", "LENET_5",
    "MOBILENET_V3_LARGE", "OSU_CNN", "RESNET_18", "RESNET_18_SMALL", "RESNET_50", "TINY", "VGG_11", "VIT_TINY",
]  # fmt: skip
