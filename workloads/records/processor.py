"""What a processor decides about a trial: the words that runner, adapters and reports share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# As Linux spells them in /proc/cpuinfo on x86: those by which the frameworks' libraries choose their code.
FLAGS = ("fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")

# Facts of a worker on a CPU and their names, each fact absent or null where its framework has no such thing or does not
# tell (then `..._reason` beside it says why). Two trials of one framework that differ in one of them ran other code.
KERNELS = {
    "onednn": "oneDNN",  # bool: whether the framework hands its layers to it
    "onednn_isa": "oneDNN's instruction set",  # str, in its own words
    "cpu_capability": "PyTorch's CPU capability",  # str: of its own code
    "openblas_core": "OpenBLAS for",  # str: the processor whose code it uses
}


def flags(cpuinfo: str) -> list[str] | None:
    """Those of FLAGS that every core has, of the text of /proc/cpuinfo; None where it has no line of x86's flags."""
    cores = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("flags")]
    return [flag for flag in FLAGS if all(flag in core for core in cores)] if cores else None


def listed(present: Iterable[str]) -> str:
    """In words; "none of ..." says what was looked for."""
    return " ".join(present) or f"none of {' '.join(FLAGS)}"


def kernels(facts: Mapping[str, Any]) -> str | None:
    """In words, e.g. "oneDNN on, oneDNN's instruction set Intel AVX2"; None where a worker told nothing of them."""
    words = {True: "on", False: "off"}
    known = {name: facts[key] for key, name in KERNELS.items() if facts.get(key) is not None}
    return ", ".join(f"{name} {words.get(value, value)}" for name, value in known.items()) or None
