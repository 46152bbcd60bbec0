"""The builder of what the runner stores, for tests: trials, blocks of steps, answers; and of what reports make of them.

Figures come from formulas, so that a test knows every cell by heart; keywords change a spec, a result or its figures.
"""

from __future__ import annotations

import csv
import io
import math
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from conftest import leaves, make_spec, varied

from reports import __main__ as program
from reports import build, export, markdown
from reports.charts import Chart, ChartSeries, Panel, SeriesKind
from reports.conditions import group_into_sections
from reports.drawing.section_charts import build_charts
from reports.report import Report
from reports.reproduction.publication import PUBLICATIONS, Article, read
from workloads.records.batch_answers import (
    ANSWERS_FILE,
    SCHEMA_VERSION,
    Answers,
    BatchAnswers,
    Best,
    Fit,
    Judged,
    Largest,
    Limit,
    Noise,
    NoisePoint,
    Ratio,
    SizePoint,
    SizeVerdict,
    Tried,
)
from workloads.records.blocks import BLOCKS_FILE, TURNS, Block, Phase
from workloads.records.build import column_of
from workloads.records.figures import Figure
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import InputFile, TrialSpec
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec

GPU = "GPU-8e0f2d6c-0000-1111-2222-333344445555"
BATCH_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
VERSIONS = {"tensorflow": "2.16.1", "pytorch": "2.13.0", "mxnet": "1.9.1"}
MACHINE: dict[str, Any] = {
    "cpu_model": "Intel(R) Xeon(R) Processor",
    "cores": 2,
    "memory_bytes": 4 * 2**30,
    "os": "Linux-6.1-x86_64",
    "libc": "glibc 2.36",
    "python": "3.11.7",
    "commit": "afa2864",
    "gpus": [],
    "load_average_before": 0.25,
}
SPEC = make_spec(
    study="quick",
    framework="pytorch",
    epochs=10,
    window_s=3.0,
    isolation="venv",
    environment="e1",
    inputs={"order": InputFile("inputs/order.npy", "00")},
)


def measured(framework: str, batch_size: int, repeat: int = 0) -> dict[str, Figure]:
    """Plausible figures that differ by framework, with one unit more per repeat."""
    rank = ("tensorflow", "pytorch", "mxnet", "numpy").index(column_of(framework).framework)
    step_s = 0.002 + 0.0002 * batch_size * (1 + 0.2 * rank)
    parts = memory_parts(batch_size, rank)
    peak = sum(parts.values())
    accuracy = 0.75 - 0.03 * abs(batch_size.bit_length() - 7) - 0.01 * rank
    return {
        "cpu_percent": Figure(60.0 + 4 * batch_size.bit_length() - 8 * rank - 5 + repeat, "sampler", 30),
        "host_memory_bytes": Figure((400.0 + 100 * rank + batch_size / 4 + repeat) * 2**20, "resident size", 30),
        "gpu_percent": Figure(20.0 + 6 * batch_size.bit_length() - 5 * rank + repeat, "NVML", 30),
        "process_gpu_memory_bytes": Figure((600.0 + 150 * rank + batch_size + repeat) * 2**20, "NVML", 3),
        "test_accuracy": Figure(accuracy + 0.01 * repeat, "worker"),
        "images_per_s": Figure(batch_size / step_s + repeat, "worker"),
        "step_time_s": Figure(step_s, "worker"),
        "window_s": Figure(6.0, "worker"),
        "import_s": Figure(1.0 + rank, "worker"),
        "first_step_s": Figure(0.1 + 0.5 * rank + batch_size / 1000, "worker"),
        "warm_up_s": Figure(0.2 + batch_size / 1000, "worker"),
        "cpu_busy_percent": Figure(61.0 + 4 * batch_size.bit_length() - 8 * rank - 5 + repeat, "sampler", 29),
        "host_memory_pss_bytes": Figure((390.0 + 100 * rank + batch_size / 4) * 2**20, "smaps_rollup"),
        "steps_peak_bytes": Figure(peak, "memory worker"),
        "allocator_peak_bytes": Figure(peak, "the framework"),
        "allocator_reserved_bytes": Figure(1.25 * peak, "the framework"),
        **{f"{name}_bytes": Figure(value, "worker") for name, value in parts.items()},
    }


def memory_parts(batch_size: int, rank: int = 0) -> dict[str, float]:
    """Bytes: 1 MiB of parameters, activations and workspace per image, more for a higher rank."""
    return {
        "parameters": 2.0**20,
        "statistics": 0.0,
        "dataset": 0.0,
        "gradients": 2.0**20,
        "optimizer": 2.0**20,
        "inputs": 3072.0 * batch_size,
        "activations": (1 + rank) * 2.0**18 * batch_size,
        "workspace": 2.0**16 * batch_size,
    }


