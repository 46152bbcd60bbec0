from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stored
from conftest import varied
from stored import ended, make, on_gpu, store, study, trial

from reports import build, export
from reports.drawing import figures
from reports.load import ReportError, read
from workloads.records.check_name import CheckName
from workloads.records.result import Check
from workloads.records.status import Status

ROOT = Path(__file__).parents[2]


TABLES = ("--format", "md", "csv")  # charts and page are tested elsewhere


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return stored.run(*arguments, *(() if "--format" in arguments else TABLES))


def run_program(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reports", *map(str, (*arguments, *TABLES))]
    environment = os.environ | variables
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Store a result that was changed by hand; return its file."""
    result = trial("mxnet", 64)
    path = store(folder, result) / "trials" / result.spec.id / "result.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.slow
def test_the_command_prints_the_tables_and_writes_the_report_beside_the_results(tmp_path: Path) -> None:
    ran = run_program(store(tmp_path / "Ergebnisse für Ω 1", *study()), "--tables")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "| TensorFlow               | 67.0 |" in ran.stdout
    report = tmp_path / "Ergebnisse für Ω 1" / "report" / "report.md"
    assert ran.stdout.endswith(f"Report: {report.as_uri()}\n")
    assert "27 trials: 27 ok" in report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_ascii_terminal_gets_the_tables_too(tmp_path: Path) -> None:
    ran = run_program(store(tmp_path, trial(dataset="фото")), "--tables", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "osu-cnn on \\u0444\\u043e\\u0442\\u043e, CPU" in ran.stdout


def test_out_names_another_folder_and_never_that_of_the_results(tmp_path: Path) -> None:
    results = store(tmp_path / "results", trial())
    assert run(results, "--out", tmp_path / "elsewhere" / "deep").returncode == 0
    assert (tmp_path / "elsewhere" / "deep" / "report.md").is_file()
    assert [path.name for path in results.iterdir()] == ["trials"]
    ran = run(store(tmp_path / "2", trial()), "--out", tmp_path / "2")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "it holds results" in ran.stderr
    assert [path.name for path in (tmp_path / "2").iterdir()] == ["trials"]


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    empty, running, occupied = tmp_path / "empty", tmp_path / "running", tmp_path / "file"
    empty.mkdir()
    (running / "trials" / "mxnet-cpu").mkdir(parents=True)
    (tmp_path / "search" / "steps" / "pytorch-cpu-1").mkdir(parents=True)
    occupied.write_text("")
    broken = edited(tmp_path / "broken", dict.clear).parents[2]
    good = store(tmp_path / "good", trial())
    for arguments, told in [
        ((tmp_path / "absent",), "no such folder"),
        ((empty,), "no result.json found"),
        ((running,), "1 trial without a result"),
        ((tmp_path / "search",), "search: the search has no answer yet; run the same batch-size command again"),
        ((occupied,), "no such folder"),
        ((broken,), "none of the 1 results can be read"),
        ((good, "--out", occupied), "cannot be written"),
    ]:
        ran = run(*arguments)
        assert ran.returncode == 2, arguments
        assert ran.stdout == ""
        assert told in ran.stderr
        assert str(arguments[-1]) in ran.stderr
        assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data.update(schema_version=99), "schema version 99"),
        (lambda data: data.pop("wall_s"), "fields missing or unknown: 'wall_s'"),
        (lambda data: data.update(invented=1), "fields missing or unknown: 'invented'"),
        (lambda data: data.update(status="fine"), "Invalid enum value 'fine' - at `$.status`"),
        (lambda data: data["figures"]["cpu_percent"].update(value=None), "either a value or the reason"),
        (
            lambda data: data["figures"]["cpu_percent"].update(value="71"),
            "figures.cpu_percent: Expected `int | float | null`, got `str` - at `$.value`",
        ),
        (lambda data: data["figures"]["cpu_percent"].update(value=float("nan")), "NaN is not a JSON number"),
        (lambda data: data["figures"].update(cpu_percent=71), "not a trial result"),
        (
            lambda data: data["figures"]["test_accuracy"].update(value=71.0),
            "test_accuracy.value is 71.0, not from 0 to 1",
        ),
        (
            lambda data: data["figures"]["cpu_percent"].update(value=10**400),
            "1000000000000000000000000000000000000000... is too large",
        ),
        (lambda data: data["spec"]["cell"].update(batch_size=10**30), "spec.cell.batch_size is 1000"),
        (
            lambda data: data["spec"]["cell"].update(batch_size="64"),
            "Expected `int`, got `str` - at `$.spec.cell.batch_size`",
        ),
        (
            lambda data: data["spec"]["cell"].update(batch_size=True),
            "Expected `int`, got `bool` - at `$.spec.cell.batch_size`",
        ),
        (lambda data: data["spec"]["cell"].update(batch_size=0), "spec.cell.batch_size is 0"),
        (lambda data: data["spec"]["draw"].pop("seed"), "missing required field `seed` - at `$.spec.draw`"),
        (
            lambda data: data["spec"]["task"]["optimizer"].update(name="lion"),
            "Invalid enum value 'lion' - at `$.spec.task.optimizer.name`",
        ),
        (lambda data: data.update(started_at="yesterday"), "yesterday"),
        (lambda data: data.update(machine=[]), "Expected `object`, got `array` - at `$.machine`"),
        (
            lambda data: data.update(checks=[{"name": "a", "passed": 1, "detail": ""}]),
            "Expected `bool`, got `int` - at `$.checks[0].passed`",
        ),
    ],
)
def test_an_edited_result_is_named_with_its_reason_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    path = edited(store(tmp_path, trial("pytorch", 32)), change)
    assert [result.spec.cell.framework for result in read(tmp_path).results] == ["pytorch"]
    built = make(tmp_path, tmp_path / "report")
    assert len(built.report.stored.unreadable) == 1
    assert built.report.stored.unreadable[0].path == path
    assert told in built.report.stored.unreadable[0].reason
    unreadable = (tmp_path / "report" / "report.md").read_text().split("## Unreadable results, left out")[1]
    assert path.parent.name in unreadable


@pytest.mark.parametrize("content", [b"", b'{"spec": {"stu', b"[]", b"\xff\xfe", b"null"])
def test_a_truncated_result_is_named_and_the_others_go_on(tmp_path: Path, content: bytes) -> None:
    edited(store(tmp_path, trial("pytorch", 32)), lambda data: None).write_bytes(content)
    ran = run(tmp_path)
    assert ran.returncode == 0
    assert ran.stderr.count("\n") == 1
    assert "result.json: left out: " in ran.stderr
    assert "1 trial: 1 ok; 1 unreadable." in ran.stdout


def test_a_trial_folder_without_a_result_is_listed_as_unfinished(tmp_path: Path) -> None:
    folder = store(tmp_path, trial()) / "trials" / "mxnet-cpu-b00004-r0-12345678"
    folder.mkdir()
    text = make(tmp_path, tmp_path / "report").markdown
    assert "1 trial: 1 ok; 1 unfinished." in text
    assert f"- {folder}" in text.split("## Unfinished trials")[1].replace("\\", "")


def test_what_went_wrong_is_listed_with_its_reason_and_breaks_no_markdown(tmp_path: Path) -> None:
    reason = "CUDA | error:\n<script>alert(1)</script> `x` *y* __init__ out_of_memory [a](b)"
    died = ended(Status.FAILED, reason, "mxnet", 64)
    odd = replace(trial("pytorch", 4), checks=[Check("process <= device", False, "9 of 8 MiB"), Check("b", True, "c")])
    text = make(store(tmp_path, trial(), died, odd), tmp_path / "report").markdown
    escaped = "\\<script\\>alert(1)\\</script\\> \\`x\\` \\*y\\* \\_\\_init\\_\\_ out_of_memory \\[a\\](b)"
    assert f"## Trials that are not ok\n\n- {died.spec.id}: failed: CUDA \\| error: {escaped}\n" in text
    assert text.endswith(f"## Checks that failed\n\n- {odd.spec.id}: process \\<= device: 9 of 8 MiB\n")


def test_a_framework_whose_name_is_no_folders_breaks_no_table(tmp_path: Path) -> None:
    changed = varied(trial().spec, framework="a|b")
    built = make(store(tmp_path, replace(trial(), spec=changed), trial("mxnet")), tmp_path / "report")
    assert "a|b" in built.report.stored.unreadable[0].reason
    lines = (tmp_path / "report" / "usage.md").read_text().splitlines()
    assert [line.count("|") for line in lines if line.startswith("|")] == [3, 3, 3]


def test_the_page_says_on_what_and_with_what_the_numbers_were_made(tmp_path: Path) -> None:
    text = make(store(tmp_path, *(on_gpu(result) for result in study())), tmp_path / "report").markdown
    for told in (
        "optimizer SGD with momentum 0.9, learning rate 0.01; epochs 10; last batch kept; profile default; feed host",
        "device GPU, NVIDIA H200; device id GPU-8e0f2d6c",
        "processor Intel(R) Xeon(R) Processor; processor's flags not reported; cores 2; GPU driver 570.1; "
        "kernel Linux-6.1-x86_64; libc glibc 2.36; runner's code not reported",
        "; threads 2; caller's variables none set; steady window 3 s; precision float32; TF32 off; seed 0; "
        "container none; limits none",
        "TensorFlow version 2.16.1; TensorFlow CUDA 12.4; TensorFlow cuDNN 90100; ",
        "Environments and packages, by checksum: TensorFlow environment e1; TensorFlow packages ",
        'package versions under "What the workers reported"',
        "| package torch     | \N{EN DASH}            | 2.13.0    | \N{EN DASH}       |",
        "host memory 4.0 GiB; runner's Python 3.11.7; load average before a trial 0.25 to 0.25; commit afa2864",
        "Study quick; started 2025-11-21 (UTC)",
        "| keras version     | 3.4.1        | \N{EN DASH}         | \N{EN DASH}       |",
    ):
        assert told in text


def test_trials_without_machine_facts_or_figures_still_make_a_page(tmp_path: Path) -> None:
    bare = replace(trial(), machine={}, facts={})
    text = make(store(tmp_path, bare), tmp_path / "report").markdown
    assert "device CPU, model not reported" in text
    assert "precision not reported" in text
    assert "Machine:" not in text
    make(store(tmp_path / "2", ended(Status.TIMEOUT, "slow")), tmp_path / "2" / "report")
    text = (tmp_path / "2" / "report" / "usage.md").read_text()
    assert "timeout" in text
    assert "No trial gave a value." in text
    assert not list((tmp_path / "2" / "report").glob("*.png"))


def test_tables_of_an_earlier_report_do_not_outlive_it_and_other_files_do(tmp_path: Path) -> None:
    report, outside = tmp_path / "report", tmp_path / "outside.md"
    make(store(tmp_path / "two", trial(), trial(threads=1)), report)
    assert (report / "usage-2.md").exists()
    for path in (report / "notes.md", outside):
        path.write_text("kept")
    with (report / "FILES.txt").open("a") as file:
        file.write("../outside.md\n")
    make(store(tmp_path / "one", trial()), report)
    assert not (report / "usage-2.md").exists()
    assert (report / "usage.md").exists()
    assert (report / "notes.md").read_text() == outside.read_text() == "kept"
    assert sorted(path.name for path in report.iterdir()) == sorted(
        [*(report / "FILES.txt").read_text().split(), "FILES.txt", "notes.md"]
    )


def test_a_report_brings_the_rules_along_and_without_them_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make(store(tmp_path, trial()), tmp_path / "report").markdown
    assert text.count("[RULES.md](RULES.md)") == 1
    assert (tmp_path / "report" / "RULES.md").read_bytes() == (ROOT / "RULES.md").read_bytes()
    monkeypatch.setattr(export, "RULES", tmp_path / "RULES.md")
    with pytest.raises(ReportError, match=r"RULES\.md: cannot be read: No such file"):
        make(store(tmp_path / "without", trial()), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_the_usual_formats_have_the_page_and_every_chart(tmp_path: Path) -> None:
    ran = run(store(tmp_path, *study()), "--format", *export.USUAL)
    report = tmp_path / "report"
    assert ran.stdout.endswith(f"Report: {(report / 'report.html').as_uri()}\n")
    for name in ("usage", "memory", "accuracy", "speed"):
        assert (report / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (report / f"{name}.svg").is_file()
        assert f"]({name}.png)" in (report / "report.md").read_text(encoding="utf-8")


def test_slow_libraries_are_not_imported_before_they_are_needed() -> None:
    code = "import sys, reports.__main__; sys.exit(bool({'matplotlib', 'scipy', 'jinja2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_folder_that_a_run_still_writes_into_is_reported_as_such(tmp_path: Path) -> None:
    results = store(tmp_path, trial())
    holds = "import sys, filelock\nwith filelock.FileLock(sys.argv[1]):\n print('held', flush=True)\n input()"
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(results / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None and run.stdout.readline() == "held\n"
        while_held = make(results, tmp_path / "report")
        run.communicate("\n")
    assert "1 trial: 1 ok; a run is still writing." in while_held.markdown
    assert f"- {tmp_path}\n" in while_held.markdown.split("## Still being written")[1].replace("\\", "")
    afterwards = make(results, tmp_path / "report").markdown
    assert "a run is still writing" not in afterwards and "## Still being written" not in afterwards


@pytest.mark.slow
def test_the_run_that_asks_for_its_report_is_not_called_unfinished(tmp_path: Path) -> None:
    results = store(tmp_path, trial())
    asks = (
        "import subprocess, sys, filelock\nwith filelock.FileLock(sys.argv[1] + '/.lock'):\n"
        " subprocess.run([sys.executable, '-m', 'reports', sys.argv[1], '--format', 'csv'], check=True)"
    )
    ran = subprocess.run([sys.executable, "-c", asks, str(results)], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "1 trial: 1 ok. Started" in ran.stdout


def test_half_a_character_in_a_result_does_not_end_the_report(tmp_path: Path) -> None:
    died = ended(Status.FAILED, "x", "mxnet", 64)
    path = store(tmp_path, trial(), died) / "trials" / died.spec.id / "result.json"
    path.write_text(path.read_text().replace('"reason": "x"', '"reason": "\\ud800 \\ud83d\\ude00"'))
    ran = run(tmp_path, "--format", "md", "csv", "json", "parquet", "latex")
    assert ran.returncode == 0, ran.stderr
    assert "failed: ? \N{GRINNING FACE}" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")


def killed(*arguments: object) -> None:
    os.kill(os.getpid(), 9)


def test_a_killed_drawing_process_does_not_leave_the_report_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw", killed)
    report = build.build_report([store(tmp_path, trial())])
    with pytest.raises(ReportError, match="was killed"):
        export.write(report, tmp_path / "report", ("png",))


@pytest.mark.parametrize("asked_s", [0.5, 5.0])
def test_a_short_window_is_a_failed_check_where_a_longer_one_was_asked_for(asked_s: float, tmp_path: Path) -> None:
    short = trial(checks=[Check(CheckName.LONG_ENOUGH, False, "0.50 s")], window_s=asked_s)
    problems = build.build_report([store(tmp_path, short)]).problems
    if asked_s < 5:
        assert problems == {"Steady windows shorter than 5 s, as the study asks": (f"{short.spec.id}: 0.50 s",)}
    else:
        assert problems == {"Checks that failed": (f"{short.spec.id}: {CheckName.LONG_ENOUGH}: 0.50 s",)}
