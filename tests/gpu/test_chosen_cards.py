"""Every door by which a GPU is chosen, in one table: what each makes of what a caller, Slurm, Ray and the driver say.

The doors ask the real driver's library, here the stand-in, in this process. `test_visible_gpus.py` is the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROJECT
from stand_in import UUID, UUID_B, load, write_trace

from runner.cluster.__main__ import find_gpu
from runner.doctor import machine
from runner.doctor.machine import State
from runner.environments import __main__ as environments
from runner.environments.definition import EnvironmentUnavailable
from runner.launch import build_worker_environment
from runner.machine import allotment, locks
from runner.machine.description import list_gpus
from runner.request.parser import BadInput
from runner.request.placement import place_study
from runner.request.source_code import choose_device_kind
from runner.setup import choose_environment
from tools import gpu_card, gpu_day, gpu_probe
from workloads.records.job import ANY_GPU
from workloads.study import Study

CARDS = (UUID, UUID_B, *(f"GPU-{number * 8}-1111-2222-3333-444444444444" for number in "234567"))
LIST, ORDER = "CUDA_VISIBLE_DEVICES", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
# What others set beside the list: which cards a job has of all of its node, by its own or the driver's numbers.
SLURM = {"SLURM_JOB_GPUS": "5,6", "SLURM_STEP_GPUS": "6", "GPU_DEVICE_ORDINAL": "1", "NVIDIA_VISIBLE_DEVICES": "void"}
MIG = "MIG mode is on"
Said = dict[str, str]
Shown = list[int] | str  # numbers of the cards, in PCI order; or "cpu"; or words of the one line that refuses


def run(words: str, folder: Path, isolation: str = "venv", elsewhere: bool = False) -> list[str]:
    """Return what CUDA is shown in a trial of `runner --device WORDS`, or --device A --devices N."""
    device, _, devices = words.partition(" ")
    study = Study("s", device=device, devices=int(devices or 1))
    placement = place_study(study, list_gpus(), None, isolation, folder, elsewhere)
    if elsewhere:
        return [placement.device]
    shown = build_worker_environment(placement, {})
    assert shown["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    return shown[LIST].split(",") if shown[LIST] else ["cpu"]


def start_block(_: str, __: Path) -> list[str]:
    gpu = find_gpu()
    assert allotment.find_device(ANY_GPU) == gpu.uuid  # as its workers and their sampler ask
    return [gpu.uuid]


def ask_doctor(_: str, __: Path) -> list[str]:
    finding, gpus = machine.check_listed_gpus(list_gpus())
    if finding is not None and finding.state is State.PROBLEM:
        raise BadInput(finding.text)
    return [gpu.uuid for gpu in gpus] or ["cpu"]


def make_environment(framework: str, _: Path) -> list[str]:
    gpu = allotment.find_given_gpu()
    choose_environment(PROJECT, framework, "cuda", gpu, "venv")
    return [gpu.uuid] if gpu else ["cpu"]


DOORS: dict[str, Callable[[str, Path], list[str]]] = {
    "run": run,
    "container": lambda words, folder: run(words, folder, "docker"),
    "Ray, plan": lambda words, folder: run(words, folder, elsewhere=True),
    "Ray, block": start_block,
    "make bench": lambda _, __: [environments.find_kind()],
    "import": lambda _, __: [choose_device_kind(list_gpus())],
    "doctor": ask_doctor,
    "build": make_environment,
    "day": lambda words, folder: [gpu_card.set_card(words, folder)[LIST]],
    "day, again": lambda words, folder: [gpu_card.set_card(words, folder)[LIST] for _ in "12"][1:],
}

TABLE: list[tuple[str, str, Said, Shown]] = [
    # door, its words, variables (NVML_*: the driver), what is chosen
    # One of several.
    ("run", "auto", {}, [0]),
    ("run", "cuda", {}, [0]),
    ("run", "cuda:7", {}, [7]),
    ("run", CARDS[5], {}, [5]),
    ("run", "cpu", {LIST: "MIG-1"}, "cpu"),
    ("run", "auto", {"NVML_TRACE": ""}, "cpu"),
    ("run", "cuda", {"NVML_FAIL": "nvmlInitWithFlags=9"}, "no NVIDIA GPU with a working driver"),
    ("run", "auto", {"NVML_FAIL": "nvmlInitWithFlags=9"}, "cpu"),
    # What is no card here.
    ("run", "cuda:8", {}, "this machine has 8 GPU(s), cuda:0 to cuda:7"),
    ("run", "cuda:-1", {}, "unknown device 'cuda:-1'"),
    ("run", "cuda:²", {}, "unknown device 'cuda:²'"),
    ("run", "cuda:", {}, "unknown device 'cuda:'"),
    ("run", "0", {}, "unknown device '0'"),
    ("run", "GPU-dead", {}, "no such GPU"),
    ("run", "GPU-2222", {}, "no such GPU"),  # a beginning is taken in the list alone
    ("run", "MIG-8f2c", {}, "MIG slice"),
    # The caller's list.
    ("run", "auto", {LIST: "3", **ORDER}, [3]),
    ("run", "cuda:1", {LIST: "3,5", **ORDER}, [5]),
    ("run", "cuda:0", {LIST: " 5 , 3 ", **ORDER}, [5]),
    ("run", "cuda:0", {LIST: CARDS[4]}, [4]),
    ("run", "cuda:1", {LIST: "GPU-44,GPU-55"}, [5]),
    ("run", CARDS[3], {LIST: "5,3", **ORDER}, [3]),
    ("run", CARDS[2], {LIST: "5,3", **ORDER}, "does not list it"),
    ("run", "cuda:2", {LIST: "5,3", **ORDER}, "leaves 2 GPU(s), cuda:0 to cuda:1"),
    ("run", "cuda:1", {LIST: "5,-1,3", **ORDER}, "leaves 1 GPU(s)"),  # CUDA reads up to the first that is none
    ("run", "cuda:1", {LIST: "5,99,3", **ORDER}, "leaves 1 GPU(s)"),
    ("run", "auto", {LIST: "5"}, "CUDA_DEVICE_ORDER=PCI_BUS_ID"),  # different cards: CUDA's order is another
    ("run", "auto", {LIST: "5", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
    ("run", "auto", {LIST: "0", "NVML_DEVICES": "1"}, [0]),
    *(("run", "auto", {LIST: said, **ORDER}, "cpu") for said in ("", "-1", "NoDevFiles", "8", "GPU-", "GPU-dead,0")),
    *(("run", "cuda", {LIST: said, **ORDER}, "leaves no GPU") for said in ("", "-1", "NoDevFiles", "8", "GPU-")),
    ("run", "auto", {LIST: "3,3", **ORDER}, "twice"),
    ("run", "auto", {LIST: "GPU-44,GPU-4444"}, "twice"),
    ("run", "auto", {LIST: f"3,{CARDS[4]}", **ORDER}, "by number and by UUID"),
    ("run", "auto", {LIST: f"{CARDS[4]},3", **ORDER}, "by number and by UUID"),
    *(("run", "auto", {LIST: said, **ORDER}, "MIG slice") for said in ("MIG-8f2c", "MIG-GPU-22222222/1/0", "0,MIG-8")),
    # Several in one trial.
    ("run", "auto 3", {}, [0, 1, 2]),
    ("run", "cuda:1 2", {}, [1, 0]),
    ("run", "auto 2", {LIST: "6,4,2", **ORDER}, [6, 4]),
    ("run", "auto 2", {LIST: "6", **ORDER}, "leaves 1 GPU(s)"),
    ("run", "auto 2", {"NVML_DEVICES": "1"}, "this machine has 1 GPU(s)"),
    ("run", "auto 2", {"NVML_MIG": "1"}, MIG),
    ("run", "auto 2", {"NVML_MIG": "7"}, [0, 1]),
    ("container", "cuda:3", {}, [3]),
    ("container", "auto 2", {}, "a container gets one GPU"),
    # A card in MIG mode, by whatever words.
    *(("run", words, {"NVML_MIG": "03"}, MIG) for words in ("auto", "cuda", "cuda:3", CARDS[3])),
    ("run", "auto", {LIST: "3", "NVML_MIG": "3", **ORDER}, MIG),
    ("run", "cuda:1", {"NVML_MIG": "03"}, [1]),
    ("container", "cuda:3", {"NVML_MIG": "03"}, MIG),
    # Slurm and Ray give cards by the list. By number they count as the driver does.
    ("run", "auto", {LIST: CARDS[6], **SLURM}, [6]),
    ("run", "auto", {LIST: "6", **SLURM, **ORDER}, [6]),
    ("run", "auto", SLURM, [0]),  # without a list, as in a job whose cards its control group shows
    ("Ray, block", "", {}, [0]),
    ("Ray, block", "", {LIST: "6", **SLURM}, [6]),
    ("Ray, block", "", {LIST: "6,2"}, [6]),
    ("Ray, block", "", {LIST: "GPU-66"}, [6]),
    ("Ray, block", "", {LIST: "6", "NVML_MIG": "6"}, MIG),
    ("Ray, block", "", {LIST: "6", "NVML_MIG": "0"}, [6]),
    ("Ray, block", "", {"NVML_MIG": "0"}, MIG),
    ("Ray, block", "", {LIST: "MIG-8f2c"}, "MIG slice"),
    ("Ray, block", "", {LIST: "6,6"}, "twice"),
    *(("Ray, block", "", {LIST: said}, f"{LIST}={said!r}") for said in ("", "-1", "NoDevFiles", "8")),
    ("Ray, block", "", {"NVML_TRACE": ""}, "no GPU with a working driver"),
    ("Ray, plan", "auto", {}, "cuda"),
    ("Ray, plan", "auto", {LIST: ""}, "cpu"),
    ("Ray, plan", "cuda:1", {}, "other machines use any free GPU"),
    ("Ray, plan", CARDS[1], {}, "other machines use any free GPU"),
    ("Ray, plan", "MIG-8f2c", {}, "unknown device 'MIG-8f2c'"),
    ("Ray, plan", "cuda 2", {}, "a trial gets one GPU"),
    # Environments, the doctor, and a build without code for a card.
    ("make bench", "", {}, "cuda"),
    ("import", "", {}, "cuda"),
    ("import", "", {"NVML_MIG": "0"}, "cuda"),  # a run may name another card
    *(("import", "", said, "cpu") for said in ({LIST: ""}, {LIST: "-1"}, {LIST: "MIG-1"})),
    *(("make bench", "", said, "cpu") for said in ({LIST: "-1"}, {LIST: "MIG-1"}, {"NVML_MIG": "0"}, {LIST: "0,0"})),
    ("doctor", "", {LIST: "2,4", **ORDER}, [2, 4]),
    ("doctor", "", {LIST: "-1", **ORDER}, "cpu"),
    ("doctor", "", {"NVML_MIG": "4"}, MIG),
    ("doctor", "", {LIST: "2", "NVML_MIG": "4", **ORDER}, [2]),
    ("doctor", "", {LIST: "4,4", **ORDER}, "twice"),
    ("build", "mxnet", {"NVML_CAPABILITY": "8.9"}, [0]),
    ("build", "mxnet", {"NVML_CAPABILITY": "9.0"}, "up to compute capability 8.9; this Stand-in 8 GiB has 9.0"),
    ("build", "mxnet", {"NVML_CAPABILITY": "10.0"}, "up to compute capability 8.9; this Stand-in 8 GiB has 10.0"),
    ("build", "mxnet", {}, [0]),  # a driver that does not tell: it is tried
    # The day on a card: the first that is free, and the same one when it goes on.
    ("day", "cuda", {}, [0]),
    ("day", "cuda", {"NVML_MIG": "01"}, [2]),
    ("day", "cuda", {"busy": "0"}, [1]),
    ("day", "cuda", {"busy": "01", LIST: "1,0,5", **ORDER}, [5]),
    ("day", "cuda", {"busy": "01", LIST: "1,0", **ORDER}, [1]),  # and it says that somebody is there
    ("day, again", "cuda", {"busy": "0"}, [1]),
    ("day", "cuda:4", {}, [4]),
    ("day", "cuda", {LIST: CARDS[3]}, [3]),
    ("day", "cuda", {"NVML_MIG": "01", "NVML_DEVICES": "2"}, MIG),
    ("day", "cuda", {LIST: ""}, "leaves no GPU"),
    ("day", "cuda", {LIST: "MIG-8f2c"}, "MIG slice"),
    ("day", "cuda", {"NVML_TRACE": ""}, "no NVIDIA GPU with a working driver"),
    ("day", "auto", {}, "give cuda or cpu"),
]  # fmt: skip


@pytest.fixture
def eight(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight cards, the second of another kind, and a trace of one that somebody uses."""
    load(library)
    for name in (LIST, *ORDER, *SLURM):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NVML_TRACE", str(write_trace(tmp_path / "idle.csv", [(0, {})])))
    monkeypatch.setenv("NVML_DEVICES", "8")
    monkeypatch.setenv("NVML_NOW_MS", "0")
    return write_trace(tmp_path / "busy.csv", [(0, {"used": 3000})])


