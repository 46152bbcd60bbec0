"""A small study of each framework is whole, correct and reports its conditions on other machines than this one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import machines
import pytest
from conftest import QuickRun, by_cell
from copied import add_framework, copy_project, report_in, run_in
from machines import (
    HEAD,
    PROCESSORS,
    SMALL,
    Machine,
    bare_place,
    busy_neighbours,
    narrow_place,
    other_python,
    rows,
    without_shm,
)
from tabulate import tabulate

from workloads.records.check_name import CheckName
from workloads.records.status import Status

BARE, NARROW = 0, 2  # indices in PROCESSORS


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Machine, Path], machines.Run]]:
    """`machines.run`; at the end, the table of all its runs is printed."""
    made = []

    def run(place: Machine, folder: Path) -> machines.Run:
        made.append(machines.run(place, folder))
        return made[-1]

    yield run
    table = tabulate([row for one in made for row in rows(one)], HEAD, tablefmt="github", disable_numparse=True)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{table}")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """(Python 3.12 with what the runner needs, why there is none)."""
    return other_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def shm() -> tuple[tuple[str, ...], str]:
    return without_shm()


@pytest.fixture(scope="module")
def on(
    run: Callable[[Machine, Path], machines.Run],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Callable[[int], machines.Run]:
    """The run on one of PROCESSORS, or on this one where that is not available, made when it is first asked for. Two of
    them differ from this machine in more than the processor."""

    @cache
    def made(place: int) -> machines.Run:
        folder = tmp_path_factory.mktemp("machine")
        machine = PROCESSORS[place] if machines.has_avx2() else Machine("this processor")
        if place == BARE:
            (python, _), (prefix, _) = request.getfixturevalue("python"), request.getfixturevalue("shm")
            machine = bare_place(folder, machine, python or sys.executable, prefix)
        elif place == NARROW:
            machine = narrow_place(folder, machine)
        return run(machine, folder)

    return made


@pytest.fixture(scope="module")
def bare(on: Callable[[int], machines.Run]) -> machines.Run:
    return on(BARE)


@pytest.fixture(scope="module")
def narrow(on: Callable[[int], machines.Run]) -> machines.Run:
    return on(NARROW)


def assert_whole(made: machines.Run) -> None:
    assert made.code == 0, made.printed
    assert sorted(framework for framework, _ in made.cells) == sorted(made.machine.frameworks)
    for result in made.cells.values():
        verdict = next(check for check in result["checks"] if check["name"] == CheckName.GATE)
        assert (result["status"], verdict["passed"]) == ("ok", True), (result["reason"], verdict)
        assert verdict["detail"].startswith("compared with the referee"), verdict
        assert result["figures"]["images_per_s"]["value"] > 0
    assert "report" in made.printed


def test_every_framework_says_which_code_its_libraries_chose_for_the_processor_as_it_is(quick_run: QuickRun) -> None:
    _, cells, _ = quick_run
    for (framework, _), result in cells.items():
        facts = result["facts"]
        assert facts["onednn"] in (True, False), framework
        assert bool(facts["onednn_isa"]) != bool(facts.get("onednn_isa_reason")), framework
        assert result["spec"]["placement"]["variables"] == {}
    assert cells["pytorch", 128]["facts"]["cpu_capability"]
    assert cells["mxnet", 128]["facts"]["openblas_core"]


others = pytest.mark.parametrize("place", range(len(PROCESSORS)), ids=[place.name for place in PROCESSORS])


@pytest.fixture
def made(on: Callable[[int], machines.Run], place: int) -> machines.Run:
    if not machines.has_avx2():
        pytest.skip("this processor has no AVX2 that could be forbidden")
    return on(place)


@others
def test_every_framework_computes_the_same_on_another_processor(made: machines.Run) -> None:
    assert_whole(made)


@others
def test_a_trial_says_which_code_its_framework_ran_on_another_processor(made: machines.Run) -> None:
    for (framework, _), result in made.cells.items():
        expected = made.machine.kernels[framework]
        assert {name: result["facts"].get(name) for name in expected} == expected, framework
        assert result["spec"]["placement"]["variables"] == made.machine.forced
        if made.machine.flags:
            assert result["machine"]["cpu_flags"] == list(made.machine.flags)


def test_every_framework_runs_on_one_core_without_a_home_in_the_locale_c_below_a_path_with_umlauts(
    narrow: machines.Run,
) -> None:
    assert_whole(narrow)
    for result in narrow.cells.values():
        assert (
            result["machine"]["cores"]
            == result["spec"]["placement"]["threads"]
            == result["facts"]["intra_op_threads"]
            == 1
        )
    workers = narrow.of("adapters.worker")
    assert len(workers) >= 3
    for seen in (*workers, *narrow.of("runner"), *narrow.of("reports")):
        assert seen["cores"] == 1
        assert seen["home"] == narrow.machine.variables["HOME"]
        assert seen["locale"] == ["C", "C"]
    assert all(any("Größe mit Leerzeichen" in word for word in seen["arguments"]) for seen in workers)


def test_every_framework_runs_with_its_temporary_files_elsewhere(bare: machines.Run) -> None:
    assert_whole(bare)
    elsewhere = Path(bare.machine.variables["TMPDIR"])
    assert all(seen["temporary"] == str(elsewhere) for seen in bare.of("runner"))
    own = [Path(seen["temporary"]) for seen in bare.of("adapters.worker")]
    assert own and all(folder.parent == elsewhere for folder in own), "a folder of its own, which ends with the worker"
    assert len(set(own)) == len(own) and not any(folder.exists() for folder in own)


def test_every_framework_runs_without_shared_memory_to_speak_of(
    bare: machines.Run, shm: tuple[tuple[str, ...], str]
) -> None:
    if not shm[0]:
        pytest.skip(f"no /dev/shm of its own for a test here: {shm[1]}")
    assert_whole(bare)
    assert {seen["shm_bytes"] for seen in bare.seen} == {64 * 1024}


def test_the_runner_runs_by_python_3_12(bare: machines.Run, python: tuple[str, str]) -> None:
    if not python[0]:
        pytest.skip(python[1])
    assert_whole(bare)
    assert {seen["python"] for seen in (*bare.of("runner"), *bare.of("runner.sampler"), *bare.of("reports"))} == {
        "3.12"
    }
    assert all(result["machine"]["python"].startswith("3.12.") for result in bare.cells.values())


def test_a_trial_beside_busy_neighbours_keeps_what_they_cannot_change_and_is_no_failure(tmp_path: Path) -> None:
    project, results = copy_project(tmp_path / "project"), tmp_path / "results"
    report_in(project, "md")
    add_framework(tmp_path / "adapters", "again")  # the referee, judged as any framework
    with busy_neighbours():
        done = run_in(project, *SMALL, "--framework", "again", "--adapters", tmp_path / "adapters", "--isolation",
                      "here", "--results", results)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = by_cell(results).values()
    assert result["status"] in (Status.OK, Status.CONTENDED), result["reason"]
    (epoch,) = result["epochs"]
    assert epoch["train_loss"] > 0 and epoch["test_loss"] > 0
    figures = {name: figure["value"] for name, figure in result["figures"].items()}
    assert figures["test_accuracy"] == epoch["test_accuracy"] > 0
    assert figures["host_memory_peak_bytes"] > 2**20 and figures["parameters_bytes"] == 1640
    (verdict,) = [check for check in result["checks"] if check["name"] == CheckName.GATE]
    assert verdict["passed"] and verdict["detail"].startswith("compared with the referee")
    report = (results / "report" / "report.md").read_text(encoding="utf-8")
    withheld = "1 of 1 trial contended: figures that this may have changed are withheld: speed, "
    assert (withheld in done.stdout) == (result["status"] == Status.CONTENDED)
    assert f"{100 * epoch['test_accuracy']:.2f} %" in report and "MiB, peak resident size" in report
