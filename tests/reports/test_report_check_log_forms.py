"""python -m reports check LOGS: columns, units and forms of the logs that people have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from each import for_each
from stored import run
from test_report_check import GOOD, found, log, nvidia_smi, plain, printed

from reports.checking import log_columns


def figures(*arguments: object) -> dict[str, str]:
    """{device: its figures} as the command prints them."""
    notes = [line for line in run("check", *arguments).stdout.splitlines() if ": figures: " in line]
    return dict(line.removeprefix("note: ").split(": figures: ") for line in notes)


def table(header: str, *columns: Sequence[object], separator: str = ",") -> str:
    rows = (separator.join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join([header, *rows]) + "\n"


def times(count: int = 60) -> list[str]:
    return [f"{row}.0" for row in range(count)]


# 33: a usage is a numeric column, a device column is never one


@pytest.mark.parametrize(
    "column",
    ["gpu_index", "gpu_id", "index", "gpu_uuid", "uuid", "gpu_model", "gpu_name", "cpu_model", "device", "name", "gpu",
     "GPU", "Device ID", "pci.bus_id", "hostname"],
)  # fmt: skip
def test_a_column_that_numbers_or_names_the_device_splits_the_log_and_is_no_usage(tmp_path: Path, column: str) -> None:
    both = [value for row, usage in enumerate(GOOD) for value in ((row, "0", usage), (row, "1", 0))]
    names = {"0": "card-a", "1": "card-b"} if column not in ("gpu_index", "gpu", "GPU", "index") else {"0": 0, "1": 1}
    text = table(f"time,{column},gpu_util", *zip(*((t, names[d], u) for t, d, u in both), strict=True))
    path = log(tmp_path, text)
    assert found(path) == (1, [f"{path}, {column} {names['1']}: gpu_util: all 60 values are 0"])


def test_a_device_beside_its_number_or_a_bare_column_gpu_is_told_apart(tmp_path: Path) -> None:
    rows = [(t, d, f"Tesla {d // 2}", GOOD[t]) for t in range(60) for d in range(4)]
    path = log(tmp_path, table("timestamp, index, name, utilization.gpu [%]", *zip(*rows, strict=True)))
    assert list(figures(path)) == [f"{path}, index {device}" for device in range(4)]
    usage = log(tmp_path, plain("time,gpu", list(map(float, times())), GOOD), "usage.csv")
    powers = [(t, d, 100 + d) for t in range(60) for d in range(2)]
    cards = log(tmp_path, table("time,gpu,power_w", *zip(*powers, strict=True)), "cards.csv")
    told = figures(usage, cards)
    assert "gpu: mean 32.90 %" in told[str(usage)]
    assert [f"{cards}, gpu 0", f"{cards}, gpu 1"] == list(told)[1:]


def test_what_is_named_like_a_quantity_and_is_none_is_left_out(tmp_path: Path) -> None:
    # columns of names are no quantity
    path = log(tmp_path, table("time,gpu_usage_policy,gpu_util", times(), ["shared"] * 60, GOOD))
    assert found(path) == (0, [])
    # the clock of memory is no memory in use
    path = log(tmp_path, table("time,clocks.current.memory [MHz],gpu_util", times(), [405] * 30 + [7001] * 30, GOOD))
    assert "clocks.current.memory [MHz]: 405 to 7001 MHz, 1 jumps of 100 MHz or more" in figures(path)[str(path)]
    # a usage in a unit of something else is no usage
    path = log(tmp_path, table("time,gpu_usage_mb,gpu_util", times(), [512] * 60, GOOD))
    assert found(path) == (0, [])
    assert "gpu_usage_mb" not in figures(path)[str(path)]
    path = log(tmp_path, table("time,gpu_usage", times(), ["50 %", *["512 MB"] * 59]))
    told = "gpu_usage, row 2: MB is not a unit of usage; known units: %, ratio"
    assert found(path) == (1, [f"{path}: cannot be read: {told}"])
    # a number within a word for an unknown value is no value
    path = log(tmp_path, table("time,power.draw [W],gpu_util", times(), ["[Unknown Error 15]", *["25 W"] * 59], GOOD))
    assert "power.draw [W]: mean 25.00 W" in figures(path)[str(path)]


# 34: physical bounds


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("gpu_util", [256] * 60,
         "60 of 60 values are outside 0 to 100 %, the first 256 % in row 1: is this another unit (a sum over several "
         "devices)?"),
        ("gpu_util", [*GOOD[:59], -1],
         "1 of 60 values are outside 0 to 100 %, the first -1 % in row 60: is this another unit?"),
        ("gpu_util", [0.25, 0.75] * 30, "no value is above 0.75 %: is this another unit (ratio: at most 75 %)?"),
        ("power_w", [23341] * 60,
         "60 of 60 values are outside 0 to 2000 W, the first 23341 W in row 1: is this another unit (mW: at most "
         "23.3 W)?"),
        ("power", [0.25, 0.35] * 30, "no value is above 0.35 W: is this another unit (kW: at most 350 W)?"),
        ("gpu_memory_used", [8_000_000_000] * 60,
         "60 of 60 values are outside 0 to 400000 MiB, the first 8e+09 MiB in row 1: is this another unit (bytes: at "
         "most 7.63e+03 MiB)?"),
        ("memory.used [MiB]", [8_000_000] * 60,
         "60 of 60 values are outside 0 to 400000 MiB, the first 8e+06 MiB in row 1: is this another unit (KiB: at "
         "most 7.81e+03 MiB)?"),
        ("temperature.gpu", [340] * 60,
         "60 of 60 values are outside 0 to 125 °C, the first 340 °C in row 1: is this another unit (K, °F)?"),
        ("sm_clock", [1_980_000] * 60,
         "60 of 60 values are outside 0 to 20000 MHz, the first 1.98e+06 MHz in row 1: is this another unit (kHz: at "
         "most 1.98e+03 MHz)?"),
        ("clock", [1.98, 1.41] * 30, "no value is above 1.98 MHz: is this another unit (GHz: at most 1.98e+03 MHz)?"),
    ],
)  # fmt: skip
def test_values_that_no_device_has_are_named_with_the_unit_that_they_may_be_in(
    tmp_path: Path, column: str, values: list[float], told: str
) -> None:
    path = log(tmp_path, table(f"time,{column}", times(), values))
    assert found(path) == (1, [f"{path}: impossible: {column}: {told}"])


def test_more_memory_than_the_card_has_is_impossible_and_the_hosts_is_not_bounded_by_it(tmp_path: Path) -> None:
    text = table("time,memory.used [MiB],memory.total [MiB]", times(), [*[900] * 59, 8200], ["8192 MiB"] * 60)
    told = "1 of 60 values are outside 0 to 8192 MiB, the first 8200 MiB in row 60: is this another unit?"
    path = log(tmp_path, text)
    assert found(path) == (1, [f"{path}: impossible: memory.used [MiB]: {told}"])
    header = "time,ram_used_mb,vram_used_mb,vram_total_mb,gpu_util"
    path = log(tmp_path, table(header, times(), [30000] * 60, [900] * 59 + [8200], [8192] * 60, GOOD))
    code, (told,) = found(path)
    assert code == 1 and "vram_used_mb: 1 of 60 values are outside 0 to 8192 MB" in told


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("GPU Core Load [%]", GOOD, "GPU Core Load [%]: mean 32.90 %"),
        ("power_mw", [23341] * 60, "power_mw: mean 23341.00 mW, over time 23341.00 mW, at most 23341 mW, 1377.1 J"),
        ("power.draw [W]", ["23341 mW", "25 W"] * 30, "at most 25000 mW, 1425.2 J"),
        ("memory_bytes", [8 * 2**30] * 60, "memory_bytes: 8.58993e+09 to 8.58993e+09 bytes"),
        ("memoryAllocated [%]", [88.5] * 60, "memoryAllocated [%]: 88.5 to 88.5 %"),
        ("process cpu_percent", [780] * 60, "process cpu_percent: mean 780.00 %"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.5, 0.25] * 30, "DCGM_FI_PROF_GR_ENGINE_ACTIVE: mean 0.38 ratio"),
    ],
)
def test_values_in_the_unit_that_their_cells_or_column_name_are_possible(
    tmp_path: Path, column: str, values: list[object], told: str
) -> None:
    path = log(tmp_path, table(f"time,{column}", times(), values))
    assert found(path) == (0, [])
    assert told in figures(path)[str(path)]


@pytest.mark.parametrize("column", ["vram_usage_mb", "GPU VRAM (MB)", "RAM usage (GB)", "ram_used_gb"])
def test_memory_that_is_named_ram_is_memory_and_no_usage(tmp_path: Path, column: str) -> None:
    unit = column.rstrip(")")[-2:].upper()
    path = log(tmp_path, table(f"time,{column},gpu_util", times(), [512] * 60, GOOD))
    assert found(path) == (0, [])
    assert f"{column}: 512 to 512 {unit}" in figures(path)[str(path)]


@for_each(
    "column, kind",
    [
        ("attempt", ""), ("attempts", ""), ("wallclock", ""), ("wall_clock", ""), ("total_power_w", "power"),
        ("gtemp", "temperature"), ("gpuTempC", "temperature"), ("temperature.gpu", "temperature"),
        ("memory.total [MiB]", ""), ("total_vram_mb", ""), ("fb_total", ""), ("smclock", "clock"),
        ("clocks.current.sm [MHz]", "clock"), ("total_gpu_util", "usage"), ("program", ""), ("gpu_usage_w", ""),
    ],
)  # fmt: skip
def test_a_word_within_another_word_does_not_make_a_kind(column: str, kind: str) -> None:
    assert log_columns.find_kind(column) == kind


# 35: forms


DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb   mclk   pclk
# Idx      W      C      C      %      %      %      %     MB    MHz    MHz
"""


