"""The recommendation: which framework and batch size, and what that rests on."""

from __future__ import annotations

from workloads.records.batch_answers import Answers, BatchAnswers, Point

from ..sentences import say
from . import answers as stored

WORDING = "batch_size"


def sentences(answers: BatchAnswers) -> list[str]:
    """Two: what to do, and what it rests on; one where nothing is known; none where no fastest size was asked for."""
    if all(each.fastest is None for each in answers.frameworks):
        return []
    speeds = {
        each.framework: speed
        for each in answers.frameworks
        if (speed := stored.point(each.fastest, stored.advised(each))) is not None
    }
    if not speeds:
        return [say(WORDING, "nothing")]
    leader = max(speeds, key=lambda name: speeds[name].mean)
    chosen = next(each for each in answers.frameworks if each.framework == leader)
    return [_advice(leader, speeds, answers), _grounds(chosen, speeds[leader])]


def _advice(leader: str, speeds: dict[str, Point], answers: BatchAnswers) -> str:
    speed = speeds[leader]
    others = [name for name in speeds if name != leader]
    return say(
        WORDING,
        "advice",
        name=leader,
        batch_size=speed.batch_size,
        speed=speed.mean,
        tied=[name for name in others if not _surely_slower(speeds[name], speed)],
        slower=others,
        unknown=[each.framework for each in answers.frameworks if each.framework not in speeds],
    )


def _surely_slower(slower: Point, faster: Point) -> bool:
    """Whether both means have intervals, and these do not meet."""
    return slower.high is not None and faster.low is not None and slower.high < faster.low


def _grounds(chosen: Answers, speed: Point) -> str:
    """Of the answers that are there."""
    fastest, largest, noise = chosen.fastest, chosen.largest, chosen.noise
    known = noise is not None and noise.noise_scale is not None
    return say(
        WORDING,
        "grounds",
        trials=fastest.trials if fastest else None,
        fastest=fastest.batch_size if fastest and fastest.batch_size != speed.batch_size else None,
        noise=noise.noise_scale if noise else None,
        beyond=_beyond(chosen, speed) if known else None,
        largest=largest.batch_size if largest else None,
    )


def _beyond(chosen: Answers, speed: Point) -> float | None:
    """The noise scale that made the batch size smaller than the fastest; None where it did not."""
    fastest, beyond = chosen.fastest, stored.noise_bound(chosen.noise)
    if fastest is None or fastest.batch_size is None or beyond is None:
        return None
    return beyond if speed.batch_size < fastest.batch_size and fastest.batch_size > beyond else None
