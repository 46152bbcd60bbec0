"""python -m reports check LOGS: lines without a header that name their figures, as other loggers write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_report_check import GOOD, log, printed

NUMBER_AND_TIMELESS = "no column of times but a running number: its length and gaps are unknown"


def of_gpu(usage: list[int], memory_mb: int = 7397) -> str:
    """A log as DLBench's logger of the GPU writes it."""
    rows = enumerate(usage, start=1)
    return "".join(f"{row}, gpu_percent:  {value:3}% | {memory_mb if value else 163:3}MB\n" for row, value in rows)


def of_cpu(usage: list[float]) -> str:
    rows = enumerate(usage, start=1)
    return "".join(f"{row}, memory_percent: {5 + row / 97}, cpu_percent: {value}\n" for row, value in rows)


def profiled(times: list[float], first: int = 1539876706) -> str:
    """A log as memory_profiler streams it."""
    return "".join(f"MEM {1109 + time % 7:.6f} {first + time:.4f}\n" for time in times)


SECONDS = [float(row) for row in range(60)]


def test_a_log_of_gpu_percent_and_memory_is_read_and_its_assumed_columns_are_named(tmp_path: Path) -> None:
    path = log(tmp_path, of_gpu([0] * 3 + [73] * 15 + [0] * 2), "Keras_CIFAR10.txt")
    _, findings, notes, last = printed(path)
    assert findings == [
        f"{path}: {NUMBER_AND_TIMELESS}",
        f"{path}: idle time included: gpu_percent is 0 in 25.0 % of 20 samples (3 leading, 2 trailing, 0 between): "
        "mean 54.75 over all, 73.00 over busy ones",
    ]
    assert notes == [f"{path}: running numbers, then the figures that each line names: gpu_percent, gpu_memory"]
    assert last == "1 log: 1 with samples of a device: 2 found"


def test_a_line_with_two_gpus_or_none_is_no_value(tmp_path: Path) -> None:
    path = log(tmp_path, of_gpu(GOOD).replace("MB", "MB   0% | 11MB"), "two.txt")
    told = "gpu_memory, row 1: '7397MB   0% | 11MB' is not a number"
    assert printed(path)[1] == [f"{path}: cannot be read: {told}"]
    path = log(tmp_path, "".join(f"{row}, gpu_percent: \n" for row in range(1, 61)), "none.txt")
    assert printed(path)[1][1:] == [f"{path}: no value is known of gpu_percent"]
    path = log(tmp_path, of_gpu(GOOD), "log.txt")
    path.write_bytes(path.read_bytes().replace(b"\n7,", b"\n\xff7,"))
    assert printed(path)[1] == [f"{path}: cannot be read: line 7 is not text in UTF-8"]


def test_a_log_of_cpu_and_memory_percent_is_read_by_the_names_in_its_lines(tmp_path: Path) -> None:
    path = log(tmp_path, of_cpu([0.0] * 6 + [57.1] * 18), "Keras.txt")
    _, findings, notes, _ = printed(path)
    assert findings[0] == f"{path}: {NUMBER_AND_TIMELESS}"
    assert findings[1].startswith(f"{path}: idle time included: cpu_percent is 0 in 25.0 % of 24 samples (6 leading")
    assert "the figures that each line names: memory_percent, cpu_percent" in notes[0]


def test_numbers_that_are_not_one_after_the_other_and_rows_that_are_repeated_are_named(tmp_path: Path) -> None:
    lines = of_cpu([50.0] * 30).splitlines(keepends=True)
    twice = log(tmp_path, "".join([*lines[:20], lines[19], *lines[20:]]), "twice.txt")
    runs = log(tmp_path, "".join(lines) + of_cpu([60.0] * 30), "runs.txt")
    told = "running numbers are not consecutive: 1 of {} steps, the first before row {}: samples are missing"
    findings = printed(twice, runs)[1]
    assert findings[1] == f"{twice}: repeated: 1 rows equal another row in every column"
    assert findings[2].startswith(f"{twice}: {told.format(30, 21)}")
    assert findings[4].startswith(f"{runs}: {told.format(59, 31)}")
    assert len(findings) == 5


def test_a_good_log_of_memory_profiler_has_no_finding_and_its_gaps_are_found(tmp_path: Path) -> None:
    good = log(tmp_path, profiled(SECONDS), "memory.txt")
    told = "lines of memory_profiler: memory in MiB, seconds since 1970"
    assert printed(good)[:3] == (0, [], [f"{good}: {told}"])
    gap = log(tmp_path, profiled([*SECONDS, 75.0]), "gap.txt")
    assert printed(gap)[1] == [f"{gap}: gaps: 1 over 3 periods of 1 s, the longest 16 s before row 61"]
    with_header = log(tmp_path, f"CMDLINE python train.py\n{profiled(SECONDS)}", "mprofile.dat")
    assert printed(with_header)[:3] == (0, [], [f"{with_header}: {told}"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Dear diary\n", "not a table: 'Dear diary'"),
        ("\n\n" + "x" * 99, f"not a table: '{'x' * 60}'"),
        (of_gpu(GOOD).replace("12, gpu_percent", "12; gpu_percent"), "gpu_percent, row 12: MB is not a unit of usage"),
        (of_cpu([50.0] * 20) + "21, memory_percent: 5.1\n", "line 21: '21, memory_percent: 5.1' does not name memory_"),
        ("CMDLINE x\n" + profiled(SECONDS[:3]) + "CHLD 7 1.0 2.0\n", "row 4 has 4 cells, the header 3"),
        (profiled(SECONDS) + "Traceback\nMEM 1.0 2.0\n", "time_s, row 61: '' is not a time"),
        ("1, 2\n3, 4\n", "it has 2 columns and no header, name them with --columns: '1, 2'"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_first_row_that_cannot(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = log(tmp_path, text, "log.txt")
    code, findings, _, last = printed(path)
    assert (code, len(findings)) == (1, 1)
    assert findings[0].startswith(f"{path}: cannot be read: {reason}")
    assert last == "1 log: 1 that cannot be read: 1 found"


@pytest.mark.parametrize("text", [of_gpu(GOOD) + "61, gpu_per", profiled(SECONDS) + "MEM 11"])
def test_a_last_line_that_a_kill_cut_short_is_left_out(tmp_path: Path, text: str) -> None:
    path = log(tmp_path, text, "log.txt")
    assert all(NUMBER_AND_TIMELESS in line for line in printed(path)[1])
