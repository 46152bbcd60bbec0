"""The recommendation: which framework and batch size, and what that rests on."""

from __future__ import annotations

from workloads.records.batch_answers import Answers, BatchAnswers, Point

from ..frameworks import display_name
from ..words import counted, listed
from . import answers as stored

NONE = "Nothing can be recommended: no framework's fastest batch size is known."


def sentences(answers: BatchAnswers) -> list[str]:
    """Two: what to do, and what it rests on; one where nothing is known."""
    speeds = {
        each.framework: speed
        for each in answers.frameworks
        if (speed := stored.point(each.fastest, stored.advised(each))) is not None
    }
    if not speeds:
        return [NONE]
    leader = max(speeds, key=lambda name: speeds[name].mean)
    chosen = next(each for each in answers.frameworks if each.framework == leader)
    return [_advice(leader, speeds, answers), _grounds(chosen, speeds[leader])]


def _advice(leader: str, speeds: dict[str, Point], answers: BatchAnswers) -> str:
    speed = speeds[leader]
    text = f"Train with {display_name(leader)} at batch size {speed.batch_size:,}: {speed.mean:,.0f} images/s"
    tied = [name for name in speeds if name != leader and not _surely_slower(speeds[name], speed)]
    if tied:
        text += f", which cannot be told from {listed(map(display_name, tied))}"
    elif len(speeds) > 1:
        text += f", more than {listed(display_name(name) for name in speeds if name != leader)}"
    unknown = [display_name(each.framework) for each in answers.frameworks if each.framework not in speeds]
    return text + (f"; of {listed(unknown)} no speed is known." if unknown else ".")


def _surely_slower(slower: Point, faster: Point) -> bool:
    """Whether both means have intervals, and these do not meet."""
    return slower.high is not None and faster.low is not None and slower.high < faster.low


def _grounds(chosen: Answers, speed: Point) -> str:
    """Of the answers that are there."""
    fastest, largest, noise = chosen.fastest, chosen.largest, chosen.noise
    grounds = []
    if fastest is not None:
        trials = counted(fastest.trials, "trial")
        if fastest.batch_size == speed.batch_size:
            grounds.append(f"on {trials} of speed, no size being faster by more than 2 %")
        else:
            grounds.append(f"on {trials} of speed, {fastest.batch_size:,} being the fastest")
    if noise is not None and noise.noise_scale is not None:
        grounds.append(f"on a gradient noise scale of {noise.noise_scale:,.0f}" + _beyond(chosen, speed))
    if largest is not None and largest.batch_size is not None:
        grounds.append(f"on {largest.batch_size:,} being the largest that fits")
    return f"It rests {listed(grounds)}."


def _beyond(chosen: Answers, speed: Point) -> str:
    """What the noise scale changed."""
    fastest, noise = chosen.fastest, chosen.noise
    beyond = stored.noise_bound(noise)
    if fastest is None or fastest.batch_size is None or beyond is None:
        return ""
    if speed.batch_size < fastest.batch_size and fastest.batch_size > beyond:
        return f" (up to {beyond:,.0f} along the training; beyond it a larger batch learns little more an update)"
    return ""