def dmon(stamp: str = "", head: str = DMON) -> str:
    """A log as nvidia-smi dmon writes it: with its header again every 20 rows."""
    text = ""
    for row, usage in enumerate(GOOD):
        text += head if row % 20 == 0 else ""
        time = stamp.format(row)
        text += f"{time}    0     62     41      -    {usage:3}      7      0      0   1234   1215   1410\n"
        text += f"{time}    1     25     30      -      0      0      0      0      2    405    210\n"
    return text


DMON_FIGURES = "sm [%]: mean 32.90 %, at 0 in 0.0 % of them, at 100 in 0.0 % of them; fb [MB]: 1234 to 1234 MB"


def test_what_nvidia_smi_dmon_prints_is_read_card_by_card(tmp_path: Path) -> None:
    path = log(tmp_path, dmon(), "dmon.log")
    told = figures(path)
    assert list(told) == [f"{path}, gpu 0", f"{path}, gpu 1"]
    assert DMON_FIGURES in told[f"{path}, gpu 0"] and "pwr [W]: mean 62.00 W" in told[f"{path}, gpu 0"]
    _, findings, _, _ = printed(path)
    assert [line for line in findings if "gpu 1" in line][1:] == [f"{path}, gpu 1: sm [%]: all 60 values are 0"]