def gpu_figures(batch_size: int, rank: int = 0, repeat: int = 0) -> dict[str, Figure]:
    """Figures that a GPU adds."""
    device = 600.0 + 150 * rank + batch_size + repeat
    return {
        "gpu_busy_percent": Figure(21.0 + 6 * batch_size.bit_length() - 5 * rank + repeat, "NVML", 29),
        "device_memory_rise_bytes": Figure((device + 20) * 2**20, "NVML"),
        "device_context_bytes": Figure(400.0 * 2**20, "NVML"),
        "power_w": Figure(150.0 + 10 * rank + batch_size / 8 + repeat, "NVML"),
        "energy_per_image_j": Figure((150.0 + batch_size / 8) / (400 + 5 * batch_size), "NVML"),
        "sm_active_percent": Figure(20.0 + 5 * batch_size.bit_length(), "GPM"),
        "tensor_active_percent": Figure(None, "GPM", reason="GPM is there from Hopper on"),
    }


def trial(framework: str = "pytorch", batch_size: int = 32, repeat: int = 0, **changes: Any) -> TrialResult:
    """An ok trial; `changes` replace fields of the spec, of the result, or figures by `figures={...}`."""
    of_spec = {name: changes.pop(name) for name in list(changes) if name in leaves(SPEC)}
    spec = varied(
        SPEC, framework=framework, batch_size=batch_size, repeat=repeat, **{"seed": of_spec.pop("seed", 0) + repeat}
    )
    facts = {
        "framework_version": VERSIONS.get(column_of(framework).framework, "2.4.6"),
        "precision": "float32",
        "intra_op_threads": 2,
        "tf32": False,
    }
    facts["packages"] = {"numpy": "1.26.4"} | ({"torch": "2.13.0"} if framework == "pytorch" else {})
    if framework == "tensorflow":
        facts["keras_version"] = "3.4.1"
    figures = measured(framework, batch_size, repeat) | changes.pop("figures", {})
    result = TrialResult(
        spec=varied(spec, **of_spec),
        status=Status.OK,
        reason=None,
        started_at="2025-11-21T10:00:00+00:00",
        wall_s=20.0,
        figures=figures,
        checks=[Check("images/s x step time = batch size", True, "32.00 images a step")],
        facts=facts,
        machine=MACHINE,
    )
    return replace(result, **changes)


def ended(status: Status, reason: str, framework: str = "pytorch", batch_size: int = 32, **changes: Any) -> TrialResult:
    """A trial that died before it could report anything."""
    return replace(trial(framework, batch_size, **changes), status=status, reason=reason, figures={}, facts={})


def on_gpu(result: TrialResult) -> TrialResult:
    spec = result.spec
    machine = MACHINE | {"gpus": [{"name": "NVIDIA H200", "uuid": GPU, "driver": "570.1"}]}
    figures = result.figures | gpu_figures(
        spec.cell.batch_size, list(VERSIONS).index(spec.cell.framework), spec.draw.repeat
    )
    facts = result.facts | {"cuda_version": "12.4", "cudnn_version": 90100, "allocator_policy": "caching"}
    return replace(result, spec=varied(spec, device=GPU), machine=machine, figures=figures, facts=facts)


def store(results: Path, *trials: TrialResult) -> Path:
    """Write them as the runner does; return `results`."""
    for result in trials:
        folder = results / "trials" / result.spec.id
        folder.mkdir(parents=True)
        write_json(folder / "result.json", result.to_json())
    return results


def study(repeats: int = 1) -> list[TrialResult]:
    """The study `quick`: three frameworks, nine batch sizes."""
    return [
        trial(framework, batch_size, repeat)
        for framework in VERSIONS
        for batch_size in BATCH_SIZES
        for repeat in range(repeats)
    ]


@dataclass(frozen=True)
class Made:
    """A report, its report.md and its text in the terminal."""

    report: Report
    markdown: str
    printed: str


def make(results: Path, out: Path, columns: bool = False) -> Made:
    """Write only the tables of a report: charts and page take most of its time and are tested apart."""
    report = build.build_report([results], columns)
    export.write(report, out, ("md", "csv"))
    return Made(report, (out / "report.md").read_text(encoding="utf-8"), markdown.format_for_terminal(report))


