"""Recommend a framework and a batch size, as far as searches, noise scale and ordinary trials support it."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.records.advice import choose_batch_size, find_judged, find_noise_bound, find_point, passes
from workloads.records.batch_answers import Answers, BatchAnswers, SizePoint

from ..frameworks import FrameworkNames
from ..sentences import say, status_words
from ..tables import format_number
from . import tables


def recommend(answers: BatchAnswers) -> list[str]:
    """Write the recommendation and its reasons, then a line for each framework that is not recommended.

    One sentence if no speed is known; none if no fastest size was asked for.
    """
    if all(each.fastest is None for each in answers.frameworks):
        return []
    known = {
        each.framework: speed
        for each in answers.frameworks
        if (speed := find_point(each.fastest, choose_batch_size(each))) is not None
    }
    if not known:
        return [say("batch_size.nothing")]
    by_name, named = {each.framework: each for each in answers.frameworks}, tables.name_answered(answers)
    speeds = {name: speed for name, speed in known.items() if passes(by_name[name], speed.batch_size)}
    refused = [_refused(by_name[name], speed, named) for name, speed in known.items() if name not in speeds]
    if not speeds:
        return [say("batch_size.none_passed"), *refused]
    leader = max(speeds, key=lambda name: speeds[name].mean)
    unknown = [name for name in by_name if name not in known]
    advice = _advice(leader, speeds, unknown, by_name[leader].devices, named)
    return [advice, _grounds(by_name[leader], speeds[leader]), *refused]


def list_cliffs(frameworks: Sequence[Answers], named: FrameworkNames) -> list[str]:
    """Say of each framework whose largest size is clearly slower than its best one."""
    return [
        say(
            "batch_size.cliff",
            named,
            name=each.framework,
            largest=largest.batch_size,
            speed=format_number(speed.images_per_s),
            below=[100 * (1 - end) for end in (ratio.ratio, ratio.high, ratio.low) if end is not None],
            best=speed.best_batch_size,
        )
        for each in frameworks
        if (largest := each.largest) and (speed := largest.speed) and speed.falls and (ratio := speed.compared)
    ]


def _advice(leader: str, speeds: dict[str, SizePoint], unknown: list[str], devices: int, named: FrameworkNames) -> str:
    speed = speeds[leader]
    slower = [name for name in speeds if _surely_slower(speeds[name], speed)]
    return say(
        "batch_size.advice",
        named,
        name=leader,
        batch_size=speed.batch_size,
        devices=devices,
        speed=format_number(speed.mean),
        tied=[name for name in speeds if name not in (leader, *slower)],
        slower=slower,
        unknown=unknown,
    )


def _refused(each: Answers, speed: SizePoint, named: FrameworkNames) -> str:
    """Say how the ordinary trial of this framework's size ended, or that there was none."""
    trial = find_judged(each, speed.batch_size)
    return say(
        "batch_size.refused",
        named,
        name=each.framework,
        batch_size=speed.batch_size,
        status=status_words(trial.status) if trial else None,
        reason=trial.reason if trial else None,
    )


def _surely_slower(slower: SizePoint, faster: SizePoint) -> bool:
    """True if both means have intervals, and these do not overlap."""
    return slower.high is not None and faster.low is not None and slower.high < faster.low


def _grounds(chosen: Answers, speed: SizePoint) -> str:
    """Give the reasons, from the available answers."""
    fastest, largest, noise = chosen.fastest, chosen.largest, chosen.noise
    known = noise is not None and noise.noise_scale is not None
    trial = find_judged(chosen, speed.batch_size)
    return say(
        "batch_size.grounds",
        trials=fastest.trials if fastest else None,
        fastest=fastest.batch_size if fastest and fastest.batch_size != speed.batch_size else None,
        reason=fastest.reason if fastest else None,
        noise=noise.noise_scale if noise else None,
        beyond=_beyond(chosen, speed) if known else None,
        largest=largest.batch_size if largest else None,
        judged=trial.reason if trial else None,
    )


def _beyond(chosen: Answers, speed: SizePoint) -> float | None:
    """Noise scale that limited the batch size below the fastest; None if it did not."""
    fastest, beyond = chosen.fastest, find_noise_bound(chosen.noise)
    if fastest is None or fastest.batch_size is None or beyond is None:
        return None
    update = fastest.batch_size * chosen.devices
    return beyond if speed.batch_size < fastest.batch_size and update > beyond else None
