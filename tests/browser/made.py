"""Reports for the browser: stored trials with samples, events and logs, some of them hostile."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "reports"))

from conftest import varied
from stored import ended, store, study, trial

from reports import build, load
from reports.report import Report
from workloads.records.files import EVENTS_FILE, LOG_FILE, SAMPLES_FILE
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec
from workloads.unpacking import extract_all

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
SAMPLES_HEAD = (
    "t_ns,cpu_s,cores_cpu_s,host_memory_bytes,gpu_percent,device_memory_bytes,process_memory_bytes,foreign_processes,"
    "energy_mj,power_mw,sm_clock_mhz,memory_clock_mhz,temperature_c,throttle_reasons,power_limit_mw,sm_active_percent,"
    "sm_occupancy_percent,tensor_active_percent,dram_active_percent"
)
EPOCHS = [Epoch(1.5, 40, 1280, 2.2 / (epoch + 1), 0.1, 2.0 / (epoch + 1), 0.5 + 0.04 * epoch) for epoch in range(10)]

REAL = Path(__file__).resolve().parents[2] / "published" / "2026-11-26-amd-epyc-quick" / "results.tar.xz"
CONDITIONS: tuple[dict[str, Any], ...] = (  # one chapter each
    {},
    {"dataset": "cifar10"},
    {"optimizer": OptimizerSpec.named("adam")},
    {"threads": 1},
    {"feed": "device"},
)


def write_raw(folder: Path, log: str = "", rows: int = 100) -> None:
    """Write samples.csv at 10 Hz: one core busy from 1 s on, 100 MiB and 1 MiB more with every row; the events; the
    log."""
    lines = [SAMPLES_HEAD]
    for row in range(rows):
        busy_s = max(0.0, row / 10 - 1)
        lines.append(f"{10**12 + row * 10**8},{busy_s},{busy_s},{(100 + row) * 2**20}" + "," * 15)
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    events = [("started", 0), ("imported", 1.0), ("window_started", 5.0), ("window_ended", 9.0), ("finished", 9.5)]
    counted = {"window_ended": {"steps": 100, "images": 3200, "segments": [[10**12 + 5 * 10**9, 10**12 + 9 * 10**9]]}}
    told = [json.dumps({"event": e, "t_ns": int(10**12 + at * 10**9), **counted.get(e, {})}) for e, at in events]
    (folder / "events.jsonl").write_text("\n".join(told) + "\n")
    (folder / "log.txt").write_text(log)


def small_results(folder: Path) -> Path:
    """Store the study `quick` with two repeats, one out of memory, one with hostile reason, log and label."""
    results = [
        result for result in study(2) if (result.spec.cell.framework, result.spec.cell.batch_size) != ("mxnet", 1024)
    ]
    results += [ended(Status.OUT_OF_MEMORY, "the device has 16 GiB", "mxnet", 1024)]
    hostile = ended(Status.FAILED, EVIL, "pytorch", 4)
    machine = hostile.machine | {"framework_label": EVIL}
    results.append(replace(hostile, spec=varied(hostile.spec, framework="hostile"), machine=machine))
    return with_raw(folder, results)


def neighbours(folder: Path) -> Path:
    """Store adjacent batch sizes, two repeats, accuracies of about 70 %."""
    sizes = itertools.product(("tensorflow", "pytorch"), (100, 127, 128, 129), range(2))
    return store(folder, *(trial(*cell, workload="mlp") for cell in sizes))


def with_raw(folder: Path, results: Iterable[TrialResult]) -> Path:
    store(folder, *(with_epochs(result) for result in results))
    for path in (folder / "trials").iterdir():
        hostile = path.name.startswith("hostile")
        write_raw(path, f"{EVIL}</script>" if hostile else "step 1\nstep 2\n" if "pytorch" in path.name else "")
    return folder


def with_epochs(result: TrialResult) -> TrialResult:
    return TrialResult(**{**vars(result), "epochs": EPOCHS if result.status is Status.OK else []})


def report(folder: Path) -> Report:
    """Build the folder's report, with hostile words wherever sentences come from outside."""
    made = build.build_report([folder])
    summary = replace(made.summary, findings=(*made.summary.findings, f"A name is text: {EVIL}"))
    problems = made.problems | {EVIL: (EVIL,)}
    return replace(made, summary=summary, problems=problems, remarks=(*made.remarks, EVIL))


def many(folder: Path, count: int) -> Path:
    """Store `count` trials as large as real ones, as they are a published run's. They have five conditions, three
    frameworks, nine batch sizes, and as many repeats as it takes. No two have the same figures."""
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(REAL) as packed:
            extract_all(packed, Path(temporary))
        real = load.read(Path(temporary) / "results")
        cells = list(itertools.product(zip(real.results, real.folders, strict=True), CONDITIONS))
        for place in range(count):
            (result, raw), condition = cells[place % len(cells)]
            repeat = place // len(cells)
            spec = varied(result.spec, repeat=repeat, seed=result.spec.draw.seed + repeat, **condition)
            store(folder, wobbled(replace(result, spec=spec), 1 - (1 + math.sin(place)) / 40))
            for name in (SAMPLES_FILE, EVENTS_FILE, LOG_FILE):
                shutil.copy(raw / name, folder / "trials" / spec.id)
    return folder


def wobbled(result: TrialResult, factor: float) -> TrialResult:
    figures = {
        name: replace(figure, value=figure.value * factor if figure.value else figure.value)
        for name, figure in result.figures.items()
    }
    epochs = [
        replace(one, train_s=one.train_s * factor, test_accuracy=one.test_accuracy * factor) for one in result.epochs
    ]
    return replace(result, figures=figures, epochs=epochs)
