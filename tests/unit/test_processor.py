"""Facts of a processor: its flags, and what a worker finds out from its libraries without harm to itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
from conftest import PROJECT

from adapters import kernels
from runner.machine import description
from workloads.records import processor

ZEN3 = """processor\t: 0
flags\t\t: fpu sse4_1 fma avx avx2 bmi2

processor\t: 1
flags\t\t: fpu sse4_1 fma avx avx2 bmi2
"""


@pytest.mark.parametrize(
    ("cpuinfo", "flags"),
    [
        (ZEN3, ["fma", "avx2"]),
        (ZEN3.replace("bmi2", "avx512f avx512_vnni avx512_bf16 amx_tile amx_bf16", 1), ["fma", "avx2"]),
        (ZEN3.replace("bmi2", "avx512f avx512_bf16"), ["fma", "avx2", "avx512f", "avx512_bf16"]),
        (ZEN3.replace("avx2", "").replace("fma", ""), []),
        ("processor\t: 0\nFeatures\t: fp asimd sve\n", None),
        ("", None),
    ],
    ids=["AVX2", "on one core alone", "AVX-512", "neither", "aarch64", "unreadable"],
)
def test_a_processors_flags_are_those_that_every_core_has_and_unknown_is_null(
    cpuinfo: str, flags: list[str] | None
) -> None:
    assert processor.read_flags(cpuinfo) == flags


def test_the_machine_says_the_flags_of_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "_cpuinfo", lambda: ZEN3)
    assert description.describe(PROJECT, "cpu", [])["cpu_flags"] == ["fma", "avx2"]


@pytest.mark.parametrize(
    ("precision", "flags", "told"),
    [
        ("float32", [], None),
        ("bfloat16", ["avx2", "avx512_bf16"], None),
        ("bfloat16", ["amx_bf16"], None),
        ("bfloat16", ["avx2"], "no instructions for bfloat16: none of avx512_bf16 amx_bf16"),
        ("float16", ["avx512_bf16"], "no instructions for float16: none of avx512_fp16 amx_fp16"),
        ("bfloat16", None, None),
        ("tf32", ["avx512_bf16"], "no CPU has it"),
    ],
)
def test_a_processor_without_a_precisions_instructions_is_told_by_their_names(
    precision: str, flags: list[str] | None, told: str | None
) -> None:
    reason = processor.explain_lack(precision, flags)
    assert reason is None if told is None else told in str(reason)


@pytest.mark.parametrize(
    ("precision", "capability", "told"),
    [
        ("tf32", "8.0", None),
        ("bfloat16", "10.3", None),
        ("bfloat16", "7.5", "of compute capability 7.5, does not compute in bfloat16: that begins at 8.0"),
        ("float16", "7.5", None),
        ("float16", "6.1", "that begins at 7.0"),
        ("float32", "3.5", None),
        ("tf32", None, None),
    ],
)
def test_a_card_below_a_precisions_compute_capability_is_told(
    precision: str, capability: str | None, told: str | None
) -> None:
    reason = processor.explain_gpu_lack(precision, capability)
    assert reason is None if told is None else told in str(reason)


def test_none_of_the_flags_is_told_from_flags_that_are_not_known() -> None:
    assert processor.list_flags([]) == f"none of {' '.join(processor.FLAGS)}"
    assert processor.list_flags(["fma", "avx2"]) == "fma avx2"


@pytest.mark.parametrize(
    "line",
    [
        "onednn_verbose,v1,info,cpu,isa:Intel AVX2",
        "onednn_verbose,info,cpu,isa:Intel AVX2",
        "dnnl_verbose,info,cpu,isa:Intel AVX2",
    ],
)
def test_every_version_of_onednn_is_understood(line: str) -> None:
    facts = kernels.of_onednn(True, lambda: os.write(1, f"onednn_verbose,info,x\n{line}\nmore\n".encode()))
    assert facts == {"onednn": True, "onednn_isa": "Intel AVX2"}


def test_onednn_is_asked_under_a_variable_that_the_process_itself_never_has() -> None:
    def compute() -> None:
        os.write(1, f"onednn_verbose,info,cpu,isa:asked with {os.environ['ONEDNN_VERBOSE']}\n".encode())

    assert kernels.of_onednn(None, compute) == {"onednn": None, "onednn_isa": "asked with 1"}
    assert not set(kernels.VERBOSE) & set(os.environ)


def test_an_instruction_set_that_is_not_known_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "ANSWER_S", 0.2)

    def fail() -> None:
        raise RuntimeError("no such kernel")

    def no_process() -> int:
        raise OSError("out of processes")

    off = kernels.of_onednn(False, fail)
    failed = kernels.of_onednn(True, fail)
    started = time.monotonic()
    late = kernels.of_onednn(True, lambda: time.sleep(60))
    assert time.monotonic() - started < 10
    monkeypatch.setattr(os, "fork", no_process)
    alone = kernels.of_onednn(True, lambda: None)
    assert [facts["onednn_isa"] for facts in (off, failed, late, alone)] == [None] * 4
    assert off["onednn_isa_reason"] == "oneDNN is off"
    assert "did not use oneDNN" in failed["onednn_isa_reason"]
    assert "did not answer" in late["onednn_isa_reason"]
    assert "out of processes" in alone["onednn_isa_reason"]


def test_asking_leaves_no_process_and_no_open_file_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before, children = set(os.listdir("/proc/self/fd")), psutil.Process().children()
    kernels.of_onednn(True, lambda: os.write(1, b"more than a pipe holds\n" * 10_000))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", lambda: os.open("/of no file", os.O_RDONLY))  # raises OSError
        assert kernels.of_onednn(True, lambda: 0)["onednn_isa"] is None
    assert set(os.listdir("/proc/self/fd")) == before
    assert psutil.Process().children() == children  # those of other tests


def test_the_referees_blas_says_for_which_processor_it_computes() -> None:
    code = (
        "from adapters.numpy.adapter import Adapter; "
        "print(Adapter().open('cpu', 1, 'default', 'float32', 'host', 'on-demand')['openblas_core'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"OPENBLAS_CORETYPE": "Nehalem"}, capture_output=True, text=True
    )
    assert answer.stdout.strip() == "Nehalem", answer.stderr
