"""The gradient noise scale by the real frameworks: one trains, all measure at its weights, and they agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import PROJECT, REAL_FRAMEWORKS, TINY
from rich.console import Console

from runner.batch_size import noise as answers_of
from runner.environments.definition import read
from runner.request import cli, inputs, parser
from runner.request.plan import build_plan
from runner.setup import build_local_launcher, collect_installations
from workloads.noise_scale import HELD, PROGRESS, SMALL_BATCH

STEPS, PARTS = 10, 4


def few(images: int, seed: int) -> np.ndarray:
    """Draw fewer points, in place of ten times as many."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return generator.integers(0, images, (len(PROGRESS), STEPS, PARTS, SMALL_BATCH), np.int32)


def test_frameworks_measure_the_same_norms_and_intervals_at_weights_that_one_of_them_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_of, "draw", few)
    training = ("--batch-size", "8", "--epochs", "5", "--device", "cpu", "--threads", "1", "--results", str(tmp_path))
    options = [*TINY, "--framework", *REAL_FRAMEWORKS, *training]
    request = cli.build_request(parser.run_parser().parse_args(options), PROJECT)
    data = inputs.write_data(request, Console(quiet=True))
    plan = build_plan(request, collect_installations(request), range(1), inputs.write_repeats(request, data, range(1)))
    launchers = {name: build_local_launcher(read(PROJECT, name, "cpu"), "venv") for name in REAL_FRAMEWORKS}
    specs = sorted(plan.trials, key=lambda spec: spec.cell.framework)
    answers = answers_of.measure_noise(specs, launchers, tmp_path)
    assert list(answers) == sorted(REAL_FRAMEWORKS)
    first, *others = answers.values()
    assert [answer.reason for answer in answers.values()] == [None] * len(REAL_FRAMEWORKS)
    assert [answer.trained_by for answer in answers.values()] == [sorted(REAL_FRAMEWORKS)[0]] * len(REAL_FRAMEWORKS)
    assert first.finder is not None and first.finder_windows == 2
    assert len(list(tmp_path.glob(f"noise/*/{HELD[-1]}.npz"))) == 1, "the others do not train"
    for answer in others:
        assert answer.apart is not None and 0 < answer.apart <= 1e-5 and answer.agrees is True
        for ours, theirs in zip(answer.points, first.points, strict=True):
            assert (ours.squared_gradient, ours.trace) == pytest.approx(
                (theirs.squared_gradient, theirs.trace), rel=1e-4
            )
            if ours.low is not None and ours.high is not None:
                assert theirs.low is not None and theirs.high is not None
                assert ours.low <= theirs.high and theirs.low <= ours.high
            assert (ours.at_least is None) == (theirs.at_least is None)
