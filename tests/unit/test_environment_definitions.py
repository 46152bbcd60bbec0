"""Every adapters/*/environment.toml: exact pins, each with a hash, and nothing asked for that is not pinned."""

from __future__ import annotations

import re
import tomllib

import pytest
from conftest import PROJECT

PIN = re.compile(r"[\w.-]+==[\w.+]+( --hash=sha256:[0-9a-f]{64})+")


def variants():
    for framework in PROJECT.frameworks:
        table = tomllib.loads(PROJECT.definition(framework).read_text())
        for device_kind in ("cpu", "cuda"):
            if device_kind in table:
                yield pytest.param(table[device_kind], id=f"{framework}-{device_kind}")


def canonical(name):
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


@pytest.mark.parametrize("variant", list(variants()))
def test_a_package_is_not_pinned_exactly_or_has_no_hash(variant):
    for line in variant["pins"].strip().splitlines():
        assert PIN.fullmatch(line), line


@pytest.mark.parametrize("variant", list(variants()))
def test_what_is_asked_for_is_not_what_is_pinned(variant):
    pinned = {
        canonical(line.split("==")[0]): line.split(" ")[0].split("==")[1]
        for line in variant["pins"].split("\n")
        if line
    }
    for requirement in variant["requires"]:
        name = canonical(re.split(r"[=<>]", requirement)[0])
        assert name in pinned, requirement
        if "==" in requirement:
            assert pinned[name] == requirement.split("==")[1]


def test_gigabytes_of_cuda_come_to_a_machine_without_a_gpu():
    for framework in PROJECT.frameworks:
        pins = tomllib.loads(PROJECT.definition(framework).read_text())["cpu"]["pins"]
        assert "nvidia" not in pins and "triton" not in pins and "cuda" not in pins
    torch = tomllib.loads(PROJECT.definition("pytorch").read_text())
    hashes = {kind: re.search(r"torch==\S+ --hash=sha256:(\w+)", torch[kind]["pins"])[1] for kind in ("cpu", "cuda")}
    assert hashes["cpu"] != hashes["cuda"]
