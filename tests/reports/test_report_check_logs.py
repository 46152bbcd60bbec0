"""python -m reports check LOGS: files without a header, in the forms that other loggers write."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_report_check import GOOD, log, nvidia_smi, printed

NUMBER_AND_TIMELESS = "no column of times but a running number: its length and gaps cannot be told"


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


def test_a_log_of_gpu_percent_and_memory_is_read_and_its_assumed_columns_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path, of_gpu([0] * 3 + [73] * 15 + [0] * 2), "Keras_CIFAR10.txt")
    _, findings, notes, last = printed(capsys, path)
    assert findings == [
        f"{path}: {NUMBER_AND_TIMELESS}",
        f"{path}: idle time included: gpu_percent is 0 in 25.0 % of 20 samples (3 leading, 2 trailing, 0 between): "
        "mean 54.75 over all, 73.00 over busy ones",
    ]
    assert notes == [
        f"{path}: no header: its first column is taken for the samples' running number, the lines name the others: "
        "gpu_percent, gpu_memory; behind the bar memory in use, for the unit is MB"
    ]
    assert last == "1 log: 1 with samples of a device: 2 found"


def test_every_gpu_of_a_line_is_a_device_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"{row}, gpu_percent:   {value}% | 7397MB   0% | 11MB\n" for row, value in enumerate(GOOD, start=1))
    path = log(tmp_path, lines, "two.txt")
    assert printed(capsys, path)[1] == [
        f"{path}, index 0: {NUMBER_AND_TIMELESS}",
        f"{path}, index 1: {NUMBER_AND_TIMELESS}",
        f"{path}, index 1: gpu_percent: all 60 values are 0",
    ]


def test_a_log_of_a_gpu_that_was_not_there_has_no_value_and_no_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path, "".join(f"{row}, gpu_percent: \n" for row in range(1, 61)), "none.txt")
    assert printed(capsys, path)[1][1:] == [f"{path}: not one value is known of gpu_percent, gpu_memory"]


def test_a_log_of_cpu_and_memory_percent_is_read_by_the_names_in_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path, of_cpu([0.0] * 6 + [57.1] * 18), "Keras.txt")
    _, findings, notes, _ = printed(capsys, path)
    assert findings[0] == f"{path}: {NUMBER_AND_TIMELESS}"
    assert findings[1].startswith(f"{path}: idle time included: cpu_percent is 0 in 25.0 % of 24 samples (6 leading")
    assert "the lines name the others: memory_percent, cpu_percent" in notes[0]


def test_numbers_that_are_not_one_after_the_other_and_rows_that_are_repeated_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = of_cpu([50.0] * 30).splitlines(keepends=True)
    twice = log(tmp_path, "".join([*lines[:20], lines[19], *lines[20:]]), "twice.txt")
    runs = log(tmp_path, "".join(lines) + of_cpu([60.0] * 30), "runs.txt")
    told = "running numbers are not one after the other: 1 of {} steps, the first before row {}: samples are missing"
    findings = printed(capsys, twice, runs)[1]
    assert findings[1] == f"{twice}: repeated: 1 rows are another one's in every column"
    assert findings[2].startswith(f"{twice}: {told.format(30, 21)}")
    assert findings[4].startswith(f"{runs}: {told.format(59, 31)}")
    assert len(findings) == 5


def test_a_good_log_of_memory_profiler_has_no_finding_and_its_gaps_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = log(tmp_path, profiled(SECONDS), "memory.txt")
    assert printed(capsys, good)[:3] == (
        0, [], [f"{good}: no header: memory in MiB and seconds since 1970 are assumed, for memory_profiler writes such "
                "lines (MEM, MiB, time)"],
    )  # fmt: skip
    gap = log(tmp_path, profiled([*SECONDS, 75.0]), "gap.txt")
    assert printed(capsys, gap)[1] == [f"{gap}: gaps: 1 over 3 periods of 1 s, the longest 16 s before row 61"]
    with_header = log(tmp_path, f"CMDLINE python train.py\n{profiled(SECONDS)}", "mprofile.dat")
    assert printed(capsys, with_header)[:3] == (0, [], [])


def test_the_log_of_another_framework_under_a_new_name_is_a_duplicate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = log(tmp_path / "IMDB", profiled(SECONDS), "Theano_IMDB.txt")
    second = log(tmp_path / "Manythings", profiled(SECONDS), "Theano_Manythings.txt")
    assert printed(capsys, tmp_path)[1] == [f"{second}: duplicate of {first}"]


def test_csv_without_a_header_is_read_by_its_units_and_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = nvidia_smi([0] * 15 + GOOD[:45]).partition("\n")[2]
    for name in ("gpu.csv", "gpu.txt"):
        path = log(tmp_path, rows, name)
        _, findings, notes, _ = printed(capsys, path)
        assert len(findings) == 1
        assert findings[0].startswith(f"{path}: idle time included: usage [%] is 0 in 25.0 % of 60 samples (15 leading")
        assert notes == [
            f"{path}: no header: by the units of its first row: column 1 as timestamp, column 3 as usage [%], column 5 "
            "as memory [MiB], column 6 as power [W]; not read: column 2, column 4"
        ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Dear diary\n", "line 1: 'Dear diary' is of no form that is known"),
        ("\n\n" + "x" * 99, f"line 3: '{'x' * 60}...' is of no form that is known"),
        (of_gpu(GOOD).replace("12, gpu_percent", "12; gpu_percent"), "line 12: '12; gpu_percent:   34% |  7397MB'"),
        (of_cpu([50.0] * 20) + "21, memory_percent: 5.1\n", "line 21: '21, memory_percent: 5.1' is of no form"),
        ("CMDLINE x\n" + profiled(SECONDS[:3]) + "CHLD 7 1.0 2.0\n", "line 5: 'CHLD 7 1.0 2.0' is of no form"),
        (profiled(SECONDS) + "Traceback\nMEM 1.0 2.0\n", "line 61: 'Traceback' is of no form that is known"),
        ("1, 2\n3, 4\n", "it has no header, and its cells have no units that say what they are: '1, 2'"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_first_line_that_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    path = log(tmp_path, text.replace("| 7397MB", "|  7397MB"), "log.txt")
    code, findings, _, last = printed(capsys, path)
    assert (code, len(findings)) == (1, 1)
    assert findings[0].startswith(f"{path}: cannot be read: {reason}")
    assert last == "1 log: 1 that cannot be read: 1 found"


def test_a_file_that_is_no_text_is_named_with_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path, of_gpu(GOOD), "log.txt")
    path.write_bytes(path.read_bytes().replace(b"\n7,", b"\n\xff7,"))
    assert printed(capsys, path)[1] == [f"{path}: cannot be read: line 7 is no text in UTF-8"]


@pytest.mark.parametrize("text", [of_gpu(GOOD) + "61, gpu_per", profiled(SECONDS) + "MEM 11"])
def test_a_last_line_that_a_kill_cut_short_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = log(tmp_path, text, "log.txt")
    assert all(NUMBER_AND_TIMELESS in line for line in printed(capsys, path)[1])


TRAINING = "Training started\n" + "".join(
    f"Epoch {epoch}, Train loss: {2.1 / epoch:.3f} and Train accuracy of 0.2, val_loss: 1.9 - val_acc: 27.9 %\n"
    for epoch in range(1, 21)
)


def test_what_a_training_program_printed_is_read_and_what_tells_nothing_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path, TRAINING, "run1_log.txt")
    assert printed(capsys, path)[:3] == (
        0, [], [f"{path}: no header: printed by a training program, figures taken by the words before them: train "
                "loss (20), train accuracy (20), validation loss (20), validation accuracy (20); 1 of 21 lines tell "
                "none, the first line 1: 'Training started'"],
    )  # fmt: skip


def test_a_training_that_diverged_stood_at_zero_or_was_begun_twice_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diverged = log(
        tmp_path, "".join(f"[{e}, 50] train loss: {'nan' if e > 7 else 0.69}\n" for e in range(1, 11)), "a.txt"
    )
    dead = log(tmp_path, "".join(f"epoch:{e:02} test_accuracy:0.0\n" for e in range(1, 11)), "b.txt")
    twice = log(tmp_path, TRAINING + TRAINING.replace("0.2,", "0.3,"), "c.txt")
    assert printed(capsys, diverged, dead, twice)[1] == [
        f"{diverged}: train loss: 3 of 10 values are not finite, the first in line 8: training diverged",
        f"{dead}: test accuracy: all 10 values are 0",
        f"{twice}: epochs fall back once, the first in line 23: more than one run in this file",
    ]
