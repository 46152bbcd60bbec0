from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import MACHINE, VERSIONS, ended, make, numbers, on_gpu, report, rows, store, trial

from reports import condition_text
from reports.comparing.pairing import pair
from reports.conditions import group_into_sections
from workloads.networks import WORKLOADS
from workloads.records import network
from workloads.records.figures import Figure
from workloads.records.job import InputFile
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.setting_words import describe_optimizer
from workloads.spec import OptimizerSpec


def headings(out: Path) -> list[str]:
    lines = (out / "report.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("## ") and line[3].isdigit()]


FACTS = trial("pytorch", 64).facts
ADAM, FASTER = OptimizerSpec("adam", 0.001), OptimizerSpec("momentum", 0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "other"},
        {"dataset": "cifar10"},
        {"optimizer": ADAM},
        {"optimizer": FASTER},
        {"optimizer": OptimizerSpec("momentum", schedule="cosine")},
        {"optimizer": OptimizerSpec("momentum", warm_up=5.0)},
        {"optimizer": OptimizerSpec("momentum", weight_decay=5e-4)},
        {"augment": "flip-crop"},
        {"epochs": 1},
        {"last_batch": "drop"},
        {"profile": "tuned"},
        {"feed": "device"},
        {"threads": 1},
        {"seed": 7},
        {"device": "GPU-1"},
        {"machine": MACHINE | {"cpu_model": "another"}},
        {"machine": MACHINE | {"cpu_flags": ["fma", "avx2"]}},
        {"machine": MACHINE | {"cpu_flags": []}},
        {"machine": MACHINE | {"cores": 4}},
        {"machine": MACHINE | {"os": "Linux-6.2-x86_64"}},
        {"machine": MACHINE | {"libc": "glibc 2.41"}},
        {"machine": MACHINE | {"runner_digest": "0a1b2c3d"}},
        {"machine": MACHINE | {"measurement_version": 2}},
        {"variables": {"MALLOC_TRIM_THRESHOLD_": "-1"}},
        {"variables": {"ONEDNN_MAX_CPU_ISA": "AVX2"}},
        {"facts": {"precision": "bfloat16"}},
        {"facts": {"precision": "float32", "tf32": True}},
    ],
    ids=str,
)
def test_trials_of_different_conditions_are_never_in_one_table(tmp_path: Path, changes: dict[str, Any]) -> None:
    out = report(tmp_path, trial("pytorch", 32), trial("mxnet", 64, **changes))
    assert not (out / "usage.md").exists()
    tables = [rows(out / f"usage-{number}.md") for number in (1, 2)]
    assert sorted(list(table)[1] for table in tables) == ["MXNet", "PyTorch"]
    assert all(len(table) == 2 for table in tables)
    headings = [line for line in (out / "report.md").read_text().splitlines() if line.startswith(("## 1.", "## 2."))]
    assert len(headings) == 2
    assert headings[0][5:] != headings[1][5:]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("resnet-18", None),
        ("mobilenet-v3-large", 'strided convolutions pad like TensorFlow\'s "same"'),
        ("vgg-11", "convolutions have no bias"),
        ("osu-cnn", None),
    ],
)
def test_conditions_say_how_a_network_differs_from_the_one_it_is_called_by(name: str, told: str | None) -> None:
    ((section,), *_) = group_into_sections([trial("pytorch", 64, workload=name)])
    conditions, *_ = condition_text.describe_conditions(section)
    assert f"model {name}; " in conditions
    assert ("difference from its reference" in conditions) is (told is not None)
    assert told is None or f"difference from its reference {told}" in conditions


def test_sections_that_differ_in_a_number_stand_in_the_order_of_the_numbers() -> None:
    split = [trial("pytorch", 64, accumulate=parts) for parts in (16, 2, 1, 4)]
    assert [section.condition.task.accumulate for section in group_into_sections(split)[0]] == [1, 2, 4, 16]