def test_the_times_of_nvidia_smi_dmon_are_read_with_their_date_or_across_midnight(tmp_path: Path) -> None:
    dated = "#Date       Time     " + DMON[1:].replace("\n#", "\n#YYYYMMDD   HH:MM:SS ")
    path = log(tmp_path, dmon(" 20260401   10:00:{:02}", dated), "dated.txt")
    assert figures(path)[f"{path}, gpu 0"].startswith("60 samples in 59.000 s, period 1.000 s")
    hours = "#Time     " + DMON[1:].replace("\n#", "\n#HH:MM:SS ")
    text = dmon(" 10:00:{:02}", hours)
    for second in range(60):
        text = text.replace(
            f" 10:00:{second:02}", f" {23 * (second < 30):02}:{59 * (second < 30):02}:{(second + 30) % 60:02}"
        )
    path = log(tmp_path, text, "midnight.txt")
    assert figures(path)[f"{path}, gpu 0"].startswith("60 samples in 59.000 s, period 1.000 s")


def test_nvidia_smi_dmon_as_csv_and_pmon_with_processes_are_read(tmp_path: Path) -> None:
    rows = "".join(f"0, 62, 41, -, {usage}, 7\n" for usage in GOOD)
    path = log(tmp_path, "#gpu, pwr, gtemp, mtemp, sm, mem\n#Idx, W, C, C, %, %\n" + rows, "dmon.csv")
    assert "sm [%]: mean 32.90 %" in figures(path)[str(path)]
    head = "# gpu         pid   type     sm    mem    enc    dec    command\n"
    head += "# Idx           #    C/G      %      %      %      %    name\n"
    rows = "".join(f"    0       4242     C     {usage}     20      -      -    python3 train.py\n" for usage in GOOD)
    path = log(tmp_path, head + rows, "pmon.txt")
    assert "sm [%]: mean 32.90 %" in figures(path)[str(path)]


def test_what_dcgmi_dmon_prints_is_read(tmp_path: Path) -> None:
    head = "#Entity   GPUTL  MCUTL  POWER   TOTEC   FBUSD  TMPTR  SMCLK\nID                      W       mJ\n"
    row = "GPU {}     {}     7      62.5    {}   1234   41     1410\n"
    rows = "".join(row.format(0, usage, 900 * n) + row.format(1, 50, 900 * n) for n, usage in enumerate(GOOD))
    told = figures(path := log(tmp_path, head + rows, "dcgm.txt"))
    assert list(told) == [f"{path}, Entity GPU-0", f"{path}, Entity GPU-1"]
    assert "GPUTL: mean 32.90 %" in told[f"{path}, Entity GPU-0"]
    for part in ("POWER: mean 62.50 W", "TOTEC: 0 to 53100 mJ", "FBUSD: 1234 to 1234 MiB", "TMPTR: 41 to 41 °C"):
        assert part in told[f"{path}, Entity GPU-0"]


