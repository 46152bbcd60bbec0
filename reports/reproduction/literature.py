"""The published figures that results are held against, from sources/*.csv; where they come from: its README.md.

The thesis's numbers are there twice, as a table and as a chart that was digitised. Both are carried.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pandas as pd

FOLDER = Path(__file__).parent / "sources"
COLUMNS = ["series", "framework", "framework_version", "metric", "batch_size", "value"]
TABLE, CHART = "table", "chart"
SOURCE = (
    "Published: J. Yin, M.S. thesis, The Ohio State University, 2020 (OhioLINK osu1587693436870594), as carried by "
    "A. Lheureux, 2022"
)
HARDWARE, GPU, EPOCHS = "NVIDIA GTX 1060, Intel i7-8650U", "GTX 1060", 10
WORKLOAD, DATASET = "osu-cnn", "cifar10"  # of the best evidence; the thesis names neither

# The chart was read to about this; the same cell of table and chart may differ by twice as much. The largest difference
# taken for agreement is 0.1 point and 9.9 MiB, the smallest contradiction 4.7 points and 273 MiB.
DIGITISED_TO = {"gpu_usage_percent": 0.1, "gpu_memory_mib": 10.0}
TOLERANCE = {metric: 2 * error for metric, error in DIGITISED_TO.items()}

Place = tuple[str, int]  # (framework's key, batch size)


@cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv", dtype={"framework_version": str})


def published() -> pd.DataFrame:
    """COLUMNS of osu-2020: `framework` as it is displayed, `value` in the unit that `metric` ends with."""
    return _read("osu-2020").copy()


def calibration() -> pd.DataFrame:
    """optimizer, learning_rate, momentum (NaN: has none), batch_size, run, accuracy_percent: a row a run."""
    return _read("osu-2020-calibration").copy()


@cache
def values(series: str, metric: str) -> Mapping[Place, float]:
    """{(framework, batch size): value}; empty where the series has no such metric."""
    found = _read("osu-2020")
    found = found[(found["series"] == series) & (found["metric"] == metric)]
    places = zip(found["framework"].str.lower(), found["batch_size"].astype(int), strict=True)
    return MappingProxyType(dict(zip(places, found["value"].astype(float), strict=True)))


@cache
def versions() -> Mapping[str, str]:
    """{framework: its version}."""
    found = _read("osu-2020").drop_duplicates("framework")
    return MappingProxyType(dict(zip(found["framework"].str.lower(), found["framework_version"], strict=True)))


def contradicted(metric: str) -> set[Place]:
    """Where table and chart differ by more than TOLERANCE."""
    table, chart = values(TABLE, metric), values(CHART, metric)
    return {place for place in table.keys() & chart.keys() if abs(table[place] - chart[place]) > TOLERANCE[metric]}