def choose(door: str, words: str, said: Said, folder: Path, busy: Path, patch: pytest.MonkeyPatch) -> Shown:
    """Return what the door chooses: numbers of cards, a word of its own, or the line with which it refuses."""
    for name, value in said.items():
        if name == "busy":
            for number in value:
                patch.setenv("NVML_TRACE" if number == "0" else f"NVML_TRACE_{'ABCDEFGH'[int(number)]}", str(busy))
        elif value or name != "NVML_TRACE":
            patch.setenv(name, value)
        else:
            patch.delenv(name)
    folder.mkdir()
    try:
        chosen = DOORS[door](words, folder)
    except (BadInput, allotment.UnclearGpus, EnvironmentUnavailable) as refused:
        return str(refused)
    return chosen[0] if chosen[0] not in CARDS else [CARDS.index(uuid) for uuid in chosen]


def test_every_door_takes_the_card_that_is_meant_or_refuses_in_one_line(
    eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    for number, (door, words, said, expected) in enumerate(TABLE):
        with monkeypatch.context() as patch:
            seen = choose(door, words, said, tmp_path / str(number), eight, patch)
        right = seen == expected or (isinstance(expected, str) and expected in seen and "\n" not in seen)
        if not right:
            wrong.append(f"{door} {words} with {said}: {seen!r}, not {expected!r}")
    assert not wrong, "\n".join(wrong)
    assert {door for door, *_ in TABLE} == set(DOORS)


def test_two_trials_have_two_cards_at_once_and_never_the_same_one(eight: Path) -> None:
    first, second = (gpu.uuid for gpu in list_gpus()[:2])
    with locks.device(first, ()), locks.device(second, ()):
        with pytest.raises(locks.InUse, match=f"GPU {first}.*name another --device"), locks.device(first, ()):
            pass
        with pytest.raises(locks.InUse, match=f"GPU {second}"), locks.device(CARDS[2], (), (second,)):
            pass
        with locks.device(CARDS[2], ()):
            pass


def test_the_day_says_which_card_it_took_and_why(
    eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NVML_TRACE", str(eight))
    for why in ("the first free one of 8 visible", "the card of the day so far"):
        gpu_card.set_card("cuda", tmp_path)
        assert capsys.readouterr().out.startswith(f"card: {UUID_B}, {why} (")
    monkeypatch.setenv(LIST, UUID)
    gpu_card.set_card("cuda", tmp_path)
    assert f"card: {UUID}, the first of 1 visible, all of them in use" in capsys.readouterr().out


def test_every_command_of_the_day_sees_the_one_card_and_without_a_card_none_starts(
    eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(day: gpu_day.Day) -> None:
        day.command("probe", "shown", 20, "sh", "-c", f"echo ${LIST} {' '.join(day.framework)}")

    monkeypatch.setitem(gpu_day.STEPS, "probe", show)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    for name in (LIST, *ORDER):
        monkeypatch.setenv(name, "PCI_BUS_ID" if name in ORDER else "5,4")
    assert gpu_day.main(["probe", "--out", str(tmp_path / "day"), "--device", "cuda:1"]) == 0
    shown = (tmp_path / "day" / "probe" / "shown.log").read_text()
    assert shown.startswith(f"{CARDS[4]} ") and shown.endswith("--device cuda\n")
    capsys.readouterr()
    monkeypatch.setenv("NVML_FAIL", "*=9")
    assert gpu_day.main(["probe", "--out", str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "no NVIDIA GPU" in captured.err and not captured.out
    assert gpu_day.main(["check", "pack", "--out", str(tmp_path / "day")]) == 0, "which need no card"


def test_the_probe_asks_the_card_that_is_named_and_refuses_none_in_one_line(
    eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for said in ("-1", "MIG-8f2c"):
        monkeypatch.setenv(LIST, said)
        assert gpu_probe.main([str(tmp_path / "out")]) == 2 and not (tmp_path / "out").exists()
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and LIST in captured.err and not captured.out
