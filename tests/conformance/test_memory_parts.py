"""Memory accounts of every real framework, compared with what is known of the network without it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, ROOT, QuickRun, varied

from runner.environments.definition import read
from runner.input_files import INPUTS
from runner.results.memory import MemoryAccount
from runner.setup import build_local_launcher
from runner.trial import MemoryWorker
from workloads.activations import activation_bytes
from workloads.catalogue import OSU_CNN
from workloads.records.build import TUNED
from workloads.records.figures import MEMORY_PARTS
from workloads.records.job import TrialSpec
from workloads.spec import OptimizerSpec

SIZES = (8, 16, 32, 64, 128)
PARAMETERS = 4 * OSU_CNN.parameter_count
IMAGE = 32 * 32 * 3 + 4  # uint8, and an int32 label


# Each counts in another way; the tests below know these.
KNOWN_WAYS = ("mxnet", "pytorch", "tensorflow")


@pytest.fixture(scope="module", params=KNOWN_WAYS)
def told(
    request: pytest.FixtureRequest, quick_run: QuickRun, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[int, MemoryAccount]]:
    """(framework, {batch size: its account}) with Adam."""
    results, cells, _ = quick_run
    folder = tmp_path_factory.mktemp("memory")
    (folder / INPUTS).symlink_to(results / INPUTS)
    spec = TrialSpec.from_json(cells[request.param, 128]["spec"])
    specs = [varied(spec, batch_size=size, optimizer=OptimizerSpec.named("adam")) for size in SIZES]
    memory = MemoryWorker(folder, specs)
    way = build_local_launcher(read(PROJECT, request.param, "cpu"), "venv")
    found = {spec.cell.batch_size: memory.gather(spec, way) for spec in specs}
    print(request.param, json.dumps(found))
    assert len(list((folder / "memory").iterdir())) == 1, "one process tells all sizes"
    return request.param, found


def test_every_part_is_told_and_what_is_counted_is_the_same_in_all_frameworks(
    told: tuple[str, dict[int, MemoryAccount]],
) -> None:
    for batch_size, found in told[1].items():
        assert set(found["parts"]) == set(MEMORY_PARTS), found
        parts = found["parts"]
        assert parts["parameters"] == parts["gradients"] == PARAMETERS
        assert parts["statistics"] == parts["dataset"] == 0
        assert parts["inputs"] == batch_size * IMAGE


def test_adams_state_is_twice_the_trainable_bytes(told: tuple[str, dict[int, MemoryAccount]]) -> None:
    scalars = 64 * len(OSU_CNN.parameter_shapes())
    for found in told[1].values():
        assert 0 <= found["parts"]["optimizer"] - 2 * PARAMETERS <= scalars


def test_what_is_in_use_between_steps_is_what_was_counted_piece_by_piece(
    told: tuple[str, dict[int, MemoryAccount]],
) -> None:
    """A part counted twice or not at all would hide in the rest, the workspace. MXNet keeps workspaces, too."""
    framework, found = told
    for batch_size in SIZES:
        counted = found[batch_size]["parts"]["parameters"] + found[batch_size]["parts"]["optimizer"]
        beyond = found[batch_size]["between_steps"] - counted
        if framework == "mxnet":
            assert found[batch_size]["parts"]["gradients"] <= beyond
        elif framework == "tensorflow":  # its allocator pads a block up to twice its size
            assert 0 <= beyond <= counted
        else:
            assert beyond == 0


@pytest.mark.parametrize("told", ["pytorch"], indirect=True)
def test_pytorchs_own_tracker_of_memory_tells_the_same_peak(told: tuple[str, dict[int, MemoryAccount]]) -> None:
    """torch.distributed._tools.mem_tracker follows every tensor independently; the adapter does not ask it."""
    _, found = told
    assert ask("pytorch", "tracked_by_pytorch.py", "128") == pytest.approx(found[128]["step_peak"], rel=0.05)


def ask(framework: str, script: str, *arguments: str) -> Any:
    """Return what a script of this folder prints in the framework's environment, as JSON in its last line."""
    interpreter = read(PROJECT, framework, "cpu").interpreter
    command = [str(interpreter), str(Path(__file__).parent / script), *arguments]
    variables = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_activations_are_the_exact_count_and_what_the_framework_is_known_to_keep(
    told: tuple[str, dict[int, MemoryAccount]],
) -> None:
    """PyTorch's are exact to the byte: the places of maxima, labels as int64, the loss and the sum of its weights."""
    framework, found = told
    for batch_size in SIZES:
        activations, exact = found[batch_size]["parts"]["activations"], activation_bytes(OSU_CNN, batch_size)
        indices = found[batch_size]["pool_indices"]
        if framework == "pytorch":
            assert activations == exact + indices + 8 * batch_size + 8
        elif framework == "mxnet":
            assert 0 <= activations - exact - indices <= 0.05 * exact
        else:  # its allocator pads a block up to twice its size
            assert exact <= activations <= 2 * (exact + found[batch_size]["parts"]["inputs"])


