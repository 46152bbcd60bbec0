"""The GPU that a block of a sweep was given, by the variable with which Ray and Slurm say so."""

from __future__ import annotations

import pytest

from runner.machine import allotment, description
from runner.machine.description import Gpu
from workloads.records.job import ANY_GPU


def card(uuid: str) -> Gpu:
    return Gpu(uuid, "a card", "550", "12.4", 2**33, "8.0")


CARDS = [card("GPU-1111"), card("GPU-2222")]


@pytest.mark.parametrize(
    ("said", "given"),
    [
        (None, "GPU-1111"),
        ("0", "GPU-1111"),
        ("1", "GPU-2222"),
        ("1,0", "GPU-2222"),
        ("GPU-2222", "GPU-2222"),
        ("GPU-22", "GPU-2222"),  # CUDA takes the beginning of one, too
        ("2", None),
        ("", None),
        ("-1", None),
        ("MIG-1111", None),
    ],
)
def test_the_first_that_is_said_is_the_one_that_was_given(
    said: str | None, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "list_gpus", lambda: CARDS)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if said is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    found = allotment.find_given_gpu()
    assert (found and found.uuid) == given
    assert allotment.find_device(ANY_GPU) == (given or ANY_GPU)
    assert allotment.find_device("cpu") == "cpu" and allotment.find_device("GPU-9") == "GPU-9"