def report(tmp_path: Path, *trials: TrialResult) -> Path:
    """Write a report over `trials`; return its folder."""
    make(store(tmp_path, *trials), tmp_path / "report")
    return tmp_path / "report"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m reports ...` in this process: a new process would take longer than most of the work."""
    words = list(map(str, arguments))
    with redirect_stdout(_stream()) as out, redirect_stderr(_stream()) as errors:
        code = program.main(words)
    return subprocess.CompletedProcess(words, code, *(_text(stream) for stream in (out, errors)))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def rows(markdown: Path) -> dict[str, list[str]]:
    """{first cell: other cells} of a file's only table, rule left out."""
    lines = [line for line in markdown.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]
    return {first: others for first, *others in cells}


def numbers(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


USAGE = {"tensorflow": 20.0, "pytorch": 10.0, "mxnet": 30.0}
MEMORY = {"tensorflow": 600.0, "pytorch": 500.0, "mxnet": 700.0}


def published() -> tuple[Article, ...]:
    """The thesis with other figures. Chart and table of TensorFlow's usage and of MXNet's memory contradict each other
    at 1024 images; all other cells differ by the error of digitising a chart."""
    usage = {(name, size): value for name, value in USAGE.items() for size in BATCH_SIZES}
    memory = {(name, size): value for name, value in MEMORY.items() for size in BATCH_SIZES}
    values = {
        "gpu_usage_percent": {
            "table": usage,
            "chart": {cell: value + (40 if cell == ("tensorflow", 1024) else 0.1) for cell, value in usage.items()},
        },
        "gpu_memory_mib": {
            "table": memory,
            "chart": {cell: value + (-250 if cell == ("mxnet", 1024) else 10) for cell, value in memory.items()},
        },
        "accuracy_percent": {"table": {("tensorflow", size): 50.0 + size / 100 for size in BATCH_SIZES}},
    }
    osu = read(PUBLICATIONS / "osu-2020")
    metrics = tuple(replace(metric, values=values[metric.name]) for metric in osu.metrics)
    return (replace(osu, metrics=metrics, versions=dict.fromkeys(osu.versions, "9.9")),)


def charts(*trials: TrialResult) -> dict[str, Chart]:
    """{name: chart} of trials of one section."""
    found, _ = group_into_sections(trials)
    assert len(found) == 1
    return {chart.name: chart for chart in build_charts(found[0], published())}


def series(chart: Chart, label: str, panel: int = 0) -> ChartSeries:
    return next(one for one in chart.panels[panel].series if one.label == label)


def labels(chart: Chart, kind: SeriesKind) -> list[str]:
    return [one.label for panel in chart.panels for one in panel.series if one.kind is kind]


def trained(result: TrialResult, *epochs: tuple[float | None, float | None, float]) -> TrialResult:
    """Give a result epochs of (training loss, test loss, test accuracy)."""
    told = [Epoch(1.0, 45, 1437, train, 0.1, test, accuracy) for train, test, accuracy in epochs]
    return replace(result, epochs=told)


def line(
    label: str,
    x: Sequence[float],
    y: Sequence[float | None],
    key: str = "",
    kind: SeriesKind = SeriesKind.MEASURED,
    **more: Any,
) -> ChartSeries:
    return ChartSeries(label, key or label.lower(), kind, tuple(x), tuple(y), **more)


def chart(*panels: Sequence[ChartSeries], titles: Sequence[str] = (), **more: Any) -> Chart:
    """A chart with one panel for each sequence of series."""
    told: dict[str, Any] = {
        "name": "a-chart",
        "title": "Training speed, images/s",
        "x_name": "Batch size",
        "y_label": "Speed, images/s",
        "alt": "What is to be seen.",
        "caption": "Where it was measured.",
    }
    named = titles or [""] * len(panels)
    made = tuple(Panel(title, tuple(series)) for title, series in zip(named, panels, strict=True))
    return Chart(panels=made, **{**told, **more})


IMAGE_S, STEPS = 1e-4, 20
BLOCK_SPREAD = 0.01
NOTHING: Mapping[int, float] = {}


def simulated_blocks(
    generator: np.random.Generator,
    group: Sequence[int] = (127, 128, 129),
    effects: Mapping[int, float] = NOTHING,
    rounds: int = 20,
    *,
    process_spread: float = 0.003,
    drift: float = 0.0,
) -> list[Block]:
    """Simulate the blocks of one process. `effects`: logarithm of how many times as fast a size is; a process varies
    from it by `process_spread`. `drift`: logarithm by which everything slows down from the first block to the last. One
    block in thirty takes half as long again."""
    blocks = []
    own = {size: effects.get(size, 0.0) + generator.normal(0, process_spread) for size in group}
    for phase in Phase:
        for number in range(rounds):
            for place, size in enumerate(generator.permutation(group).tolist()):
                late = (number + place / len(group)) / rounds
                log = generator.normal(0, BLOCK_SPREAD) - own[size] + drift * late + 0.4 * (generator.random() < 1 / 30)
                wall_s = IMAGE_S * (1 + 20 / size) * STEPS * size * float(np.exp(log))  # a step has a fixed cost
                blocks.append(Block(phase, number, size, STEPS, wall_s, 1.0))
    return blocks


def spec_of_blocks(framework: str, group: Sequence[int], process: int, **changes: object) -> TrialSpec:
    """The spec of one process of the group."""
    usual = {"framework": framework, "batch_size": max(group, key=lambda size: size & -size), "epochs": 0}
    spec = make_spec(**usual | {"dataset": "cifar10", "repeat": process, "seed": process} | changes)
    turns = InputFile(f"inputs/{framework}-{process}.npy", f"{process:064x}")
    return replace(spec, inputs={TURNS: turns})


def store_blocks(
    results: Path, spec: TrialSpec, blocks: Sequence[Block], status: Status = Status.OK, **facts: object
) -> Path:
    """Store a trial's result and blocks as the runner does; return the folder."""
    folder = results / "blocks" / spec.id
    folder.mkdir(parents=True)
    reason = None if status is Status.OK else "made up"
    result = TrialResult(spec, status, reason, "2026-11-24T10:00:00+00:00", 9.0, facts=dict(facts), machine=MACHINE)
    write_json(folder / RESULT_FILE, result.to_json())
    write_json(folder / BLOCKS_FILE, {"blocks": [asdict(block) for block in blocks]})
    return folder


def study_of_blocks(
    results: Path,
    effects: Mapping[int, float],
    groups: Sequence[Sequence[int]] = ((127, 128, 129),),
    frameworks: Sequence[str] = ("pytorch",),
    processes: int = 6,
    **settings: float,
) -> Path:
    """Store processes of all groups and frameworks; return `results`."""
    generator = np.random.default_rng(7)
    for framework in frameworks:
        for group in groups:
            for process in range(processes):
                blocks = simulated_blocks(generator, group, effects, **settings)  # type: ignore[arg-type]
                store_blocks(results, spec_of_blocks(framework, group, process), blocks)
    return results


ANSWERED_SIZES = tuple(2**power for power in range(0, 12))
CONDITIONS: dict[str, Any] = {
    "cpu_model": "AMD EPYC",
    "optimizer": asdict(OptimizerSpec.named("momentum")),
    "limit_bytes": 2**31,
} | {"workload": "osu-cnn", "dataset": "digits", "device": "cpu", "threads": 2, "train_images": 1437}
LIMIT_BYTES = 2**31


def speed(batch_size: int, most: float) -> float:
    """Images/s: rises, and falls a little beyond 256."""
    return most * batch_size / (batch_size + 8) * (1 - 0.02 * max(0.0, math.log2(batch_size / 256)))


def fastest(batch_size: int, most: float) -> Best:
    """A fastest batch size, whose points have intervals of 2 %."""
    points = tuple(
        SizePoint(size, speed(size, most), 0.98 * speed(size, most), 1.02 * speed(size, most), 5)
        for size in ANSWERED_SIZES
    )
    ratios = (
        Ratio(batch_size, SizeVerdict.WITHIN, 0.995, 0.985, 1.005, 5),
        Ratio(2 * batch_size, SizeVerdict.BEST, 1.0, None, None, 5),
    )
    return Best(batch_size, None, points, ratios, 34)


def largest(batch_size: int) -> Largest:
    """A largest batch size with both proofs."""
    tried = tuple(
        Tried(size, fit, f"steps/a-b{size:05d}-{attempt}", 2**30)
        for attempt in (1, 2)
        for size, fit in ((batch_size, Fit.FITS), (batch_size + 1, Fit.TOO_LARGE))
    )
    folders = [trial.folder for trial in tried]
    return Largest(batch_size, None, Limit.ASKED, LIMIT_BYTES, tuple(folders[::2]), tuple(folders[1::2]), tried=tried)


def noise(scale: float) -> Noise:
    """A noise scale measured at one point, with an interval of 20 % on either side."""
    point = NoisePoint(0.0, 1.0, scale, scale, 0.8 * scale, 1.2 * scale, None, 20, 32, 640)
    return Noise((point,), scale, 0.8 * scale, 1.2 * scale)


def judged(framework: str, size: int, status: Status = Status.OK, reason: str | None = None) -> tuple[Judged, ...]:
    """An ordinary trial at that size, which ended so."""
    return (Judged(size, status, reason, f"trials/{framework}-b{size:05d}"),)


def answers(framework: str, size: int, most: float, scale: float = 900) -> Answers:
    """Answers of a framework with this fastest size and speed; its ordinary trial passed."""
    memory = tuple(SizePoint(each, 2e8 + 8e5 * each, None, None, 1) for each in ANSWERED_SIZES)
    energy = Best(None, "no energy counter: /sys/class/powercap is not there")
    trials = judged(framework, size)
    return Answers(framework, memory, largest(2311), fastest(size, most), energy, noise(scale), judged=trials)


def store_answers(results: Path, *frameworks: Answers) -> Path:
    """Store these answers; return the results folder."""
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / ANSWERS_FILE, asdict(BatchAnswers(SCHEMA_VERSION, CONDITIONS, 64, frameworks)))
    return results
