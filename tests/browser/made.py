"""Reports for the browser: stored trials with samples, events and logs, some of them hostile."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reports"))

from stored import BATCH_SIZES, VERSIONS, ended, store, study, trial

from reports import build
from reports.report import Report
from workloads.trial import Epoch, Figure, Status, TrialResult

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
SAMPLES_HEAD = (
    "t_ns,cpu_s,cores_cpu_s,host_memory_bytes,gpu_percent,device_memory_bytes,process_memory_bytes,foreign_processes,"
    "energy_mj,power_mw,sm_clock_mhz,memory_clock_mhz,temperature_c,throttle_reasons,power_limit_mw,sm_active_percent,"
    "sm_occupancy_percent,tensor_active_percent,dram_active_percent"
)
EPOCHS = [Epoch(1.5, 40, 1280, 2.2 / (epoch + 1), 0.1, 2.0 / (epoch + 1), 0.5 + 0.04 * epoch) for epoch in range(10)]


def write_raw(folder: Path, log: str = "", rows: int = 100) -> None:
    """samples.csv at 10 Hz: one core busy from 1 s on, 100 MiB and 1 MiB more with every row; the events; the log."""
    lines = [SAMPLES_HEAD]
    for row in range(rows):
        busy_s = max(0.0, row / 10 - 1)
        lines.append(f"{10**12 + row * 10**8},{busy_s},{busy_s},{(100 + row) * 2**20}" + "," * 15)
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    events = [("started", 0), ("imported", 1.0), ("window_started", 5.0), ("window_ended", 9.0), ("finished", 9.5)]
    told = [json.dumps({"event": name, "t_ns": int(10**12 + second * 10**9)}) for name, second in events]
    (folder / "events.jsonl").write_text("\n".join(told) + "\n")
    (folder / "log.txt").write_text(log)


def small_results(folder: Path) -> Path:
    """The study `quick` with two repeats, one out of memory, one whose reason, log and framework are hostile."""
    results = [result for result in study(2) if (result.spec.framework, result.spec.batch_size) != ("mxnet", 1024)]
    results += [ended(Status.OUT_OF_MEMORY, "the device has 16 GiB", "mxnet", 1024)]
    hostile = ended(Status.FAILED, EVIL, "pytorch", 4)
    results.append(replace(hostile, spec=replace(hostile.spec, framework=EVIL.partition("</")[0])))
    return with_raw(folder, results)


def with_raw(folder: Path, results: Iterable[TrialResult]) -> Path:
    store(folder, *(with_epochs(result) for result in results))
    for path in (folder / "trials").iterdir():
        hostile = path.name.startswith("<")
        write_raw(path, f"{EVIL}</script>" if hostile else "step 1\nstep 2\n" if "pytorch" in path.name else "")
    return folder


def with_epochs(result: TrialResult) -> TrialResult:
    return TrialResult(**{**vars(result), "epochs": EPOCHS if result.status is Status.OK else []})


def report(folder: Path) -> Report:
    """That of the folder, and hostile words wherever sentences come from outside."""
    made = build.report([folder])
    summary = replace(made.summary, findings=(*made.summary.findings, f"A name is text: {EVIL}"))
    problems = made.problems | {EVIL: (EVIL,)}
    return replace(made, summary=summary, problems=problems, remarks=(*made.remarks, EVIL))


def many(folder: Path, count: int) -> Path:
    """`count` trials: three frameworks, nine batch sizes, as many repeats as it takes; no two have the same figures."""
    cells = [(framework, size) for framework in VERSIONS for size in BATCH_SIZES]
    results = []
    for place in range(count):
        framework, size = cells[place % len(cells)]
        one = trial(framework, size, place // len(cells))
        wobble = 1 + math.sin(place) / 20
        figures = {
            name: type(figure)(
                figure.value * wobble if figure.value else figure.value, figure.source, figure.samples, figure.reason
            )
            for name, figure in one.figures.items()
        }
        figures["test_accuracy"] = Figure(0.7 * wobble, "worker")  # a stored one grows with its repeat, past 1
        results.append(TrialResult(**{**vars(one), "figures": figures}))
    return with_raw(folder, results)
