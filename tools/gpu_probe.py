"""Make every call that the runner makes to a GPU's driver, and record a trace of the card under a known load.

python -m tools.gpu_probe OUT writes into the folder OUT, of the first card that CUDA_VISIBLE_DEVICES leaves:
- calls.json: each NVML call with its answer or error, and its time over CALLS calls;
- driver_samples.json: one answer of nvmlDeviceGetSamples as it came;
- trace.csv: rows as the stand-in for the driver reads them (tests/gpu/nvml_stand_in.c), PERIOD_S apart;
- rows.csv: the same moments with every column, and the phase of the load;
- changes.json: how often each reading changed under load, and how long after the load's start and end.
The load is PyTorch in a process of its own, by the Python of --python; without it the rows show an idle card.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from runner.machine.allotment import UnclearGpus, find_given_gpu
from runner.sampler.gpu_meter import GpuProcesses, build_quick_queries, build_slow_queries
from runner.sampler.nvml import GPM_METRICS, UNANSWERED, DriverBuffer, Gpm, describe_refusal
from workloads.command_line import CommandLine

CALLS = 20
PERIOD_S = 0.02
MIB = 2**20
# Seconds of each phase: the load computes all the time in `full`, and half of each 0.2 s in `part`.
PHASES = (("idle", 4.0), ("full", 8.0), ("idle", 5.0), ("part", 6.0), ("idle", 6.0))
LOAD = """
import sys, time, torch
duties, started = {"idle": 0.0, "full": 1.0, "part": 0.5}, time.monotonic()
held = torch.zeros(2**28, device="cuda")  # 1 GiB
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
(a @ a).sum().item()
print("ready", flush=True)
for line in sys.stdin:
    name, seconds = line.split()
    until, duty = time.monotonic() + float(seconds), duties[name]
    while (now := time.monotonic()) < until:
        if now % 0.2 < 0.2 * duty:
            b = a @ a
            torch.cuda.synchronize()
        else:
            time.sleep(0.005)
    print("done", flush=True)