def test_what_changes_nothing_or_another_frameworks_software_splits_no_table(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch"), trial("mxnet", optimizer=OptimizerSpec("momentum", beta1=0.5)))
    assert len(rows(out / "usage.md")) == 3
    out = report(tmp_path / "2", trial("pytorch"), trial("mxnet", environment="e2"))
    assert len(rows(out / "usage.md")) == 3
    first, second = trial(repeat=0), trial(repeat=1)
    turned = dict(reversed(second.facts["packages"].items()))
    out = report(tmp_path / "3", first, replace(second, facts=second.facts | {"packages": turned}))
    assert [row["n"] for row in numbers(out / "usage.csv")] == ["2"]


@pytest.mark.parametrize(
    ("optimizer", "label"),
    [
        (OptimizerSpec.named("rmsprop"), "RMSprop (0.9, epsilon 1e-07), learning rate 0.001"),
        (
            replace(OptimizerSpec.named("adamw"), schedule="cosine", warm_up=0.05),
            "AdamW (0.9, 0.999, epsilon 1e-07), learning rate 0.001, cosine schedule, warm-up of 5% of the steps, "
            "weight decay 0.01",
        ),
        (
            OptimizerSpec("sgd", weight_decay=5e-4, warm_up=9),
            "SGD, learning rate 0.01, warm-up of 9 steps, weight decay 0.0005",
        ),
    ],
)
def test_a_rule_is_told_with_all_that_it_uses(optimizer: OptimizerSpec, label: str) -> None:
    assert describe_optimizer(optimizer) == label


def test_the_cost_of_augmenting_is_told_to_be_in_the_speed_or_not(tmp_path: Path) -> None:
    texts = [
        (report(tmp_path / feed, trial("pytorch", augment="flip-crop", feed=feed)) / "report.md").read_text()
        for feed in ("host", "device")
    ]
    assert "flip-crop, in every step: the speed is with its cost" in texts[0]
    assert "flip-crop, before each epoch: the speed is without its cost" in texts[1]


def test_a_trial_that_died_before_it_reported_stays_beside_its_rivals_in_its_own_environment(tmp_path: Path) -> None:
    out = report(tmp_path, trial("pytorch", 32), ended(Status.UNSUPPORTED, "no wheel", "mxnet", 32))
    assert rows(out / "usage.md")["MXNet"] == ["unsupported"]
    never = ended(Status.UNSUPPORTED, "no code for this card", "mxnet", 32, isolation="docker")
    out = report(tmp_path / "2", in_container(trial("pytorch", 32, isolation="docker")), never)
    assert rows(out / "usage.md")["MXNet"] == ["unsupported"]
    newer = trial("pytorch", 64, environment="e2", started_at="2025-11-22T10:00:00+00:00")
    died = ended(Status.TIMEOUT, "slow", "pytorch", 128)
    out = report(tmp_path / "3", trial("pytorch", 32), newer, died)
    assert rows(out / "usage-2.md")["PyTorch"] == ["71.0", "timeout"]


def test_the_newest_of_the_same_cell_wins_across_time_zones_and_the_report_says_so(tmp_path: Path) -> None:
    other = {"order": InputFile("inputs/order.npy", "01")}
    old = trial(started_at="2025-11-21T12:30:00+02:00", figures={"cpu_percent": Figure(1, "s")})
    new = trial(inputs=other, started_at="2025-11-21T11:00:00Z", figures={"cpu_percent": Figure(2, "s")})
    out = report(tmp_path, new, old)
    assert rows(out / "usage.md")["PyTorch"] == ["2.0"]
    text = (out / "report.md").read_text()
    assert f"- {old.spec.id} of {old.started_at} by {new.spec.id} of {new.started_at}" in text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"environment": "e2"}, "PyTorch environment e2"),
        ({"facts": {"framework_version": "2.14.0", "precision": "float32", "tf32": False}}, "PyTorch version 2.14.0"),
        ({"facts": FACTS | {"packages": {"numpy": "2.0.0", "torch": "2.13.0"}}}, "PyTorch packages 8f999c43"),
        ({"facts": FACTS | {"onednn": False}}, "PyTorch kernels oneDNN off"),
        ({"facts": FACTS | {"onednn_isa": "Intel AVX2"}}, "PyTorch kernels oneDNN's instruction set Intel AVX2"),
        ({"facts": FACTS | {"cpu_capability": "DEFAULT"}}, "PyTorch kernels PyTorch's CPU capability DEFAULT"),
        ({"facts": FACTS | {"openblas_core": "Haswell"}}, "PyTorch kernels OpenBLAS for Haswell"),
    ],
    ids=["environment", "version", "packages", "onednn", "onednn_isa", "cpu_capability", "openblas_core"],
)
def test_one_framework_in_two_softwares_is_never_in_one_table(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    newer = trial("pytorch", 64, started_at="2025-11-22T10:00:00+00:00", **changes)
    out = report(tmp_path, trial("pytorch", 32), newer, trial("mxnet", 32), trial("mxnet", 64))
    new, old = (rows(out / f"usage-{number}.md") for number in (1, 2))
    assert new["PyTorch"] == ["not run", "75.0"]  # the newest software is shown next to the rivals
    assert new["MXNet"] == ["63.0", "67.0"]
    assert list(old) == ["Framework / batch size", "PyTorch"]
    assert told in headings(out)[0]
    assert told not in headings(out)[1]
    assert "MXNet" not in headings(out)[0]


@pytest.mark.parametrize("fact", ["cuda_version", "cudnn_version"])
def test_repeats_of_one_framework_with_another_cuda_or_cudnn_are_never_in_one_cell(tmp_path: Path, fact: str) -> None:
    first, second = on_gpu(trial(repeat=0)), on_gpu(trial(repeat=1))
    second = replace(second, facts=second.facts | {fact: "9.9"})
    out = report(tmp_path, first, second)
    assert [row["n"] for number in (1, 2) for row in numbers(out / f"usage-{number}.csv")] == ["1", "1"]
    assert len(set(headings(out))) == 2


def test_another_gpu_driver_is_another_condition(tmp_path: Path) -> None:
    first, second = on_gpu(trial(repeat=0)), on_gpu(trial(repeat=1))
    gpus = [second.machine["gpus"][0] | {"driver": "580.2"}]
    out = report(tmp_path, first, replace(second, machine=second.machine | {"gpus": gpus}))
    assert "GPU driver 570.1" in headings(out)[0]
    assert "GPU driver 580.2" in headings(out)[1]


def in_container(result: TrialResult, **limits: Any) -> TrialResult:
    machine = {"container": {"engine": "docker 28.0"}, "libc": "glibc 2.41", **limits}
    return replace(result, machine=result.machine | machine)


def test_trials_in_containers_and_in_virtual_environments_stand_apart_and_limits_are_said(tmp_path: Path) -> None:
    contained = in_container(trial(repeat=1, isolation="docker"), cpu_limit_cores=1.5, memory_limit_bytes=2**30)
    alone = replace(trial(repeat=2, isolation="here"), machine=MACHINE | {"image": "pytorch-cpu 0.1.0 abc"})
    out = report(tmp_path, trial(), contained, alone)
    told = headings(out)
    assert len(told) == 3
    for words in ("container none", "container one for each trial, docker 28.0", "container one for the whole study"):
        assert sum(words in heading for heading in told) == 1, words
    assert sum("limits 1.5 cores, 1024 MiB" in heading for heading in told) == 1


def test_frameworks_whose_libraries_chose_other_code_stand_in_one_table(tmp_path: Path) -> None:
    kernels: dict[str, dict[str, Any]] = {
        "tensorflow": {"onednn": False, "onednn_isa": None, "onednn_isa_reason": "oneDNN is off"},
        "pytorch": {"onednn": True, "onednn_isa": "Intel AVX2", "cpu_capability": "AVX2"},
        "mxnet": {"onednn": True, "onednn_isa": "Intel AVX2", "openblas_core": "Zen"},
    }
    study = [trial(name, machine=MACHINE | {"cpu_flags": ["fma", "avx2"]}) for name in kernels]
    out = report(tmp_path, *(replace(one, facts=one.facts | kernels[one.spec.cell.framework]) for one in study))
    assert len(rows(out / "usage.md")) == 1 + len(kernels)
    text = (out / "usage.md").read_text().replace("\\", "")
    for told in (
        "processor's flags fma avx2",
        "TensorFlow kernels oneDNN off;",
        "PyTorch kernels oneDNN on, oneDNN's instruction set Intel AVX2, PyTorch's CPU capability AVX2;",
        "MXNet kernels oneDNN on, oneDNN's instruction set Intel AVX2, OpenBLAS for Zen;",
    ):
        assert told in text, told


def test_a_comparison_says_that_the_processors_and_the_code_chosen_for_them_differ() -> None:
    (here, there), _ = group_into_sections(
        trial(machine=MACHINE | {"cpu_flags": flags}, facts=FACTS | {"onednn": True, "onednn_isa": isa})
        for flags, isa in ((["fma", "avx2"], "Intel AVX2"), (["fma", "avx2", "avx512f"], "Intel AVX-512"))
    )
    ((found,), _) = pair([here], [there], ("here", "there"))
    assert found.differences == [
        ("processor's flags", "fma avx2", "fma avx2 avx512f"),
        (
            "PyTorch kernels",
            "oneDNN on, oneDNN's instruction set Intel AVX2",
            "oneDNN on, oneDNN's instruction set Intel AVX-512",
        ),
    ]


def test_another_code_of_the_runner_stands_apart_unless_its_measurement_version_is_the_same(tmp_path: Path) -> None:
    digests = ("0a1b2c3d", "4e5f6a7b")
    out = report(tmp_path, *(trial(repeat=repeat, machine=MACHINE | {"runner_digest": digest, "commit": digest})
                             for repeat, digest in enumerate(digests)))  # fmt: skip
    assert [row["n"] for number in (1, 2) for row in numbers(out / f"usage-{number}.csv")] == ["1", "1"]
    assert [line.split("; ")[1] for line in headings(out)] == [f"runner's code {digest}" for digest in digests]
    measured_by = (("0a1b2c3d", 1), ("4e5f6a7b", 1), ("4e5f6a7b", 2))
    study = [
        trial(repeat=repeat, machine=MACHINE | {"runner_digest": digest, "measurement_version": version})
        for repeat, (digest, version) in enumerate(measured_by)
    ]
    out = report(tmp_path / "2", *study)
    assert [row["n"] for number in (1, 2) for row in numbers(out / f"usage-{number}.csv")] == ["2", "1"]
    versions = [line.split("; ")[1] for line in headings(out)]
    assert versions == [f"runner's code measurement version {version}" for version in (1, 2)]


def test_the_page_says_of_several_commits_turbo_heat_and_missing_package_versions(tmp_path: Path) -> None:
    other = trial("mxnet", machine=MACHINE | {"commit": "0123abc", "load_average_before": 1.75})
    out = report(tmp_path, trial("pytorch"), other)
    for name in ("report.md", "usage.md"):
        text = (out / name).read_text()
        assert "These trials come from 2 commits of this suite: 0123abc / afa2864." in text, name
        assert "load average before a trial 0.25 to 1.75" in text, name
    hot = trial("mxnet", machine=MACHINE | {"turbo": True, "throttled": 3})
    cool = trial("pytorch", machine=MACHINE | {"turbo": True, "throttled": 0})
    text = (report(tmp_path / "2" / "new", cool, hot) / "report.md").read_text()
    assert "turbo on; clocks lowered by heat in 1 of 2 trials" in text
    text = (report(tmp_path / "2" / "old", trial()) / "report.md").read_text()
    assert "; turbo" not in text and "lowered by heat" not in text
    silent = trial("mxnet")
    silent = replace(silent, facts={key: value for key, value in silent.facts.items() if key != "packages"})
    assert (
        "package versions not reported by MXNet." in (report(tmp_path / "3", trial(), silent) / "report.md").read_text()
    )


def test_a_table_on_its_own_says_its_conditions(tmp_path: Path) -> None:
    variables = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "-1"}
    out = report(tmp_path, *(on_gpu(trial(name, variables=variables)) for name in VERSIONS))
    for name in ("usage", "speed", "memory-kinds", "memory-parts"):
        text = (out / f"{name}.md").read_text()
        for told in (
            "processor Intel(R) Xeon(R) Processor; processor's flags not reported; cores 2; GPU driver 570.1",
            "caller's variables MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=-1",
            "precision float32; TF32 off; seed 0; container none; limits none",
            "PyTorch CUDA 12.4; PyTorch cuDNN 90100",
            "commit afa2864",
        ):
            assert told in text.replace("\\", ""), (name, told)


