"""A worker's actions around its training steps leave the process as it found it, with every framework.

Bounds are generous: threads that come and go, and a step that is interrupted a few times more, are nobody's fault.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import settings
from conftest import PROJECT
from suite import FRAMEWORKS, HERE, REFEREE, run_in, threads

Found = dict[str, dict[str, float]]

FACTOR = 1.5
# More of them than FACTOR times as many, per step, are reported. PyTorch on a fresh heap has 400 faults and more.
ALLOWED = {"threads": 0, "page_faults": 100, "context_switches": 60, "given_back_mib": 8}
# At most, once data are loaded and a network is built: nothing comes before it. Threads are counted from `open` on, and
# are as many as were allotted. At most 118 switches were seen, where threads sleep in place of spinning.
MOST = {"threads": settings.THREADS, "page_faults": 100, "context_switches": 250, "given_back_mib": 8}
OPENED, BEFORE = "open", "training"
SIZES = (4, 32, 128)
# glibc unmaps an emptied heap of a thread whatever its thresholds are: where a step ends at such a heap's edge is
# another in every process. What an adapter does wrongly is in each.
PROCESSES = 3
DISTURBING = {path.stem: path for path in sorted((HERE / "broken" / "disturbing").glob("*.py"))}
FRESH_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}  # as they are at first
REAL = [name for name in FRAMEWORKS if name != REFEREE]


def found(framework: str, module: str, folder: Path, *chosen: int | str, **variables: str) -> Found:
    out = folder / "found.json"
    variables = threads(settings.THREADS) | variables
    run_in(framework, HERE / "left_as_found.py", module, str(out), *map(str, chosen), **variables)
    told: Found = json.loads(out.read_text())
    return told


def errors_of(name: str) -> tuple[str, tuple[str, str]]:
    """(framework, what is always found): read, not imported, as its framework is not here."""
    for node in ast.parse(DISTURBING[name].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(FRAMEWORK, CAUGHT_BY)":
            framework, caught_by = ast.literal_eval(node.value)
            return framework, caught_by
    raise AssertionError(f"{DISTURBING[name]} does not say what it disturbs")


def findings(told: Found) -> list[tuple[str, str]]:
    """(the action, the count that grew)."""
    factor = {"threads": 1.0}
    more = {name: factor.get(name, FACTOR) * count + ALLOWED[name] for name, count in told[BEFORE].items()}
    bounds = dict.fromkeys(told, more) | {
        OPENED: told[OPENED],
        BEFORE: {name: most + told[OPENED].get(name, 0) for name, most in MOST.items()},
    }
    return [
        (done, name) for done, counts in told.items() for name, count in counts.items() if count > bounds[done][name]
    ]


@pytest.mark.parametrize("framework", REAL)
def test_a_step_is_as_it_was_after_all_that_a_worker_does_around_it(framework: str, tmp_path: Path) -> None:
    told = found(framework, f"adapters.{framework}.adapter", tmp_path)
    around = {"memory", "copies", "evaluation", "probe", "network", "load", "middle"}
    assert set(told) == {OPENED, BEFORE, *around}
    assert findings(told) == [], told


@pytest.mark.parametrize("name", DISTURBING)
def test_an_adapter_that_disturbs_its_own_training_is_found_by_what_it_does(name: str, tmp_path: Path) -> None:
    framework, caught_by = errors_of(name)
    told = found(framework, f"broken.disturbing.{name}", tmp_path, *dict.fromkeys((BEFORE, caught_by[0])))
    seen = findings(told)
    assert caught_by in seen and {done for done, _ in seen} == {caught_by[0]}, told


@pytest.mark.parametrize("name", MOST)
def test_a_process_that_is_disturbed_before_its_first_step_is_found(name: str) -> None:
    usual = {"threads": 5.0, "page_faults": 2, "context_switches": 117, "given_back_mib": 0}
    told = {OPENED: {"threads": 4.0}, BEFORE: usual, "middle": usual}
    assert findings(told) == []
    spoiled = usual | {name: usual[name] + MOST[name] + 1}
    assert findings(told | {BEFORE: spoiled, "middle": spoiled}) == [(BEFORE, name)], "it is as it was, from then on"


@pytest.mark.parametrize("framework", REAL)
def test_a_step_finds_its_memory_in_the_heap(framework: str, tmp_path: Path) -> None:
    told: list[Found] = []
    exceeding = set(SIZES)
    for _ in range(PROCESSES):
        told.append(found(framework, f"adapters.{framework}.adapter", tmp_path, *sorted(exceeding)))
        exceeding = {int(size) for size, counts in told[-1].items() if counts["page_faults"] > ALLOWED["page_faults"]}
        if not exceeding:
            return
    pytest.fail(f"{sorted(exceeding)}: {told}")


def test_the_benchmark_of_loops_trains_in_the_heap_of_a_trial() -> None:
    script = PROJECT.root / "tests" / "benchmarks" / "timed_loop.py"
    told = run_in("pytorch", script, str(PROJECT.root), "pytorch", "default", "float32", "32", "1", "1")
    assert json.loads(told.splitlines()[-1])["page_faults_per_step"] < ALLOWED["page_faults"], told


def test_a_heap_that_gives_its_memory_back_is_seen_in_the_page_faults_of_a_step(tmp_path: Path) -> None:
    told = found("pytorch", "adapters.pytorch.adapter", tmp_path, *SIZES[:2], **FRESH_HEAP)
    assert min(told[size]["page_faults"] for size in told) > 3 * ALLOWED["page_faults"], told


@pytest.mark.parametrize(("framework", "maker"), [("pytorch", "_tensor"), ("mxnet", "_array")])
def test_a_split_on_the_device_is_freed_before_the_next_one_is_made(framework: str, maker: str) -> None:
    """Images that are augmented are loaded before every epoch: both splits together would need twice the memory."""
    told = json.loads(run_in(framework, HERE / "loaded_twice.py", framework, maker).splitlines()[-1])
    assert told == {"made": 2, "held": []}


@pytest.mark.skipif("mxnet" not in FRAMEWORKS, reason="MXNet's engines")
@pytest.mark.parametrize(("engine", "limited"), [("ThreadedEnginePerDevice", True), ("NaiveEngine", False)])
def test_the_thread_that_copies_is_limited_to_itself_unless_it_is_the_one_that_computes(
    engine: str, limited: bool, tmp_path: Path
) -> None:
    out = tmp_path / "threads.json"
    run_in("mxnet", HERE / "copying.py", str(out), MXNET_ENGINE_TYPE=engine, OMP_NUM_THREADS="2")
    before, after = json.loads(out.read_text())
    assert before and set(before) == {2}
    assert (1 in after) is limited and (limited or after == before)