"""
# Asked once, in addition to what the sampler asks: they explain a figure, or show what a newer sampler could read.
FURTHER: dict[str, Callable[[Any], Any]] = {
    "nvmlSystemGetDriverVersion": lambda _: pynvml.nvmlSystemGetDriverVersion(),
    "nvmlSystemGetNVMLVersion": lambda _: pynvml.nvmlSystemGetNVMLVersion(),
    "nvmlSystemGetCudaDriverVersion_v2": lambda _: pynvml.nvmlSystemGetCudaDriverVersion_v2(),
    "nvmlDeviceGetName": pynvml.nvmlDeviceGetName,
    "nvmlDeviceGetMemoryInfo": lambda handle: vars_of(pynvml.nvmlDeviceGetMemoryInfo(handle)),
    "nvmlDeviceGetMemoryInfo_v2": lambda h: vars_of(pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2)),
    "nvmlDeviceGetCudaComputeCapability": pynvml.nvmlDeviceGetCudaComputeCapability,
    "nvmlDeviceGetMigMode": pynvml.nvmlDeviceGetMigMode,
    "nvmlDeviceGetPersistenceMode": pynvml.nvmlDeviceGetPersistenceMode,
    "nvmlDeviceGetComputeMode": pynvml.nvmlDeviceGetComputeMode,
    "nvmlDeviceGetPowerManagementLimitConstraints": pynvml.nvmlDeviceGetPowerManagementLimitConstraints,
    "nvmlDeviceGetPowerUsage": pynvml.nvmlDeviceGetPowerUsage,
    "nvmlDeviceGetMaxClockInfo(SM)": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, pynvml.NVML_CLOCK_SM),
    "nvmlDeviceGetMaxClockInfo(MEM)": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, pynvml.NVML_CLOCK_MEM),
    "nvmlDeviceGetSupportedClocksEventReasons": lambda h: pynvml.nvmlDeviceGetSupportedClocksEventReasons(h),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": lambda h: list(
        map(vars_of, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(h))
    ),
    "nvmlDeviceGetComputeRunningProcesses_v3": lambda h: list(
        map(vars_of, pynvml.nvmlDeviceGetComputeRunningProcesses_v3(h))
    ),
    "nvmlDeviceGetProcessUtilization": lambda h: list(map(vars_of, pynvml.nvmlDeviceGetProcessUtilization(h, 0))),
    "nvmlDeviceGetAccountingMode": pynvml.nvmlDeviceGetAccountingMode,
    "nvmlDeviceGetEccMode": pynvml.nvmlDeviceGetEccMode,
    "nvmlGpmQueryDeviceSupport": lambda handle: pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice,
}


def vars_of(structure: Any) -> dict[str, Any]:
    """Return the fields of a ctypes structure that JSON can hold."""
    return {name: getattr(structure, name, None) for name, *_ in structure._fields_}


def time_calls(call: Callable[[], Any]) -> dict[str, Any]:
    """Return the answer or error of a call and its time over CALLS calls."""
    times_us, answer, refusal = [], None, None
    for _ in range(CALLS):
        started = time.perf_counter_ns()
        try:
            answer = call()
        except (*UNANSWERED, AttributeError, TypeError, ValueError) as error:
            refusal = f"{type(error).__name__}: {error}"
        times_us.append((time.perf_counter_ns() - started) / 1e3)
    first_us = times_us[0]
    times_us.sort()
    return {
        "answer": answer,
        "error": refusal,
        "first_us": round(first_us, 1),
        "median_us": round(statistics.median(times_us), 1),
        "max_us": round(times_us[-1], 1),
    }


def ask_everything(handle: Any, out: Path) -> dict[str, Any]:
    """Return {call: answer, error and times}: every query of the sampler by itself, then FURTHER."""
    answers: dict[str, Any] = {}
    for column, queries in (build_quick_queries() | build_slow_queries()).items():
        for query in queries:
            answers[f"{column}: {query.source}"] = time_calls(partial(query.ask, handle))
    for query in GpuProcesses(None).metric.queries:
        answers[f"processes: {query.source}"] = time_calls(partial(query.ask, handle))
    gpm, buffer = Gpm(1.0), DriverBuffer(out / "driver_samples.csv", 1.0)
    for name, metric in (("gpm", gpm.metric), ("driver_samples", buffer.metric)):
        metric.probe(handle)
        if metric.query is None:
            answers[name] = {"answer": None, "error": "; ".join(metric.refusals)}
            continue
        time.sleep(0.3)
        answers[f"{name}: {metric.query.source}"] = time_calls(partial(metric.query.ask, handle))
        answers[f"{name}: missing"] = metric.missing
    return answers | {name: time_calls(partial(call, handle)) for name, call in FURTHER.items()}


def read_driver_samples(handle: Any) -> list[dict[str, Any]]:
    """Return the driver's buffer of utilisation samples as it answers, with the age of each sample in s."""
    try:
        kind, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    except pynvml.NVMLError as error:
        return [{"error": describe_refusal("nvmlDeviceGetSamples", error)}]
    now_us = time.time_ns() / 1e3
    return [
        {"t_us": sample.timeStamp, "age_s": round((now_us - sample.timeStamp) / 1e6, 4), "type": kind,
         "value": sample.sampleValue.uiVal}
        for sample in samples
    ]  # fmt: skip