def apart(**changes: Any) -> list[TrialResult]:
    """Two frameworks at 32; PyTorch at 4, too, and a second condition with only MXNet at 32 and 64."""
    two = [trial("pytorch", 4), trial("pytorch", 32), trial("mxnet", 32)]
    return [*two, trial("mxnet", 32, **changes), trial("mxnet", 64, **changes)]


def test_columns_show_differing_conditions_side_by_side_and_never_averaged(tmp_path: Path) -> None:
    busy = {"cpu_percent": Figure(99.0, "psutil")}  # one core: less looks like waiting
    other = {"threads": 1, "figures": {"images_per_s": Figure(7.0, "worker")} | busy}
    built = make(store(tmp_path, *apart(**other)), tmp_path / "report", columns=True)
    out = tmp_path / "report"
    # 1 thread sorts before 2: A is the second condition
    assert rows(out / "speed.md") == {
        "Framework / batch size": ["4 B", "32 A", "32 B", "64 A"],
        "PyTorch": ["1351", "not run", "3306", "not run"],
        "MXNet": ["not run", "7.00", "2920", "7.00"],
    }
    assert "- A: osu-cnn on digits, CPU, Intel(R) Xeon(R) Processor; threads 1\n" in built.markdown
    assert "- B: osu-cnn on digits, CPU, Intel(R) Xeon(R) Processor; threads 2\n" in built.markdown
    assert "### CPU usage, % of the core allotted, mean over the steady window (A); CPU usage, % of the 2 cores" in (
        built.printed
    )
    found = {(row["framework"], row["condition"], row["batch_size"]): row["n"] for row in numbers(out / "speed.csv")}
    assert (found["mxnet", "A", "32"], found["mxnet", "B", "32"]) == ("1", "1")
    assert not (out / "speed-1.md").exists()
    assert {"memory-kinds-1.md", "memory-kinds-2.md"} <= {path.name for path in out.iterdir()}
    legend = (out / "speed.md").read_text()
    assert "- A: Conditions: model osu-cnn" in legend
    assert "- B: Conditions: model osu-cnn" in legend


