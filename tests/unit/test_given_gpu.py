"""The variable with which callers, Ray and Slurm say which GPUs there are, on a machine with two alike."""

from __future__ import annotations

import pynvml
import pytest

from runner.machine import allotment, description
from runner.machine.description import Gpu
from runner.request.placement import list_notes
from workloads.study import Study


def card(uuid: str) -> Gpu:
    return Gpu(uuid, "a card", "550", "12.4", 2**33, "8.0")


CARDS = [card("GPU-1111"), card("GPU-2222")]


U1, U2 = "GPU-1111", "GPU-2222"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (None, [U1, U2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1", [U2]),
        (" 1 , 0 ", [U2, U1]),
        ("1,-1,0", [U2]),  # CUDA reads up to the first that is none
        ("1,7,0", [U2]),
        ("0,", [U1]),
        (U2, [U2]),
        ("GPU-22,GPU-1111", [U2, U1]),
        ("GPU-3333,GPU-1111", []),
        ("GPU-", []),  # two begin so
        ("0,0", "twice"),
        ("GPU-1111,GPU-11", "twice"),
        ("0,GPU-2222", "by number and by UUID"),
        ("GPU-2222,0", "by number and by UUID"),
        ("MIG-8f2c", "MIG slice"),
        ("MIG-GPU-1111/0/0", "MIG slice"),  # drivers before 470
        ("0,MIG-8f2c", "MIG slice"),
    ],
)
def test_every_form_of_the_list_is_followed_or_refused_in_one_line(
    said: str | None, shown: list[str] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if said is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    if isinstance(shown, str):
        with pytest.raises(allotment.UnclearGpus, match=shown) as refused:
            allotment.list_visible_gpus(CARDS)
        assert "CUDA_VISIBLE_DEVICES" in str(refused.value) and "\n" not in str(refused.value)
    else:
        assert [gpu.uuid for gpu in allotment.list_visible_gpus(CARDS).gpus] == shown


def test_a_card_that_the_driver_refuses_is_left_out_and_named_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(index: int) -> int:
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return index

    def name(handle: int) -> str:
        if handle == 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return f"GPU-{handle}"

    answers = {"Init": None, "Shutdown": None, "SystemGetDriverVersion": "550", "DeviceGetCount": 4}
    for call, answer in answers.items():
        monkeypatch.setattr(pynvml, f"nvml{call}", lambda answer=answer: answer)
    for call in ("DeviceGetMemoryInfo", "DeviceGetCudaComputeCapability", "DeviceGetMigMode"):
        monkeypatch.setattr(pynvml, f"nvml{call}", lambda _: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", lambda: 12040)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", find)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", name)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [gpu.uuid for gpu in description.list_gpus()] == ["GPU-1", "GPU-3"]
    refused = description.list_refused_gpus()
    assert refused == ["0: Insufficient Permissions", "2: GPU is lost"]
    note, *_ = list_notes(Study("s"), description.list_gpus(), refused=refused)
    assert "refuses 2 GPU(s)" in note and "2: GPU is lost" in note
