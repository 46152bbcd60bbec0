"""What a processor decides about a trial: the words that runner, adapters and reports share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .build import BFLOAT16, FLOAT16, TF32

# As Linux spells them in /proc/cpuinfo on x86: those by which the frameworks' libraries choose their code.
FLAGS = ("fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")

# Those by which a CPU computes in a precision; any of them will do.
COMPUTING = {BFLOAT16: ("avx512_bf16", "amx_bf16"), FLOAT16: ("avx512_fp16", "amx_fp16")}
COMPUTES = tuple(flag for several in COMPUTING.values() for flag in several)
# The least compute capability whose tensor cores have it (NVIDIA's CUDA C++ Programming Guide).
CAPABILITIES = {TF32: (8, 0), BFLOAT16: (8, 0), FLOAT16: (7, 0)}

# Facts of a worker on a CPU and their names, each fact absent or null where its framework has no such thing or does not
# tell (then `..._reason` beside it says why). Two trials of one framework that differ in one of them ran other code.
KERNELS = {
    "onednn": "oneDNN",  # bool: whether the framework hands its layers to it
    "onednn_isa": "oneDNN's instruction set",  # str, in its own words
    "cpu_capability": "PyTorch's CPU capability",  # str: of its own code
    "openblas_core": "OpenBLAS for",  # str: the processor whose code it uses
}


def flags(cpuinfo: str, wanted: Iterable[str] = FLAGS) -> list[str] | None:
    """Those of them that every core has, of the text of /proc/cpuinfo; None where it has no line of x86's flags."""
    cores = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("flags")]
    return [flag for flag in wanted if all(flag in core for core in cores)] if cores else None


def lacks(precision: str, present: Collection[str] | None) -> str | None:
    """Why a CPU with these flags does not compute in a precision; None where it does, or nobody knows its flags.

    Without such instructions frameworks refuse it, or convert every value there and back, which is no speed of it.
    """
    if precision == TF32:
        return "TF32 is a precision of NVIDIA's GPUs, no CPU has it"
    needed = COMPUTING.get(precision, ())
    if not needed or present is None or any(flag in present for flag in needed):
        return None
    return f"this processor has no instructions for {precision}: none of {' '.join(needed)}"


def gpu_lacks(precision: str, capability: str | None) -> str | None:
    """The same of a GPU of this compute capability; None where that is unknown."""
    least = CAPABILITIES.get(precision)
    if least is None or capability is None or tuple(map(int, capability.split("."))) >= least:
        return None
    return f"this GPU, of compute capability {capability}, does not compute in {precision}: that begins at " + ".".join(
        map(str, least)
    )


def listed(present: Iterable[str]) -> str:
    """In words; "none of ..." says what was looked for."""
    return " ".join(present) or f"none of {' '.join(FLAGS)}"


def kernels(facts: Mapping[str, Any]) -> str | None:
    """In words, e.g. "oneDNN on, oneDNN's instruction set Intel AVX2"; None where a worker told nothing of them."""
    words = {True: "on", False: "off"}
    known = {name: facts[key] for key, name in KERNELS.items() if facts.get(key) is not None}
    return ", ".join(f"{name} {words.get(value, value)}" for name, value in known.items()) or None
