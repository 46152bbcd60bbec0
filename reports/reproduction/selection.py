"""By which settings of a study a published metric stands, and which sections are alike but for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

from ..conditions import ACCUMULATION, Condition

# Said by a setting, too; what is stated of a machine stays.
STATED_TWICE = (
    "augmentation", ACCUMULATION, "optimizer", "epochs", "last batch", "profile", "feed", "device id", "threads",
)  # fmt: skip
OF_A_DEVICE = ("device", "GPU driver", "TF32")  # stated of each kind of device otherwise
RULE, DEVICE_KIND = "optimizer", "device_kind"


def settings(condition: Condition) -> dict[str, Any]:
    """{key of a study: value}: task, passes and placement, the update rule with its numbers, the kind of device."""
    # By hand: a part that was read from a file has its defaults by its class alone.
    parts = (condition.task, condition.passes, condition.placement)
    known = {each.name: getattr(part, each.name) for part in parts for each in fields(part)}
    rule = asdict(condition.task.optimizer)
    return known | rule | {RULE: rule.pop("name"), DEVICE_KIND: condition.placement.device_kind}


def others(condition: Condition, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """{key: value} of what is not as wanted."""
    known = settings(condition)
    return {key: known.get(key) for key, value in wanted.items() if known.get(key) != value}


def alike_in(condition: Condition, unwanted: Mapping[str, Any]) -> dict[str, Any]:
    """{key: value} of what is as it must not be."""
    known = settings(condition)
    return {key: value for key, value in unwanted.items() if known.get(key) == value}


def alike(a: Condition, b: Condition, but: Collection[str]) -> bool:
    """Whether two conditions are the same but for these keys; another update rule brings all of its numbers along."""
    return _rest(a, but) == _rest(b, but)


def _rest(condition: Condition, but: Collection[str]) -> dict[str, Any]:
    """All that is to be the same."""
    left_out = {*but, *(asdict(condition.task.optimizer) if RULE in but else ())}
    stated_otherwise = {*STATED_TWICE, *(OF_A_DEVICE if DEVICE_KIND in but else ())}
    left_out |= {"device"} if DEVICE_KIND in but else set()
    known = {key: value for key, value in settings(condition).items() if key not in left_out}
    return known | {f"stated {key}": words for key, words in condition.stated if key not in stated_otherwise}
