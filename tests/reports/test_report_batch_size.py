"""Pages that answer "which batch size?": table, recommendation, picture, page."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import answers, fastest, judged, noise, rows, store_answers

from reports.__main__ import main
from reports.batch_size.answers import map_sizes, read
from reports.batch_size.recommendation import recommend
from reports.condition_text import ABSENT
from workloads.records.advice import choose_batch_size
from workloads.records.batch_answers import (
    ANSWERS_FILE,
    Answers,
    Best,
    Caution,
    Fit,
    Holds,
    Judged,
    Largest,
    LargestSpeed,
    Limit,
    Noise,
    NoisePoint,
    Ratio,
    SizeVerdict,
    Target,
    Trained,
    Tried,
)
from workloads.records.status import Status

ALL = (answers("mxnet", 32, 3000), answers("tensorflow", 128, 4600), answers("pytorch", 64, 2600))


def sentences(results: Path) -> list[str]:
    found = read(results)
    assert found is not None
    return recommend(found)


def test_a_folder_with_answers_alone_gives_their_page_table_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = store_answers(tmp_path, *ALL)
    assert main([str(results)]) == 0
    files = {path.name for path in (results / "report").iterdir()}
    assert {f"batch-size.{ending}" for ending in ("md", "csv", "png", "svg")} <= files
    page = (results / "report" / "report.html").read_text()
    assert 'data-table="s1-batch-size"' in page and 'id="s1-batch-size-chart"' in page
    assert "report.html" in capsys.readouterr().out


def test_the_printed_table_is_no_wider_than_100_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(store_answers(tmp_path, *ALL)), "--format", "md"])
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("Framework"))
    rows = lines[start : start + 5]
    assert [row.split()[0] for row in rows[2:]] == ["TensorFlow", "PyTorch", "MXNet"] and max(map(len, rows)) <= 100


def test_the_csv_has_every_answer_with_units_in_its_names(tmp_path: Path) -> None:
    main([str(store_answers(tmp_path, *ALL)), "--format", "csv"])
    rows = list(csv.DictReader((tmp_path / "report" / "batch-size.csv").open()))
    assert [row["framework"] for row in rows] == ["tensorflow", "pytorch", "mxnet"]
    assert {rows[0][name] for name in ("largest", "fastest", "advised")} == {"2311", "128"}
    assert float(rows[0]["noise_scale"]) == 900 and rows[0]["least_energy"] == ""
    assert float(rows[0]["epoch_s"]) == pytest.approx(1437 / float(rows[0]["images_per_s"]))


def test_the_fastest_framework_is_advised_where_intervals_tell_it_apart(tmp_path: Path) -> None:
    advice, grounds = sentences(store_answers(tmp_path, *ALL))
    assert advice.startswith("Train with TensorFlow at batch size 128: ")
    assert advice.endswith("more than PyTorch and MXNet.")
    assert "34 trials" in grounds and "900" in grounds and "2,311" in grounds


def test_a_slow_training_has_its_speed_in_three_digits_in_the_advice_and_in_the_table(tmp_path: Path) -> None:
    results = store_answers(tmp_path, answers("pytorch", 4, 4.2))
    assert sentences(results)[0] == "Train with PyTorch at batch size 4: 1.40 images/s."
    main([str(results), "--format", "md"])
    shown = rows(results / "report" / "batch-size.md")
    assert shown["PyTorch"][shown["Framework"].index("Images/s")] == "1.40"


def test_frameworks_whose_intervals_meet_are_not_put_in_order(tmp_path: Path) -> None:
    advice, _ = sentences(store_answers(tmp_path, answers("pytorch", 128, 4550), answers("tensorflow", 128, 4600)))
    assert "not significantly different from PyTorch" in advice
    without = tuple(replace(point, low=None, high=None) for point in fastest(128, 2000).points)
    single = replace(answers("pytorch", 128, 2000), fastest=replace(fastest(128, 2000), points=without))
    advice, _ = sentences(store_answers(tmp_path, single, answers("tensorflow", 128, 9200)))
    assert "not significantly different from PyTorch" in advice


def test_who_is_slower_for_certain_is_said_before_who_is_not_significantly_different(tmp_path: Path) -> None:
    speeds = {"pytorch": 4600, "mxnet": 4580, "tensorflow": 1400}
    advice, _ = sentences(store_answers(tmp_path, *(answers(name, 128, speed) for name, speed in speeds.items())))
    assert advice.endswith(" images/s, more than TensorFlow, not significantly different from MXNet.")


def test_a_size_whose_ordinary_trial_failed_a_check_is_not_recommended_the_next_one_is(tmp_path: Path) -> None:
    caught = judged("tensorflow", 128, Status.UNVERIFIED, "its speed is 3 times the bound")
    advice, _, refused = sentences(store_answers(tmp_path, ALL[0], replace(ALL[1], judged=caught), ALL[2]))
    assert advice.startswith("Train with MXNet at batch size 32: ")
    assert "TensorFlow" not in advice
    assert refused == (
        "TensorFlow at batch size 128 is not recommended: its ordinary training was unverified: its speed is 3 times "
        "the bound."
    )


@pytest.mark.parametrize("status", [Status.UNVERIFIED, Status.OUT_OF_MEMORY, None])
def test_where_no_ordinary_trial_passed_nothing_is_recommended_and_every_page_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: Status | None
) -> None:
    """None: answers of a version that judged nothing."""
    trials = () if status is None else judged("tensorflow", 128, status, "losses at its end differ by 0.4")
    main([str(store_answers(tmp_path, replace(ALL[1], judged=trials))), "--format", "md", "html", "csv", "svg"])
    report = tmp_path / "report"
    texts = [(report / f"report.{ending}").read_text() for ending in ("md", "html")]
    for text in (capsys.readouterr().out, *texts):
        plain = " ".join(text.replace("&#39;", "'").split())
        assert (
            "Nothing is recommended: no framework's ordinary training at its batch size passed every check" in plain
            and "Train with" not in plain
        )
        assert ("losses at its end differ by 0.4" if status else "no ordinary training has tested it") in plain
    (row,) = csv.DictReader((report / "batch-size.csv").open())
    assert (row["advised"], row["judged"]) == ("", status or "")
    assert (report / "batch-size.svg").exists() == (status is not Status.UNVERIFIED)
    cells = next(line for line in texts[0].splitlines() if line.startswith("| TensorFlow")).split("|")
    assert ("unverified" in cells[3]) == (status is Status.UNVERIFIED), "an unverified size is no number"


def test_what_other_processes_disturbed_is_recommended_and_what_nobody_compared_is_said(tmp_path: Path) -> None:
    trials = judged("tensorflow", 128, Status.CONTENDED, "other processes took 40 %")
    advice, grounds = sentences(store_answers(tmp_path, replace(ALL[1], judged=trials)))
    assert advice.startswith("Train with TensorFlow") and "ended well (other processes took 40 %)" in grounds
    _, grounds = sentences(store_answers(tmp_path, ALL[1]))
    assert grounds.endswith("An ordinary training at this size passed every check.")


def test_what_the_search_left_open_is_said_in_place_of_a_certainty_that_it_did_not_find(tmp_path: Path) -> None:
    left = "the best by its mean; not significantly different: 64, 256; after 12 blocks"
    best = replace(fastest(128, 4600), reason=left)
    _, grounds = sentences(store_answers(tmp_path / "open", replace(ALL[1], fastest=best)))
    assert f"34 trials of speed ({left}), on a gradient noise scale" in grounds and "no size is faster" not in grounds
    _, grounds = sentences(store_answers(tmp_path / "proven", ALL[1]))
    assert "34 trials of speed (no size is faster by more than 2 %), on" in grounds
    smaller = answers("tensorflow", 1024, 4600, scale=100)
    smaller = replace(smaller, fastest=replace(fastest(1024, 4600), reason=left), judged=judged("tensorflow", 64))
    _, grounds = sentences(store_answers(tmp_path / "beyond", smaller))
    assert f"(1,024 is the fastest: {left})" in grounds


def test_a_batch_beyond_the_noise_scale_or_memory_is_not_advised() -> None:
    beyond = answers("pytorch", 1024, 3000, scale=100)
    assert choose_batch_size(beyond) == 64  # measured sizes up to 120, the upper end of the interval
    assert choose_batch_size(answers("pytorch", 1024, 3000, scale=2000)) == 1024
    unknown = replace(beyond, noise=Noise((NoisePoint(0, -1.0, 5.0, None, None, None, 640.0, 20, 32, 640),)))
    assert choose_batch_size(unknown) == 1024
    assert beyond.noise
    diverged = replace(beyond, noise=replace(beyond.noise, reason="training diverged: gradients are not numbers"))
    assert choose_batch_size(diverged) == 1024, "the points are of its beginning alone"
    limited = replace(answers("pytorch", 1024, 3000, scale=9000), largest=replace(ALL[0].largest, batch_size=300))  # type: ignore[type-var]  # fmt: skip
    assert choose_batch_size(limited) == 256


def test_an_unknown_answer_is_a_dash_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crashed = replace(ALL[2], fastest=Best(None, "every trial crashed"), noise=None)
    main([str(store_answers(tmp_path, crashed)), "--format", "md"])
    printed = capsys.readouterr().out
    assert "every trial crashed" in printed and "Nothing can be recommended" in printed


def test_where_no_fastest_size_was_asked_for_nothing_is_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [replace(each, fastest=None, least_energy=None, noise=None) for each in ALL]
    main([str(store_answers(tmp_path, *asked)), "--format", "md", "html"])
    pages = [(tmp_path / "report" / f"report.{ending}").read_text() for ending in ("md", "html")]
    for text in (capsys.readouterr().out, *pages):
        assert "2,311" in text and "ecommend" not in text


def test_the_largest_says_its_limit_and_what_fitted_and_failed_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """646 fits in 600 MiB, while 647 trained twice of three times: one number alone hid both."""
    trials = [(646, Fit.FITS)] * 3 + [(647, Fit.FITS), (647, Fit.TOO_LARGE), (647, Fit.FITS)]
    tried = [Tried(size, fit, f"steps/a-{place}", None) for place, (size, fit) in enumerate(trials)]
    tried.append(Tried(1, Fit.UNKNOWN, "steps/a-9", None, reason="ValueError: Expected more than 1 value"))
    around = (Tried(648, Fit.FITS, "steps/a-10", None),)
    group = Largest(646, None, Limit.GROUP, 600 * 2**20, around=around, tried=tuple(tried))
    main([str(store_answers(tmp_path, replace(ALL[2], largest=group))), "--format", "md"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "600 MiB, a control group: 646 fits (3 of 3), 647 failed 1 of 3, 648 fitted once" in printed
    assert "1 failed, but not for lack of memory: ValueError: Expected more than 1 value" in printed


def test_the_pictures_captions_name_every_answer_that_is_known() -> None:
    assert map_sizes(replace(ALL[0], noise=noise(500))) == {"fastest": 32, "largest": 2311, "noise scale": 500}


def test_a_file_that_is_no_record_of_answers_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = store_answers(tmp_path, *ALL)
    content = json.loads((results / ANSWERS_FILE).read_text()) | {"in_use": "many"}
    (results / ANSWERS_FILE).write_text(json.dumps(content))
    assert main([str(results)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "in_use" in error


def test_the_page_has_the_conditions_of_its_numbers(tmp_path: Path) -> None:
    main([str(store_answers(tmp_path, *(replace(each, version="1.2.3") for each in ALL))), "--format", "md"])
    page = (tmp_path / "report" / "report.md").read_text()
    for words in (
        "processor AMD EPYC",
        "memory limit 2,048 MiB",
        "learning rate 0.01",
        "PyTorch version 1.2.3",
        "threads 2",
    ):
        assert words in page


def test_what_disturbs_an_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ALL[0].largest and ALL[0].noise
    larger = Tried(2368, Fit.FITS, "steps/b-1", None)
    each = replace(
        ALL[0],
        largest=replace(ALL[0].largest, around=(larger,)),
        noise=replace(ALL[0].noise, cautions=tuple(Caution), agrees=False),
    )
    main([str(store_answers(tmp_path, each)), "--format", "md"])
    printed = capsys.readouterr().out
    for words in ("fitted once: 2,368", "with BatchNorm", "without Dropout", "by more than rounding"):
        assert words in printed


def falling(each: Answers, verdict: SizeVerdict) -> Answers:
    """Return the answers with a largest size at 30 % of the speed of a smaller one."""
    assert each.largest and each.largest.batch_size
    compared = Ratio(each.largest.batch_size, verdict, 0.3, 0.28, 0.33, 4)
    return replace(each, largest=replace(each.largest, speed=LargestSpeed(300.0, 64, 1000.0, compared)))


def test_a_largest_size_that_is_slow_is_a_finding_and_a_footnote(tmp_path: Path) -> None:
    main([str(store_answers(tmp_path, falling(ALL[0], SizeVerdict.WORSE), *ALL[1:])), "--format", "md", "csv"])
    text = (tmp_path / "report" / "report.md").read_text().replace("\\", "")
    size = f"{ALL[0].largest.batch_size:,}" if ALL[0].largest and ALL[0].largest.batch_size else ""
    assert f"MXNet: the largest batch size, {size}, trains at 300 images/s, 70 % [67, 72] below 64" in text
    assert "300 images/s there, 30 % [28, 33] of the best measured, 1,000 at 64: train at 64" in text
    rows = list(csv.DictReader((tmp_path / "report" / "batch-size.csv").open()))
    found = {row["framework"]: (row["largest_images_per_s"], row["largest_over_best"]) for row in rows}
    assert (found["mxnet"], found["pytorch"]) == (("300.0", "0.3"), ("", ""))


def test_what_its_interval_does_not_show_is_no_finding(tmp_path: Path) -> None:
    main([str(store_answers(tmp_path, falling(ALL[0], SizeVerdict.UNCERTAIN))), "--format", "md"])
    text = (tmp_path / "report" / "report.md").read_text().replace("\\", "")
    assert "a smaller batch is faster" not in text and "train at 64" not in text and "30 % [28, 33] of the best" in text


def test_sizes_of_several_devices_are_each_devices_and_the_noise_scale_is_of_an_update(tmp_path: Path) -> None:
    divided = replace(answers("pytorch", 1024, 3000, scale=2000), devices=4)
    assert choose_batch_size(divided) == 512, "4 x 512 images are within 2,400, the upper end of the interval"
    advice, *_ = sentences(store_answers(tmp_path, replace(divided, judged=judged("pytorch", 512))))
    assert advice.startswith("Train with PyTorch at batch size 512 on each of 4 devices: ")
    main([str(tmp_path), "--format", "md"])
    assert "Batch sizes are per device" in (tmp_path / "report" / "report.md").read_text()


def compared(size: int, verdict: Holds, repeats: int = 3) -> Trained:
    whole = Trained(size, 64, 1.6, 1.5, 1.7, -0.012, -0.02, -0.004, repeats, verdict)
    if repeats > 2:
        return whole
    return replace(whole, speed_up_low=None, speed_up_high=None, accuracy_low=None, accuracy_high=None)


def read_page(results: Path) -> str:
    return " ".join((results / "report" / "report.md").read_text().replace("\\", "").split())


def test_a_page_of_trainings_answers_whether_a_larger_batch_is_much_faster_at_equal_quality(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = {
        "mxnet": (compared(590, Holds.DOES_NOT), compared(2000, Holds.HOLDS)),
        "tensorflow": (compared(590, Holds.DOES_NOT), compared(2000, Holds.UNCERTAIN)),
        "pytorch": (compared(590, Holds.DOES_NOT), compared(2000, Holds.UNCERTAIN, repeats=1)),
    }
    asked = [replace(each, fastest=None, largest=None, trained=trained[each.framework]) for each in ALL]
    main([str(store_answers(tmp_path, *asked)), "--format", "md", "html", "csv"])
    question = "Is an epoch with larger batches than 64 at least 3 times as fast, with at most 1 point less accuracy?"
    title = f"{question} Yes: at 2,000 (MXNet). No: at 590. The rest is uncertain"
    assert title in capsys.readouterr().out.replace("\n", " ") and title in read_page(tmp_path)
    assert (
        "MXNet with batches of 590 images instead of 64: an epoch is 1.6 [1.5, 1.7] times as fast, and the test "
        "accuracy changes by -1.20 [-2.00, -0.40] points."
    ) in read_page(tmp_path)
    assert "changes by -1.20 points; 1 pair of trainings, too few for an interval." in read_page(tmp_path)
    (row, *_) = csv.DictReader((tmp_path / "report" / "then-train.csv").open())
    assert (row["Accuracy change points"], row["Claim"]) == ("-1.2", "does not hold")


def test_sizes_for_two_targets_are_two_columns_and_two_sentences_each_with_its_own(tmp_path: Path) -> None:
    asked = {"tensorflow": Target(0.6, 128, None), "pytorch": Target(0.7, 64, None)}
    found = [
        replace(each, fastest=None, largest=None, noise=None, target=asked[each.framework])
        for each in ALL
        if each.framework in asked
    ]
    main([str(store_answers(tmp_path, *found)), "--format", "md"])
    page = read_page(tmp_path)
    assert "Batch size that reaches 60 % soonest: TensorFlow 128" in page
    assert "Batch size that reaches 70 % soonest: PyTorch 64" in page
    shown = rows(tmp_path / "report" / "batch-size.md")
    columns = [shown["Framework"].index(f"To {target} %") for target in (60, 70)]
    assert [shown["TensorFlow"][place] for place in columns] == ["128", ABSENT]
    assert [shown["PyTorch"][place] for place in columns] == [ABSENT, "64"]


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ({"largest": None}, "Gradient noise scale along the training, in images: TensorFlow 900"),
        ({"noise": None}, "Largest batch size that fits: TensorFlow 2,311, PyTorch 2,311, MXNet 2,311"),
        (
            {"largest": None, "noise": None, "target": Target(0.6, 128, None)},
            "Batch size that reaches 60 % soonest: TensorFlow 128, PyTorch 128, MXNet 128",
        ),
        (
            {
                "largest": None,
                "noise": None,
                "target": Target(0.6, 64, "by its mean; not significantly different: 128"),
            },
            "TensorFlow 64 (by its mean; not significantly different: 128), PyTorch 64 (",
        ),
        (
            {"noise": None, "judged": (Judged(2311, Status.OUT_OF_MEMORY, "no memory", "trials/a"),)},
            "Largest batch size that fits: TensorFlow 2,311 (out of memory), PyTorch 2,311 (out of memory)",
        ),
        (
            {
                "noise": None,
                "judged": (Judged(2311, Status.UNVERIFIED, "differs", "trials/a"),),
                "target": Target(0.6, 1, None),
            },
            "Batch size that reaches 60 % soonest: TensorFlow 1",
        ),
    ],
)
def test_a_page_of_one_other_answer_has_it_as_its_title(tmp_path: Path, asked: dict[str, Any], title: str) -> None:
    main([str(store_answers(tmp_path, *(replace(each, fastest=None, **asked) for each in ALL))), "--format", "md"])
    assert title in read_page(tmp_path)
