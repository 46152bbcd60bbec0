"""The columns of the sampler's files, and how often it reads: without numpy, for every worker waits for its sampler."""

from __future__ import annotations

PERIOD_S = 0.1

COLUMNS = (
    "t_ns",
    "cpu_s",  # user + system time of the worker's process tree, a running sum
    "cores_cpu_s",  # busy time of the worker's cores and their other hyperthreads, whoever used them, with stolen time
    "host_memory_bytes",  # resident size, summed over the tree
    "gpu_percent",  # share of the driver's last period (1/6 to 1 s) with a kernel resident
    "device_memory_bytes",  # in use on the device, by any process
    "process_memory_bytes",  # of the worker's tree on the device
    "foreign_processes",  # on the device, outside the worker's tree
    "energy_mj",  # of the device since its driver was loaded, a running sum
    "power_mw",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "throttle_reasons",  # NVML's bit mask
    "power_limit_mw",
    # GPM, Hopper and newer: means over the time since the previous row that has them.
    "sm_active_percent",
    "sm_occupancy_percent",
    "tensor_active_percent",
    "dram_active_percent",
    "package_energy_uj",  # of the processor's packages since the sampler's start, a running sum; anew after a reset
    "throttled_s",  # withheld by CPU quotas, summed over cores, a running sum; empty without a quota
)
LARGEST = 2.0**63  # of a cell: no count goes further, and a file with a larger one is refused
DRIVER_COLUMNS = ("t_ns", "epoch_us", "gpu_percent")  # epoch_us as the driver gave it
# Of the device's memory, at which the processes on it are listed anew: contexts take 200 MB and more; a driver itself
# shifts only a few MiB.
RISE_BYTES = 64 * 2**20
USED_MIB = 1024  # of the device's memory, in use: more than a driver keeps for itself, 615 MiB on an H200
PACKAGES_W = 8 * 600.0  # eight sockets of the largest processors: no machine's packages take more
