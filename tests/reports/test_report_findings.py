"""The summary's sentences are made from the data and true of whatever results come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import BATCH_SIZES, VERSIONS, ended, on_gpu, study, trial

from reports import caveats, findings
from reports.conditions import group_into_sections
from reports.load import Stored
from reports.report import Summary
from reports.reproduction.publication import PUBLICATIONS, read
from workloads.records.check_name import JUDGE, CheckName
from workloads.records.figures import Figure
from workloads.records.job import OWN, InputFile
from workloads.records.result import Check, TrialResult
from workloads.records.source_map import SOURCE
from workloads.records.status import Status
from workloads.records.stored import Unreadable
from workloads.spec import OptimizerSpec


def told(*results: TrialResult, unreadable: int = 0, unfinished: int = 0, beside: tuple[str, ...] = ()) -> Summary:
    bad = tuple(Unreadable(Path(f"u{number}"), "not whole JSON") for number in range(unreadable))
    open_ = tuple(Path(f"f{number}") for number in range(unfinished))
    stored = Stored(results, tuple(Path(result.spec.id) for result in results), bad, open_)
    return findings.summarise(stored, [replace(section, beside=beside) for section in group_into_sections(results)[0]])


def one(sentences: tuple[str, ...], start: str) -> str:
    (found,) = [sentence for sentence in sentences if sentence.startswith(start)]
    return found


def speedy(framework: str, size: int, speed: float, repeat: int = 0, **more: Any) -> TrialResult:
    figures = {"images_per_s": Figure(speed, "worker")} | more.pop("figures", {})
    return trial(framework, size, repeat, figures=figures, **more)


def accurate(percent: float, framework: str = "tensorflow", size: int = 8, **more: Any) -> TrialResult:
    figures = {"test_accuracy": Figure(percent / 100, "worker")}
    return trial(framework, size, dataset="cifar10", figures=figures, **more)


def checked(result: TrialResult, name: str, passed: bool, detail: str) -> TrialResult:
    return replace(result, checks=[*result.checks, Check(name, passed, detail)])


def test_what_was_run_names_model_data_device_versions_sizes_and_repeats() -> None:
    first, second = told(*study()).ran
    assert first == "27 trials: 27 ok. Started 2025-11-21 (UTC)."
    assert second == (
        "osu-cnn on digits, 10 epochs of SGD with momentum 0.9, learning rate 0.01; 9 batch sizes, 4 to 1024, one "
        "repeat; CPU Intel(R) Xeon(R) Processor, 2 threads; TensorFlow 2.16.1, PyTorch 2.13.0, MXNet 1.9.1."
    )


def test_speed_names_the_fastest_by_size_where_the_spread_is_known() -> None:
    results = [speedy(name, 4, speed) for name, speed in (("tensorflow", 100), ("pytorch", 50), ("mxnet", 80))]
    results += [speedy(name, 8, speed) for name, speed in (("tensorflow", 100), ("pytorch", 150), ("mxnet", 80))]
    assert one(told(*results).findings, "Training speed") == (
        "Training speed, 50.0 to 150 images/s: no framework is clearly fastest at any of 2 batch sizes. One repeat: no "
        "statement about the spread."
    )
    known = [speedy("mxnet", size, 100 + step, step + 1) for size in (16, 32) for step in (-1, 0, 1)]
    assert one(told(*results, *known).findings, "Training speed") == (
        "Training speed, 50.0 to 150 images/s: TensorFlow was fastest in this run at 4; PyTorch was fastest in this "
        "run at 8."
    )


def test_a_framework_leads_at_all_sizes_where_the_spread_is_known_and_nowhere_else() -> None:
    # speed of repeats is told where the intervals lie apart and nowhere else
    # t(0.975, 1) = 12.706205, s = 1.414214: +- 12.7; at 4 they lie 100 apart, at 8 they lie 10 apart
    results = [
        speedy(name, size, speed + step, repeat)
        for name, size, speed in (("pytorch", 4, 300), ("mxnet", 4, 200), ("pytorch", 8, 300), ("mxnet", 8, 290))
        for repeat, step in enumerate((-1, 1))
    ]
    assert one(told(*results).findings, "Training speed") == (
        "Training speed, 200 to 300 images/s: PyTorch is fastest at 4; no framework is clearly fastest at 8."
    )
    # a framework that leads everywhere is said to lead at all sizes
    # 5.7 % ahead at 4, where a step takes 2.8 against 2.96 ms; more at every larger size
    results = study()
    assert "no framework is clearly fastest at any of 9 batch sizes." in one(told(*results).findings, "Training speed")
    known = [speedy("mxnet", size, 1000 + step, step + 1) for size in (2048, 4096) for step in (-1, 0, 1)]
    found = one(told(*results, *known).findings, "Training speed")
    assert "TensorFlow was fastest in this run at all 9 batch sizes." in found
    # one repeat alone names nobody as the fastest
    results = [speedy("mxnet", 4, 1234), speedy("pytorch", 4, 1233)]
    found = one(told(*results).findings, "Training speed")
    assert found == (
        "Training speed, 1233 to 1234 images/s: no framework is clearly fastest at 4. One repeat: no statement about "
        "the spread."
    )
    beyond = one(told(speedy("mxnet", 4, 1300), speedy("pytorch", 4, 1233)).findings, "Training speed")
    assert beyond.startswith("Training speed, 1233 to 1300 images/s: no framework is clearly fastest at 4.")
    # disturbed cells are counted beside the speed
    foreign = {"foreign_cpu_percent": Figure(40.0, "sampler")}
    results = [speedy("pytorch", 4, 100, figures=foreign), speedy("mxnet", 4, 90)]
    assert "Disturbed or noisy: 1 of 2 cells." in one(told(*results).findings, "Training speed")


def test_who_is_slowest_for_certain_is_said_of_three_and_before_what_is_uncertain() -> None:
    def speeds(size: int, **values: float) -> list[TrialResult]:
        return [speedy(name, size, value + step, n) for name, value in values.items() for n, step in enumerate((-1, 1))]

    near = [*speeds(64, pytorch=100, mxnet=290, tensorflow=300), *speeds(256, pytorch=100, mxnet=290, tensorflow=300)]
    assert one(told(*near).findings, "Training speed") == (
        "Training speed, 100 to 300 images/s: PyTorch is slowest at all 2 batch sizes; no framework is clearly fastest "
        "at any of 2 batch sizes."
    )
    mixed = [*near, *speeds(128, pytorch=100, mxnet=290, tensorflow=400), *speeds(512, pytorch=290, mxnet=300)]
    assert one(told(*mixed).findings, "Training speed") == (
        "Training speed, 100 to 400 images/s: TensorFlow is fastest at 128; PyTorch is slowest at 64 to 256; no "
        "framework is clearly fastest at 64, 256 and 512."
    )
    two = one(told(*speeds(64, pytorch=100, mxnet=300)).findings, "Training speed")
    assert two == "Training speed, 100 to 300 images/s: MXNet is fastest at 64.", "the slower of two is the other one"
    single = [speedy(name, 64, speed) for name, speed in (("pytorch", 100), ("mxnet", 290), ("tensorflow", 300))]
    assert "slowest" not in one(told(*single).findings, "Training speed")


def test_least_and_most_memory_are_stated_by_the_same_rule() -> None:
    def holds(framework: str, mib: float, repeat: int = 0) -> TrialResult:
        return trial(framework, 4, repeat, figures={"host_memory_bytes": Figure(mib * 2**20, "w")})

    near = one(told(holds("mxnet", 500), holds("pytorch", 510)).findings, "Host memory")
    assert near == (
        "Host memory, 500 to 510 MiB: no framework is clearly lowest at 4; no framework is clearly highest at 4."
    )
    # three that are the same: taken to spread by 0.5 %, +- 4.302653 x 0.005 / sqrt(3) = 1.24 %
    twins = [holds(name, mib, repeat) for name, mib in (("mxnet", 500), ("pytorch", 510)) for repeat in range(3)]
    assert "no framework is clearly lowest at 4" in one(told(*twins).findings, "Host memory")
    apart = [holds(name, mib, repeat) for name, mib in (("mxnet", 500), ("pytorch", 520)) for repeat in range(3)]
    assert "MXNet is lowest at 4; PyTorch is highest at 4." in one(told(*apart).findings, "Host memory")
    third = [holds("tensorflow", 500, repeat) for repeat in range(3)]
    assert one(told(*apart, *third).findings, "Host memory").endswith(
        "MiB: PyTorch is highest at 4; no framework is clearly lowest at 4."
    ), "what is certain comes first"


def test_memory_says_between_which_values_it_is_and_on_a_gpu_it_is_the_gpus() -> None:
    # the synthetic MiB: 400, 500 and 600 by framework, and a quarter of the batch size
    assert one(told(*study()).findings, "Host memory") == (
        "Host memory, 401 to 856 MiB: no framework is clearly lowest at any of 9 batch sizes; no framework is clearly "
        "highest at any of 9 batch sizes."
    )
    summary = told(*(on_gpu(trial(name, 4)) for name in VERSIONS))
    assert one(summary.findings, "GPU memory").startswith(
        "GPU memory, 604 to 904 MiB: no framework is clearly lowest at 4;"
    )
    assert not [line for line in summary.not_verified if "No trial ran on a GPU" in line]


def test_accuracy_of_one_repeat_says_how_far_apart_and_of_three_counts_the_pairs_that_agree() -> None:
    results = [
        accurate(50, "tensorflow", 4),
        accurate(47.5, "mxnet", 4),
        accurate(60, "tensorflow"),
        accurate(59, "mxnet"),
    ]
    assert one(told(*results).findings, "Test accuracy") == (
        "Test accuracy: at the same batch size frameworks are at most 2.50 points apart (at 4). Agreement is not "
        "stated: it takes 3 paired repeats."
    )
    # the synthetic accuracies are one point apart by rank, the same in every repeat: 1, 1 and 2 points; of 360 images
    # each +- 4.302653 x 0.278 / sqrt(3) = 0.69, so that the first two may be more than a point or less
    results = [trial(name, 8, repeat) for name in VERSIONS for repeat in range(3)]
    assert one(told(*results).findings, "Test accuracy") == (
        "Test accuracy within 1 point, 3 pairs of frameworks, each at one batch size: 2 uncertain; 1 not comparable."
    )


def test_the_published_row_is_compared_where_it_may_be_and_else_the_reason_is_said() -> None:
    # +3 at 8 and -4 at 16: sqrt((9 + 16) / 2) = 3.5; batch size 4 is left out
    results = accurate(48.83), accurate(59.06, size=16), accurate(10, size=4), accurate(46.83, "mxnet")
    summary = told(*results)
    found = one(summary.findings, "The published accuracy row")
    assert "in one repeat TensorFlow 3.5 points over 2 batch sizes and MXNet 1.0 points over 1 batch size." in found
    assert "found by calibration" in one(summary.not_verified, "The publication names neither")
    nine = told(accurate(48.83, epochs=9))
    assert not [line for line in nine.findings if "published" in line]
    assert (
        "Not compared with the published figures of test accuracy: 9 epochs, published after 10." in nine.not_verified
    )
    assert not [line for line in told(*study()).findings if "published" in line]
    lines = told(*study(), beside=("osu-2020",)).not_verified
    assert (
        "Not compared with the published figures of GPU usage and GPU memory: CPU run; other data set, digits." in lines
    )
    assert "Not compared with the published figures of test accuracy: other data set, digits." in lines
    assert not [line for line in told(*study()).not_verified if "published" in line]
    osu = read(PUBLICATIONS / "osu-2020")
    assert osu.caveat not in lines
    assert osu.caveat in told(accurate(50)).not_verified


def test_failed_checks_and_disturbed_trials_are_counted() -> None:
    quiet, loud = (
        trial(size, 4, figures={"foreign_cpu_percent": Figure(share, "sampler")})
        for size, share in (("pytorch", 2.0), ("mxnet", 40.0))
    )
    failed = checked(quiet, "energy", False, "off")
    summary = told(failed, loud, trial("tensorflow", 4))
    assert summary.findings[-1] == (
        "A check failed in 1 of 3 ok trials; "
        "other processes took more than 10 % of the CPU in 1 of the 2 that report it."
    )
    lines = summary.not_verified
    assert one(lines, "1 of 3 ok trials were disturbed")
    assert "1 of 3 ok trials do not report whether other processes disturbed them." in lines
    shares = {"foreign_cpu_percent": Figure(2.0, "sampler"), "foreign_cpu_epochs_percent": Figure(20.0, "sampler")}
    known_in_epochs = {"foreign_cpu_epochs_percent": Figure(3.0, "sampler")}
    summary = told(trial("pytorch", 4, figures=shares), trial("mxnet", 4, figures=known_in_epochs))
    assert summary.findings[-1].endswith("other processes took more than 10 % of the CPU in 1.")
    assert one(summary.not_verified, "1 of 2 ok trials were disturbed")
    assert not [line for line in summary.not_verified if "do not report whether" in line]


def test_trials_that_were_disturbed_are_still_compared_in_what_neighbours_cannot_change() -> None:
    failed = [trial(name, 4, status=Status.FAILED, reason="it fell") for name in ("mxnet", "tensorflow")]
    disturbed = trial("pytorch", 4, status=Status.CONTENDED, reason="others")
    assert told(disturbed, *failed).headline == (
        "No training speed: other processes disturbed 1 of 3 trials; the other 2 gave none for another reason"
    )
    busy: dict[str, Any] = {
        "status": Status.CONTENDED,
        "reason": "other processes took 40 % of the cores in the steady window",
    }
    summary = told(*(trial(name, 4, repeat, **busy) for name in ("pytorch", "mxnet") for repeat in range(3)))
    assert summary.headline == (
        "No training speed: other processes disturbed 6 of 6 trials; accuracy and memory are compared"
    )
    assert one(summary.findings, "Training speed") == "Training speed: no trial gave a value."
    assert one(summary.findings, "Without a number").count("other processes took 40 %") == 2
    assert "MXNet is highest at 4" in one(summary.findings, "Host memory")
    assert one(summary.findings, "Test accuracy within 1 point")
    assert one(summary.not_verified, "6 of 6 trials were disturbed by other processes (contended).")
    assert not [line for line in (*summary.findings, *summary.not_verified) if "give no number" in line]
    # in the epochs alone: the window's figures are shown, and no sentence denies it
    shares = {"foreign_cpu_percent": Figure(5.0, "sampler"), "foreign_cpu_epochs_percent": Figure(40.0, "sampler")}
    calm = told(trial("pytorch", 4, figures=shares, **busy))
    assert one(calm.findings, "Training speed").startswith("Training speed, 1351 images/s.")
    assert one(calm.not_verified, "1 of 1 trial was disturbed by other processes (contended).").endswith(
        " Figures that this may have changed are withheld: speed, usage, energy, power, times, memory of the whole "
        "device. Accuracy, losses and other memory are reported."
    )
    several = [trial("pytorch", size, epochs=3, **busy) for size in (4, 8, 16)]
    assert "PyTorch: " in told(trial("pytorch", 4), *several).headline
    assert told(*several, trial("mxnet", 4, status=Status.FAILED, reason="it fell")).headline.startswith(
        "No training speed: other processes disturbed 3 of 3 trials"
    )


def test_a_short_window_is_counted_and_fails_no_check_where_it_was_asked_for() -> None:
    short = trial("pytorch", 4, window_s=0.3)
    told_of = told(checked(short, CheckName.LONG_ENOUGH, False, "0.3 s"), trial("tensorflow", 4)).findings[-1]
    assert told_of.startswith("2 ok trials: no check failed;")
    lines = told(checked(trial(), CheckName.LONG_ENOUGH, False, "3.00 s")).not_verified
    assert "1 of 1 ok trials had a steady window too short for a reliable usage." in lines


def test_without_an_ok_trial_there_is_nothing_to_find_and_every_other_is_counted() -> None:
    summary = told(ended(Status.TIMEOUT, "x"), ended(Status.OUT_OF_MEMORY, "x", batch_size=64))
    assert summary.ran[0].startswith("2 trials: 1 timeout, 1 out of memory.")
    assert summary.findings == (
        "No trial ended ok: there is nothing to compare.",
        "Without a number: PyTorch at 32: timeout: x; PyTorch at 64: out of memory: x.",
    )
    assert summary.headline == "No trial ended ok: there is nothing to compare"
    default = told(on_gpu(trial("tensorflow", 4, allocator="default")))
    assert default.headline == "No trial that takes memory on demand ended ok: there is nothing to compare"
    assert "Trials that give no number: 1 timeout, 1 out of memory." in summary.not_verified
    summary = told(unreadable=2)
    assert summary.ran == ("No result could be read.",)
    assert summary.not_verified == ("Trials that give no number: 2 unreadable.",)
    odd = replace(trial("mxnet"), status=Status.UNVERIFIED, reason="differs")
    lines = told(trial(), odd, unreadable=2, unfinished=1).not_verified
    assert "Trials that give no number: 1 unverified, 2 unreadable, 1 unfinished." in lines


def test_what_an_unverified_trial_measured_stands_next_to_the_accusation() -> None:
    odd = replace(trial("mxnet"), status=Status.UNVERIFIED, reason="differs from the referee")
    died = replace(trial("pytorch", 64), status=Status.FAILED, reason="killed")
    stored_trials = Stored((odd, died), (Path("a"), Path("b")), (), ())
    first, second = caveats.list_problems(stored_trials, ())["Trials that are not ok"]
    assert first.startswith(f"{odd.spec.id}: unverified: differs from the referee. It measured: training speed ")
    assert "images/s, host memory " in first and " MiB, test accuracy " in first
    assert second == f"{died.spec.id}: failed: killed"


def test_one_trial_alone_and_a_quantity_without_a_value_make_no_comparison() -> None:
    summary = told(trial())
    assert summary.ran[0] == "1 trial: 1 ok. Started 2025-11-21 (UTC)."
    assert "batch size 32, one repeat" in summary.ran[1]
    assert summary.findings[0] == ("Training speed, 3306 images/s. One repeat: no statement about the spread.")
    assert "fastest" not in " ".join(summary.findings)
    silent = {name: Figure(None, "", reason="no") for name in ("images_per_s", "host_memory_bytes", "test_accuracy")}
    assert told(trial(figures=silent)).findings[:4] == (
        "Training speed: no trial gave a value.",
        "Without a number: PyTorch at 32: unknown: no.",
        "Host memory: no trial gave a value.",
        "Test accuracy: no trial gave a value.",
    )
    assert one(told(trial()).not_verified, "Every cell has one repeat")
    assert not [line for line in told(trial(), trial(repeat=1)).not_verified if "one repeat" in line]


def test_several_sections_are_told_apart_and_many_are_counted() -> None:
    cards = [on_gpu(accurate(48.83, name)) for name in VERSIONS]
    summary = told(*study(), *cards, trial(threads=1))
    assert [line.split(":")[0] for line in summary.ran[1:]] == ["Section 1", "Section 2", "Section 3"]
    place = next(number for number, line in enumerate(summary.ran) if "9 batch sizes" in line)
    assert one(summary.not_verified, f"Speed, memory and parity of accuracy are stated only for section {place}, which")
    assert one(summary.findings, "Host memory")
    card = next(number for number, line in enumerate(summary.ran) if "GPU NVIDIA H200" in line)
    assert f", section {card}: root-mean-square" in one(summary.findings, "The published accuracy row")
    assert not [line for line in summary.not_verified if "No trial ran on a GPU" in line]
    summary = told(*(trial(threads=threads) for threads in range(1, 7)))
    assert len(summary.ran) == 5
    assert summary.ran[-1] == "3 further sections with other conditions."


def gated(*against: str) -> TrialResult:
    """An ok trial with the gate's verdict, whatever its words."""
    return replace(trial(), checks=[Check(CheckName.GATE, bool(against), "as it was", against)])


