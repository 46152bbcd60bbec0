"""The sampler's files in a trial's folder: what their columns are, and how to read them.

samples.csv is polled at 10 Hz; driver_samples.csv holds what the driver itself sampled, at times of its own. All times
are those of the monotonic clock; an empty cell is a value that the machine did not give.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PERIOD_S = 0.1

COLUMNS = (
    "t_ns",
    "cpu_s",  # user + system time of the worker's process tree, a running sum
    "cores_cpu_s",  # busy time of the cores that the worker may use, whoever used them, stolen time included; a sum
    "host_memory_bytes",  # resident size, summed over the tree
    "gpu_percent",  # share of the driver's last period (1/6 to 1 s) with a kernel resident
    "device_memory_bytes",  # in use on the device, by whomever
    "process_memory_bytes",  # of the worker's tree on the device
    "foreign_processes",  # on the device, outside the worker's tree
    "energy_mj",  # of the device since its driver was loaded, a running sum
    "power_mw",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "throttle_reasons",  # NVML's bit mask
    "power_limit_mw",
    # GPM, Hopper and newer: means over the time since the row before that has them.
    "sm_active_percent",
    "sm_occupancy_percent",
    "tensor_active_percent",
    "dram_active_percent",
    "package_energy_uj",  # of the processor's packages since the sampler's start, a running sum
)
LATER = ("package_energy_uj",)  # samples stored before do not have it
DRIVER_COLUMNS = ("t_ns", "epoch_us", "gpu_percent")  # epoch_us as the driver gave it

Samples = dict[str, NDArray[np.float64]]


def read_samples(path: Path, columns: tuple[str, ...] = COLUMNS) -> Samples:
    """Columns as float arrays, NaN where a cell is empty, or a column of LATER is not there; a last row that a kill cut
    short is left out.

    A file that is not there has no rows. Raises ValueError for a cell that is no number, KeyError for a missing column.
    """
    if not path.exists():
        return {name: np.empty(0) for name in columns}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]
    if rows and (absent := [name for name in LATER if name not in rows[0]]):
        rows = [dict.fromkeys(absent, "") | row for row in rows]
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in columns}