def test_columns_of_one_condition_are_the_table_and_of_two_devices_keep_their_own_figures(tmp_path: Path) -> None:
    results = store(tmp_path, trial("pytorch", 4), trial("mxnet", 4))
    plain, columns = (make(results, tmp_path / name, name == "b").markdown for name in ("a", "b"))
    assert plain == columns
    results = store(tmp_path / "2", trial("pytorch", 32), on_gpu(trial("pytorch", 32)))
    make(results, tmp_path / "2" / "report", columns=True)
    found = rows(tmp_path / "2" / "report" / "usage.md")
    letters = dict(zip(found["Framework / batch size"], found["PyTorch"], strict=True))
    assert sorted(letters.values()) == ["51.0", "71.0"]
    title = (tmp_path / "2" / "report" / "usage.md").read_text().splitlines()[0]
    assert "CPU usage" in title and "GPU usage" in title
    assert len(rows(tmp_path / "2" / "report" / "power.md")["PyTorch"]) == 1


def test_networks_of_one_name_are_told_apart_by_their_digests() -> None:
    digest = network.digest(WORKLOADS["osu-cnn"])
    (section,) = group_into_sections([trial(), trial(framework="mxnet", network=digest)])[0]
    assert len(section.results) == 2 and "network" not in condition_text.describe_condition(section.condition)
    parts, _ = group_into_sections([trial(network=12 * "a"), trial(network=12 * "b")])
    assert len(parts) == 2
    assert [heading.partition("; ")[2] for heading in condition_text.build_headings(parts)] == [
        f"network digest {12 * letter}" for letter in "ab"
    ]