@pytest.mark.parametrize(
    ("against", "sentence"),
    [((), "compared with nothing"), (("pytorch",), "only with other frameworks, not with the referee")],
)
def test_what_the_gate_could_not_compare_is_counted(against: tuple[str, ...], sentence: str) -> None:
    lines = told(gated(*against)).not_verified
    assert [line for line in lines if sentence in line and line.startswith("1 of 1 ok trials")]
    assert not [line for line in lines if "have no check" in line]


def test_a_trial_held_against_the_referee_and_others_leaves_no_word() -> None:
    lines = told(gated(JUDGE, "pytorch")).not_verified
    assert not [line for line in lines if "compared with" in line or "have no check" in line]


@pytest.mark.parametrize("name", [CheckName.END_EVALUATION, CheckName.EPOCHS_AGREE])
def test_trials_that_were_looked_at_in_their_first_steps_alone_are_counted(name: str) -> None:
    result = checked(gated(JUDGE, "pytorch"), name, True, "as it should be")
    lines = [line for line in told(result).not_verified if "only in their first steps" in line]
    assert [line.startswith("1 of 1 ok trials") for line in lines] == [True] * (name != CheckName.END_EVALUATION)


@pytest.mark.parametrize("repeats", [1, 3])
def test_there_are_six_findings_at_most_and_none_is_empty(repeats: int) -> None:
    results = [
        accurate(50 + repeat, name, size, repeat=repeat)
        for name in VERSIONS for size in BATCH_SIZES for repeat in range(repeats)
    ]  # fmt: skip
    summary = told(*results)
    assert len(summary.findings) == 5
    assert all(line.strip() and line.endswith(".") for line in (*summary.ran, *summary.findings, *summary.not_verified))


