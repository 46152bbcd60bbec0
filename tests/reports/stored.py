"""Results as the runner stores them, with figures from a formula, so that a test knows every cell by heart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from conftest import leaves, make_spec, varied

from workloads.records.build import column_of
from workloads.records.figures import Figure
from workloads.records.files import write_json
from workloads.records.job import InputFile
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status

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
