"""Compare what can be counted of an imported network and its source: parameters, masks, initial weights and names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.gate.sizes import measure_gap
from runner.gate.tolerances import SMALL
from workloads.layers import Masked, StochasticDepth
from workloads.records.evidence import SOURCE_STEPS, Evidence, Fingerprint
from workloads.records.source_map import Mask, SourceFacts, SourceMap
from workloads.spec import Workload
from workloads.words import compare_with_allowed

SAME_WEIGHT = 1e-6  # a copied tensor differs by nothing, its fingerprint by the order of a sum


@dataclass(frozen=True)
class SourceAnswer:
    """The source's evidence, what its module says of itself, and the map by which both have our names."""

    evidence: Evidence
    facts: SourceFacts
    source: SourceMap


def find_no_number(source: Evidence) -> str | None:
    """Return why nothing can be compared with the answer; None if it can. Two answers without numbers would agree."""
    for each in source.probes:
        if not (each.losses and each.untrained_evaluation and str(SOURCE_STEPS) in each.updates):
            return "the source's answer lacks losses, logits or updates"
        if not all(map(_is_number, (each.loss, each.losses[0], *each.untrained_evaluation))):
            return "the source's own loss or logits are not numbers"
    return None


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def find_mismatch(answer: SourceAnswer, workload: Workload, initial: dict[str, Fingerprint]) -> str | None:
    """Return how counts, masks or initial weights differ from the source's; None if they do not.

    `initial` are the network's own weights; none if both got the same ones.
    """
    facts = answer.facts
    if facts.parameters != workload.parameter_count:
        return f"it trains {workload.parameter_count:,} parameters, the source {facts.parameters:,}"
    if wrong := find_other_mask(workload, facts.masks, answer.source.places):
        return wrong
    for key in initial and workload.weight_shapes():
        if key not in facts.weights:
            return f"the source has no tensor {key}"
        apart = measure_gap(initial[key], facts.weights[key], SMALL)
        if apart > SAME_WEIGHT:
            size = compare_with_allowed(apart, SAME_WEIGHT)
            return f"first weight that differs before any step: {name_both(key, answer.source)}, by {size}"
    return None


def find_other_mask(workload: Workload, masks: Sequence[Mask], places: Mapping[str, str]) -> str | None:
    """Return the first mask whose rate, or whose extent, is another in the source; None if there is none.

    `places` are the source's modules by layer.
    """
    ours = [layer for layer, _ in workload.walk() if isinstance(layer, Masked) and layer.rate > 0]
    masks = sort_masks(masks, [places.get(layer.name, "") for layer in ours])
    for number in range(max(len(ours), len(masks))):
        layer = ours[number] if number < len(ours) else None
        mask = masks[number] if number < len(masks) else None
        if layer is None and mask is not None:
            rate = f"with probability {mask.rate:g}"
            return f"the source drops each {mask.covers} {rate} in {mask.name}, the network does not"
        if layer is None:
            continue
        covers = "image" if isinstance(layer, StochasticDepth) else "value"
        own = f"{layer.name} drops each {covers} with probability {layer.rate:g}"
        if mask is None:
            return f"{own}, the source does not"
        if mask.covers != covers or not math.isclose(mask.rate, layer.rate, rel_tol=1e-6):
            return f"{own}, the source's {mask.name} each {mask.covers} with probability {mask.rate:g}"
    return None


def sort_masks(masks: Sequence[Mask], modules: Sequence[str]) -> list[Mask]:
    """Return the masks in the order of these modules if all are known: branches may be called in another order."""
    left, found = list(masks), list[Mask]()
    if "" in modules or any(mask.name not in modules for mask in masks):
        return left
    for module in modules:
        if mask := next((mask for mask in left if mask.name == module), None):
            found.append(mask)
            left.remove(mask)
    return found + left


def find_other_names(evidence: Evidence, source: Evidence) -> str | None:
    """Return the first name that one of the two lacks; None if there is none."""
    for each, other in zip(evidence.probes, source.probes, strict=False):
        if missing := [key for key in each.gradients if key not in other.gradients]:
            return f"the source has no tensor {missing[0]}"
        if missing := [key for key in other.gradients if key not in each.gradients]:
            return f"the network has no {missing[0]}, the source does"
        if missing := [name for name in other.outputs if name not in each.outputs]:
            return f"the network has no layer {missing[0]}, the source does"
        if missing := [steps for steps in other.updates if steps not in each.updates]:
            return f"the network did not answer with {missing[0]} updates, the source did"
    return None


def name_both(key: str, source: SourceMap) -> str:
    """Return our name of a weight, and the source's."""
    names: dict[str, Any] = {each.key: each.source_name for each in source.parameters}
    return f"{key} (in the source {names[key]})" if key in names else key