def test_what_comes_from_outside_stays_plain_text() -> None:
    odd = replace(trial(), machine=trial().machine | {"cpu_model": "<script>*x*"})
    assert "CPU <script>*x*, 2 threads" in told(odd).ran[1]


def test_what_a_study_or_its_series_asks_for_and_was_not_run_is_said() -> None:
    part = [trial(framework, 32, study="osu-2020", dataset="cifar10") for framework in ("pytorch", "mxnet")]
    expected = (
        "Not run of the study osu-2020 as it is defined: batch size 4, 8, 16, 64, 128, 256, 512 and 1024 and 2 of 3 "
        "repeats."
    )
    assert expected in told(*part).not_verified
    other = [replace(each, spec=varied(each.spec, dataset="digits")) for each in part]
    for of_another_task in (study(), other):
        assert not [line for line in told(*of_another_task).not_verified if "as it is defined" in line]
    of_study: dict[str, Any] = {
        "study": "cats-dogs-cpu",
        "workload": "cats-dogs-cnn-32",
        "dataset": "cifar10-cats-dogs",
        "epochs": 5,
    }
    adam = trial("pytorch", 32, optimizer=OptimizerSpec("adam", 0.001), **of_study)
    first, line = [line for line in told(adam).not_verified if "as it is defined" in line]
    assert first.endswith("cats-dogs-cpu as it is defined: the series sgd, adam-augmented and adam-equal-updates.")
    assert line.startswith(
        "Not run of the study cats-dogs-cpu (adam) as it is defined: batch size 16, 64, 128 and 256 "
    )


