"""Results as the runner stores them, with figures from a formula, so that a test knows every cell by heart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from conftest import make_spec

from workloads.trial import Check, Figure, InputFile, Status, TrialResult, write_json

GPU = "GPU-8e0f2d6c-0000-1111-2222-333344445555"
BATCH_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
VERSIONS = {"tensorflow": "2.16.1", "pytorch": "2.13.0", "mxnet": "1.9.1"}
MACHINE: dict[str, Any] = {
    "cpu_model": "Intel(R) Xeon(R) Processor",
    "cores": 2,
    "memory_bytes": 4 * 2**30,
    "os": "Linux-6.1-x86_64",
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
    """A plausible shape, told apart by framework, and one unit more per repeat."""
    rank = ("tensorflow", "pytorch", "mxnet", "numpy").index(framework)
    step_s = 0.002 + 0.0002 * batch_size * (1 + 0.2 * rank)
    accuracy = 0.75 - 0.03 * abs(batch_size.bit_length() - 7) - 0.01 * rank
    return {
        "cpu_percent": Figure(60.0 + 4 * batch_size.bit_length() - 8 * rank - 5 + repeat, "sampler", 30),
        "host_memory_bytes": Figure((400.0 + 100 * rank + batch_size / 4 + repeat) * 2**20, "resident size", 30),
        "gpu_percent": Figure(20.0 + 6 * batch_size.bit_length() - 5 * rank + repeat, "NVML", 30),
        "process_gpu_memory_bytes": Figure((600.0 + 150 * rank + batch_size + repeat) * 2**20, "NVML", 3),
        "test_accuracy": Figure(accuracy + 0.01 * repeat, "worker"),
        "images_per_s": Figure(batch_size / step_s + repeat, "worker"),
        "step_time_s": Figure(step_s, "worker"),
    }


def trial(framework: str = "pytorch", batch_size: int = 32, repeat: int = 0, **changes: Any) -> TrialResult:
    """An ok trial; `changes` replace fields of the spec, of the result, or figures by `figures={...}`."""
    of_spec = {name: changes.pop(name) for name in list(changes) if hasattr(SPEC, name)}
    spec = replace(
        SPEC, framework=framework, batch_size=batch_size, repeat=repeat, **{"seed": of_spec.pop("seed", 0) + repeat}
    )
    facts = {"framework_version": VERSIONS.get(framework, "2.4.6"), "precision": "float32", "intra_op_threads": 2}
    if framework == "tensorflow":
        facts["keras_version"] = "3.4.1"
    figures = measured(framework, batch_size, repeat) | changes.pop("figures", {})
    result = TrialResult(
        spec=replace(spec, **of_spec),
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
    machine = MACHINE | {"gpus": [{"name": "NVIDIA H200", "uuid": GPU, "driver": "570.1"}]}
    return replace(result, spec=replace(result.spec, device=GPU), machine=machine)


def store(results: Path, *trials: TrialResult) -> Path:
    """Write them as the runner does; returns `results`."""
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
