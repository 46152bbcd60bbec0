"""python -m tools.verify_submission: what forgers can do. Each row is found, or its cell stays `claimed`."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from forged import (
    MXNET,
    PYTORCH,
    PYTORCH_64,
    Edit,
    account,
    accuracy,
    as_attempt,
    as_framework,
    attempt,
    columns,
    dropped,
    dropped_attempt,
    events,
    evidence,
    exchanged,
    faster_clock,
    figures,
    halve_power,
    halve_resident,
    list_with,
    losses,
    machine,
    not_against_the_referee,
    other_samples,
    result,
    several,
    slowed,
    thinned,
    times,
    window,
    with_built_moved,
    with_disturbed_referee,
    with_energy,
    with_honest_copy,
    with_more_calls,
    with_product,
    without,
    without_neighbours,
    without_others,
    without_referee,
    without_verdict,
)
from stored import answers, store_answers
from submitted import ON_CPU, ON_GPU, seal, unpack_trials

from reports.submitting.verification import verify_results
from workloads.records.check_name import CheckName

pytestmark = pytest.mark.slow

CLAIMED = "claimed"  # the forgery is not seen: nothing contradicts it until the cell is run again
SHARES = ("foreign_cpu_percent", "foreign_cpu_epochs_percent")
TRIALS = (MXNET, "mxnet-cpu-b00064", PYTORCH, PYTORCH_64)
RYZEN = "AMD Ryzen 9"


def is_third(row: int) -> bool:
    return row % 3 == 0


def is_kept(row: int) -> bool:
    """True for ten rows of 13."""
    return row % 13 not in (3, 7, 11)


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal(unpack_trials(ON_CPU, tmp_path_factory.mktemp("cpu"), TRIALS))


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal(unpack_trials(ON_GPU, tmp_path_factory.mktemp("gpu"), ("jax-cuda-b00032-r1",)))


@dataclass(frozen=True)
class Forgery:
    """One row: what is edited, and what is found, a part of the line, or CLAIMED. `sealed`: checksums follow."""

    edit: Edit
    found: str
    gpu: bool = False
    sealed: bool = True


FORGERIES = {
    # One file, with its checksum
    "a speed": Forgery(figures(images_per_s=times(1.3)), "images_per_s: stored"),
    "a speed and its step time": Forgery(
        figures(images_per_s=times(1.3), step_time_s=times(1 / 1.3)), "images_per_s: stored"
    ),
    "an accuracy": Forgery(figures(test_accuracy=lambda _: 0.999), "test_accuracy: stored"),
    "a resident size": Forgery(figures(host_memory_bytes=times(0.7)), "host_memory_bytes: stored"),
    "a highest resident size": Forgery(figures(host_memory_peak_bytes=times(0.7)), "host_memory_peak_bytes: stored"),
    "a part of the memory": Forgery(figures(activations_bytes=times(0.9)), "activations_bytes: stored"),
    "a CPU usage": Forgery(figures(cpu_percent=times(0.8)), "cpu_percent: stored"),
    "a window": Forgery(figures(window_s=times(2)), "window_s: stored"),
    "a start-up time": Forgery(figures(import_s=times(0.5)), "import_s: stored"),
    "a share of the product": Forgery(figures(product_share_percent=times(1.5)), "product_share_percent: stored"),
    "first losses": Forgery(result(lambda data: losses(data, 0, 1.01)), "first_losses: stored"),
    "an epoch's test loss": Forgery(
        result(lambda data: data["epochs"][-1].update(test_loss=0.01)), "epoch 9: test_loss"
    ),
    "a length": Forgery(result(lambda data: data.update(wall_s=10.0)), "wall_s: stored"),
    "a day": Forgery(result(lambda data: data.update(started_at="2026-12-24T00:00:00+00:00")), "started_at: stored"),
    "a version": Forgery(
        result(lambda data: data["facts"].update(framework_version="9.9")), "facts: framework_version"
    ),
    "a precision": Forgery(result(lambda data: data["facts"].update(tf32=True)), "facts: tf32"),
    "a verdict": Forgery(result(lambda data: data.update(checks=[])), "it is ok without that check's verdict"),
    "a contended trial called ok": Forgery(
        several(columns(cores_cpu_s=times(3)), result(lambda data: data.update(status="ok", reason=None))),
        "judged again: contended",
    ),
    "a contended trial, its neighbours nulled": Forgery(
        several(columns(cores_cpu_s=times(3)), without_others(*SHARES)), "foreign_cpu_percent: stored: null"
    ),
    "a contended trial, its neighbours left out": Forgery(
        several(columns(cores_cpu_s=times(3)), without_others(*SHARES, left_out=True)),
        "foreign_cpu_epochs_percent: stored: nothing",
    ),
    "another process on a GPU, left out": Forgery(
        several(columns(foreign_processes=lambda _: 1.0), without_others("foreign_processes", left_out=True)),
        "foreign_processes: stored: nothing",
        gpu=True,
    ),
    "an energy that no counter gave": Forgery(result(with_energy), "cpu_energy_j: cannot be recomputed"),
    "an energy per image alone": Forgery(
        result(lambda data: data["figures"]["cpu_energy_per_image_j"].update(value=0.002, reason=None)),
        "cpu_energy_per_image_j: cannot be recomputed",
    ),
    "a diverged trial called ok": Forgery(
        result(lambda data: data["figures"]["diverged_step"].update(value=3, reason=None)), "judged again: diverged"
    ),
    "an ok trial called out of memory": Forgery(
        result(lambda data: data.update(status="out_of_memory", reason="x")), "status: stored: out_of_memory"
    ),
    "a verdict, as an earlier attempt": Forgery(as_attempt, "it is ok without that check's verdict"),
    "a commit": Forgery(machine(commit="afa2864-dirty"), "uncommitted changes"),
    "energy on a GPU": Forgery(figures(energy_j=times(0.5)), "energy_j: stored", gpu=True),
    "energy per image on a GPU": Forgery(
        figures(energy_per_image_j=times(0.5)), "energy_per_image_j: stored", gpu=True
    ),
    "energy on a GPU, as read from its power": Forgery(result(halve_power), "energy_j: stored", gpu=True),
    "a GPU's power, as read": Forgery(result(halve_power), "power_w: stored", gpu=True),
    "a clock of a GPU": Forgery(figures(sm_clock_mhz=times(1.3)), "sm_clock_mhz: stored", gpu=True),
    "memory on a GPU": Forgery(
        figures(process_gpu_memory_bytes=times(0.5)), "process_gpu_memory_bytes: stored", gpu=True
    ),
    # Checksums
    "a file, without its checksum": Forgery(figures(images_per_s=times(1.3)), "result.json: changed", sealed=False),
    "no checksums": Forgery(lambda results: (results / "SHA256SUMS").unlink(), "SHA256SUMS is missing", sealed=False),
    "empty checksums": Forgery(list_with(""), "not in SHA256SUMS", sealed=False),
    # Raw files, with the result made of them again
    "images of the window": Forgery(window(images=1.2), "are expected"),
    "steps and images of the window": Forgery(window(images=1.125, steps=1.125), "each call makes the same number"),
    "twice the steps and images": Forgery(window(images=2, steps=2), "segments of epochs"),
    "two calls more": Forgery(events(with_more_calls), CLAIMED),
    "a first loss": Forgery(events(lambda event: losses(event, 0, 1.01)), "other trials of its seed"),
    "later losses": Forgery(events(lambda event: losses(event, 1, 0.9)), CLAIMED),
    "an accuracy of all epochs": Forgery(events(lambda event: accuracy(event, 5)), CLAIMED),
    "an accuracy that no images give": Forgery(events(lambda event: accuracy(event, 0.5)), "is not a whole number"),
    "events out of order": Forgery(with_built_moved, "is earlier than in the line before"),
    "a faster clock of the worker": Forgery(faster_clock(1.3, samples=True), "its last event is"),
    "a faster clock of everything": Forgery(faster_clock(1.3), "no more cores than allotted"),
    "the same, with processor time": Forgery(slowed(), "can be sampled in its time"),
    "the same, but for the epoch": Forgery(slowed(epoch=True), "the epoch in meter.json"),
    "the same, with fewer samples": Forgery(several(slowed(), thinned(kept=is_kept)), "the sampler took"),
    "the same, counted": Forgery(several(slowed(), thinned(kept=is_kept, counted=True)), CLAIMED),
    "a product of matrices": Forgery(attempt(with_product), "GFLOP/s; its device can do"),
    "thinned samples": Forgery(thinned(kept=is_third), "the sampler took"),
    "thinned samples, counted": Forgery(thinned(kept=is_third, counted=True), "the sampler's period is"),
    "samples of another trial": Forgery(other_samples, "samples.csv is the same in"),
    "less processor time": Forgery(
        columns(cpu_s=times(0.5), cores_cpu_s=times(0.5)), "of processor time, its processes"
    ),
    "neighbours hidden": Forgery(without_neighbours, CLAIMED),
    "a resident size of the worker": Forgery(events(halve_resident), "all of its processes had"),
    "memory, in one place": Forgery(account(0.5, everywhere=False), "has another account of batch size 32"),
    "memory, everywhere": Forgery(account(0.5, everywhere=True), CLAIMED),
    "a GPU's counter": Forgery(columns(energy_mj=times(0.5)), "energy by counter = integrated power", gpu=True),
    "a GPU's counter and power": Forgery(columns(energy_mj=times(0.5), power_mw=times(0.5)), CLAIMED, gpu=True),
    "more than a GPU's power limit": Forgery(
        columns(energy_mj=times(20), power_mw=times(20)), "mean power <= enforced limit", gpu=True
    ),
    "more than a GPU's memory": Forgery(columns(device_memory_bytes=times(100)), "its machine has", gpu=True),
    "a shorter trial": Forgery(
        attempt(lambda data: data["worker"].update(wall_s=10.0)), "wall_s: the trial took 10.00 s"
    ),
    "another day": Forgery(
        attempt(lambda data: data.update(started_at="2026-11-25T00:00:00+00:00")), "its sampler started"
    ),
    # Machines, frameworks, trials
    "another machine's facts": Forgery(
        attempt(lambda data: data["machine"].update(cpu_model=RYZEN)), "cpu_model differs from the other trials"
    ),
    "another maker's machine everywhere": Forgery(
        machine(cpu_model="Intel(R) Xeon(R)"), "its OpenBLAS chose code for AMD's Zen"
    ),
    "another machine everywhere": Forgery(machine(cpu_model=RYZEN), CLAIMED),
    "fewer cores everywhere": Forgery(machine(cores=1), "its machine has 1 cores"),
    "less memory everywhere": Forgery(machine(memory_bytes=2**27), "its machine has 128"),
    "a swapped framework": Forgery(
        as_framework("tensorflow"), "but its worker's packages do not include it; they include pytorch"
    ),
    "an honest copy in blocks/": Forgery(
        several(with_honest_copy, columns(cpu_s=times(0.9999)), events(with_more_calls)), "is stored 2 times"
    ),
    "exchanged results": Forgery(exchanged, "in the wrong folder"),
    "a dropped cell": Forgery(dropped(PYTORCH_64), "missing: PyTorch, batch size 64"),
    "a dropped attempt": Forgery(dropped_attempt, "an attempt is missing"),
    "a failed trial called ok": Forgery(
        several(
            attempt(lambda data: data["worker"].update(status="failed", reason="x")),
            result(lambda data: data.update(status="ok", reason=None)),
        ),
        "status: stored: ok",
    ),
    "no meter": Forgery(without("meter.json"), "not there: meter.json"),
    "no samples": Forgery(without("samples.csv"), "not there: samples.csv"),
    "evidence": Forgery(evidence(1.01, in_probe=False), "evidence: it differs from that in probes/"),
    "evidence and its probe": Forgery(evidence(1.01, in_probe=True), "judged again"),
    "the same, called compared with nothing": Forgery(
        several(evidence(1.01, in_probe=True), result(not_against_the_referee)), "judged again"
    ),
    "the same, called a matter of rounding": Forgery(
        several(evidence(1.01, in_probe=True), with_disturbed_referee), "judged again"
    ),
    "an end that failed": Forgery(
        without_verdict(CheckName.END_EVALUATION, lambda end: end["evaluation"].update(apart=0.5)),
        "judged again, it differs by",
    ),
    "a dropped verdict on an end": Forgery(
        without_verdict(CheckName.END_LOSSES, lambda end: end), "the answers are stored, and no verdict on them"
    ),
    "answers of a search": Forgery(
        lambda results: store_answers(results, answers("pytorch", 64, 9e9)), "a submission has no answers of a search"
    ),
    "no probes": Forgery(lambda results: shutil.rmtree(results / "probes"), "to judge it again with"),
    "no probes of the referee": Forgery(without_referee, "has no answer of the referee"),
}


def forge(forgery: Forgery, base: Path, into: Path) -> list[str]:
    """Return the findings in a forged copy."""
    results = shutil.copytree(base, into)
    forgery.edit(results)
    if forgery.sealed:
        seal(results)
    return verify_results(results).findings


def test_each_forgery_is_found_or_its_cell_stays_claimed(on_cpu: Path, on_gpu: Path, tmp_path: Path) -> None:
    wrong = {}
    for place, (name, forgery) in enumerate(FORGERIES.items()):
        lines = forge(forgery, on_gpu if forgery.gpu else on_cpu, tmp_path / str(place))
        if forgery.found == CLAIMED and lines:
            wrong[name] = lines[:3]
        elif forgery.found != CLAIMED and not any(forgery.found in line for line in lines):
            wrong[name] = lines[:3] or ["nothing found"]
    assert len(FORGERIES) >= 30 and not wrong, json.dumps(wrong, indent=1)