def test_a_study_named_after_a_publication_begins_with_how_near_it_came() -> None:
    summary = told(accurate(48.83, study="osu-2020"), accurate(46.83, "mxnet", study="osu-2020"))
    # published 45.83 at 8
    assert summary.headline == (
        "MXNet came within 1.0 points of the published accuracy row (1 batch size) in one repeat, by root mean square, "
        "TensorFlow within 3.0"
    )
    assert summary.about == "accuracy"
    # 1.51 points away is not within 1.5
    repeats = [accurate(47.34, study="osu-2020", repeat=repeat) for repeat in range(2)]
    assert told(*repeats).headline == (
        "TensorFlow comes within 1.6 points of the published accuracy row (1 batch size), by root mean square"
    )
    # two sizes of one framework, and one of the other; batch size 4 was run, and is left out
    sizes = {8: 48.83, 16: 59.06, 4: 10.0}
    several = [accurate(percent, size=size, study="osu-2020") for size, percent in sizes.items()]
    assert told(*several, accurate(46.83, "mxnet", study="osu-2020")).headline == (
        "MXNet came within 1.0 points of the published accuracy row (1 batch size, from 8 on) in one repeat, by root "
        "mean square, TensorFlow within 3.6 (2 batch sizes)"
    )
    assert told(accurate(48.83), accurate(46.83, "mxnet")).about == "speed"