def test_the_columns_of_weights_and_biases_are_told_apart_by_card(tmp_path: Path) -> None:
    for dot in ("system.", "system/"):
        names = [f"{dot}gpu.{card}.{name}" for card in (0, 1)
                 for name in ("gpu", "memory", "memoryAllocated", "memoryAllocatedBytes", "temp", "powerWatts",
                              "powerPercent", "enforcedPowerLimitWatts")]  # fmt: skip
        header = ",".join(["_runtime", "_timestamp", "_step", *names, f"{dot}cpu", f"{dot}memory", f"{dot}disk"])
        one = ",".join(map(str, [5, 88.5, 12 * 2**30, 60, 250, 62.5, 400]))
        rows = [f"{row * 15.0},{1.7e9 + row * 15},,{usage},{one},0,{one},9.5,31,77" for row, usage in enumerate(GOOD)]
        path = log(tmp_path, header + "\n" + "\n".join(rows) + "\n", "wandb.csv")
        told = figures(path)
        assert list(told) == [f"{path}, device 0", f"{path}, device 1", str(path)]
        assert told[f"{path}, device 0"].startswith("60 samples in 885.000 s, period 15.000 s")
        assert f"{dot}gpu.0.gpu: mean 32.90 %, over time 32.90 %" in told[f"{path}, device 0"]
        assert f"{dot}gpu.0.powerWatts: mean 250.00 W" in told[f"{path}, device 0"]
        assert f"{dot}gpu.0.memory:" not in told[f"{path}, device 0"]  # the share of time with a memory access
        assert f"{dot}cpu: mean 9.50 %" in told[str(path)]
        assert found(path) == (1, [f"{path}, device 1: {dot}gpu.1.gpu: all 60 values are 0"])


def test_the_columns_of_dcgm_are_known(tmp_path: Path) -> None:
    names = ("GPU_UTIL", "MEM_COPY_UTIL", "POWER_USAGE", "FB_USED", "FB_FREE", "GPU_TEMP", "SM_CLOCK",
             "TOTAL_ENERGY_CONSUMPTION", "ENC_UTIL")  # fmt: skip
    text = table(",".join(["timestamp", "gpu", *(f"DCGM_FI_DEV_{name}" for name in names)]), range(60), [0] * 60, GOOD,
                 [7] * 60, [62.5] * 60, [1234] * 60, [9000] * 60, [41] * 60, [1410] * 60, range(0, 3_750_000, 62_500),
                 [0] * 60)  # fmt: skip
    path = log(tmp_path, text)
    assert found(path) == (0, [])
    told = figures(path)[str(path)]
    assert "GPU_UTIL: mean 32.90 %" in told and "POWER_USAGE: mean 62.50 W" in told
    assert "FB_USED: 1234 to 1234 MiB" in told and "CONSUMPTION: 0 to 3.6875e+06 mJ" in told


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_a_log_in_any_unicode_with_a_byte_order_mark_is_the_same_log(tmp_path: Path, encoding: str) -> None:
    path = log(tmp_path, "")
    path.write_bytes(nvidia_smi(GOOD).replace("\n", "\r\n").encode(encoding))
    assert found(path) == (0, [])
    other = log(tmp_path, nvidia_smi(GOOD), "other.csv")
    assert found(path, other) == (1, [f"{other}: duplicate of {path}"])


def test_utf_16_that_a_kill_cut_short_or_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = log(tmp_path, "")
    whole = nvidia_smi(GOOD).encode("utf-16")
    path.write_bytes(whole + "2020/05".encode("utf-16-le")[:-1])
    assert found(path) == (0, [])
    path.write_bytes(whole + b"\x00\xd8\x00\xd8" * 3)
    assert found(path) == (1, [f"{path}: cannot be read: line 62 is not text in UTF-16"])


def test_a_header_before_each_row_is_no_row(tmp_path: Path) -> None:
    head, *rows = nvidia_smi(GOOD).splitlines()
    repeated = log(tmp_path, "".join(f"{head}\n{row}\n" for row in rows), "repeated.csv")
    assert found(repeated) == (0, [])
    once = log(tmp_path, nvidia_smi(GOOD), "once.csv")
    told = figures(repeated, once)
    assert told[str(repeated)] == told[str(once)]


