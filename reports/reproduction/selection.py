"""Compare sections by the settings of a study that select a published metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workloads.conditions import REPORTED, values_of

from ..conditions import Condition

RULE, DEVICE_KIND = "optimizer", "device_kind"


@dataclass(frozen=True)
class SizeKind:
    """A kind of batch sizes. `coulom`: sizes by Coulom's rule, "input" or "widest map", which only a GPU has."""

    name: str = ""
    power_of_two: bool = False
    multiple_of: int = 1
    not_of: int = 0  # sizes that are multiples of this, too, are of another kind
    coulom: str = ""

    def holds(self, size: int) -> bool:
        """True if `size` is of this kind, which is not Coulom's."""
        powers = (size.bit_count() == 1) == self.power_of_two
        return powers and size % self.multiple_of == 0 and not (self.not_of and size % self.not_of == 0)


def settings(condition: Condition) -> dict[str, Any]:
    """Return {key of a study: value}: task, passes and placement, the update rule's numbers, the kind of device."""
    rule = asdict(condition.task.optimizer)
    return values_of(condition) | rule | {RULE: rule.pop("name"), DEVICE_KIND: condition.placement.device_kind}


def others(condition: Condition, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return {key: value} for the settings that are not as wanted."""
    known = settings(condition)
    return {key: known.get(key) for key, value in wanted.items() if known.get(key) != value}


def alike_in(condition: Condition, unwanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return {key: value} for the settings that have an unwanted value."""
    known = settings(condition)
    return {key: value for key, value in unwanted.items() if known.get(key) == value}


def alike(a: Condition, b: Condition, but: Collection[str]) -> bool:
    """True if two conditions differ at most in these keys; with another update rule, its numbers may differ too."""
    return _rest(a, but) == _rest(b, but)


def _rest(condition: Condition, but: Collection[str]) -> dict[str, Any]:
    """Return everything that must be the same."""
    left_out = {*but, *(asdict(condition.task.optimizer) if RULE in but else ())}
    left_out |= {"device"} if DEVICE_KIND in but else set()
    by_device = {each.name for each in REPORTED if each.by_device and DEVICE_KIND in but}
    known = {key: value for key, value in settings(condition).items() if key not in left_out}
    return known | {f"stated {name}": words for name, words in condition.stated if name not in by_device}