def test_how_the_framework_counts_is_told_with_its_counts(told: tuple[str, dict[int, MemoryAccount]]) -> None:
    framework, found = told
    assert {one["in_chunks"] for one in found.values()} == {framework == "tensorflow"}
    assert {one["runs_ahead"] for one in found.values()} == {framework == "mxnet"}


def test_parts_add_up_to_the_peak(told: tuple[str, dict[int, MemoryAccount]]) -> None:
    """MXNet runs several steps at once, so the parts of one are less than the peak: no part shows what overlaps."""
    framework, found = told
    for batch_size in SIZES[2:]:
        share = sum(part or 0 for part in found[batch_size]["parts"].values()) / found[batch_size]["peak"]
        if framework == "pytorch":
            assert share == pytest.approx(1, abs=0.01)
        elif framework == "tensorflow":
            assert share == pytest.approx(1, abs=0.3)  # the order of operations differs from step to step
        else:
            assert 0.5 <= share <= 1.05


def test_memory_that_a_tuned_graph_keeps_from_step_to_step_is_activations_all_the_same(
    quick_run: QuickRun, tmp_path: Path
) -> None:
    """MXNet's does: counted as there before the step, it left 129 bytes of 6.8 MB."""
    results, cells, _ = quick_run
    (tmp_path / INPUTS).symlink_to(results / INPUTS)
    for framework in KNOWN_WAYS:
        of_default = TrialSpec.from_json(cells[framework, 128]["spec"])
        spec = varied(of_default, framework=f"{framework}@{TUNED}", profile=TUNED, batch_size=32)
        way = build_local_launcher(read(PROJECT, framework, "cpu"), "venv")
        activations = MemoryWorker(tmp_path, [spec]).gather(spec, way)["parts"]["activations"]
        assert activations is not None and activations >= activation_bytes(OSU_CNN, 32), framework


def test_memory_of_a_cuda_graph_that_the_allocator_does_not_count_is_not_split() -> None:
    """Own code may capture its steps; no adapter does. The card is a stand-in for PyTorch's allocator."""
    found = ask("pytorch", "memory_of_graphs.py")
    assert found["shared"] is True
    said = "a CUDA graph keeps 12.0 MiB for itself: PyTorch does not count what its replays use"
    assert found["private"] == said


def test_sparse_gradients_and_unused_weights_of_own_code_are_counted_and_trained_in_parts_as_at_once() -> None:
    """A sparse gradient has a row for each use of an Embedding; what adds parts up has them all."""
    found = ask("tensorflow", "sparse_and_unused.py")
    dense, row = 4 * (4 * 3 + 3), 4 * 4  # bytes
    at_once, in_parts = found["gradients"]
    assert at_once >= dense + 4 * 64 * row  # images of 64 pixels
    assert in_parts >= (1024 * row + dense + 4 * 5) + dense + 2 * 64 * row
    assert found["apart"] < 1e-6
    assert found["unused"] == [[1.0] * 5] * 2, "not even decay moves it"


def test_keras_fit_copies_a_calls_images_once_by_itself_and_says_if_xla_plans_the_memory_of_a_step() -> None:
    """Keras chooses XLA on a card alone; counted as without it, activations were those of another step."""
    found = ask("tensorflow", "memory_of_fit.py")
    assert found["planned"] == {"traced (tf.function)": False, "XLA (jit_compile)": True}
    assert 1 <= found["copies"] < 2.5  # one is the adapter's, and one for a moment Keras' own