NAMELESS = table("", [1_785_951_483 + 5 * row for row in range(60)], GOOD, [72.5] * 60, [73543] * 60, separator=", ")[
    1:
]


def test_columns_without_a_header_are_as_the_option_names_them(tmp_path: Path) -> None:
    path = log(tmp_path, NAMELESS, "gpu_stats.log")
    assert found(path) == (1, [
        f"{path}: cannot be read: it has 4 columns and no header, name them with --columns: "
        "'1785951483, 30, 72.5, 73543'"])  # fmt: skip
    told = figures(path, "--columns", "time,gpu_percent,power_w,memory_mib")[str(path)]
    assert told.startswith("60 samples in 295.000 s, period 5.000 s, the longest 5.000 s; gpu_percent: mean 32.90 %")
    assert "power_w: mean 72.50 W" in told and "memory_mib: 73543 to 73543 MiB" in told
    told_less = run("check", path, "--columns", "time,gpu_percent").stdout
    assert "it has 4 columns and no header, --columns names 2" in told_less
    spaced = log(tmp_path, NAMELESS.replace(",", ""), "spaced.txt")
    assert figures(spaced, "--columns", "time,gpu_percent,power_w,memory_mib")[str(spaced)] == told


@pytest.mark.parametrize("columns", ["", "a,b", "time,gpu,gpu", "time,,gpu"])
def test_columns_that_cannot_be_are_bad_input(tmp_path: Path, columns: str) -> None:
    ran = run("check", log(tmp_path, NAMELESS), "--columns", columns)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"--columns {columns}: " in ran.stderr


def test_a_row_without_a_header_that_names_its_card_is_no_header(tmp_path: Path) -> None:
    header, _, rows = nvidia_smi(GOOD).partition("\n")
    path = log(tmp_path, rows.replace(", 0, ", ", Tesla V100S, "))
    assert "utilization.gpu [%]: mean 32.90 %" in figures(path, "--columns", header)[str(path)]


def _semicolons(text: str) -> str:
    return text.replace(", ", ";").replace("30.12", "30,12")


def _tabs(text: str) -> str:
    return text.replace(", ", "\t").replace("30.12", "30,12")


def _quoted(text: str) -> str:
    return text.replace("30.12 W", '"30,12 W"')


@pytest.mark.parametrize("change", [_semicolons, _tabs, _quoted])
def test_semicolons_tabs_and_decimal_commas_are_read(tmp_path: Path, change: Callable[[str], str]) -> None:
    path = log(tmp_path, change(nvidia_smi(GOOD)))
    assert "power.draw [W]: mean 30.12 W" in figures(path)[str(path)]
    assert found(path) == (0, [])


def test_a_comma_that_may_part_thousands_is_not_guessed_and_of_two_lines_the_first_is_read(tmp_path: Path) -> None:
    path = log(tmp_path, nvidia_smi(GOOD).replace("30.12 W", '"1,024 W"'))
    assert found(path) == (1, [f"{path}: cannot be read: power.draw [W], row 1: '1,024 W' is not a number"])
    path = log(tmp_path, nvidia_smi(GOOD).replace("30.12 W", '"30.12\n99"'))
    assert printed(path)[1:3] == (
        [], [f"{path}: power.draw [W]: 60 cells have several lines; the first line of each is read"]
    )  # fmt: skip
    assert "power.draw [W]: mean 30.12 W" in figures(path)[str(path)]


def test_a_mean_that_uneven_periods_move_is_told_with_the_mean_over_time(tmp_path: Path) -> None:
    """One reading per second while busy, one in three seconds while not: 75 % of the samples, 50 % of the time."""
    moments, usage, t = [], [], 0.0
    for row in range(80):
        moments.append(t)
        usage.append(100 if row % 4 else 20)
        t += 1.0 if row % 4 else 3.0
    path = log(tmp_path, plain("time,gpu_util", moments, usage))
    told = "the mean of samples is 80.00 %, the mean over time 59.66 %"
    assert found(path) == (1, [f"{path}: uneven periods: gpu_util: {told}"])
    assert "gpu_util: mean 80.00 %, over time 59.66 %" in figures(path)[str(path)]
    even = log(tmp_path, plain("time,gpu_util", list(map(float, range(80))), usage), "even.csv")
    assert found(even) == (0, [])


def test_energy_is_that_of_held_readings_and_beside_it_that_of_lines_between_them(tmp_path: Path) -> None:
    path = log(tmp_path, table("time,power_w", times(21), [100, 300] * 10 + [200]))
    told = figures(path)[str(path)]
    assert "power_w: mean 200.00 W, over time 200.00 W, at most 300 W, 4000.0 J (by trapezoids 4050.0 J)" in told
