"""Effects of a processor on a trial: names that runner, adapters and reports share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .build import BFLOAT16, FLOAT16, TF32

# As Linux spells them in /proc/cpuinfo on x86: the flags by which the frameworks' libraries choose their code.
FLAGS = ("fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")

# Flags by which a CPU computes in a precision; one of them is enough.
COMPUTING = {BFLOAT16: ("avx512_bf16", "amx_bf16"), FLOAT16: ("avx512_fp16", "amx_fp16")}
COMPUTES = tuple(flag for several in COMPUTING.values() for flag in several)
# The lowest compute capability whose tensor cores have it (NVIDIA's CUDA C++ Programming Guide).
CAPABILITIES = {TF32: (8, 0), BFLOAT16: (8, 0), FLOAT16: (7, 0)}

# Facts of a worker on a CPU and their names. A fact is absent or null if its framework has no such thing or does not
# report it (then `..._reason` says why). Two trials of one framework that differ in one of them ran different code.
KERNELS = {
    "onednn": "oneDNN",  # bool: True if the framework hands its layers to it
    "onednn_isa": "oneDNN's instruction set",  # str, in its own words
    "cpu_capability": "PyTorch's CPU capability",  # str: of PyTorch's code
    "openblas_core": "OpenBLAS for",  # str: the processor whose code it uses
}


def read_flags(cpuinfo: str, wanted: Iterable[str] = FLAGS) -> list[str] | None:
    """Return the wanted flags that every core has, from the text of /proc/cpuinfo; None if it has no x86 flags."""
    cores = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("flags")]
    return [flag for flag in wanted if all(flag in core for core in cores)] if cores else None


def explain_lack(precision: str, present: Collection[str] | None) -> str | None:
    """Return why a CPU with these flags does not compute in a precision; None if it does, or its flags are unknown.

    Without such instructions frameworks refuse it, or convert every value there and back, which says nothing about its
    speed.
    """
    if precision == TF32:
        return "TF32 is a precision of NVIDIA's GPUs, no CPU has it"
    needed = COMPUTING.get(precision, ())
    if not needed or present is None or any(flag in present for flag in needed):
        return None
    return f"this processor has no instructions for {precision}: none of {' '.join(needed)}"


def explain_gpu_lack(precision: str, capability: str | None) -> str | None:
    """Return why a GPU of this compute capability does not compute in a precision; None if it does or is unknown."""
    least = CAPABILITIES.get(precision)
    if least is None or capability is None or tuple(map(int, capability.split("."))) >= least:
        return None
    return f"this GPU, of compute capability {capability}, does not compute in {precision}: that begins at " + ".".join(
        map(str, least)
    )


def list_flags(present: Iterable[str]) -> str:
    """Return the flags as text; "none of ..." names those that were looked for."""
    return " ".join(present) or f"none of {' '.join(FLAGS)}"


def describe_kernels(facts: Mapping[str, Any]) -> str | None:
    """Return the kernels as text, e.g. "oneDNN on, oneDNN's instruction set Intel AVX2"; None if unknown."""
    words = {True: "on", False: "off"}
    known = {name: facts[key] for key, name in KERNELS.items() if facts.get(key) is not None}
    return ", ".join(f"{name} {words.get(value, value)}" for name, value in known.items()) or None
