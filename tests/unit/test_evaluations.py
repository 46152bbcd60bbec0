"""The runner's test loss and accuracy, from logits that a worker saved and labels that it was not given."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import make_spec

from runner.results.evaluations import compute_loss, evaluate_epochs
from workloads.records.end_evidence import EVALUATION_FILE, draw_evaluated
from workloads.records.events import Evaluation, Event, add_evaluations
from workloads.records.job import InputFile

LOGITS = np.array([[0, 0, 0], [2, 0, 0], [0, 1, 3]], np.float32)
LABELS = np.array([0, 1, 2], np.int32)
BINARY_LOGITS, BINARY_LABELS = np.array([[0], [2], [-3], [1]], np.float32), np.array([0, 1, 0, 0], np.int32)
EVENTS = [{"event": Event.EPOCH_EVALUATED, "t_ns": 5 + epoch, "epoch": epoch} for epoch in range(2)]


def test_a_loss_is_the_mean_cross_entropy_and_accuracy_the_share_of_hits() -> None:
    loss, accuracy = compute_loss(LOGITS, LABELS)
    e = math.e
    by_hand = (math.log(3) + math.log(e**2 + 2) + math.log(1 + e + e**3) - 3) / 3
    assert loss == pytest.approx(by_hand, rel=1e-12)
    assert accuracy == pytest.approx(2 / 3)


@pytest.mark.parametrize("factor", [1e4, 1e30])
def test_huge_logits_have_a_loss(factor: float) -> None:
    loss, accuracy = compute_loss(np.float32(factor) * LOGITS, LABELS)
    assert loss == pytest.approx((math.log(3) + 2 * factor) / 3, rel=1e-6)
    assert accuracy == pytest.approx(2 / 3)


def test_one_logit_is_that_of_class_1_and_has_the_binary_cross_entropy() -> None:
    """At 0 both classes are equally likely and class 0 is reported."""
    loss, accuracy = compute_loss(BINARY_LOGITS, BINARY_LABELS)
    e = math.e
    by_hand = (math.log(2) + math.log(1 + e**-2) + math.log(1 + e**-3) + math.log(1 + e)) / 4
    assert loss == pytest.approx(by_hand, rel=1e-12)
    assert accuracy == 3 / 4


@pytest.mark.parametrize("factor", [1e4, 1e30])
def test_one_huge_logit_costs_its_own_size_where_it_is_wrong_and_nothing_where_it_is_right(factor: float) -> None:
    loss, accuracy = compute_loss(np.float32(factor) * BINARY_LOGITS, BINARY_LABELS)
    assert loss == pytest.approx((math.log(2) + factor) / 4, rel=1e-6)
    assert accuracy == 3 / 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a trial of two epochs; the second one's logits are no numbers."""
    np.save(tmp_path / "labels.npy", LABELS)
    folder = tmp_path / "trials" / "one"
    folder.mkdir(parents=True)
    (folder / "digest").write_text(hashlib.sha256((tmp_path / "labels.npy").read_bytes()).hexdigest())
    save(folder, LOGITS, 0)
    save(folder, np.full_like(LOGITS, np.nan), 1)
    return folder


def save(folder: Path, logits: np.ndarray, epoch: int = 1) -> None:
    np.savez(folder / EVALUATION_FILE.format(epoch=epoch), logits=logits)


def evaluate(folder: Path) -> tuple[Evaluation, ...]:
    spec = make_spec(inputs={"test_labels": InputFile("labels.npy", (folder / "digest").read_text())})
    return evaluate_epochs(folder, spec, EVENTS)


def test_a_loss_that_is_no_number_is_unknown_and_the_accuracy_is_there(folder: Path) -> None:
    first, second = evaluate(folder)
    assert (first.epoch, second.epoch, second.test_loss) == (0, 1, None)
    assert [first.test_accuracy, second.test_accuracy] == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: (folder / "evaluation-1.npz").unlink(), "evaluation-1.npz: no logits can be read: FileNotF"),
        (lambda folder: (folder / "evaluation-1.npz").write_bytes(b"x"), "evaluation-1.npz: no logits can be read: "),
        (
            lambda folder: save(folder, LOGITS[:2]),
            r"evaluation-1.npz: logits of 3 images expected, found float32 \(2",
        ),
        (lambda folder: save(folder, LOGITS.astype(int)), "evaluation-1.npz: logits of 3 images expected, found int64"),
        (lambda folder: save(folder, LOGITS[:, :2]), "evaluation-1.npz: 2 logits per image, too few for label 2"),
        (lambda folder: save(folder, np.array([{}], object)), "evaluation-1.npz: no logits can be read: ValueError"),
        (lambda folder: (folder / "digest").write_text("-"), "labels.npy: sha256 expected"),
        (lambda folder: (folder.parent.parent / "labels.npy").unlink(), "labels.npy"),
    ],
)
def test_what_is_no_evaluation_of_the_test_split_is_refused_with_its_file(
    folder: Path, change: Callable[[Path], object], reason: str
) -> None:
    change(folder)
    with pytest.raises(ValueError, match=reason):
        evaluate(folder)


def test_the_runners_evaluations_replace_those_of_events_and_without_them_events_stay() -> None:
    told = [event | {"test_loss": 0.1, "test_accuracy": 1.0} for event in EVENTS]
    assert add_evaluations(told, None) == told
    first, second = add_evaluations(told, (Evaluation(0, 2.0, 0.5),))
    assert (first["test_loss"], first["test_accuracy"], first["t_ns"]) == (2.0, 0.5, 5)
    assert (second["test_loss"], second["test_accuracy"]) == (None, None), "a worker's word counts"


@pytest.mark.parametrize(("split", "batch_size"), [(360, 128), (360, 512), (257, 256), (5, 2), (256, 128)])
def test_images_of_an_evaluation_are_drawn_from_all_of_it_and_from_its_last_batch(split: int, batch_size: int) -> None:
    last, seen = (split - 1) // batch_size * batch_size, set()
    for seed in range(100):
        drawn = draw_evaluated(np.random.default_rng(seed), split, batch_size, 64)
        assert len(set(drawn.tolist())) == len(drawn) <= 64 and drawn.max() < split
        assert (drawn >= last).any() and (not last or (drawn < last).any())
        seen |= set(drawn.tolist())
    assert seen == set(range(split))
