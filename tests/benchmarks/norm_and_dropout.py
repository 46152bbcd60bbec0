"""A small network with BatchNorm, dropout of two rates and a residual, for measure_false_alarms.py."""

from workloads.layers import BatchNorm, Conv2D, Dense, Dropout, GlobalAveragePool2D, Relu, residual
from workloads.spec import Workload

inner = (
    Conv2D("inner", 8, (3, 3), 1, "same", bias=False, initializer="he-normal"),
    BatchNorm("inner_norm", momentum=0.9),
    Relu("inner_relu"),
    Dropout("inner_dropout", rate=0.2),
)
NORM_AND_DROPOUT = Workload(
    name="norm-and-dropout",
    summary="one residual block with BatchNorm and dropout",
    input_shape=(32, 32, 3),
    layers=(
        Conv2D("stem", 8, (3, 3), 2, "same", bias=False, initializer="he-normal"),
        BatchNorm("stem_norm", momentum=0.9),
        Relu("stem_relu"),
        residual("block", inner, ()),
        GlobalAveragePool2D("pool"),
        Dense("hidden", units=32),
        Relu("hidden_relu"),
        Dropout("dropout", rate=0.5),
        Dense("dense", units=10),
    ),
)
