"""What a processor decides about a trial: the words that runner, adapters and reports share."""

from __future__ import annotations

from collections.abc import Iterable

# As Linux spells them in /proc/cpuinfo on x86: those by which the frameworks' libraries choose their code.
FLAGS = ("fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")

# Facts of a worker on a CPU, each absent or null where its framework has no such thing or does not tell (then
# `..._reason` beside it says why). Two trials of one framework that differ in one of them ran different code.
KERNELS = (
    "onednn",  # bool: whether the framework hands its layers to oneDNN
    "onednn_isa",  # str: the instruction set that oneDNN uses, in its own words
    "cpu_capability",  # str: of PyTorch's own code
    "openblas_core",  # str: the processor whose code OpenBLAS uses
)


def flags(cpuinfo: str) -> list[str] | None:
    """Those of FLAGS that every core has, of the text of /proc/cpuinfo; None where it has no line of x86's flags."""
    cores = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("flags")]
    return [flag for flag in FLAGS if all(flag in core for core in cores)] if cores else None


def listed(present: Iterable[str]) -> str:
    """In words; "none of ..." says what was looked for."""
    return " ".join(present) or f"none of {' '.join(FLAGS)}"