def test_an_imported_network_is_said_to_be_the_users_model_in_each_framework_and_how_nearly() -> None:
    apart = "forward 3e-07, gradients 2e-06, three updates 5e-06 of their change"
    proven = [checked(speedy(name, 8, 100), CheckName.SOURCE, True, apart) for name in ("pytorch", "mxnet")]
    (line,) = [each for each in told(*proven).findings if each.startswith("The imported network ")]
    workload = proven[0].spec.task.workload
    assert line == f"The imported network {workload} is your model: PyTorch {apart}; MXNet {apart}."
    disturbed = [replace(each, status=Status.CONTENDED, reason="others") for each in proven]
    assert line in told(*disturbed).findings, "what others took changes no number of the proof"
    assert not any("imported" in each for each in told(speedy("pytorch", 8, 100)).findings)


def test_an_imported_network_without_a_proof_is_said_to_be_compared_with_nothing() -> None:
    plain = speedy("pytorch", 8, 100)
    begun = replace(plain, spec=varied(plain.spec, initial=OWN))
    name = plain.spec.task.workload
    said = f"{name} is an imported network and was not compared with the model that it comes from."
    assert said in told(begun).findings
    assert said not in told(plain).findings
    assert said not in told(checked(begun, CheckName.SOURCE, True, "forward 3e-07")).findings
    drawn = replace(plain, spec=replace(plain.spec, unproven="an .onnx file has no framework"))
    assert f"{said[:-1]}: an .onnx file has no framework." in told(drawn).findings, "whatever its weights are"
    reduced = replace(plain, spec=varied(plain.spec, inputs={SOURCE: InputFile("inputs/a.json", "0")}))
    assert said in told(reduced).findings
