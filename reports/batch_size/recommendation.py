"""Recommend a framework and batch size, and give the reasons.

A batch size is recommended only if an ordinary trial at it passed the gate and all other checks.
"""

from __future__ import annotations

from workloads.records.advice import advised, judged, noise_bound, passes, point
from workloads.records.batch_answers import Answers, BatchAnswers, Point

from ..sentences import say


def sentences(answers: BatchAnswers) -> list[str]:
    """Write the recommendation and its reasons, then a line for each framework that is not recommended.

    One sentence if no speed is known; none if no fastest size was asked for.
    """
    if all(each.fastest is None for each in answers.frameworks):
        return []
    known = {
        each.framework: speed
        for each in answers.frameworks
        if (speed := point(each.fastest, advised(each))) is not None
    }
    if not known:
        return [say("batch_size.nothing")]
    by_name = {each.framework: each for each in answers.frameworks}
    speeds = {name: speed for name, speed in known.items() if passes(by_name[name], speed.batch_size)}
    refused = [_refused(by_name[name], speed) for name, speed in known.items() if name not in speeds]
    if not speeds:
        return [say("batch_size.none_passed"), *refused]
    leader = max(speeds, key=lambda name: speeds[name].mean)
    unknown = [name for name in by_name if name not in known]
    return [_advice(leader, speeds, unknown), _grounds(by_name[leader], speeds[leader]), *refused]


def _advice(leader: str, speeds: dict[str, Point], unknown: list[str]) -> str:
    speed = speeds[leader]
    others = [name for name in speeds if name != leader]
    return say(
        "batch_size.advice",
        name=leader,
        batch_size=speed.batch_size,
        speed=speed.mean,
        tied=[name for name in others if not _surely_slower(speeds[name], speed)],
        slower=others,
        unknown=unknown,
    )


def _refused(each: Answers, speed: Point) -> str:
    """Say how the ordinary trial of this framework's size ended, or that there was none."""
    trial = judged(each, speed.batch_size)
    return say(
        "batch_size.refused",
        name=each.framework,
        batch_size=speed.batch_size,
        status=trial.status.replace("_", " ") if trial else None,
        reason=trial.reason if trial else None,
    )


def _surely_slower(slower: Point, faster: Point) -> bool:
    """True if both means have intervals, and these do not overlap."""
    return slower.high is not None and faster.low is not None and slower.high < faster.low


def _grounds(chosen: Answers, speed: Point) -> str:
    """Give the reasons, from the available answers."""
    fastest, largest, noise = chosen.fastest, chosen.largest, chosen.noise
    known = noise is not None and noise.noise_scale is not None
    trial = judged(chosen, speed.batch_size)
    return say(
        "batch_size.grounds",
        trials=fastest.trials if fastest else None,
        fastest=fastest.batch_size if fastest and fastest.batch_size != speed.batch_size else None,
        noise=noise.noise_scale if noise else None,
        beyond=_beyond(chosen, speed) if known else None,
        largest=largest.batch_size if largest else None,
        judged=trial.reason if trial else None,
    )


def _beyond(chosen: Answers, speed: Point) -> float | None:
    """Noise scale that limited the batch size below the fastest; None if it did not."""
    fastest, beyond = chosen.fastest, noise_bound(chosen.noise)
    if fastest is None or fastest.batch_size is None or beyond is None:
        return None
    return beyond if speed.batch_size < fastest.batch_size and fastest.batch_size > beyond else None