def read_row(handle: Any, gpm: Gpm | None) -> dict[str, Any]:
    """Return every reading at one moment; what the driver does not answer is absent."""
    row: dict[str, Any] = {}
    rates = _try(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    if rates is not None:
        row |= {"gpu_percent": rates.gpu, "memory": rates.memory}
    for column, queries in (build_quick_queries() | build_slow_queries()).items():
        for query in queries if column not in row else ():
            answer = _try(partial(query.ask, handle))
            if answer is not None:
                row |= answer
                break
    average = _try(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    if average is not None:
        row["average_power_mw"] = average
    listed = _try(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    if listed is not None:
        row |= {"processes": len(listed), "process_bytes": sum(process.usedGpuMemory or 0 for process in listed)}
    if gpm is not None:
        row |= _try(lambda: gpm.ask(handle)) or {}
    return row


def _try(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except UNANSWERED:
        return None


def start_load(python: str) -> subprocess.Popen[str] | None:
    """Start the load and wait until it has the card; None if it does not start."""
    try:
        load = subprocess.Popen([python, "-c", LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError:  # no such program
        return None
    assert load.stdout
    return load if load.stdout.readline() == "ready\n" else None


def record(handle: Any, seconds_scale: float, python: str) -> Iterator[dict[str, Any]]:
    """Yield rows over all phases of the load; without a load the card is idle in all of them."""
    gpm = Gpm(1.0)
    gpm.metric.probe(handle)
    last_gpm_s, started_s = time.monotonic(), time.monotonic()
    yield {"t_ms": 0.0, "phase": "before"} | read_row(handle, None)
    load = start_load(python)
    for phase, seconds in PHASES:
        if load:
            assert load.stdin
            load.stdin.write(f"{phase} {seconds * seconds_scale}\n")
            load.stdin.flush()
        until_s = time.monotonic() + seconds * seconds_scale
        while (now_s := time.monotonic()) < until_s:
            due = gpm.metric.query is not None and now_s - last_gpm_s >= 1.0
            last_gpm_s = now_s if due else last_gpm_s
            row = read_row(handle, gpm if due else None)
            yield {"t_ms": round((now_s - started_s) * 1e3, 2), "phase": phase if load else "idle"} | row
            time.sleep(max(0.0, now_s + PERIOD_S - time.monotonic()))
    if load:
        assert load.stdin
        load.stdin.close()
        load.wait(30)
    ended_s = time.monotonic()
    while time.monotonic() < ended_s + 3.0 * seconds_scale:
        yield {"t_ms": round((time.monotonic() - started_s) * 1e3, 2), "phase": "after"} | read_row(handle, None)
        time.sleep(PERIOD_S)


TRACED = ("gpu_percent", "memory", "device_memory_bytes", "process_bytes", "energy_mj", "power_mw", "sm_clock_mhz",
          "memory_clock_mhz", "temperature_c", "throttle_reasons")  # fmt: skip


def write_trace(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows in the stand-in's form: memory in MiB, energy from 0; a reading that is absent is 0."""
    zero_mj = next((row["energy_mj"] for row in rows if "energy_mj" in row), 0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in rows:
            values = [row.get(name, 0) for name in TRACED]
            values[2], values[3] = round(values[2] / MIB, 3), round(values[3] / MIB, 3)
            values[4] -= zero_mj if "energy_mj" in row else 0
            writer.writerow([row["t_ms"], *values])


def describe_changes(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return, for each reading, the median time between its changes, and when it moved after the load's edges."""
    edges = [
        (later["t_ms"], f"{earlier['phase']} to {later['phase']}")
        for earlier, later in itertools.pairwise(rows)
        if earlier["phase"] != later["phase"]
    ]
    found: dict[str, Any] = {"edges_ms": edges}
    for name in (*TRACED, "average_power_mw", *GPM_METRICS):
        seen = [(row["t_ms"], row[name]) for row in rows if name in row]
        changed = [at for (_, before), (at, after) in itertools.pairwise(seen) if before != after]
        gaps = sorted(later - earlier for earlier, later in itertools.pairwise(changed))
        first_after = [next((round(at - edge, 1) for at in changed if at > edge), None) for edge, _ in edges]
        found[name] = {
            "changes": len(changed),
            "median_gap_ms": round(statistics.median(gaps), 2) if gaps else None,
            "first_change_after_edge_ms": first_after,
        }
    return found


def _refuse(why: str) -> int:
    print(f"gpu_probe: {why}", file=sys.stderr)
    return 2


def main(arguments: list[str]) -> int:
    """Write everything, print what was refused, and return the exit code."""
    parser = CommandLine(prog="python -m tools.gpu_probe", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the seconds of each phase")
    parser.add_argument("--python", default=sys.executable, help="the Python with PyTorch (default: this one)")
    options = parser.parse_args(arguments)
    try:
        card = find_given_gpu()
    except UnclearGpus as error:
        return _refuse(str(error))
    if card is None:
        return _refuse("no GPU with a working driver is visible (nvidia-smi -L, CUDA_VISIBLE_DEVICES)")
    os.environ.update(CUDA_VISIBLE_DEVICES=card.uuid)  # or the load could be on another card
    options.out.mkdir(parents=True, exist_ok=True)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(card.uuid)
    answers = ask_everything(handle, options.out)
    (options.out / "calls.json").write_text(json.dumps(answers, indent=1, default=str))
    rows = list(record(handle, options.scale, options.python))
    (options.out / "driver_samples.json").write_text(json.dumps(read_driver_samples(handle), indent=0))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with (options.out / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    write_trace(options.out / "trace.csv", rows)
    (options.out / "changes.json").write_text(json.dumps(describe_changes(rows), indent=1))
    refused = {name: answer["error"] for name, answer in answers.items() if answer.get("error")}
    print(f"{len(answers) - len(refused)} of {len(answers)} calls answered, {len(rows)} rows recorded")
    for name, why in refused.items():
        print(f"refused: {name}: {why}")
    if not any(row["phase"] == "full" for row in rows):
        print(f"no load: {options.python} has no PyTorch, or none that can use the card; all rows show it idle")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
